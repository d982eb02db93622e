"""The job's boundary: at scheduling, and again before the download. Position 50, before anything else acts.

One rule for what the spider asks for, start requests, hops and media; the rule itself is ``policy.scope``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy import signals

from scrapy_scour import stats
from scrapy_scour.exceptions import OutOfScope
from scrapy_scour.job import job_of
from scrapy_scour.policy.urls import without_userinfo

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from typing_extensions import Self

logger = logging.getLogger(__name__)


class ScopeMiddleware:
    """Drops what is out of scope with OutOfScope, before it is queued and before anything is sent for it."""

    def __init__(self, crawler: Crawler) -> None:
        self.job = job_of(crawler)
        self._hosts_told: set[str] = set()
        crawler.signals.connect(self.request_scheduled, signal=signals.request_scheduled)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def request_scheduled(self, request: Request, spider: Spider) -> None:
        """At scheduling: an OutOfScope here keeps the request out of the queue."""
        self.job.name_slot(request)
        if self.job.is_waiting(request):
            return  # judged before it went back; judged again when it comes out
        try:
            self._judge(request)
        except OutOfScope as refusal:
            self.job.ended(request, refusal)
            raise

    def process_request(self, request: Request) -> None:
        """Before the download: for what did not come through the scheduler, and for what an earlier run queued."""
        if self.job.fetcher.is_ours(request):
            return
        self.job.restore(request)
        self.job.name_slot(request)
        self._judge(request)

    def _judge(self, request: Request) -> None:
        verdict = self.job.judge_request(request)
        if verdict:
            return
        host = self.job.host_of(request)
        if host not in self._hosts_told and len(self._hosts_told) < 100_000:
            self._hosts_told.add(host)
            logger.debug(
                "Filtered out-of-scope request to %(host)r: %(request)s: %(reason)s",
                {"host": host, "request": request, "reason": verdict.reason},
                extra={"spider": self.job.crawler.spider},
            )
            self.job.count.add(stats.OFFSITE_DOMAINS)
        self.job.count.add(stats.OFFSITE_FILTERED)
        raise OutOfScope(
            f"{verdict.reason} ({verdict.source})",
            url=without_userinfo(self.job.real_url(request)),
            trail=request.meta.get("redirect_urls", ()),
        )
