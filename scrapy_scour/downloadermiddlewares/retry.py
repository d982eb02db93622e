"""Retries, as Scrapy counts them; the waiting is the host's (``extensions.pacing``).

A 429 or 503 holds the whole host before this middleware sees it; here it is only decided whether the request itself is
tried again. It goes back to the scheduler and is handed out when its host may be asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.exceptions import NotConfigured
from scrapy.utils.misc import load_object
from scrapy.utils.response import response_status_message

from scrapy_scour.job import job_of

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self


class RetryMiddleware:
    """``RETRY_ENABLED``, ``RETRY_TIMES``, ``RETRY_HTTP_CODES``, ``RETRY_EXCEPTIONS`` and the meta keys keep their meaning."""

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        if not settings.getbool("RETRY_ENABLED"):
            raise NotConfigured
        self.crawler = crawler
        self.job = job_of(crawler)
        self.max_retry_times = settings.getint("RETRY_TIMES")
        self.retry_http_codes = {int(code) for code in settings.getlist("RETRY_HTTP_CODES")}
        self.priority_adjust = settings.getint("RETRY_PRIORITY_ADJUST")
        self.exceptions_to_retry = tuple(
            load_object(cls) if isinstance(cls, str) else cls for cls in settings.getlist("RETRY_EXCEPTIONS")
        )

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_response(self, request: Request, response: Response) -> Request | Response:
        if response.status not in self.retry_http_codes or request.meta.get("dont_retry", False):
            return response
        clock = self.job.pace.known(self.job.host_of(request))
        if clock is not None and clock.given_up_until > self.job.now():
            return response
        return self._retry(request, response_status_message(response.status)) or response

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        if not isinstance(exception, self.exceptions_to_retry) or request.meta.get("dont_retry", False):
            return None
        return self._retry(request, exception)

    def _retry(self, request: Request, reason: str | Exception) -> Request | None:
        assert self.crawler.spider is not None
        return get_retry_request(
            request,
            reason=reason,
            spider=self.crawler.spider,
            max_retry_times=request.meta.get("max_retry_times", self.max_retry_times),
            priority_adjust=request.meta.get("priority_adjust", self.priority_adjust),
        )
