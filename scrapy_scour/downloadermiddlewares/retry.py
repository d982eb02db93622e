"""Retries, as Scrapy counts them; the waiting is the host's (``extensions.pacing``).

A 429 or 503 holds the whole host before this middleware sees it; here it is only decided whether the request itself is
tried again. It goes back to the scheduler and is handed out when its host may be asked.

What counts against a request is that it failed, not that its host was asked too much: not an answer "later" in an
incident that another request began, nor one that names a time while the host otherwise answers well. A host that lets
few through at a time would use up the retries of pages that it would have given later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.exceptions import NotConfigured
from scrapy.utils.response import response_status_message

from scrapy_scour import compat
from scrapy_scour.job import job_of

#: meta key: how often an answer "later" was not held against the request; past ``MOST_SPARED`` it is.
SPARED = "scour_spared"
MOST_SPARED = 10

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self


class RetryMiddleware:
    """Scrapy's ``RETRY_*`` settings, meta keys and stats keep their meaning."""

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        if not settings.getbool("RETRY_ENABLED"):
            raise NotConfigured
        self.crawler = crawler
        self.job = job_of(crawler)
        self.max_retry_times = settings.getint("RETRY_TIMES")
        self.retry_http_codes = {int(code) for code in settings.getlist("RETRY_HTTP_CODES")}
        self.priority_adjust = settings.getint("RETRY_PRIORITY_ADJUST")
        self.exceptions_to_retry = compat.retry_exceptions(settings)
        self._give_up_log_level: Any = settings.get("RETRY_GIVE_UP_LOG_LEVEL")
        self._stops = self.job.settings.retry_after_over_max == "spider"

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_response(self, request: Request, response: Response) -> Request | Response:
        if response.status not in self.retry_http_codes or request.meta.get("dont_retry", False):
            return response
        job = self.job
        clock = job.pace.known(job.host_of(request))
        if clock is not None and clock.given_up_until > job.now() and not self._stops:
            return response
        return self._retry(request, response_status_message(response.status), request in job.spared) or response

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        if not isinstance(exception, self.exceptions_to_retry) or request.meta.get("dont_retry", False):
            return None
        return self._retry(request, exception)

    def _retry(self, request: Request, reason: str | Exception, spared: bool = False) -> Request | None:
        assert self.crawler.spider is not None
        meta = request.meta
        times, most = meta.get("retry_times", 0), meta.get("max_retry_times", self.max_retry_times)
        if most is None:
            most = self.max_retry_times
        before = meta.get(SPARED, 0)
        spared = spared and most > 0 and before < MOST_SPARED
        options: dict[str, Any] = {}
        if compat.RETRY_HAS_GIVE_UP_LEVEL:
            options["give_up_log_level"] = meta.get("give_up_log_level", self._give_up_log_level)
        retry = get_retry_request(
            request,
            reason=reason,
            spider=self.crawler.spider,
            max_retry_times=max(most, times + 1) if spared else most,
            priority_adjust=meta.get("priority_adjust", self.priority_adjust),
            **options,
        )
        if retry is not None and spared:
            retry.meta["retry_times"] = times
            retry.meta[SPARED] = before + 1
        return retry
