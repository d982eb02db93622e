"""Politeness for fetchers that are not Scrapy's: a rendering service's client, an SDK, a browser.

Code in a callback that gets a page by such means, instead of yielding a request, asks here first::

    fetcher = PoliteFetcher(self.crawler)
    page = await fetcher.fetch("https://example.com/page", my_client.render)

Scope, robots.txt, the host's clock and the limits are those of the crawl, shared with its ordinary requests. A service
that is asked by URL needs none of this: yield a request for it with the site's own URL in ``meta["scour_url"]``.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from scrapy import Request
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK

from scrapy_scour import compat, stats
from scrapy_scour.exceptions import Outcome, OutOfScope, PolicyCheckFailed
from scrapy_scour.job import job_of
from scrapy_scour.policy.failures import failure_category
from scrapy_scour.policy.retry import Pause
from scrapy_scour.policy.urls import origin_of, without_userinfo
from scrapy_scour.stores.pace import NAMED_BY_HOST

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_scour.job import Job

_T = TypeVar("_T")

logger = logging.getLogger(__name__)

#: How often one that waits for its turn looks whether the crawl is closing, seconds.
_LOOK_S = 1.0


class PoliteFetcher:
    """Lets external providers fetch pages when, and only when, the crawl itself might. Cheap to make."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    async def fetch(
        self,
        url: str,
        provider: Callable[[str], Awaitable[_T]],
        *,
        user_agent: str | bytes | None = None,
        allow_offsite: bool = False,
    ) -> _T:
        """Call ``provider(url)`` when it is the host's turn, and give what it returns.

        ``provider`` is any callable that takes the URL, as Scrapy would request it, and returns an awaitable; the host
        counts as being asked until that is done, so set the provider a time limit of its own. ``user_agent`` is the
        User-Agent that the provider asks under, whose rules in robots.txt decide; None means the crawl's own
        ``USER_AGENT``. ``allow_offsite`` is Scrapy's meta key of that name.

        Raises, without calling the provider, what refuses an ordinary request: OutOfScope, RobotsDisallowed,
        RobotsUnreachable, CrawlDelayTooLong, RateLimited, RequestLimitReached; PolicyCheckFailed for a URL that is not
        http(s) and for a check that broke. Each is recorded as an outcome. What the provider raises comes through
        unchanged, and is recorded too. A :class:`scrapy.http.Response` that it returns is read as the site's answer: a
        429 or 503 holds the host. A provider that learns of a Retry-After otherwise says so with :meth:`hold`.
        """
        job = job_of(self._crawler)
        request = self._request(job, url, user_agent, allow_offsite)
        try:
            await self._permit(job, request)
            job.count_attempt(request)
        except Outcome as refusal:
            job.ended(request, refusal)
            raise
        except Exception as error:
            logger.error("The policy check of %s failed, so it is not fetched.", _shown(request.url), exc_info=True)
            said = f"{type(error).__name__}: {error}"
            failed = PolicyCheckFailed(f"the policy check failed: {said}", url=_shown(request.url))
            job.ended(request, failed)
            raise failed from error
        return await self._in_turn(job, request, provider)

    def hold(self, url: str, seconds: float) -> None:
        """Leave the host of ``url`` alone for ``seconds``: what a Retry-After that a provider has learned of asks for.

        Longer than ``SCOUR_RETRY_AFTER_MAX``: the host is given up until then, and its requests end as rate_limited, or
        the crawl stops (``SCOUR_RETRY_AFTER_OVER_MAX``).
        Raises ValueError for what is no finite number of seconds, 0 or more, and for a URL that names no http(s) host.
        """
        job = job_of(self._crawler)
        if isinstance(seconds, bool) or not math.isfinite(seconds) or seconds < 0:
            raise ValueError(f"seconds must be a finite number, 0 or more: {seconds!r}")
        origin = origin_of(url)
        if origin is None:
            raise ValueError(f"url must be an absolute http(s) URL: {_shown(url)!r}")
        clock = job.pace.clock(origin.host, job.now())
        clock.hold(job.now() + seconds, NAMED_BY_HOST)
        if seconds > job.settings.retry_after_max:
            job.give_up(clock, Pause(seconds, seconds, True, f"it asks to be left alone for {seconds:g} s"))
        else:
            job.count_hold(clock, NAMED_BY_HOST)

    def _request(self, job: Job, url: str, user_agent: str | bytes | None, allow_offsite: bool) -> Request:
        agent = self._crawler.settings["USER_AGENT"] if user_agent is None else user_agent
        try:
            if origin_of(url) is None:
                raise ValueError("it is no absolute http(s) URL")
            request = Request(url, callback=NO_CALLBACK, headers={"User-Agent": agent} if agent else None)
        except (ValueError, TypeError, AttributeError) as error:
            shown = _shown(url) if isinstance(url, str) else repr(url)
            refusal = PolicyCheckFailed(f"the URL cannot be fetched: {error}", url=shown)
            job.ended(Request("about:blank", callback=NO_CALLBACK), refusal)
            raise refusal from error
        if allow_offsite:
            request.meta["allow_offsite"] = True
        job.name_slot(request)
        return request

    async def _permit(self, job: Job, request: Request) -> None:
        """Everything that an ordinary request is asked before it may wait for its turn."""
        if not job.gate_installed:
            raise PolicyCheckFailed("the host clocks are not in place", url=_shown(request.url))
        verdict = job.judge_request(request)
        if not verdict:
            raise OutOfScope(f"{verdict.reason} ({verdict.source})", url=_shown(request.url))
        job.refuse_if_given_up(request)
        permission = job.permission
        if permission.applies_to(request):
            origin = permission.origin_of(request)
            known = job.robots.fresh(origin)
            if known is not None:
                permission.judge(request, origin, known)
            else:
                await permission.obtain(request, origin)

    async def _in_turn(self, job: Job, request: Request, provider: Callable[[str], Awaitable[_T]]) -> _T:
        turn = _Turn(job, request, provider)
        turn.look_for_the_end()
        try:
            await compat.transfer_by(job.downloader, request, turn.run)
        except _ProviderCancelled as cancelled:
            job.ended(request, _failed(request, cancelled))
            raise asyncio.CancelledError(*cancelled.args) from None
        except Exception as error:
            outcome = error if isinstance(error, Outcome) else _failed(request, error)
            job.ended(request, outcome)
            raise
        finally:
            turn.over()
        return cast("_T", turn.result)


class _ProviderCancelled(Exception):
    """The provider was cancelled: no ordinary exception, so the downloader would not hand it on."""


class _Turn:
    """One call of a provider, from its place in the host's queue to its end."""

    def __init__(self, job: Job, request: Request, provider: Callable[[str], Awaitable[Any]]) -> None:
        self._job = job
        self._request = request
        self._provider = provider
        self._timer: Any = None
        self.result: Any = None

    async def run(self) -> Response:
        """The transfer itself, when its turn has come."""
        self.over()
        self._job.count.add(stats.EXTERNAL)
        try:
            self.result = await self._provider(self._request.url)
        except asyncio.CancelledError as cancelled:
            raise _ProviderCancelled(*cancelled.args) from cancelled
        if isinstance(self.result, Response):
            return self.result
        # The downloader wants a response to tell its listeners that the transfer has ended well.
        return Response(self._request.url, request=self._request, flags=["scour_external"])

    def look_for_the_end(self) -> None:
        """A crawl that closes waits for its callbacks: one that waits for a far turn must not wait on."""
        if compat.is_closing(self._job.crawler):
            compat.fail_queued(
                self._job.downloader,
                lambda request: request is self._request,
                lambda request: PolicyCheckFailed("the crawl is closing", url=_shown(request.url)),
            )
        self._timer = compat.later(_LOOK_S, self.look_for_the_end)

    def over(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _failed(request: Request, error: Exception) -> Outcome:
    said = f"{type(error).__name__}: {error}".rstrip(": ")
    outcome = Outcome(f"the provider failed: {said}", url=_shown(request.url), category=failure_category(error))
    outcome.__cause__ = error
    return outcome


def _shown(url: str) -> str:
    return without_userinfo(url)
