"""Fetches robots.txt: through the user's proxies, outside everything else.

The request goes by ``engine.download_async``, so that proxy middlewares see it, and tells every other part to leave
it alone: no page cache, no cookies, no retry, no redirect, no robots check, no scope, no limit. What counts is what the
network answered, as ``WireMiddleware`` saw it; an answer that a middleware gave instead is not current and is fetched
again past them all. A fetch ends, whatever handlers and middlewares do with it.
"""

from __future__ import annotations

import logging
import zlib
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_scour import compat, stats
from scrapy_scour.policy.access import Means, meaning, next_hop
from scrapy_scour.policy.failures import failure_in_words
from scrapy_scour.policy.redirects import shorten_trail
from scrapy_scour.policy.retry_after import retry_after_s
from scrapy_scour.policy.urls import Origin, origin_of
from scrapy_scour.stores.robots import Fetched

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from scrapy_scour.job import Job

logger = logging.getLogger(__name__)

#: meta key of a robots.txt request of ours; its value is the :class:`_Ticket` of an exchange under way.
ROBOTS_REQUEST = "scour_robotstxt"
#: What the download handler's own timeout may be late, seconds, before we stop waiting for it.
GRACE_S = 1.0
#: How often one request may be sent: middlewares may try again, but not for ever.
MOST_SENT = 10
_UNREADABLE = "its encoding cannot be read"


class _FetchEnded(IgnoreRequest):
    """A robots.txt request of ours was given up: it took too long, or the crawl is ending."""


class _Ticket(int):
    """Marks a request as ours. A type of its own: no number that somebody writes into meta is one."""


@dataclass(eq=False)
class _Exchange:
    """One robots.txt request under way.

    ``agent``: the User-Agent of the request that asked, None without one. ``began_at``: monotonic seconds.
    ``sent``: times it went to the network; ``request``: as it went.
    ``received``: octets of the body so far; ``too_long``, ``too_slow``: why it was cut off. ``response``: what the
    network answered.
    """

    agent: bytes | None
    began_at: float
    sent: int = 0
    request: Request | None = None
    received: int = 0
    too_long: bool = False
    too_slow: bool = False
    response: Response | None = None


class RobotsFetcher:
    """Reads one robots.txt with its redirects. ``parse(body, truncated)`` makes the parser of a body."""

    def __init__(self, job: Job, parse: Callable[[bytes, bool], Any]) -> None:
        self._job = job
        self._parse = parse
        self._ids = count(1)
        self._under_way: dict[_Ticket, _Exchange] = {}
        self._given_up = ""

    # What WireMiddleware and the others ask and tell

    def is_ours(self, request: Request) -> bool:
        """Whether this is a robots.txt request of ours under way."""
        return bool(self._under_way) and self._exchange(request) is not None

    def _exchange(self, request: Request) -> _Exchange | None:
        ticket = request.meta.get(ROBOTS_REQUEST) if self._under_way else None
        return self._under_way.get(ticket) if isinstance(ticket, _Ticket) else None

    async def send(self, request: Request) -> Response:
        """Let the request go to the network, past whatever would come after the caller: what comes back is its answer.

        What is returned is for the middlewares: they need not unpack what is read here. Raises IgnoreRequest when
        middlewares would send it again and again.
        """
        exchange = self._exchange(request)
        assert exchange is not None
        self._begin(request, exchange)
        exchange.response = response = await compat.download_now(self._job.downloader, request)
        if "Content-Encoding" not in response.headers:
            return response
        headers = response.headers.copy()
        del headers["Content-Encoding"]
        return response.replace(body=b"", headers=headers)

    @staticmethod
    def _begin(request: Request, exchange: _Exchange) -> None:
        exchange.sent += 1
        if exchange.sent > MOST_SENT:
            raise _FetchEnded(f"middlewares sent it {MOST_SENT} times")
        exchange.request, exchange.received, exchange.response = request, 0, None
        # What a cache added to revalidate its copy: a 304 would be about that copy, not about the rules.
        for name in ("If-None-Match", "If-Modified-Since"):
            request.headers.pop(name, None)
        if exchange.agent is not None:
            request.headers["User-Agent"] = exchange.agent

    # Fetching

    def give_up(self, why: str) -> None:
        """Wait for no answer any longer, not even for one that is under way: nobody wants it."""
        self._given_up = why

    async def fetch(self, origin: Origin, asker: Request) -> Fetched:
        """Read the robots.txt of ``origin`` under the User-Agent of ``asker``."""
        self._job.count.add(stats.ROBOTS_REQUESTS)
        fetched = await self._follow(origin, asker)
        self._job.count.add(stats.ROBOTS, fetched.means.value)
        if fetched.truncated:
            self._job.count.add(stats.ROBOTS_TRUNCATED)
            logger.warning(
                "The robots.txt of %s is longer than SCOUR_ROBOTSTXT_MAXSIZE = %d bytes; the rest was not read.",
                origin,
                self._job.settings.robotstxt_maxsize,
            )
        if fetched.means is Means.NO_RULES:
            logger.info("%s has no robots.txt (status %s, %s): no rules.", origin, fetched.status, fetched.trail[-1])
        if fetched.parser is not None and compat.ROBOTS_PARSED is not None:
            await self._job.crawler.signals.send_catch_log_async(
                signal=compat.ROBOTS_PARSED, robotparser=fetched.parser, request=asker
            )
        return fetched

    async def _follow(self, origin: Origin, asker: Request) -> Fetched:
        url = origin.robots_url
        trail: list[str] = []
        while True:
            trail.append(url)
            exchange = _Exchange(asker.headers.get("User-Agent"), self._job.now())
            try:
                response = await self._one(url, asker, exchange)
            except Exception as error:
                if not isinstance(error, IgnoreRequest):
                    self._job.count.add(stats.ROBOTS_EXCEPTIONS, str(type(error)))
                problem = failure_in_words(error)
                if isinstance(error, IgnoreRequest) and str(error):
                    problem = str(error)
                elif exchange.too_slow:
                    problem = f"longer than SCOUR_ROBOTSTXT_TIMEOUT = {self._job.settings.robotstxt_timeout:g} s"
                return Fetched(Means.NOT_OBTAINED, trail=tuple(trail), problem=problem)
            self._job.count.add(stats.ROBOTS_RESPONSES)
            self._job.count.add(stats.ROBOTS_STATUS, str(response.status))
            if not 300 <= response.status <= 399:
                return self._final(response, tuple(trail), exchange)
            location = response.headers.get("Location")
            hop = next_hop(
                url,
                response.status,
                location,
                trail,
                private_addresses=self._job.settings.redirect_private_addresses,
            )
            if hop.url is None:
                where = "".join(f": {target}" for target in shorten_trail([_text_of(location)]) if target)
                problem = f"{hop.problem}{where}"
                return Fetched(Means.NOT_OBTAINED, status=response.status, trail=tuple(trail), problem=problem)
            url = hop.url

    def _final(self, response: Response, trail: tuple[str, ...], exchange: _Exchange) -> Fetched:
        status, address = response.status, str(response.ip_address or "")
        means = meaning(status)
        if means is Means.NO_RULES:
            return Fetched(means, status=status, trail=trail, address=address)
        wait, problem = None, ""
        if means is Means.NOT_OBTAINED:
            problem = f"status {status}"
            wait = retry_after_s(
                response.headers.getlist("Retry-After"),
                response_date=response.headers.get("Date"),
                wall_now=self._job.wall(),
            )
        elif "download_stopped" in response.flags and not exchange.too_long:
            # Part of the rules is not the rules, unless it is as much of them as RFC 9309 2.5 asks for.
            problem = "another component stopped its download"
        else:
            limit = self._job.settings.robotstxt_maxsize
            body = decoded(response, limit + 1)
            if body is not None:
                cut = len(body) > limit or exchange.too_long
                return self._rules(body[:limit], cut, status, trail, address)
            problem = _UNREADABLE
        return Fetched(
            Means.NOT_OBTAINED, status=status, trail=trail, retry_after_s=wait, problem=problem, address=address
        )

    def _rules(self, body: bytes, cut: bool, status: int, trail: tuple[str, ...], address: str) -> Fetched:
        try:
            parser = self._parse(body, cut)
        except Exception as error:
            logger.error("The robots.txt of %s cannot be parsed, so nothing is permitted.", trail[0], exc_info=True)
            problem = f"the parser failed: {type(error).__name__}: {error}"
            return Fetched(Means.NOT_OBTAINED, status=status, trail=trail, problem=problem, address=address)
        return Fetched(
            Means.RULES, parser=parser, status=status, trail=trail, size=len(body), truncated=cut, address=address
        )

    async def _one(self, url: str, asker: Request, exchange: _Exchange) -> Response:
        ticket = _Ticket(next(self._ids))
        request, again = (self._request(url, asker, ticket) for _ in range(2))
        engine = self._job.crawler.engine
        if not self._under_way:
            self._job.crawler.signals.connect(self._bytes_received, signal=signals.bytes_received)
        self._under_way[ticket] = exchange
        try:
            await self._bounded(engine.download_async(request), exchange)
            if not exchange.sent:
                self._job.count.add(stats.ROBOTS_NOT_CURRENT)
                logger.warning(
                    "A middleware answered the request for %s instead of the site; it is fetched again past the"
                    " middlewares, since what a site permits has to be current.",
                    url,
                )
                exchange.began_at = self._job.now()
                await self._bounded(compat.pass_middlewares(engine.downloader, again), exchange)
        finally:
            del self._under_way[ticket]
            if not self._under_way:
                self._job.crawler.signals.disconnect(self._bytes_received, signal=signals.bytes_received)
        if exchange.response is None:
            raise IgnoreRequest("no answer came from the network")
        return exchange.response

    async def _bounded(self, download: Coroutine[Any, Any, Any], exchange: _Exchange) -> None:
        """Wait for the download, but not for ever: nothing that happens to it may keep pages waiting."""
        done: Deferred[Any] = Deferred()
        running = compat.schedule(download)
        running.addBoth(lambda result: None if done.called else done.callback(result))
        step = max(0.05, min(1.0, self._job.settings.robotstxt_timeout / 4))

        def look() -> None:
            timers.append(compat.later(step, look))
            del timers[:-1]
            why = self._overdue(exchange)
            if why and not done.called:
                done.errback(_FetchEnded(why))

        timers = [compat.later(step, look)]
        try:
            await maybe_deferred_to_future(done)
        finally:
            timers[-1].cancel()
            running.cancel()

    def _overdue(self, exchange: _Exchange) -> str:
        """Why the download is waited for no longer; "" while it is."""
        job, request, timeout = self._job, exchange.request, self._job.settings.robotstxt_timeout
        if self._given_up:
            return self._given_up
        if request is None:
            if job.now() - exchange.began_at > timeout:
                return f"the middlewares did not let it pass within {timeout:g} s"
            return ""
        dispatched_at = job.began_at(request, None)
        if dispatched_at is not None:
            if job.now() - dispatched_at > timeout + GRACE_S:
                exchange.too_slow = True
                return f"longer than SCOUR_ROBOTSTXT_TIMEOUT = {timeout:g} s"
        elif compat.is_closing(job.crawler):
            # It waits for its host's turn; a crawl that ends does not.
            compat.fail_queued(
                job.downloader,
                lambda queued: queued is request,
                lambda _: _FetchEnded("the crawl is ending"),
            )
        return ""

    def _request(self, url: str, asker: Request, ticket: _Ticket) -> Request:
        meta: dict[str, Any] = {
            ROBOTS_REQUEST: ticket,
            "allow_offsite": True,
            "autothrottle_dont_adjust_delay": True,
            "dont_cache": True,
            "dont_merge_cookies": True,
            "dont_obey_robotstxt": True,
            "dont_redirect": True,
            "dont_retry": True,
            "download_fail_on_dataloss": True,
            "download_maxsize": 0,
            "download_timeout": self._job.settings.robotstxt_timeout,
            "download_warnsize": 0,
            "handle_httpstatus_all": True,
        }
        headers: dict[str, str | bytes | None] = {
            "Accept": "text/plain, */*;q=0.5",
            "Accept-Encoding": "gzip, deflate",
        }
        agent = asker.headers.get("User-Agent")
        if agent is not None:
            headers["User-Agent"] = agent
        meta.update(self._job.off_host_mark(asker, url))
        # The user's way out: a proxy chosen for this request, as far as it is no other host's secret.
        for key in ("proxy", "bindaddress"):
            if key in asker.meta:
                meta[key] = asker.meta[key]
        if asker.meta.get("proxy") and "Proxy-Authorization" in asker.headers:
            headers["Proxy-Authorization"] = asker.headers["Proxy-Authorization"]
        if origin_of(url) == origin_of(asker.url) and not self._job.slot_is_default(asker):
            meta["download_slot"] = asker.meta["download_slot"]
        return Request(url, callback=NO_CALLBACK, headers=headers, meta=meta, priority=1000, dont_filter=True)

    def _bytes_received(self, data: bytes, request: Request) -> None:
        """Cut a file where it is too long, which is no refusal, and drop one that dribbles past the timeout."""
        exchange = self._exchange(request)
        if exchange is None:
            return
        exchange.received += len(data)
        if exchange.received > self._job.settings.robotstxt_maxsize:
            exchange.too_long = True
            raise StopDownload(fail=False)
        # Not every handler's timeout covers the body.
        now = self._job.now()
        if now - self._job.began_at(request, now) > self._job.settings.robotstxt_timeout:
            exchange.too_slow = True
            raise StopDownload(fail=True)


def _text_of(location: bytes | None) -> str:
    """A Location as it can be told: what is not printable is escaped."""
    text = (location or b"").decode("utf-8", "replace").strip()
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def decoded(response: Response, limit: int) -> bytes | None:
    """The body without its content codings (RFC 9110 8.4), at most ``limit`` octets of it; None if it cannot be read.

    gzip and deflate, which is what we ask for; a stream that was cut is read as far as it goes.
    """
    body = response.body
    codings = [
        coding.strip().lower()
        for line in response.headers.getlist("Content-Encoding")
        for coding in line.split(b",")
        if coding.strip()
    ]
    for coding in reversed(codings):
        attempts: tuple[int, ...]
        if coding in (b"gzip", b"x-gzip"):
            attempts = (zlib.MAX_WBITS | 16,)
        elif coding == b"deflate":
            attempts = (zlib.MAX_WBITS, -zlib.MAX_WBITS)
        elif coding == b"identity":
            continue
        else:
            return None
        for bits in attempts:
            inflated = _inflated(body, bits, limit)
            if inflated is not None:
                body = inflated
                break
        else:
            return None
    return body[:limit]


def _inflated(body: bytes, bits: int, limit: int) -> bytes | None:
    out = b""
    members = 0
    while body and len(out) < limit:
        engine = zlib.decompressobj(bits)
        try:
            out += engine.decompress(body, limit - len(out))
        except zlib.error:
            return out if members else None  # what follows a whole stream is padding, a broken one is unreadable
        if not engine.eof:
            break
        members += 1
        body = engine.unused_data  # a gzip stream may have several members (RFC 1952 2.2)
    return out
