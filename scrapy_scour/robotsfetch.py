"""Fetches robots.txt: through the user's proxies, outside everything else.

The request goes by ``engine.download_async``, so that proxy middlewares see it, and tells every other part to leave
it alone: no page cache, no cookies, no retry, no redirect, no robots check, no scope, no limit. What counts is what the
network answered, as ``WireMiddleware`` saw it; an answer that a middleware gave instead is not current and is fetched
again past them all.
"""

from __future__ import annotations

import logging
import zlib
from itertools import count
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK

from scrapy_scour import compat, stats
from scrapy_scour.policy.access import Means, meaning, next_hop
from scrapy_scour.policy.retry_after import retry_after_s
from scrapy_scour.policy.urls import Origin, origin_of
from scrapy_scour.stores.robots import Fetched

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_scour.job import Job

logger = logging.getLogger(__name__)

#: meta key of a robots.txt request of ours; its value is known to the fetcher, so it cannot be forged.
ROBOTS_REQUEST = "scour_robotstxt"
_UNREADABLE = "its encoding cannot be read"


class RobotsFetcher:
    """Reads one robots.txt with its redirects. ``parse(body, truncated)`` makes the parser of a body."""

    def __init__(self, job: Job, parse: Callable[[bytes, bool], Any]) -> None:
        self._job = job
        self._parse = parse
        self._ids = count(1)
        self._under_way: dict[int, Response | None] = {}
        self._received: dict[int, int] = {}

    # What WireMiddleware and the others ask and tell

    def is_ours(self, request: Request) -> bool:
        """Whether this is a robots.txt request of ours under way."""
        return ROBOTS_REQUEST in request.meta and (
            request.meta[ROBOTS_REQUEST] in self._under_way or request.meta[ROBOTS_REQUEST] in self._received
        )

    def passed(self, request: Request) -> None:
        """The request is about to go to the network."""
        self._under_way[request.meta[ROBOTS_REQUEST]] = None
        # What a cache added to revalidate its copy: a 304 would be about that copy, not about the rules.
        for name in ("If-None-Match", "If-Modified-Since"):
            request.headers.pop(name, None)

    def answered(self, request: Request, response: Response) -> None:
        """The network answered."""
        self._under_way[request.meta[ROBOTS_REQUEST]] = response

    # Fetching

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
        return fetched

    async def _follow(self, origin: Origin, asker: Request) -> Fetched:
        url = origin.robots_url
        trail: list[str] = []
        while True:
            trail.append(url)
            try:
                response = await self._one(url, asker)
            except Exception as error:
                if not isinstance(error, IgnoreRequest):
                    self._job.count.add(stats.ROBOTS_EXCEPTIONS, str(type(error)))
                return Fetched(
                    Means.NOT_OBTAINED, trail=tuple(trail), problem=f"{type(error).__name__}: {error}".rstrip(": ")
                )
            self._job.count.add(stats.ROBOTS_RESPONSES)
            self._job.count.add(stats.ROBOTS_STATUS, str(response.status))
            if not 300 <= response.status <= 399:
                return self._final(response, tuple(trail))
            hop = next_hop(
                url,
                response.status,
                response.headers.get("Location"),
                trail,
                private_addresses=self._job.settings.redirect_private_addresses,
            )
            if hop.url is None:
                return Fetched(Means.NOT_OBTAINED, status=response.status, trail=tuple(trail), problem=hop.problem)
            url = hop.url

    def _final(self, response: Response, trail: tuple[str, ...]) -> Fetched:
        means = meaning(response.status)
        address = str(response.ip_address or "")
        if means is Means.NO_RULES:
            return Fetched(means, status=response.status, trail=trail, address=address)
        if means is Means.NOT_OBTAINED:
            wait = retry_after_s(
                response.headers.getlist("Retry-After"),
                response_date=response.headers.get("Date"),
                wall_now=self._job.wall(),
            )
            return Fetched(
                means,
                status=response.status,
                trail=trail,
                retry_after_s=wait,
                problem=f"status {response.status}",
                address=address,
            )
        limit = self._job.settings.robotstxt_maxsize
        body = decoded(response, limit + 1)
        if body is None:
            return Fetched(
                Means.NOT_OBTAINED, status=response.status, trail=trail, problem=_UNREADABLE, address=address
            )
        cut = len(body) > limit or "download_stopped" in response.flags
        body = body[:limit]
        return Fetched(
            means,
            parser=self._parse(body, cut),
            status=response.status,
            trail=trail,
            size=len(body),
            truncated=cut,
            address=address,
        )

    async def _one(self, url: str, asker: Request) -> Response:
        number = next(self._ids)
        request = self._request(url, asker, number)
        self._watch(number)
        engine = self._job.crawler.engine
        try:
            try:
                await engine.download_async(request)
            finally:
                passed = number in self._under_way
                response = self._under_way.pop(number, None)
            if not passed:
                self._job.count.add(stats.ROBOTS_NOT_CURRENT)
                logger.warning(
                    "A middleware answered the request for %s instead of the site; it is fetched again past the middlewares,"
                    " since what a site permits has to be current.",
                    url,
                )
                self._under_way[number] = None
                response = await compat.download_past_middlewares(engine.downloader, self._request(url, asker, number))
        finally:
            self._unwatch(number)
            self._under_way.pop(number, None)
        if response is None:
            raise IgnoreRequest("no answer came from the network")
        return response

    def _request(self, url: str, asker: Request, number: int) -> Request:
        meta: dict[str, Any] = {
            ROBOTS_REQUEST: number,
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
        # The user's way out: a proxy chosen for this request, as far as it is no other host's secret.
        for key in ("proxy", "bindaddress"):
            if key in asker.meta:
                meta[key] = asker.meta[key]
        if asker.meta.get("proxy") and "Proxy-Authorization" in asker.headers:
            headers["Proxy-Authorization"] = asker.headers["Proxy-Authorization"]
        if origin_of(url) == origin_of(asker.url) and not self._job.slot_is_default(asker):
            meta["download_slot"] = asker.meta["download_slot"]
        return Request(url, callback=NO_CALLBACK, headers=headers, meta=meta, priority=1000, dont_filter=True)

    # A file that is too long is cut where it is too long, not refused

    def _watch(self, number: int) -> None:
        if not self._received:
            self._job.crawler.signals.connect(self._bytes_received, signal=signals.bytes_received)
        self._received[number] = 0

    def _unwatch(self, number: int) -> None:
        self._received.pop(number, None)
        if not self._received:
            self._job.crawler.signals.disconnect(self._bytes_received, signal=signals.bytes_received)

    def _bytes_received(self, data: bytes, request: Request) -> None:
        number = request.meta.get(ROBOTS_REQUEST)
        if number in self._received:
            self._received[number] += len(data)
            if self._received[number] > self._job.settings.robotstxt_maxsize:
                raise StopDownload(fail=False)


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
