"""One outcome for every request that did not become a page. Position 10: the last to see an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import signals

from scrapy_scour import compat
from scrapy_scour.exceptions import Outcome
from scrapy_scour.job import job_of

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from twisted.python.failure import Failure
    from typing_extensions import Self


class OutcomeMiddleware:
    """Sees every end of every request, through the one place where all of them pass."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.job = job_of(crawler)
        crawler.signals.connect(self.spider_opened, signal=signals.spider_opened)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def spider_opened(self, spider: Spider) -> None:
        compat.watch_fetch(self.crawler.engine.downloader, self._fetch_ended)

    def _fetch_ended(self, request: Request, result: Any | Failure) -> None:
        error = getattr(result, "value", None)
        if isinstance(error, Outcome):
            self.job.outcomes.record(request, error)
