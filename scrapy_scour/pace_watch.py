"""Keeps up to date which hosts the crawl waits for, as things happen; for the pace line.

A host waits when requests for it are queued and it is asked at a pace or left alone. Its requests are in the download
slot of its name, in slots that the user named, or in both. What changes is told by the scheduler queues (a slot has got
its first request, lost its last, or another host decides for it), by the host clocks and by the slots. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from scrapy_scour import compat
from scrapy_scour.stores.waiting import NO_END, Note, Waiting

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_scour.job import Job
    from scrapy_scour.pqueues import PolitePriorityQueue
    from scrapy_scour.stores.pace import HostClock

#: By host and slot: requests that are in the downloader and have not gone out.
Unsent = Mapping[str, Mapping[str, int]]


class Standing(NamedTuple):
    """How one host stands. ``queued``: its requests, or with ``mixed`` those of its slots, of which some are others'.

    ``turns``: how many of them may go, by the limit per host. ``left_s``: seconds until they have, at its pace; None
    when that cannot be known.
    """

    queued: int
    turns: int
    mixed: bool
    left_s: float | None


class PaceWatch:
    """See the module. ``waiting``: hosts with requests in the scheduler queues."""

    def __init__(self, crawler: Crawler, job: Job) -> None:
        self.job = job
        self.waiting = Waiting()
        self.queues: list[PolitePriorityQueue] = []
        # Slots with queued requests, and in which of the queues (in memory, on disk): bit n for queue n.
        self._queued: dict[str, int] = {}
        # Slots that are not named after the host whose clock decides for them: their hosts, and the other way round.
        self._hosts: dict[str, str] = {}
        self._others: dict[str, set[str]] = {}
        self._slot_pace = "autothrottle" if crawler.settings.getbool("AUTOTHROTTLE_ENABLED") else "project"
        job.on_queued.append(self._slot_queued)
        job.on_slot_changed.append(self._slot_changed)
        job.pace.listeners.append(self._clock_changed)

    # What changes what waits

    def _slot_queued(self, queue: PolitePriorityQueue, slot: str) -> None:
        """A slot of the queue has got its first request, has lost its last, or has a request of another host next."""
        if queue not in self.queues:
            self.queues.append(queue)
        bit = 1 << self.queues.index(queue)
        holders = self._queued.get(slot, 0)
        before = self._hosts.get(slot, slot)
        host = queue.decided_by(slot) or before
        if slot in queue:
            if holders & bit and host == before:
                return
            holders |= bit
        else:
            holders &= ~bit
        if holders:
            self._queued[slot] = holders
            if holders != bit:  # the first queue that holds it decides
                host = self.queues[(holders & -holders).bit_length() - 1].decided_by(slot) or before
        else:
            self._queued.pop(slot, None)
            host = slot
        if host != before:
            self._decided_by(slot, before, host)
            self._look_at(before)
        self._look_at(host)

    def _decided_by(self, slot: str, before: str, host: str) -> None:
        if before != slot:
            self._others[before].discard(slot)
            if not self._others[before]:
                del self._others[before]
            del self._hosts[slot]
        if host != slot:
            self._hosts[slot] = host
            self._others.setdefault(host, set()).add(slot)

    def _slot_changed(self, slot: str) -> None:
        if slot in self._queued:
            self._look_at(self._hosts.get(slot, slot))

    def _clock_changed(self, clock: HostClock) -> None:
        if clock.host in self._queued or clock.host in self._others:
            self._look_at(clock.host)

    def _look_at(self, host: str) -> None:
        """Note what one host waits for now."""
        downloader = self.job.downloader
        if host in self._others or host in self._hosts:
            slots = self._slots_of(host)
            delay_s = max((compat.slot_delay(downloader, slot) for slot in slots), default=None)
        else:  # nearly always
            delay_s = compat.slot_delay(downloader, host) if host in self._queued else None
        if delay_s is None:
            self.waiting.forget(host)
        else:
            self._note(self.waiting, host, delay_s)

    def _slots_of(self, host: str) -> list[str]:
        """The slots in the scheduler queues for which the host decides."""
        own = [host] if host in self._queued and host not in self._hosts else []
        return [*own, *self._others[host]] if host in self._others else own

    def _note(self, waiting: Waiting, host: str, delay_s: float) -> None:
        """Note why the host has to wait, nothing when it does not. ``delay_s``: the largest of its slots."""
        why = self._slot_pace
        until = NO_END
        clock = self.job.pace.known(host)
        if clock is not None:
            now = self.job.now()
            if clock.given_up_until > now:
                waiting.forget(host)  # its requests fail, they do not wait
                return
            if clock.throttled and clock.throttle_s >= delay_s:
                delay_s, why = clock.throttle_s, "throttle"
            if clock.asked_s > 0.0 and clock.asked_s >= delay_s:
                delay_s, why = clock.asked_s, "asked"
            if clock.held_until > now:
                why, until = clock.held_why, clock.held_until
        if delay_s > 0.0 or until != NO_END:
            waiting.note(host, why, delay_s=delay_s, until=until)
        else:
            waiting.forget(host)

    # What it is now

    def up_to_date(self, now: float) -> Waiting:
        """What waits in the scheduler queues, without the holds that are over."""
        for host in self.waiting.over(now):
            self._look_at(host)
        return self.waiting

    def in_the_downloader(self, unsent: Unsent) -> Waiting:
        """What waits in the downloader only: no more than it may have at one time."""
        waiting, downloader = Waiting(), self.job.downloader
        for host, slots in unsent.items():
            if host not in self.waiting:
                self._note(waiting, host, max(compat.slot_delay(downloader, slot) for slot in slots))
        return waiting

    def standing(self, note: Note, unsent: Unsent, now: float) -> Standing:
        """How the host of a note stands."""
        host = note.host
        sent_for = unsent.get(host, {})
        slots = dict(sent_for)
        mixed = False
        for slot in self._slots_of(host):
            for queue in self.queues:
                slots[slot] = slots.get(slot, 0) + queue.queued(slot)
                mixed = mixed or queue.several_in(slot)
        queued = turns = sum(slots.values())
        limit = self.job.settings.max_requests_per_domain
        if limit:
            turns = min(queued, max(limit - self.job.pace.counts.get(host, 0), 0))
        if mixed or note.why == "robots_unreachable":  # it may ask for any delay, or refuse all
            return Standing(queued, turns, mixed, None)
        clock = self.job.pace.known(host)
        if clock is not None and (clock.asked_s > 0.0 or clock.throttled):
            left_s = turns * note.delay_s
        else:  # each slot has a pace of its own
            downloader = self.job.downloader
            left_s = max(min(turns, count) * compat.slot_delay(downloader, slot) for slot, count in slots.items())
        hold_s = 0.0 if note.until == NO_END else max(note.until - now, 0.0)
        return Standing(queued, turns, mixed, hold_s + left_s)
