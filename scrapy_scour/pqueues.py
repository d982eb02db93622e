"""The scheduler's queue that knows which hosts may be asked now.

One queue per download slot. Slots that may be asked are in a heap by least under way, then longest without a turn;
slots that the time keeps back are in another by the time at which they may; slots at their limit are in none until
something of theirs ends. So a request whose host has to wait is never handed out, takes no place in
``CONCURRENT_REQUESTS``, and nothing ever looks at all slots. The times and limits are read from the host clocks and
download slots when a slot comes to the top, never remembered beyond that: what has changed in between counts.

A slot that several hosts share (named by the user) is asked by the clock of the request that would come next; its
other hosts wait behind it. Where the queue class cannot peek, the slot's own delay decides alone, and the download
slot, which is exact whatever this queue does, keeps the rest.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import signals

from scrapy_scour import compat
from scrapy_scour.job import job_of
from scrapy_scour.stores.slot_hosts import SlotHosts

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.pqueues import QueueProtocol
    from scrapy.utils.asyncio import CallLaterResult
    from typing_extensions import Self

    from scrapy_scour.stores.pace import HostClock
    from scrapy_scour.stores.under_way import SlotLoad

#: A wait is never shorter, seconds: keeps rounding from turning a wait into a loop.
SHORTEST_WAIT_S = 0.0005
#: The timer never sleeps longer, seconds: some event loops cannot, and asking once an hour costs nothing.
LONGEST_SLEEP_S = 3600.0
#: While the engine is paused it does not ask; it is looked for so often, seconds, when a slot might be asked.
PAUSED_LOOK_S = 0.25
#: After so long, seconds, and not before, what was handed out and is not in the downloader is taken for lost.
LOST_AFTER_S = 0.2
#: Entries that are no longer true and that a heap may hold before it is rebuilt, beyond as many as there are slots.
SPARE_ENTRIES = 64

#: Ready slots are ordered by one number, requests under way times this plus the turn: turns stay below it.
_TURNS = 2.0**40
_FULL, _READY, _WAITING = 0, 1, 2

_Entry = tuple[float, "_SlotQueue"]


class _SlotQueue(compat.LeanPriorityQueue):
    """The requests of one download slot, by priority, and where the slot stands.

    ``host``: whose clock decides, None when only the next request can tell. ``turn``: number of the last turn it had,
    or of its arrival. ``entry``: the one heap entry that is true for it, None when it is in no heap.
    """

    __slots__ = ("entry", "host", "state", "turn")

    def __init__(self, owner: PolitePriorityQueue, slot: str, startprios: Iterable[int] = ()) -> None:
        self.host: str | None = None
        self.state = _FULL
        self.turn = 0.0
        self.entry: _Entry | None = None
        super().__init__(owner, slot, startprios)

    def __lt__(self, other: _SlotQueue) -> bool:
        """Between two entries of one heap with the same number: who has waited longer."""
        return self.turn < other.turn


class PolitePriorityQueue:
    """Drop-in for ``scrapy.pqueues.DownloaderAwarePriorityQueue``: same constructor, same files, same state.

    ``asleep``: requests wait here, the last :meth:`pop` gave none, and nothing was heard since that changes it (that a
    time has come is heard when the loop turns).
    """

    @classmethod
    def from_crawler(
        cls,
        crawler: Crawler,
        downstream_queue_cls: type[QueueProtocol],
        key: str,
        startprios: dict[str, Iterable[int]] | None = None,
        *,
        start_queue_cls: type[QueueProtocol] | None = None,
    ) -> Self:
        return cls(crawler, downstream_queue_cls, key, startprios, start_queue_cls=start_queue_cls)

    def __init__(
        self,
        crawler: Crawler,
        downstream_queue_cls: type[QueueProtocol],
        key: str,
        slot_startprios: dict[str, Iterable[int]] | None = None,
        *,
        start_queue_cls: type[QueueProtocol] | None = None,
    ) -> None:
        """``key`` is the folder of a disk queue, "" in memory; ``slot_startprios`` what ``close()`` returned.

        Raises ValueError for limits per address, for the state of another kind of queue and for a downloader without
        download slots.
        """
        if crawler.settings.getint("CONCURRENT_REQUESTS_PER_IP") != 0:
            raise ValueError(
                f'"{type(self).__name__}" does not support CONCURRENT_REQUESTS_PER_IP: it keeps its limits per host'
            )
        if slot_startprios and not isinstance(slot_startprios, dict):
            raise ValueError(
                f'"{type(self).__name__}" cannot resume this job: it was stopped with a scheduler queue that keeps its '
                f"requests by priority only ({type(slot_startprios).__name__} state). Resume it with the "
                "SCHEDULER_PRIORITY_QUEUE it was started with, or start a new JOBDIR"
            )
        downloader = crawler.engine.downloader
        if not compat.supports_slots(type(downloader)):
            raise ValueError(
                f'"{type(self).__name__}" needs Scrapy\'s own downloader or a subclass, DOWNLOADER is '
                f"{type(downloader).__name__}"
            )
        self.crawler = crawler
        self._engine = crawler.engine
        self.downstream_queue_cls = downstream_queue_cls
        self.key = key
        self.pqueues: dict[str, _SlotQueue] = {}
        self.start_queue_cls = start_queue_cls
        self._downloader = downloader
        self._job = job = job_of(crawler)
        job.install_gate()
        self._load = job.under_way
        self._count = 0
        self._turns = 0.0
        self._ready: list[_Entry] = []
        self._waiting: list[_Entry] = []
        self._shared: dict[_SlotQueue, SlotHosts] = {}  # slots whose requests are, or may be, of several hosts
        self._watchers: dict[str, set[_SlotQueue]] = {}  # by host: slots of another name that its clock decides
        self.asleep = False
        self._timer: CallLaterResult | None = None
        self._timer_at = 0.0
        self._lost_timer: CallLaterResult | None = None
        self._missing: set[Request] = set()  # handed out and not in the downloader when that was last looked at
        for slot, startprios in (slot_startprios or {}).items():
            self._resume(slot, startprios)
        job.queues.append(self)
        compat.hasten_start(crawler, job.all_must_wait)
        job.on_left.append(self._left)
        job.on_slot_changed.append(self._slot_changed)
        job.on_answered.append(self._answered)
        job.pace.listeners.append(self._clock_changed)
        # The scheduler closes its disk queue, but never the one in memory.
        crawler.signals.connect(self._spider_closed, signal=signals.spider_closed)

    # What the scheduler uses

    def push(self, request: Request) -> None:
        """Take a request. Raises ValueError, and keeps nothing, for one that the queue class cannot store."""
        if request in self._load and request not in self._downloader.active:
            self._job.left(request)  # a scheduler that took it out and did not let it go
        slot, host = self._job.place_of(request)
        queue = self.pqueues.get(slot)
        if queue is None:
            queue = _SlotQueue(self, slot)
            try:
                queue.push(request)
            except BaseException:
                self._discard(queue)
                raise
            self._count += 1
            self._decided_by(queue, slot if host == slot else host)  # one string, not two
            self._add(queue)
        else:
            queue.push(request)
            self._count += 1
            hosts = self._shared.get(queue)
            if hosts is None and queue.host != host:
                hosts = self._shared[queue] = SlotHosts(host=queue.host or "", count=len(queue) - 1)
            if hosts is not None:
                hosts.came(host)
                self._decided_by(queue, None)
                self._reconsider(queue)
        if self.asleep and queue.state == _READY:
            self._look_again()

    def pop(self) -> Request | None:
        """The next request whose host may be asked now; None when there is none: the engine is woken in time."""
        queue = self._first()
        if queue is None:
            self.asleep = self._count > 0
            self._set_timer()
            return None
        self.asleep = False
        before = len(queue) if self.key else None
        try:
            request = queue.pop()
        except Exception:  # a stored request that cannot be read any more; it is gone, as in stock, the others are not
            self._recount(queue, before)
            raise
        if request is None:  # a queue class that lost what it said it has
            self._recount(queue, before)
            return None
        left = bool(queue)
        self._count -= 1
        hosts = self._shared.get(queue)
        host = self._job.host_of(request) if hosts is not None or queue.host is None else queue.host
        place = self._load.enter(request, queue.slot, host, from_queue=True)
        if left:
            if hosts is not None:
                hosts.went(host)
                self._decided_by(queue, None)
            self._turns += 1.0
            queue.turn = self._turns
            # Its new place is looked up when it comes to the top again.
            queue.entry = (place.load.count * _TURNS + queue.turn, queue)
            heapq.heapreplace(self._ready, queue.entry)
        else:
            heapq.heappop(self._ready)
            self._remove(queue)
        return request

    def peek(self) -> Request | None:
        """What :meth:`pop` would return now, left in the queue.

        Raises NotImplementedError where the queue class cannot peek.
        """
        queue = self._first()
        return None if queue is None else compat.next_of(queue)

    def close(self) -> dict[str, list[int]]:
        """Close all files; the slots and their priorities, for whoever resumes the job: this queue or the stock one."""
        self._cancel_timers()
        state = {slot: queue.close() for slot, queue in self.pqueues.items()}
        for parts in (self.pqueues, self._ready, self._waiting, self._shared, self._watchers):
            parts.clear()
        self._count = 0
        self.asleep = False
        job = self._job
        with suppress(ValueError):  # closed before
            job.queues.remove(self)
            job.on_left.remove(self._left)
            job.on_slot_changed.remove(self._slot_changed)
            job.on_answered.remove(self._answered)
            job.pace.listeners.remove(self._clock_changed)
        return state

    def __len__(self) -> int:
        return self._count

    def __contains__(self, slot: object) -> bool:
        return slot in self.pqueues

    def queued(self, slot: str) -> int:
        """How many requests wait here for the slot."""
        queue = self.pqueues.get(slot)
        return 0 if queue is None else len(queue)

    def decided_by(self, slot: str) -> str:
        """The host whose clock decides for the slot, "" while that is not known."""
        queue = self.pqueues.get(slot)
        return "" if queue is None or not queue.host else queue.host

    def several_in(self, slot: str) -> bool:
        """Whether the slot's requests were seen to be of several hosts, see ``stores.slot_hosts``."""
        queue = self.pqueues.get(slot)
        hosts = None if queue is None else self._shared.get(queue)
        return hosts is not None and hosts.several

    # Slots come and go

    def _resume(self, slot: str, startprios: Iterable[int]) -> None:
        queue = _SlotQueue(self, slot, startprios)
        size = len(queue)
        if not size:
            self._discard(queue)
            return
        self._count += size
        self._shared[queue] = SlotHosts(unknown=size)  # only the requests know their hosts, and they are on disk
        self._add(queue)

    def _add(self, queue: _SlotQueue) -> None:
        self.pqueues[queue.slot] = queue
        self._turns += 1.0
        queue.turn = self._turns
        self._make_ready(queue)
        self._tell(queue)

    def _remove(self, queue: _SlotQueue) -> None:
        """Leave nothing behind of a slot that has run dry."""
        del self.pqueues[queue.slot]
        queue.entry = None
        self._decided_by(queue, queue.slot)
        self._shared.pop(queue, None)
        self._discard(queue)
        self._trim(self._ready)
        self._trim(self._waiting)
        self._tell(queue)

    def _tell(self, queue: _SlotQueue) -> None:
        for listener in self._job.on_queued:
            listener(self, queue.slot)

    def _discard(self, queue: _SlotQueue) -> None:
        queue.close()
        if self.key:
            with suppress(OSError):  # not empty: files that the queue class keeps
                Path(queue.key).rmdir()

    def _recount(self, queue: _SlotQueue, before: int | None) -> None:
        """Count what a slot has after it gave nothing; None for a queue in memory, where that does not happen."""
        if before is None:
            self._count = sum(map(len, self.pqueues.values()))
        else:
            self._count += len(queue) - before
        if not len(queue):
            heapq.heappop(self._ready)
            self._remove(queue)
        elif queue in self._shared:
            self._shared[queue] = SlotHosts(unknown=len(queue))
            self._decided_by(queue, None)

    def _decided_by(self, queue: _SlotQueue, host: str | None) -> None:
        """Note whose clock decides for the slot, so that the clock's changes find it."""
        before = queue.host
        if before is not None and before != queue.slot and before != host:
            watchers = self._watchers[before]
            watchers.discard(queue)
            if not watchers:
                del self._watchers[before]
        if host is not None and host != queue.slot and host != before:
            self._watchers.setdefault(host, set()).add(queue)
        queue.host = host

    # Where a slot stands

    def _first(self) -> _SlotQueue | None:
        """The slot to be asked now, left on top of the heap of those that may be."""
        now = self._job.now()
        waiting = self._waiting
        while waiting and waiting[0][0] <= now:
            entry = heapq.heappop(waiting)
            if entry[1].entry is entry:
                self._make_ready(entry[1])
        ready = self._ready
        loads = self._load.loads
        while ready:
            entry = ready[0]
            queue = entry[1]
            if queue.entry is not entry:
                heapq.heappop(ready)
                continue
            load = loads.get(queue.slot)
            wait = self._wait_s(queue, load, now)
            if wait == 0.0:
                rank = queue.turn if load is None else load.count * _TURNS + queue.turn
                if rank == entry[0]:
                    return queue
                queue.entry = (rank, queue)
                heapq.heapreplace(ready, queue.entry)
                continue
            heapq.heappop(ready)
            if wait is None:
                queue.state = _FULL
                queue.entry = None
                if self._lost_timer is None:
                    self._lost_timer = compat.later(LOST_AFTER_S, self._count_out_lost)
            else:
                queue.state = _WAITING
                queue.entry = (now + max(wait, SHORTEST_WAIT_S), queue)
                heapq.heappush(waiting, queue.entry)
                self._trim(waiting)
        return None

    def _wait_s(self, queue: _SlotQueue, load: SlotLoad | None, now: float) -> float | None:
        """Seconds until the slot's next request may be handed out; None: not before something else ends."""
        host = queue.host
        if host is None:
            host = self._next_host(queue)
        pace = self._job.pace
        clock = pace.known(host) if host else None
        if clock is not None:
            if clock.given_up_until > now:
                return 0.0  # it will fail at once, and it should
            if clock.one_at_a_time and (clock.in_flight or host in self._load.hosts):
                return None
        elif pace.throttled and host in self._load.hosts:
            return None  # no clock yet, but it will be one that is asked one at a time
        count, unsent = (0, 0) if load is None else (load.count, load.unsent)
        return compat.slot_wait(self._downloader, queue.slot, clock, now, count, unsent)

    def _next_host(self, queue: _SlotQueue) -> str:
        """The host of the slot's next request, "" when that cannot be seen before it is taken out."""
        try:
            request = compat.next_of(queue)
        except Exception:  # no peek, or a stored request that cannot be read: pop will tell
            self._shared[queue].next_is(None)
            return ""
        host = "" if request is None else self._job.host_of(request)
        self._decided_by(queue, host)
        if request is not None:
            self._shared[queue].next_is(host)
        self._tell(queue)
        return host

    def _rank(self, queue: _SlotQueue) -> float:
        """Its place among slots that may be asked: the least under way first, then the longest without a turn."""
        load = self._load.loads.get(queue.slot)
        return queue.turn if load is None else load.count * _TURNS + queue.turn

    def _make_ready(self, queue: _SlotQueue) -> None:
        """Put the slot where :meth:`_first` will look at it."""
        queue.state = _READY
        queue.entry = (self._rank(queue), queue)
        heapq.heappush(self._ready, queue.entry)
        if len(self._ready) > SPARE_ENTRIES:
            self._trim(self._ready)

    def _trim(self, heap: list[_Entry]) -> None:
        """Keep what is no longer true in a heap below what is."""
        if len(heap) > 2 * len(self.pqueues) + SPARE_ENTRIES:
            heap[:] = [entry for entry in heap if entry[1].entry is entry]
            heapq.heapify(heap)

    # What changes where a slot stands

    def _left(self, slot: str, host: str, answered: bool) -> None:
        """A request has left the downloader: its slot has room if it had not before, and its host is free again."""
        if self._engine.paused and self._timer is None:
            self._wake()
        clock = self._job.pace.known(host)
        if answered and not (self._job.pace.throttled if clock is None else clock.one_at_a_time):
            return  # that it has left changes nothing: its slot had room since the transfer ended
        queue = self.pqueues.get(slot)
        if queue is not None:
            self._make_ready(queue)
        if host != slot and (queue := self.pqueues.get(host)) is not None:
            self._reconsider(queue)
        for queue in self._watchers.get(host, ()):
            if queue.slot != slot:
                self._reconsider(queue)
        if self.asleep:
            self._look_again()

    def _answered(self, slot: str) -> None:
        """A transfer has ended: its slot has room."""
        queue = self.pqueues.get(slot)
        if queue is not None:
            ready, rank = self._ready, self._rank(queue)
            if ready and ready[0] is queue.entry and rank <= ready[0][0]:  # the first stays the first
                queue.entry = ready[0] = (rank, queue)
            else:
                self._make_ready(queue)
            if self.asleep:
                self.asleep = False
                self._cancel_timer()  # should there be nothing yet, ``pop`` sets it again
                self._wake()

    def _slot_changed(self, slot: str) -> None:
        queue = self.pqueues.get(slot)
        if queue is not None and self._reconsider(queue) and self.asleep:
            self._look_again()

    def _clock_changed(self, clock: HostClock) -> None:
        host = clock.host
        queue = self.pqueues.get(host)
        changed = queue is not None and self._reconsider(queue)
        for queue in self._watchers.get(host, ()):
            changed = self._reconsider(queue) or changed
        if changed and self.asleep:
            self._look_again()

    def _reconsider(self, queue: _SlotQueue) -> bool:
        """Have a slot looked at again that was set aside; False when it is to be looked at anyway."""
        if queue.state == _READY:
            return False
        self._make_ready(queue)
        return True

    # Waking the engine

    def _look_again(self) -> None:
        """After a pop that gave nothing: wake the engine if there is something now, else at the earliest time."""
        if self._first() is not None:
            self.asleep = False
            self._cancel_timer()
            self._wake()
        else:
            self._set_timer()

    def _set_timer(self) -> None:
        """One timer, for the earliest time at which a slot may be asked; none when no slot waits for the time."""
        waiting = self._waiting
        while waiting and waiting[0][1].entry is not waiting[0]:
            heapq.heappop(waiting)
        if not waiting:
            self._cancel_timer()
            return
        at = waiting[0][0]
        if self._timer is not None and self._timer_at == at:
            return
        self._cancel_timer()
        self._timer_at = at
        sleep = min(max(at - self._job.now(), 0.0), LONGEST_SLEEP_S)
        self._timer = compat.later(sleep, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        self._wake()

    def _wake(self) -> None:
        """Have the engine ask now, or as soon as it goes on: one that is paused forgets that it was woken."""
        if self._engine.paused:
            self._timer_at = 0.0
            self._timer = compat.later(PAUSED_LOOK_S, self._time_is_up)
        else:
            compat.wake_engine(self.crawler)

    # What got lost between here and the downloader

    def _count_out_lost(self) -> None:
        """Count out what was handed out and never sent, which a scheduler around this queue may do as it likes.

        Without: its place at a host that is at its limit would never be free again.
        """
        self._lost_timer = None
        active = self._downloader.active
        missing = {request for request in self._load.handed_out() if request not in active}
        lost = missing & self._missing
        self._missing = missing - lost
        if self._missing:
            self._lost_timer = compat.later(LOST_AFTER_S, self._count_out_lost)
        for request in lost:
            self._job.left(request)

    def _cancel_timers(self) -> None:
        self._cancel_timer()
        if self._lost_timer is not None:
            self._lost_timer.cancel()
            self._lost_timer = None

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _spider_closed(self) -> None:
        self._cancel_timers()


__all__: list[Any] = ["PolitePriorityQueue"]
