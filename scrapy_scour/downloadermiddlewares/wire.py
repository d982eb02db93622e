"""The last look before the downloader: position 10000, nothing may stand behind it.

Sees to it that what goes out is what was judged: the agent that is really sent, the headers that may go to this
host, the limit, and host clocks that are in place.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from w3lib.http import basic_auth_header

from scrapy_scour import compat, stats
from scrapy_scour.exceptions import OutOfScope, PolicyCheckFailed
from scrapy_scour.job import OFF_HOST, REAL_URL, job_of
from scrapy_scour.permission import CHECKED_AGENT
from scrapy_scour.policy.spelling import normalised
from scrapy_scour.policy.urls import origin_of, without_userinfo
from scrapy_scour.robotsfetch import ROBOTS_REQUEST

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

logger = logging.getLogger(__name__)


class WireMiddleware:
    """See the module."""

    def __init__(self, crawler: Crawler) -> None:
        self.job = job_of(crawler)
        self._crawler = crawler
        safe = self.job.settings.redirect_safe_headers
        self._own_headers = [
            name
            for name, value in (crawler.settings.getdict("DEFAULT_REQUEST_HEADERS") or {}).items()
            if value is not None and name.lower() not in safe
        ]
        self._told = False
        if not compat.answers_are_of_what_was_asked(crawler.settings):
            # Only where it has something to do: a method here costs every answer a step.
            self.process_response = self._check_hops

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def process_request(self, request: Request) -> Request | Response | None:
        job, meta, headers = self.job, request.meta, request.headers
        if not job.gate_installed:
            raise PolicyCheckFailed("the host clocks are not in place", url=without_userinfo(request.url))
        if compat.values_of(headers, b"Proxy-Authorization") and not meta.get("proxy"):
            del headers["Proxy-Authorization"]
        if OFF_HOST in meta and job.is_off_host(request):
            self._strip(request)
        agents = compat.values_of(headers, b"User-Agent")
        if len(agents) > 1:  # each would be a line of its own, and only the last one is judged
            headers["User-Agent"] = agents[-1]
        if ROBOTS_REQUEST in meta and job.fetcher.is_ours(request):
            job.refuse_if_given_up(request)  # a hop may lead to such a host; it would wait there for as long
            return await job.fetcher.send(request)
        if REAL_URL in meta:
            job.check_real_url(request)
        permission = job.permission
        checked = meta.get(CHECKED_AGENT, self)
        if (
            (checked is self or checked != permission.token_of_agent(agents[-1] if agents else b""))
            and permission.applies_to(request)
            and not permission.needs_no_rules(request)
        ):
            return await self._check_again(request)
        job.count_attempt(request)
        return None

    def _strip(self, request: Request) -> None:
        """Take away what the project adds to every request: it was not meant for a host that a redirect chose.

        Credentials that name their domain (``HTTPAUTH_DOMAIN``, ``http_auth_domain``) have been added for it.
        """
        for name in self._own_headers:
            request.headers.pop(name, None)
        sent = request.headers.get("Authorization")
        if sent is not None and sent in self._auth_for_everybody():
            del request.headers["Authorization"]

    def _auth_for_everybody(self) -> list[bytes]:
        """The Authorization values that Scrapy adds to requests for whatever host."""
        spider, settings = self._crawler.spider, self._crawler.settings
        found = []
        for user, password, domain in (
            [getattr(spider, name, "") for name in ("http_user", "http_pass", "http_auth_domain")],
            [settings.get(name) or "" for name in ("HTTPAUTH_USER", "HTTPAUTH_PASS", "HTTPAUTH_DOMAIN")],
        ):
            if (user or password) and not domain:
                found.append(basic_auth_header(user, password))
        return found

    async def _check_again(self, request: Request) -> Request | None:
        """The agent is another one than robots.txt was asked for: ask for this one, without a new fetch."""
        job = self.job
        job.count.add(stats.ROBOTS_AGENT_CHANGED)
        back = await job.permission.obtain(request, job.permission.origin_of(request))
        if back is None:
            job.count_attempt(request)
        return back

    def _check_hops(self, request: Request, response: Response) -> Response:
        if response.url != request.url and not request.meta.get(REAL_URL) and not self.job.fetcher.is_ours(request):
            self._followed_inside(request, response)
        return response

    def _followed_inside(self, request: Request, response: Response) -> None:
        """The download handler followed a redirect by itself: its hops could not be judged before they were taken."""
        job = self.job
        if origin_of(request.url) is None or normalised(response.url) == normalised(request.url):
            return
        verdict = job.judge_hop(request, response.url)
        if not self._told:
            self._told = True
            logger.warning(
                "The download handler follows redirects by itself (asked for %s, it answered with %s), so"
                " hops cannot be judged before they are taken; use a handler that hands 3xx back.",
                without_userinfo(request.url),
                without_userinfo(response.url),
            )
        if not verdict:
            refusal = OutOfScope(
                f"the download handler went to {without_userinfo(response.url)}: {verdict.reason} ({verdict.source})",
                url=without_userinfo(request.url),
                trail=[without_userinfo(request.url), without_userinfo(response.url)],
            )
            raise job.lost(request, refusal)
        response.flags.append("scour_hops_not_judged")
