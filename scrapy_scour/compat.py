"""Everything of Scrapy that is private or differs between versions, each with what needs it and what breaks without.

Nothing else in the package touches such a name. Where a version matters it is a named feature, never a number.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import scrapy.core.downloader as _downloader_module
from queuelib import LifoDiskQueue
from scrapy import exceptions as scrapy_exceptions
from scrapy import signals
from scrapy.core.downloader import Downloader, Slot
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.http import Headers
from scrapy.pqueues import QueueProtocol, ScrapyPriorityQueue, _path_safe
from scrapy.statscollectors import StatsCollector
from scrapy.utils.asyncio import call_later, is_asyncio_available
from scrapy.utils.conf import build_component_list
from scrapy.utils.defer import ensure_awaitable, maybe_deferred_to_future
from scrapy.utils.misc import load_object
from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.error import ConnectionLost
from twisted.internet.error import TimeoutError as TwistedTimeoutError
from twisted.python.failure import Failure
from twisted.web.client import HTTPConnectionPool, ResponseNeverReceived

from scrapy_scour.exceptions import Outcome

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings
    from scrapy.utils.asyncio import CallLaterResult

    from scrapy_scour.stores.pace import HostClock

_T = TypeVar("_T")

#: A slot takes the size of its random variation (``jitter``), before only whether there is one
#: (``randomize_delay``). Without: a slot of ours would be built with the wrong third value.
SLOT_HAS_JITTER: bool = "jitter" in getattr(Slot, "__dataclass_fields__", {})

#: The clock that ``Downloader._process_queue`` compares ``slot.lastseen`` with: monotonic in newer versions,
#: wall time before. Without: a slot's wait would be off by decades.
slot_now: Callable[[], float] = getattr(_downloader_module, "monotonic", time.time)

#: The meta key that names a request's download slot.
DOWNLOAD_SLOT: str = Downloader.DOWNLOAD_SLOT

#: The folder name of a slot in a job directory. Without: a crawl could not be resumed by the stock queue, nor one of
#: the stock queue by ours.
path_safe: Callable[[str], str] = _path_safe

#: What a download that took too long raises: Scrapy's own class in newer versions, Twisted's before.
DOWNLOAD_TIMEOUT_ERROR: type[Exception] = getattr(scrapy_exceptions, "DownloadTimeoutError", TwistedTimeoutError)

#: Handlers of Scrapy whose timeout covers the body. Without: every chunk of every body would be timed for nothing.
_TIMED_HANDLERS = ("http11.", "http2.", "http.", "s3.", "_aiohttp.")

#: Those that follow no redirect. Without: every answer would be asked for where it came from.
_PLAIN_HANDLERS = (*_TIMED_HANDLERS, "_httpx.")

#: Those that hold no size limit against an answer to HEAD. Without: every request would be looked at for nothing.
_HEAD_HANDLERS = ("http11.", "http.")

#: The meta keys by which ``HttpProxyMiddleware`` knows a proxy that it chose itself, and whose credentials it has set.
#: Without: a redirect would go through the proxy of another scheme, or bring one its credentials.
PROXY_BY_SCHEME: str = "_scheme_proxy"
PROXY_CREDENTIALS: str = "_auth_proxy"

#: Sent when a robots.txt has been parsed. Without: components that listen for it would hear nothing from us.
ROBOTS_PARSED: object | None = getattr(signals, "robots_parsed", None)

#: Where a pool of Twisted's asks itself for a connection (``_newConnection``) for the first time, not to repeat a
#: request on it. Without: no request may be repeated at all when a kept connection breaks.
_GET_CONNECTION_CODE: Any = getattr(HTTPConnectionPool.getConnection, "__code__", None)

#: The level of the message for a request whose retries are used up can be chosen (``RETRY_GIVE_UP_LOG_LEVEL``, meta
#: ``give_up_log_level``). Without: both would be without effect, or the call would fail where there is no such thing.
RETRY_HAS_GIVE_UP_LEVEL: bool = "give_up_log_level" in inspect.signature(get_retry_request).parameters


#: ``Headers`` is a dict of lists by names in title case. Without: each look at a header, of which every page has four,
#: would bring its name into that case first.
_HEADERS_ARE_LISTS: bool = dict.get(Headers({"user-agent": ["a", "b"]}), b"User-Agent") == [b"a", b"b"]


#: How Scrapy's stats collector counts and how its attributes are read.
_COUNTING = (StatsCollector.inc_value, StatsCollector.__getattribute__)


def stats_of(collector: StatsCollector) -> dict[str, Any] | None:
    """The attributes of a stats collector that counts as Scrapy's own does, its stats as ``["_stats"]`` among them.

    None for any other. Without: each count would take the detour that newer collectors make to each of their attributes
    and methods, several times as long as counting.
    """
    cls, attributes = type(collector), getattr(collector, "__dict__", {})
    plain = (getattr(cls, "inc_value", None), cls.__getattribute__) == _COUNTING and "inc_value" not in attributes
    return attributes if plain and isinstance(attributes.get("_stats"), dict) else None


def values_of(headers: Headers, name: bytes) -> list[bytes]:
    """All values of a header whose name is given in title case, to be looked at only: a cheaper ``Headers.getlist``."""
    return (dict.get(headers, name) if _HEADERS_ARE_LISTS else headers.getlist(name)) or []


class Gate(Protocol):
    """What a slot asks before it lets a request go to the network (``job.Job``)."""

    def now(self) -> float: ...

    def clock_of(self, request: Request) -> HostClock | None: ...

    def dispatched(self, request: Request, clock: HostClock | None, now: float) -> str | None: ...

    def transfer_ended(
        self, request: Request, clock: HostClock | None, duration_s: float, answer: Response | None
    ) -> None: ...

    def slot_changed(self, key: str) -> None: ...

    def look_again(self, slot: PoliteSlot) -> None: ...

    def may_repeat(self, name: str) -> bool: ...

    def entered(self, request: Request) -> None: ...

    def left(self, request: Request) -> None: ...

    def queued(self, key: str) -> bool: ...


#: Where ``Downloader._download`` keeps the answer while it takes the request out of ``slot.transferring``.
_ANSWER = "response"
_DOWNLOAD_CODE: Any = getattr(getattr(Downloader, "_download", None), "__code__", None)

#: Hosts that one slot remembers, to tell what delay it keeps.
_MOST_CLOCKS = 1000


class _Queue(deque[Any]):
    """A slot's queue that tells when a request leaves it.

    ``Downloader._process_queue`` takes requests out with ``popleft`` and starts each in a task of its own, which
    counts itself into ``slot.transferring`` only when the loop gets to it. Without this hook the loop empties the
    whole queue first, and a concurrency of 1 sends 16 at once.
    """

    def __init__(self, slot: PoliteSlot) -> None:
        super().__init__()
        self._slot = slot

    def popleft(self) -> Any:
        item = super().popleft()
        self._slot._dispatch(item[0])
        return item


class _Transfers(set[Any]):
    """A slot's running transfers, telling when one begins and ends.

    ``Downloader._download`` adds the request as the first thing it does, a turn of the loop after it left the queue. In
    a busy crawl that is tens of milliseconds, by which the next request would come too early at the site.
    ``Downloader._download`` removes the request here, success or not, just before it looks at the queue again: the
    only moment at which "the last answer has ended" can be noted before the next request goes out. The signals come
    too late (``request_left_downloader``) or not at all after an error (``response_downloaded``). The answer itself is
    read where ``_download`` has it, see :func:`tells_answers`: to be told it by a signal costs each page several times
    as much.
    """

    def __init__(self, slot: PoliteSlot) -> None:
        super().__init__()
        self._slot = slot

    def add(self, request: Any) -> None:
        set.add(self, request)
        if self._slot._delay:
            self._slot._begins()

    def remove(self, request: Any) -> None:
        try:
            set.remove(self, request)
        finally:  # also when one object was downloaded twice at a time, which the set holds once
            frame = sys._getframe(1)
            answer = frame.f_locals.get(_ANSWER) if frame.f_code is _DOWNLOAD_CODE else None
            self._slot._ended(request, answer)


class _Requests(set[Any]):
    """A slot's requests. ``Downloader._slot_gc`` throws away a slot that was idle for a minute if these are not true.

    In stock, requests that have to wait are in their slot and keep it, and with it the delay that AutoThrottle or the
    user gave it. Here they wait in the scheduler, and have to count all the same.
    """

    def __init__(self, gate: Gate, key: str) -> None:
        super().__init__()
        self._gate = gate
        self._key = key

    def __bool__(self) -> bool:
        return len(self) > 0 or self._gate.queued(self._key)


class PoliteSlot(Slot):
    """A download slot that asks the host's clock before every request.

    ``Downloader._process_queue`` decides with two calls on the slot, ``download_delay()`` and
    ``free_transfer_slots()``; both answer here from the clock of the host whose request is next. ``delay`` and
    ``concurrency`` stay what the user, ``DOWNLOAD_SLOTS`` or AutoThrottle last wrote, and read as what is kept: never
    less than what the site asked.
    """

    def __init__(self, plain: Slot, gate: Gate, key: str) -> None:
        self._gate = gate
        self._key = key
        self._drawn: float | None = None
        self._lastseen = 0.0
        self._running: dict[Any, tuple[HostClock | None, float]] = {}
        self._twice: list[tuple[Any, tuple[HostClock | None, float]]] = []  # of requests that are running already
        self._busy = 0  # requests taken out of the queue whose transfer has not ended
        self._delay = 0.0
        self._clocks: dict[str, HostClock] = {}
        self._head: tuple[Any, HostClock | None] | None = None
        if SLOT_HAS_JITTER:
            super().__init__(plain.concurrency, plain.delay, plain.jitter)
        else:
            super().__init__(plain.concurrency, plain.delay, plain.randomize_delay)  # type: ignore[arg-type]
        self.active = _Requests(gate, key)
        self.queue = _Queue(self)
        self.transferring = _Transfers(self)

    @property
    def delay(self) -> float:  # type: ignore[override]
        """Seconds between two requests: what was set here, or what the site asked for when that is more."""
        return max(self._delay, *(clock.asked_s for clock in self._clocks.values()), 0.0)

    @delay.setter
    def delay(self, value: float) -> None:
        if value and not self._delay and self._lastseen:
            self._began()  # when the last one was written was not noted without a delay: now, at the latest
        self._delay = value
        self._drawn = None
        self._gate.slot_changed(self._key)

    @property
    def concurrency(self) -> int:  # type: ignore[override]
        """Requests that may be sent at one time."""
        return self._concurrency

    @concurrency.setter
    def concurrency(self, value: int) -> None:
        self._concurrency = value
        self._gate.slot_changed(self._key)

    @property
    def lastseen(self) -> float:  # type: ignore[override]
        return self._lastseen

    @lastseen.setter
    def lastseen(self, value: float) -> None:
        self._lastseen = value
        self._drawn = None  # one draw of the jitter per request: the queue and the slot see the same one

    @property
    def user_delay_s(self) -> float:
        """The delay that the user or AutoThrottle set, seconds, without what the site asked."""
        return self._delay

    def _user_draw(self) -> float:
        if self._drawn is None:
            delay = self._delay
            if not delay:
                self._drawn = 0.0
            else:
                # Scrapy's own draw reads self.delay: give it the user's value, whatever the site asked.
                kept, self._clocks = self._clocks, {}
                try:
                    self._drawn = super().download_delay()
                finally:
                    self._clocks = kept
        return self._drawn

    def turn(self, clock: HostClock | None) -> float:
        """Seconds until the time allows a request of ``clock``'s host from this slot; 0.0 for now."""
        if clock is None:
            return max(self._user_draw() + self._lastseen - slot_now(), 0.0)
        wait = clock.wait_s(self._gate.now(), self._delay)
        if self._delay:
            # Between two hosts that share the slot the user's delay counts too; of one host it is within wait_s.
            paced = clock.asked_s > 0.0 or clock.throttled
            wait = max(wait, (self._delay if paced else self._user_draw()) + self._lastseen - slot_now())
        return wait if wait > 0.0 else 0.0

    def download_delay(self) -> float:
        if not self.queue:
            return 0.0
        self._head = None
        clock = self._head_clock()
        if not self._delay and (clock is None or not clock.paced):
            return 0.0
        wait = self.turn(clock)
        if wait > 0.0:
            return wait + (slot_now() - self._lastseen)
        # A delay that is not zero keeps the loop to one request at a time.
        return 1e-9 if self._delay or (clock is not None and clock.one_at_a_time) else 0.0

    def free_transfer_slots(self) -> int:
        free: int = self._concurrency - self._busy
        if free <= 0 or not self.queue:
            return free
        clock = self._head_clock()
        if clock is None or not clock.paced:
            return free
        if clock.busy():
            if clock.waiting is None:
                clock.waiting = set()
            clock.waiting.add(self)
            return 0
        return 0 if clock.wait_s(self._gate.now(), self._delay) > 0.0 else free

    def _head_clock(self) -> HostClock | None:
        """The clock of the request that is next; looked up once for each turn of ``Downloader._process_queue``."""
        request = self.queue[0][0]
        if self._head is None or self._head[0] is not request:
            self._head = (request, self._gate.clock_of(request))
        return self._head[1]

    def _dispatch(self, request: Request) -> None:
        head, self._head = self._head, None
        clock = head[1] if head is not None and head[0] is request else self._gate.clock_of(request)
        if clock is not None:
            if self._clocks.get(clock.host) is not clock:
                if len(self._clocks) >= _MOST_CLOCKS:
                    # A slot of the user's for very many hosts; only what ``delay`` reads as is lost.
                    self._clocks.clear()
                self._clocks[clock.host] = clock
            clock.began()
        self._busy += 1
        now = self._gate.now()
        if request in self._running:
            self._twice.append((request, (clock, now)))
        else:
            self._running[request] = (clock, now)
        counted = self._gate.dispatched(request, clock, now)
        # The time of the next one is known from here on, and a slot that a middleware moved the request from has room.
        if self._delay:
            self._gate.slot_changed(self._key)
        if counted is not None and counted != self._key:
            self._gate.slot_changed(counted)

    def _begins(self) -> None:
        """A request is about to be written."""
        self._began()
        # Only two turns of the loop later, which may be busy for long, have the octets left for certain.
        call_later(0, call_later, 0, self._began)

    def _began(self) -> None:
        self._lastseen = max(self._lastseen, slot_now())

    def _next_of(self, request: Request) -> None:
        """One object that is downloaded twice at a time ends twice."""
        for twice in self._twice:
            if twice[0] is request:
                self._twice.remove(twice)
                self._running[request] = twice[1]
                break

    def _ended(self, request: Request, answer: Response | None) -> None:
        clock, began_at = self._running.pop(request)
        if self._twice:
            self._next_of(request)
        self._busy -= 1
        now = self._gate.now()
        try:
            self._gate.transfer_ended(request, clock, now - began_at, answer)
        finally:  # whatever went wrong there, the host is free again
            if clock is not None:
                clock.ended(now)
                if clock.waiting:
                    waiting, clock.waiting = clock.waiting, None
                    for slot in waiting:
                        if slot is not self:  # the downloader looks at this one anyway
                            self._gate.look_again(slot)


class _Slots(dict[str, Slot]):
    """``Downloader.slots`` that turns every slot into a :class:`PoliteSlot`, whoever makes it and when.

    ``Downloader._get_slot`` stores a new slot and reads it back from here. Without: a slot that was collected and
    made anew would start with no memory of what the site asked.
    """

    def __init__(self, gate: Gate, slots: dict[str, Slot]) -> None:
        super().__init__()
        self._gate = gate
        for key, slot in slots.items():
            self[key] = slot

    def __setitem__(self, key: str, slot: Slot) -> None:
        super().__setitem__(key, slot if isinstance(slot, PoliteSlot) else PoliteSlot(slot, self._gate, key))


class _Active(set[Any]):
    """``Downloader.active`` that tells when a request comes in and when it has left, however it ended.

    ``Downloader.fetch`` adds and removes the request here in every case: response, error, dropped by a middleware,
    answered from a cache, sent back as another request. Without: the scheduler queue could not know what is still
    under way.
    """

    def __init__(self, items: Iterable[Any], gate: Gate) -> None:
        super().__init__(items)
        self._gate = gate

    def add(self, request: Any) -> None:
        set.add(self, request)
        self._gate.entered(request)

    def remove(self, request: Any) -> None:
        set.remove(self, request)
        self._gate.left(request)


class _Handlers(dict[str, Any]):
    """``DownloadHandlers._handlers`` in which no handler, whenever made, repeats a request that may not be repeated.

    Twisted's connection pool sends a request at once a second time when a kept connection breaks before the answer.
    Without: a site that asked for a delay or to be left alone would get two requests without a gap, or one more than
    the limit, that nobody here has seen. Scrapy's own retry, which waits for the host's turn, does the same later.
    Elsewhere the pool may: a server that closes kept connections without a word would cost retries. aiohttp's session
    does so too and cannot be asked for one request, so it never may.

    The pool also knows when a new connection is there, on which the request is then written, for https after the
    handshake. Opening one can take long; counted from before, the delay that the user set would be over too early at
    the site.
    """

    def __init__(self, handlers: dict[str, Any], gate: Gate, slots: dict[str, Slot]) -> None:
        super().__init__()
        self._gate = gate
        self._slots = slots
        self._pools: list[HTTPConnectionPool] = []
        for scheme, handler in handlers.items():
            self[scheme] = handler

    def __setitem__(self, scheme: str, handler: Any) -> None:
        pool = getattr(handler, "_pool", None)
        if isinstance(pool, HTTPConnectionPool):
            self._watch(pool)
        session: Any = getattr(handler, "_session", None)
        if hasattr(session, "_retry_connection"):
            session._retry_connection = False
        super().__setitem__(scheme, handler)

    def _watch(self, pool: HTTPConnectionPool) -> None:
        connect, code = getattr(pool, "_newConnection", None), getattr(pool.getConnection, "__code__", None)
        if pool in self._pools:
            return
        self._pools.append(pool)
        known = connect is not None and "_newConnection" not in vars(pool)
        if not known or code is None or code is not _GET_CONNECTION_CODE:
            pool.retryAutomatically = False
        if connect is None or not known:
            return

        def watched(key: Any, endpoint: Any) -> Deferred[Any]:
            host = _host_of_pool(key)
            # The pool asks for a connection in ``getConnection``; who else does has a request that it wants to repeat.
            repeats = pool.retryAutomatically and sys._getframe(1).f_code is not _GET_CONNECTION_CODE
            if repeats and not (host and self._gate.may_repeat(host)):
                return fail(_why_repeated())
            found: Deferred[Any] = connect(key, endpoint)
            return found.addCallback(self._connected, host)

        pool._newConnection = watched  # type: ignore[method-assign]

    def _connected(self, connection: Any, host: str) -> Any:
        """Note when a request can be written."""
        slot = self._slots.get(host)
        if isinstance(slot, PoliteSlot) and slot._delay and slot._busy:
            slot._begins()
        return connection


def _why_repeated() -> Any:
    """The failure on account of which a pool of Twisted's is about to repeat a request, read where the pool has it."""
    frame: Any = sys._getframe(1)
    for _ in range(3):  # the pool's errback calls a function that asks for the connection
        frame = frame.f_back
        reason = frame.f_locals.get("reason") if frame is not None else None
        if isinstance(reason, Failure):
            return reason
    return ResponseNeverReceived([Failure(ConnectionLost())])  # type: ignore[no-untyped-call]


def _host_of_pool(key: Any) -> str:
    """The host of a pool's key: (scheme, host, port), and more behind it for a tunnel.

    "" for a plain proxy, of which the site is not in the key.
    """
    return key[1].decode("latin-1") if key[0] in (b"http", b"https") and isinstance(key[1], bytes) else ""


def supports_slots(downloader_cls: type) -> bool:
    """Whether the downloader class keeps slots in the way that :func:`install_gate` needs."""
    return isinstance(downloader_cls, type) and issubclass(downloader_cls, Downloader)


def install_gate(downloader: Downloader, gate: Gate) -> None:
    """Put the host clocks before every transfer of ``downloader``, and tell ``gate`` what enters and leaves it."""
    if not isinstance(downloader.slots, _Slots):
        downloader.slots = _Slots(gate, downloader.slots)
        downloader.active = _Active(downloader.active, gate)
        downloader.handlers._handlers = _Handlers(downloader.handlers._handlers, gate, downloader.slots)


def tells_answers(downloader: Downloader) -> bool:
    """Whether ``transfer_ended`` is told the answer, so that nobody has to listen for ``response_downloaded``.

    Not where ``_download`` is another one than Scrapy's, of a subclass or put in its place: the answer may be kept
    elsewhere then.
    """
    code: Any = getattr(type(downloader)._download, "__code__", None)
    return (
        code is not None
        and code is _DOWNLOAD_CODE
        and code.co_filename == _downloader_module.__file__
        and _ANSWER in code.co_varnames
        and "_download" not in vars(downloader)
    )


def stored_queues(settings: BaseSettings) -> Any:
    """What the scheduler kept of a stopped job's queues: a dict by slot, a list of priorities, None without a job.

    As ``Scheduler`` writes it; without, a job that cannot be resumed is only found when the scheduler opens it.
    """
    folder = settings["JOBDIR"]
    try:
        return json.loads((Path(folder) / "requests.queue" / "active.json").read_text()) if folder else None
    except (OSError, ValueError):
        return None  # none, or one that the scheduler will complain about


def slot_key(downloader: Downloader, request: Request) -> str:
    """The name of the slot that the request goes to."""
    return downloader.get_slot_key(request)


def names_slots_by_host(downloader: Downloader) -> bool:
    """Whether a request that names no slot goes to the one of its URL's host name; a subclass may have it otherwise."""
    return type(downloader).get_slot_key is Downloader.get_slot_key and not downloader.ip_concurrency


def default_slot_key(downloader: Downloader, request: Request) -> str:
    """The slot name that Scrapy would choose, leaving aside one that is set on the request."""
    meta_slot = request.meta.pop(Downloader.DOWNLOAD_SLOT, None)
    try:
        return downloader.get_slot_key(request)
    finally:
        if meta_slot is not None:
            request.meta[Downloader.DOWNLOAD_SLOT] = meta_slot


def slot_limit(downloader: Downloader, key: str) -> int:
    """How many requests a slot may have under way: of the slot, or as it will be made."""
    slot = downloader.slots.get(key)
    if slot is not None:
        return slot.concurrency
    settings = downloader.per_slot_settings.get(key)
    default = downloader.ip_concurrency or downloader.domain_concurrency
    return int(settings.get("concurrency", default)) if settings else default


def watch_fetch(downloader: Downloader, ended: Callable[[Request, Any], None]) -> None:
    """Call ``ended(request, result)`` for each request that leaves the downloader: Response, Request or Failure.

    ``Downloader.fetch`` is the one place that sees every end. Without: an exception that a ``process_response`` raises
    is seen by no downloader middleware, and the request would end without an outcome.
    """
    fetch = downloader.fetch

    def tell(result: Any, request: Request) -> Any:
        ended(request, result)
        return _without_frames(result) if isinstance(result, Failure) else result

    def watched(request: Request, *args: Any) -> Deferred[Any]:
        return fetch(request, *args).addBoth(tell, request)

    downloader.fetch = watched  # type: ignore[method-assign, assignment]


def _without_frames(failure: Failure) -> Failure:
    """An outcome of ours without the way it took through the code.

    The scraper logs a failure that no errback took together with its frames. Without: an ordinary end, such as a site
    that redirects in a circle, would look like a crash in this package.
    """
    if not isinstance(failure.value, Outcome):
        return failure
    return Failure(failure.value.with_traceback(None))  # type: ignore[no-untyped-call]


def slot_delay(downloader: Downloader, key: str) -> float:
    """The delay that the user or AutoThrottle set for a slot, seconds: of the slot, or as it will be made.

    Without: a slot that does not exist yet would look as if it had no delay, and several requests would be handed out
    for it at once.
    """
    slot = downloader.slots.get(key)
    if slot is not None:
        return slot.user_delay_s if isinstance(slot, PoliteSlot) else slot.delay
    settings = downloader.per_slot_settings.get(key)
    if settings and "delay" in settings:
        return float(settings["delay"])
    default = getattr(downloader, "_delay", None)
    if default is None:  # older versions keep it on the spider
        default = getattr(downloader.crawler.spider, "download_delay", None)
    return downloader.settings.getfloat("DOWNLOAD_DELAY") if default is None else float(default)


def slot_turn(downloader: Downloader, key: str, clock: HostClock | None, now: float) -> float:
    """Seconds until the time allows a request of ``clock``'s host from the slot; 0.0 for now."""
    slot = downloader.slots.get(key)
    if isinstance(slot, PoliteSlot):
        return slot.turn(clock)
    return 0.0 if clock is None else clock.wait_s(now, slot_delay(downloader, key))


def slot_wait(
    downloader: Downloader, key: str, clock: HostClock | None, now: float, under_way: int, unsent: int
) -> float | None:
    """Seconds until the slot may have one more request, of ``clock``'s host; None: not before something of it ends.

    ``under_way`` requests are in the slot or on their way there, ``unsent`` of them have not been dispatched: with a
    delay, the next time is known only when the one before has gone out.
    """
    slot = downloader.slots.get(key)
    if isinstance(slot, PoliteSlot):
        if under_way >= slot._concurrency or (unsent and slot._delay):
            return None
        return 0.0 if not slot._delay and (clock is None or not clock.paced) else slot.turn(clock)
    if under_way >= slot_limit(downloader, key) or (unsent and slot_delay(downloader, key)):
        return None
    return slot_turn(downloader, key, clock, now)


class QueueOwner(Protocol):
    """What the queues of all slots have in common: the scheduler queue that they belong to."""

    crawler: Crawler
    downstream_queue_cls: type[QueueProtocol]
    start_queue_cls: type[QueueProtocol] | None
    key: str


class LeanPriorityQueue(ScrapyPriorityQueue):
    """A ``ScrapyPriorityQueue`` that keeps only what is its own.

    The rest is with its ``owner``; the name of its folder is made from ``slot`` when it is needed.
    Without: 100,000 slots would need more memory than in the stock queue, mostly for what is the same in all of them.
    """

    __slots__ = ("_start_queues", "curprio", "owner", "queues", "slot")

    _start_queues: dict[int, QueueProtocol]
    curprio: int | None
    queues: dict[int, QueueProtocol]

    def __init__(self, owner: QueueOwner, slot: str, startprios: Iterable[int] = ()) -> None:
        self.owner = owner
        self.slot = slot
        self.queues = {}
        self._start_queues = {}
        self.curprio = None
        if startprios:
            self.init_prios(startprios)

    def __bool__(self) -> bool:
        return any(self.queues.values()) or any(self._start_queues.values())

    def init_prios(self, startprios: Iterable[int]) -> None:
        """Take up what an earlier run left. Older versions leave the files of empty queues open, and there."""
        for priority in startprios:
            self._take_up(self.queues, priority, self.qfactory)
            if self.owner.start_queue_cls:
                self._take_up(self._start_queues, priority, self._sqfactory)
        self._update_curprio()

    @staticmethod
    def _take_up(queues: dict[int, QueueProtocol], priority: int, make: Callable[[int], QueueProtocol]) -> None:
        queue = make(priority)
        if queue:
            queues[priority] = queue
        else:
            queue.close()

    @property
    def crawler(self) -> Crawler:  # type: ignore[override]
        return self.owner.crawler

    @property
    def downstream_queue_cls(self) -> type[QueueProtocol]:  # type: ignore[override]
        return self.owner.downstream_queue_cls

    @property
    def _start_queue_cls(self) -> type[QueueProtocol] | None:  # type: ignore[override]
        return self.owner.start_queue_cls

    @property
    def key(self) -> str:  # type: ignore[override]
        """As the stock queue names it; a queue in memory has no folder to name."""
        return f"{self.owner.key}/{path_safe(self.slot)}" if self.owner.key else ""


def next_of(queue: ScrapyPriorityQueue) -> Request | None:
    """The request that ``queue.pop()`` would give, left in the queue; None when it is empty.

    ``ScrapyPriorityQueue.peek`` prefers start requests where ``pop`` prefers the others, and fails on a priority that
    has run dry. Without: a slot shared by several hosts would ask the clock of the wrong one. Raises
    NotImplementedError where the queue class cannot peek.
    """
    for attempt in range(2):
        priority = queue.curprio
        if priority is None:
            return None
        for queues in (queue.queues, queue._start_queues):
            if queues.get(priority):
                peek = getattr(queues[priority], "peek", None)
                if peek is None:
                    raise NotImplementedError(f"{type(queues[priority]).__name__} cannot peek")
                try:
                    return cast("Request", peek())
                finally:
                    _to_end(queues[priority])
        if not attempt:
            queue._update_curprio()
    return None


def _to_end(stored: object) -> None:
    """Put a disk queue back to where it writes.

    ``LifoDiskQueue.peek`` of queuelib leaves its file before the length of the last record, and ``push`` writes where
    the file stands. Without: the next request would be written over that length, and every one before it be lost.
    """
    if isinstance(stored, LifoDiskQueue):
        stored.f.seek(0, os.SEEK_END)


def process_queue(downloader: Downloader, slot: Slot) -> None:
    """Let a slot look at its queue again. Without: a slot that waited for another slot's request would sleep on."""
    downloader._process_queue(slot)


def fail_queued(
    downloader: Downloader, matches: Callable[[Request], bool], error: Callable[[Request], Exception]
) -> int:
    """End the requests that wait in slot queues and match, with an error each; how many there were.

    Without: requests of a host that was given up would sit in the downloader until its time, for days.
    """
    failed = 0
    for slot in list(downloader.slots.values()):
        gone = [item for item in slot.queue if matches(item[0])]
        for item in gone:
            slot.queue.remove(item)
        for request, waiting in gone:
            failed += 1
            waiting.errback(Failure(error(request)))  # type: ignore[no-untyped-call]
        if gone:
            slot.close()  # its timer was for a request that is gone; another host's may be next
            downloader._process_queue(slot)
    return failed


def transfer_error() -> BaseException | None:
    """The error with which the transfer ends that is ending right now, None when it ends with an answer.

    For use where a slot notices the end: ``Downloader._download`` does that in a ``finally``. Without: an error that
    nobody retries could not be told from one that is retried, before the slot's next request has gone out.
    """
    return sys.exc_info()[1]


def retry_exceptions(settings: BaseSettings) -> tuple[type[BaseException], ...]:
    """``RETRY_EXCEPTIONS``: the classes, given as such or as paths."""
    return tuple(load_object(one) if isinstance(one, str) else one for one in settings.getlist("RETRY_EXCEPTIONS"))


async def download_now(downloader: Downloader, request: Request) -> Response:
    """Fetch from the network what would go there next, in its download slot and in its turn.

    For use in the last ``process_request``. Without: what the network answered could be told from what a middleware
    made of it only by looking at every answer.
    """
    return await downloader._enqueue_request(request)


async def pass_middlewares(downloader: Downloader, request: Request) -> None:
    """Let every ``process_request`` act on the request (a proxy, a header), whatever any of them answers.

    The last of them fetches it, see :func:`download_now`. Without: a cache that ignores ``dont_cache`` would decide
    what a site permits today.
    """
    manager = downloader.middleware
    downloader.active.add(request)  # as ``Downloader.fetch`` does: who asks when it went out finds it there
    try:
        for method in manager.methods["process_request"]:
            assert method is not None
            await ensure_awaitable(
                manager._handle_mw_method(method, request=request)
                if hasattr(manager, "_handle_mw_method")
                else _call_with_spider(manager, method, request)
            )
    finally:
        downloader.active.remove(request)


def _call_with_spider(manager: Any, method: Callable[..., Any], request: Request) -> Any:
    if method in getattr(manager, "_mw_methods_requiring_spider", ()):
        return method(request=request, spider=manager._spider)
    return method(request=request)


def schedule(coro: Coroutine[Any, Any, Any]) -> Deferred[Any]:
    """Run a coroutine on its own, on whichever loop there is, and give its result as a Deferred."""
    if is_asyncio_available():
        return Deferred.fromFuture(asyncio.ensure_future(coro))
    return Deferred.fromCoroutine(coro)


async def sleep(seconds: float) -> None:
    """Wait without blocking, on whichever loop there is."""
    waiting: Deferred[None] = Deferred()
    later = call_later(seconds, waiting.callback, None)
    try:
        await maybe_deferred_to_future(waiting)
    finally:
        later.cancel()


def later(seconds: float, function: Callable[..., object], *args: Any) -> CallLaterResult:
    """Call after ``seconds``, on whichever loop there is; the result can be cancelled."""
    return call_later(seconds, function, *args)


def wake_engine(crawler: Crawler) -> None:
    """Let the engine ask the scheduler again now. Without: it would at its next heartbeat, up to 5 s late."""
    engine = crawler.engine
    slot = getattr(engine, "_slot", None)
    if slot is not None:
        slot.nextcall.schedule()


#: So long, seconds, start requests are taken one after the other before the loop turns again.
_AT_ONCE_S = 0.003


def hasten_start(crawler: Crawler, all_must_wait: Callable[[], bool]) -> None:
    """Let the engine take the next start request at once while nothing can be sent. A second call changes nothing.

    ``ExecutionEngine._start_request_processing`` has the loop turn after each start request, so that it can be sent,
    unless ``CONCURRENT_REQUESTS`` are in the downloader. A queue that hands out no more than a host may have at a time
    seldom fills it. Without: each start request of a host that is at its limit would cost two turns of the loop, for a
    question to the scheduler that has nothing to give.
    """
    nextcall = getattr(getattr(crawler.engine, "_slot", None), "nextcall", None)
    wait = getattr(nextcall, "wait", None)
    if wait is None or "wait" in vars(nextcall):
        return
    turned = time.monotonic()

    async def watched() -> None:
        nonlocal turned
        if time.monotonic() - turned > _AT_ONCE_S or not all_must_wait():
            await wait()
            turned = time.monotonic()

    nextcall.wait = watched  # type: ignore[union-attr]


def close_spider(crawler: Crawler, reason: str) -> None:
    """Begin to close the spider."""
    schedule(crawler.engine.close_spider_async(reason=reason))


def handlers_time_bodies(settings: BaseSettings) -> bool:
    """Whether the download handlers for http and https are such that their timeout covers the body.

    A handler that is not Scrapy's own is taken for one that may not.
    """
    return _handlers_are_of(settings, _TIMED_HANDLERS)


def handlers_know_head(settings: BaseSettings) -> bool:
    """Whether the handlers for http and https know that the answer to HEAD has no body, whatever it declares."""
    return _handlers_are_of(settings, _HEAD_HANDLERS)


def _handlers_are_of(settings: BaseSettings, modules: tuple[str, ...]) -> bool:
    handlers = settings.getwithbase("DOWNLOAD_HANDLERS")
    ours = "scrapy.core.downloader.handlers."
    for scheme in ("http", "https"):
        handler = handlers.get(scheme)
        if handler is None:
            continue
        try:
            cls = load_object(handler)
        except Exception:
            continue  # nothing is fetched by it: Scrapy says so to the first request of its scheme
        if not f"{cls.__module__}.".startswith(tuple(ours + name for name in modules)):
            return False
    return True


def answers_are_of_what_was_asked(settings: BaseSettings) -> bool:
    """Whether nothing in the crawl can follow a redirect by itself and answer for another URL than was asked for.

    A download handler, a downloader and a downloader middleware that are neither Scrapy's own nor ours are taken for
    ones that can.
    """
    own = (f"{cls.__module__}." for cls in _answering(settings))
    return _handlers_are_of(settings, _PLAIN_HANDLERS) and all(
        module.startswith(("scrapy.", "scrapy_scour.")) for module in own
    )


def _answering(settings: BaseSettings) -> Iterator[type]:
    yield load_object(settings["DOWNLOADER"])
    for component, _ in enabled_components(settings, "DOWNLOADER_MIDDLEWARES"):
        yield load_object(component)


def handlers_send_as_written(settings: BaseSettings) -> bool:
    """Whether the download handlers for http and https put the path of a URL on the wire as it stands.

    Those over Twisted do; aiohttp and httpx resolve dot segments. Without: a path that robots.txt refuses would be sent
    for another spelling of it that it allows.
    """
    handlers = settings.getwithbase("DOWNLOAD_HANDLERS")
    for scheme in ("http", "https"):
        try:
            cls = load_object(handlers[scheme])
        except Exception:
            continue  # nothing is fetched by it
        if not cls.__module__.startswith(
            ("scrapy.core.downloader.handlers.http11", "scrapy.core.downloader.handlers.http2")
        ):
            return False
    return True


def is_closing(crawler: Crawler) -> bool:
    """Whether the engine has begun to close the spider."""
    slot = getattr(crawler.engine, "_slot", None)
    return slot is None or slot.closing is not None


def fail_start(crawler: Crawler) -> None:
    """Make sure that a crawl which is refused at start ends with an exit code that is not 0.

    ``CrawlerRunner`` takes a crawler that has a spider for one that started. Without: on older versions the command
    would report success.
    """
    crawler.spider = None


def enabled_components(settings: BaseSettings, name: str) -> list[tuple[Any, int]]:
    """The enabled components of ``DOWNLOADER_MIDDLEWARES``, ``EXTENSIONS``, ... with their positions, in order."""
    # The newer name also drops the same component given as a class and as a path.
    merge = getattr(settings, "get_component_priority_dict_with_base", settings.getwithbase)
    merged = merge(name)
    return [(component, int(merged[component])) for component in build_component_list(merged)]


def watch_scheduling(crawler: Crawler, dropped: Callable[[Request], None]) -> None:
    """Call ``dropped(request)`` for each request that a handler of ``request_scheduled`` keeps from the scheduler.

    ``ExecutionEngine._schedule_request`` tells nobody. Without: what somebody else's component drops there would end
    without an outcome.
    """
    engine = crawler.engine
    slot = getattr(engine, "_slot", None)
    if slot is None:
        return
    schedule, enqueue = engine._schedule_request, slot.scheduler.enqueue_request
    reached = False

    def watched_enqueue(request: Request) -> bool:
        nonlocal reached
        reached = True
        return cast("bool", enqueue(request))

    def watched_schedule(request: Request) -> None:
        nonlocal reached
        reached = False
        schedule(request)
        if not reached:
            dropped(request)

    slot.scheduler.enqueue_request = watched_enqueue
    engine._schedule_request = watched_schedule  # type: ignore[method-assign]


def middlewares(crawler: Crawler) -> tuple[Any, ...]:
    """The downloader middlewares of the crawl. Without: an outcome could not say whose decision it was."""
    return tuple(getattr(crawler.engine.downloader.middleware, "middlewares", ()))


def left_in_memory(crawler: Crawler) -> Iterator[Request]:
    """The requests that the closed scheduler still has in memory, taken out of it: nobody will ask for them any more.

    ``Scheduler.close`` keeps what is on disk and says nothing of ``mqs``. Without: what waited when a crawl was stopped
    would end without an outcome. A scheduler of another kind is left alone.
    """
    queue = getattr(getattr(getattr(crawler.engine, "_slot", None), "scheduler", None), "mqs", None)
    by_slot = getattr(queue, "pqueues", None)
    for one in [queue] if by_slot is None else list(by_slot.values()):
        while one is not None and (request := one.pop()) is not None:
            yield request


def status_of_headers() -> int | None:
    """In a handler of ``headers_received``: the status that the headers belong to, None when it cannot be told.

    The signal does not say, and a 429 must not be cut off for its media type. Each of Scrapy's HTTP handlers has it in
    the function that sends the signal. Without: content types would be checked when the whole body has arrived.
    """
    frame = sys._getframe(1)
    for _ in range(12):
        if frame is None:
            break
        seen = frame.f_locals
        for status in (
            getattr(seen.get("txresponse"), "code", None),  # HTTP/1.1
            (seen.get("make_response_base_args") or {}).get("status"),  # httpx, aiohttp
            (getattr(seen.get("self"), "_response", None) or {}).get("status")  # HTTP/2
            if frame.f_code.co_name == "receive_headers"
            else None,
        ):
            if isinstance(status, int):
                return status
        frame = frame.f_back  # type: ignore[assignment]
    return None


async def transfer_by(
    downloader: Downloader, request: Request, transfer: Callable[[], Coroutine[Any, Any, Response]]
) -> None:
    """Run ``transfer`` in place of the request's download, when it is its turn in its download slot.

    It takes its place among the slot's requests and in ``CONCURRENT_REQUESTS``, outside all middlewares; who listens to
    the downloader sees the response that it gives. ``Downloader._enqueue_request`` and the handlers' one entrance are
    private. Without: what an external provider fetches would not share the host's clock with ordinary requests.
    """
    handlers = downloader.handlers
    transfers: dict[Request, Callable[[], Coroutine[Any, Any, Response]]] | None = getattr(
        handlers, "_scour_transfers", None
    )
    if transfers is None:
        transfers = {}
        handlers._scour_transfers = transfers  # type: ignore[attr-defined]
        download = handlers.download_request_async

        async def download_or_transfer(request: Request) -> Response:
            mine = transfers.pop(request, None)
            return await (download(request) if mine is None else mine())

        handlers.download_request_async = download_or_transfer  # type: ignore[method-assign]
    transfers[request] = transfer
    downloader.active.add(request)
    try:
        await downloader._enqueue_request(request)
    finally:
        downloader.active.remove(request)
        if transfers.pop(request, None) is not None:  # given up before its turn: it must not become a download now
            fail_queued(downloader, lambda queued: queued is request, lambda _: CancelledError())
