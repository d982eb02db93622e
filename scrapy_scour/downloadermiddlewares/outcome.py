"""One outcome for every request that did not become a page. Position 10: the last to see an answer.

Connects ``outcomes`` with the places where requests end, and says at the end what came of the crawl.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy import signals

from scrapy_scour import compat
from scrapy_scour.content import ContentCheck
from scrapy_scour.job import job_of
from scrapy_scour.summary import summary

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

logger = logging.getLogger(__name__)


class OutcomeMiddleware:
    """Sees every end of every request, through the one place where all of them pass."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.job = job_of(crawler)
        for handler, signal in (
            (self.spider_opened, signals.spider_opened),
            (self.request_dropped, signals.request_dropped),
            (self.spider_closed, signals.spider_closed),
        ):
            crawler.signals.connect(handler, signal=signal)
        if self.job.settings.content_types:
            self._content = ContentCheck(self.job)
            # Only where it has something to do: a method here costs every answer a step.
            self.process_response = self._check_content

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def spider_opened(self, spider: Spider) -> None:
        outcomes = self.job.outcomes
        outcomes.opened()
        compat.watch_fetch(self.job.downloader, outcomes.fetch_ended)
        compat.watch_scheduling(self.crawler, outcomes.not_scheduled)

    def request_dropped(self, request: Request, spider: Spider) -> None:
        self.job.outcomes.duplicate(request)

    def spider_closed(self, spider: Spider, reason: str) -> None:
        self.job.outcomes.closed(reason)
        logger.info("%s", summary(self.job.count, self.job.outcomes), extra={"spider": spider})

    def _check_content(self, request: Request, response: Response) -> Response:
        """What no download handler let us see in time, or came from a cache: of the wrong type it is no page either."""
        refusal = self._content.refusal(request, response.headers, response.status, empty=not response.body)
        if refusal is not None:
            refusal.response = response
            raise refusal
        return response
