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

if TYPE_CHECKING:
    from twisted.python.failure import Failure

EXAMPLES = 3
"""How many URLs of each kind of refusal are shown."""


class PoliteSpider(scrapy.Spider):
    """See the module."""

    name = "polite"
    custom_settings = {"CLOSESPIDER_PAGECOUNT": 20}  # noqa: RUF012

    def __init__(self, url: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        try:
            parts = urlsplit(url)
            host, usable = parts.hostname or "", parts.scheme in ("http", "https")
        except ValueError:
            host, usable = "", False
        if not host or not usable:
            raise SystemExit(f"url={url!r}: say which site, as in: scrapy crawl polite -a url=https://example.com/")
        self.url = url
        self.allowed_domains = [host.removeprefix("www.")]
        self.links = LinkExtractor()
        self.refused: dict[str, list[str]] = {}

    async def start(self) -> AsyncIterator[Request]:
        yield Request(self.url, errback=self.failed, dont_filter=True)

    def parse(self, response: Response) -> Iterator[Request | dict[str, Any]]:
        title = ""
        if isinstance(response, TextResponse):
            title = (response.css("title::text").get() or "").strip()
        yield {"url": response.url, "status": response.status, "title": title}
        if isinstance(response, TextResponse):
            for link in self.links.extract_links(response):
                yield response.follow(link, errback=self.failed)

    def failed(self, failure: Failure) -> None:
        """What came to no page: scrapy-scour's exceptions say why."""
        error = failure.value
        category = str(getattr(error, "category", type(error).__name__))
        request: Request = failure.request  # type: ignore[attr-defined]
        shown = self.refused.setdefault(category, [])
        if len(shown) < EXAMPLES:
            shown.append(f"{request.url}: {getattr(error, 'reason', '') or error}")

    def closed(self, reason: str) -> None:
        stats = self.crawler.stats
        assert stats is not None
        pages = stats.get_value("item_scraped_count", 0)
        print(f"\n{self.url}: {pages} page{'' if pages == 1 else 's'} ({reason})")
        prefix = "scour/outcome/"
        counts = {name.removeprefix(prefix): n for name, n in stats.get_stats().items() if name.startswith(prefix)}
        if not counts:
            print("Nothing was refused.")
        for category, number in sorted(counts.items()):
            print(f"  {number:>6}  {category}")
            for line in self.refused.get(category, ()):
                print(f"          {line}")
        slowest = stats.get_value("scour/delay/max", 0)
        if slowest:
            print(f"The longest wait between two requests that a site asked for, and got: {slowest:g} s")
