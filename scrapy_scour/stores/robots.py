"""Remembers the robots.txt of each origin, and sees to it that each is read once.

One fetch in flight per origin, its result shared by all who wait; a success is kept for a time, at most ``size`` of
them; a failure is never kept, only how often it happened and when it may be tried again. Knows neither HTTP nor
Scrapy's engine: fetching is a function it is given.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_scour.policy.access import Means
from scrapy_scour.policy.pacing import growing_wait
from scrapy_scour.policy.urls import Origin


@dataclass(frozen=True, slots=True)
class Fetched:
    """How one robots.txt was obtained, or why it was not.

    ``parser`` answers for the rules (None without any). ``status``: the last HTTP status, None without an answer.
    ``trail``: every URL that was asked, the first one first. ``size``: octets read, after decompression;
    ``truncated``: there was more. ``retry_after_s``: what a failure asked for, seconds or None. ``problem``: why not,
    in words. ``address``: the IP address that answered last, "" if unknown.
    """

    means: Means
    parser: Any = None
    status: int | None = None
    trail: tuple[str, ...] = ()
    size: int = 0
    truncated: bool = False
    retry_after_s: float | None = None
    problem: str = ""
    address: str = ""


@dataclass(slots=True)
class Known:
    """A robots.txt that was obtained, when (monotonic seconds), and whether a later reading of it failed."""

    fetched: Fetched
    at: float
    stale: bool = False
    cache: dict[Any, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failed:
    """A robots.txt that could not be obtained.

    ``times`` in a row, ``not_before`` when it may be tried again (monotonic seconds), ``final``: pages are refused
    now instead of waiting for another try.
    """

    fetched: Fetched
    times: int
    not_before: float
    final: bool


class RobotsStore:
    """All robots.txt files of one crawl.

    ``fetch(origin, asker)`` reads one; it must not raise. ``spawn`` runs a coroutine on its own. ``now()`` is monotonic
    seconds. ``ttl_s``: how long a file is used, 0 for the life of the job. ``size``: how many are kept. ``waits_s``:
    the wait after each failure in a row; when they are used up, ``final``. ``retry_after_max_s``: a longer Retry-After
    is final at once.
    """

    def __init__(
        self,
        fetch: Callable[[Origin, Any], Awaitable[Fetched]],
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        now: Callable[[], float],
        ttl_s: float,
        size: int,
        waits_s: tuple[float, ...],
        retry_after_max_s: float,
    ) -> None:
        self._fetch = fetch
        self._spawn = spawn
        self._now = now
        self._ttl_s = ttl_s
        self._size = size
        self._waits_s = waits_s
        self._retry_after_max_s = retry_after_max_s
        self._known: OrderedDict[Origin, Known] = OrderedDict()
        self._failed: OrderedDict[Origin, Failed] = OrderedDict()
        self._waiting: dict[Origin, list[Deferred[Known | Failed]]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def fresh(self, origin: Origin) -> Known | None:
        """The rules that may be used now without asking anybody, or None."""
        known = self._known.get(origin)
        if known is None:
            return None
        now = self._now()
        if self._ttl_s and now - known.at >= self._ttl_s:
            failed = self._failed.get(origin)
            if failed is None or now >= failed.not_before:
                return None  # time to read it again
        self._known.move_to_end(origin)
        return known

    def refuses(self, origin: Origin) -> bool:
        """Whether :meth:`get` would read nothing for this caller: pages are refused, or somebody is reading already."""
        failed = self._failed.get(origin)
        return origin in self._waiting or (failed is not None and failed.final and self._now() < failed.not_before)

    async def get(self, origin: Origin, asker: Any) -> Known | Failed:
        """The rules, or why there are none; reads the file if it must. ``asker`` is handed to ``fetch``."""
        known = self.fresh(origin)
        if known is not None:
            return known
        failed = self._failed.get(origin)
        if failed is not None and self._now() < failed.not_before and origin not in self._waiting:
            return failed
        # Each waiter has an answer of its own, so that one which gives up takes nothing from the others; the fetch
        # belongs to none of them.
        mine: Deferred[Known | Failed] = Deferred()
        waiting = self._waiting.get(origin)
        if waiting is None:
            self._waiting[origin] = [mine]
            reading = self._read(origin, asker)
            try:
                self._spawn(reading)
            except BaseException:  # no loop to run it on: whoever asks next must not wait for it
                reading.close()
                del self._waiting[origin]
                raise
        else:
            waiting.append(mine)
        return await maybe_deferred_to_future(mine)

    async def _read(self, origin: Origin, asker: Any) -> None:
        try:
            fetched = await self._fetch(origin, asker)
        except Exception as error:
            # Nobody may be left waiting, and a fault of ours permits nothing.
            fetched = Fetched(Means.NOT_OBTAINED, problem=f"{type(error).__name__}: {error}")
        except BaseException:
            self._settle(origin, Fetched(Means.NOT_OBTAINED, problem="the crawl is ending"))
            raise
        self._settle(origin, fetched)

    def _settle(self, origin: Origin, fetched: Fetched) -> None:
        answer = self._note(origin, fetched)
        for waiter in self._waiting.pop(origin):
            if not waiter.called:
                waiter.callback(answer)

    def _note(self, origin: Origin, fetched: Fetched) -> Known | Failed:
        now = self._now()
        if fetched.means is not Means.NOT_OBTAINED:
            self._failed.pop(origin, None)
            known = self._known[origin] = Known(fetched, now)
            self._known.move_to_end(origin)
            while len(self._known) > self._size:
                self._known.popitem(last=False)
            return known
        before = self._failed.get(origin)
        times = (before.times if before else 0) + 1
        wait = growing_wait(self._waits_s, times)
        if fetched.retry_after_s is not None:
            wait = max(wait, fetched.retry_after_s)
        final = times > len(self._waits_s) or (fetched.retry_after_s or 0.0) > self._retry_after_max_s
        failed = self._failed[origin] = Failed(fetched, times, now + wait, final)
        self._failed.move_to_end(origin)
        while len(self._failed) > self._size:
            self._failed.popitem(last=False)
        old = self._known.get(origin)
        if old is not None:
            old.stale = True  # RFC 9309 2.3.1.4: a cached copy may stay in use while the file is unreachable
            return old
        return failed
