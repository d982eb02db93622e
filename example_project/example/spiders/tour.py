"""``scrapy crawl tour``: a crawl of small sites that it starts itself, and what each of them saw of it.

``-a stock=1`` makes the same tour with stock Scrapy, for comparison. ``-a report=FILE`` also writes the findings as
JSON.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import scrapy
from scrapy import Request
from scrapy.http import Response, TextResponse

from example.local import LocalSites
from example.provider import provider
from example.stations import STATIONS, Station
from scrapy_scour import PoliteFetcher

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from twisted.python.failure import Failure
    from typing_extensions import Self

AGENT = "tourbot/1.0 (+http://example.test/tourbot)"


class TourSpider(scrapy.Spider):
    """Asks for the start pages of every station and follows all links.

    ``pages`` and ``failures`` are what reached the callbacks and the errbacks; the table does not use them.
    """

    name = "tour"
    # Every site of the tour but tracker.test.
    allowed_domains = [  # noqa: RUF012
        name for station in STATIONS for name in station.sites() if name != "tracker.test"
    ]
    custom_settings = {  # noqa: RUF012
        "EXTENSIONS": {"example.local.LocalSites": 100},
        "DEFAULT_REQUEST_HEADERS": {"User-Agent": AGENT},
        "DOWNLOAD_DELAY": 0,
        "DOWNLOAD_TIMEOUT": 5,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
        "SCOUR_MAX_REQUESTS_PER_DOMAIN": 15,
        "SCOUR_ROBOTSTXT_WAITS": [0.3, 0.6],
        "HTTPPROXY_ENABLED": False,  # the sites have names that only this process knows
        "LOG_LEVEL": "WARNING",
    }

    def __init__(self, stock: str = "", report: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.label = "stock Scrapy, ROBOTSTXT_OBEY = True," if _yes(stock) else "with scrapy-scour"
        self.stock = _yes(stock)
        self.report = report
        self.pages: list[str] = []
        self.failures: list[list[str]] = []

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        if spider.stock:  # settings may still change here, before any component is made
            crawler.settings.set("ADDONS", {}, priority="cmdline")
            crawler.settings.set("ROBOTSTXT_OBEY", True, priority="cmdline")
        return spider

    @property
    def sites(self) -> LocalSites:
        sites = self.crawler.get_extension(LocalSites)
        assert sites is not None, "the tour needs its sites"
        return sites

    async def start(self) -> AsyncIterator[Request]:
        for station in STATIONS:
            for address in station.start:
                yield Request(
                    self.sites.url(address),
                    headers=dict(station.headers),
                    cookies=dict(station.cookies),
                    errback=self.failed,
                    cb_kwargs={"station": station},
                    dont_filter=True,  # as in Scrapy's own start()
                )

    async def parse(self, response: Response, station: Station) -> AsyncIterator[Request]:
        self.pages.append(response.url)
        for address in station.external:
            await self.fetch_outside(self.sites.url(address))
        if isinstance(response, TextResponse):
            for link in response.css("a::attr(href)").getall():
                yield response.follow(link, errback=self.failed, cb_kwargs={"station": station})

    async def fetch_outside(self, url: str) -> None:
        """Get a page by other means than Scrapy: as politely as the rest of the crawl, or in the stock tour just so."""
        fetch = provider(AGENT)
        try:
            if self.stock:
                await fetch(url)
            else:
                await PoliteFetcher(self.crawler).fetch(url, fetch, user_agent=AGENT)
        except Exception as error:
            self.failures.append([url, type(error).__name__])
        else:
            self.pages.append(url)

    def failed(self, failure: Failure) -> None:
        self.failures.append([failure.request.url, type(failure.value).__name__])  # type: ignore[attr-defined]


def _yes(value: str) -> bool:
    if value.lower() in ("1", "true", "yes", "on"):
        return True
    if value.lower() in ("", "0", "false", "no", "off"):
        return False
    raise ValueError(f"stock={value}: must be 1 or 0")
