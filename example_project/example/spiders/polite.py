"""``scrapy crawl polite -a url=https://...``: any public site, politely, and what was refused on the way.

Follows links on the start URL's own domain, about 20 pages (``-s CLOSESPIDER_PAGECOUNT=...`` for another number, 0 for
no limit).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import scrapy
from scrapy import Request
from scrapy.http import Response, TextResponse
from scrapy.linkextractors import LinkExtractor

from scrapy_scour.signals import request_refused

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from scrapy_scour.exceptions import Outcome

EXAMPLES = 3
"""How many URLs of each kind of outcome are shown."""


class PoliteSpider(scrapy.Spider):
    """Prints each page as it comes, and at the end how the other requests ended."""

    name = "polite"
    custom_settings = {"CLOSESPIDER_PAGECOUNT": 20, "LOG_LEVEL": "WARNING"}  # noqa: RUF012

    def __init__(self, url: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        try:
            parts = urlsplit(url)
            host = parts.hostname if parts.scheme in ("http", "https") else None
        except ValueError:
            host = None
        if not host:
            raise SystemExit(f"url={url!r}: say which site, as in: scrapy crawl polite -a url=https://example.com/")
        self.url = url
        self.allowed_domains = [host.removeprefix("www.")]
        self.links = LinkExtractor()
        self.counts: dict[str, int] = {}
        self.examples: dict[str, list[str]] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.refused, signal=request_refused)
        return spider

    async def start(self) -> AsyncIterator[Request]:
        yield Request(self.url, dont_filter=True)

    def parse(self, response: Response) -> Iterator[Request | dict[str, Any]]:
        print(response.status, response.url, flush=True)
        if isinstance(response, TextResponse):
            yield {"url": response.url, "title": (response.css("title::text").get() or "").strip()}
            for link in self.links.extract_links(response):
                yield response.follow(link)

    def refused(self, request: Request, outcome: Outcome) -> None:
        """A request has ended without a page."""
        category = outcome.category.value
        self.counts[category] = self.counts.get(category, 0) + 1
        examples = self.examples.setdefault(category, [])
        if len(examples) < EXAMPLES:
            examples.append(f"{outcome.url}: {outcome.reason}")

    def closed(self, reason: str) -> None:
        stats = self.crawler.stats
        assert stats is not None
        print(f"\n{self.url}: {stats.get_value('scour/pages', 0)} pages ({reason})")
        for category, number in sorted(self.counts.items()):
            print(f"{number:>6}  {category}")
            for line in self.examples[category]:
                print(f"        {line}")
        slowest = stats.get_value("scour/delay/max", 0)
        if slowest:
            print(f"The longest wait between two requests that a site asked for, and got: {slowest:g} s")
