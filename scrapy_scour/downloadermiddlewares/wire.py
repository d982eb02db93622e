"""The last look before the downloader, and the first at what it brings: position 10000, nothing may stand behind it.

Sees to it that what goes out is what was judged: the agent that is really sent, the headers that may go to this
host, the limit, and host clocks that are in place.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy_scour import stats
from scrapy_scour.exceptions import OutOfScope, PolicyCheckFailed
from scrapy_scour.job import OFF_HOST, REAL_URL, job_of
from scrapy_scour.permission import CHECKED_AGENT
from scrapy_scour.policy.urls import host_of, origin_of, without_userinfo
from scrapy_scour.stores.robots import Known

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

logger = logging.getLogger(__name__)


class WireMiddleware:
    """See the module."""

    def __init__(self, crawler: Crawler) -> None:
        self.job = job_of(crawler)
        safe = self.job.settings.redirect_safe_headers
        self._own_headers = [
            name
            for name, value in (crawler.settings.getdict("DEFAULT_REQUEST_HEADERS") or {}).items()
            if value is not None and name.lower() not in safe
        ]
        self._told = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_request(self, request: Request) -> Awaitable[None] | None:
        job = self.job
        if not job.gate_installed:
            raise PolicyCheckFailed("the host clocks are not in place", url=without_userinfo(request.url))
        if not request.meta.get("proxy"):
            request.headers.pop("Proxy-Authorization", None)
        if job.fetcher.is_ours(request):
            job.fetcher.passed(request)
            return None
        if request.meta.get(OFF_HOST):
            for name in self._own_headers:
                request.headers.pop(name, None)
        permission = job.permission
        if permission.applies_to(request):
            if request.meta.get(CHECKED_AGENT, self) != permission.token_of(request):
                return self._check_again(request)
        job.count_attempt(request)
        return None

    async def _check_again(self, request: Request) -> None:
        """The agent is another one than robots.txt was asked for: ask for this one. No new fetch if the file is known."""
        job = self.job
        job.count.add(stats.ROBOTS_AGENT_CHANGED)
        origin = job.permission.origin_of(request)
        answer = job.robots.fresh(origin) or await job.robots.get(origin, request)
        if not isinstance(answer, Known):
            raise job.permission.unreachable(request, origin, answer)
        job.permission.judge(request, origin, answer)
        job.count_attempt(request)

    def process_response(self, request: Request, response: Response) -> Response:
        job = self.job
        if job.fetcher.is_ours(request):
            job.fetcher.answered(request, response)
        elif response.url != request.url and not request.meta.get(REAL_URL):
            self._followed_inside(request, response)
        return response

    def _followed_inside(self, request: Request, response: Response) -> None:
        """The download handler followed a redirect by itself: its hops could not be judged before they were taken."""
        job = self.job
        here, there = origin_of(request.url), origin_of(response.url)
        if here == there or here is None or response.url.partition("#")[0] == request.url.partition("#")[0]:
            return
        verdict = job.judge_hop(request, response.url)
        if not self._told:
            self._told = True
            logger.warning(
                "The download handler follows redirects by itself (asked for a page of %s, it answered with one of %s), so"
                " hops cannot be judged before they are taken; use a handler that hands 3xx back.",
                host_of(request.url),
                host_of(response.url),
            )
        if not verdict:
            raise OutOfScope(
                f"the download handler went to {host_of(response.url)}: {verdict.reason}",
                url=without_userinfo(request.url),
                trail=[without_userinfo(request.url), without_userinfo(response.url)],
            )
        response.flags.append("scour_hops_not_judged")
