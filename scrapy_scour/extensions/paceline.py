"""Says every ``LOGSTATS_INTERVAL`` seconds what the crawl waits for; nothing while nothing waits.

A host waits when requests for it are queued and it is asked at a pace or left alone. Which hosts those are is kept up
to date as things happen: when a slot of the scheduler queue gets its first request or has lost its last, when a host's
clock or a slot's delay changes. The line itself costs the same however many hosts there are. Changes nothing.

With a scheduler queue of another kind, what waits is only seen where it sits then: in the downloader.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.asyncio import create_looping_call

from scrapy_scour import compat
from scrapy_scour.job import job_of
from scrapy_scour.pace_words import clock_time, delay, number, spoken
from scrapy_scour.stores.waiting import NO_END, Note, Waiting

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from scrapy_scour.pqueues import PolitePriorityQueue
    from scrapy_scour.stores.pace import HostClock

logger = logging.getLogger(__name__)

#: Why a host waits, in the order of the line: in "3 <words>". Holds are followed by their end.
REASONS: dict[str, str] = {
    "asked": "asked by robots.txt",
    "throttle": "paced by the adaptive throttle",
    "project": "paced by the project's own delay",
    "retry_after": "held by Retry-After",
    "retry_wait": "held after a refusal for rate",
    "backoff": "held after failures",
    "robots_unreachable": "held since robots.txt could not be read",
}
#: Hosts that are looked at for the slowest one and for the one with the most to do.
LOOKED_AT = 20


class PaceLineExtension:
    """See the module. Not there at all when ``LOGSTATS_INTERVAL`` is 0 or None."""

    def __init__(self, crawler: Crawler, interval_s: float) -> None:
        self.crawler = crawler
        self.job = job = job_of(crawler)
        self.interval_s = interval_s
        self.waiting = Waiting()
        self._queues: list[PolitePriorityQueue] = []
        # Slots with queued requests, and in which of the queues (in memory, on disk): bit n for queue n.
        self._queued: dict[str, int] = {}
        # Slots that are not named after the host whose clock decides for them: their hosts, and the other way round.
        self._hosts: dict[str, str] = {}
        self._others: dict[str, set[str]] = {}
        self._task: Any = None
        self._failed = False
        job.on_queued.append(self._slot_queued)
        job.on_slot_changed.append(self._slot_changed)
        job.pace.listeners.append(self._clock_changed)
        crawler.signals.connect(self.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(self.spider_closed, signal=signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        interval = crawler.settings["LOGSTATS_INTERVAL"]
        if not interval or not float(interval) > 0.0:
            raise NotConfigured
        return cls(crawler, float(interval))

    def spider_opened(self, spider: Spider) -> None:
        self._task = create_looping_call(self.say)
        self._task.start(self.interval_s, now=False)

    def spider_closed(self, spider: Spider) -> None:
        if self._task is not None and self._task.running:
            self._task.stop()

    # What changes what waits

    def _slot_queued(self, queue: PolitePriorityQueue, slot: str) -> None:
        """A slot of the queue has got its first request, or has lost its last."""
        if queue not in self._queues:
            self._queues.append(queue)
        bit = 1 << self._queues.index(queue)
        holders = self._queued.get(slot, 0)
        if slot in queue:
            self._queued[slot] = holders | bit
            self._look_at(slot)
        elif holders & ~bit:
            self._queued[slot] = holders & ~bit
        elif holders:
            del self._queued[slot]
            self._forget(slot)

    def _slot_changed(self, slot: str) -> None:
        if slot in self._queued:
            self._look_at(slot)

    def _clock_changed(self, clock: HostClock) -> None:
        host = clock.host
        if host in self._queued:
            self._look_at(host)
        if host in self._others:
            for slot in list(self._others[host]):
                self._look_at(slot)

    def _forget(self, slot: str) -> None:
        self.waiting.forget(slot)
        self._decided_by(slot, slot)

    def _decided_by(self, slot: str, host: str) -> None:
        before = self._hosts.get(slot, slot)
        if before == host:
            return
        if before != slot:
            self._others[before].discard(slot)
            if not self._others[before]:
                del self._others[before]
            del self._hosts[slot]
        if host != slot:
            self._hosts[slot] = host
            self._others.setdefault(host, set()).add(slot)

    def _look_at(self, slot: str) -> None:
        """Note what one slot waits for now."""
        bits = self._queued[slot]
        host = self._queues[(bits & -bits).bit_length() - 1].decided_by(slot)  # the first that holds it
        self._decided_by(slot, host)
        self._note(self.waiting, slot, host)

    def _holders(self, slot: str) -> list[PolitePriorityQueue]:
        bits = self._queued.get(slot, 0)
        return [queue for n, queue in enumerate(self._queues) if bits >> n & 1]

    def _note(self, waiting: Waiting, slot: str, host: str) -> None:
        clock = self.job.pace.known(host)
        delay_s, why = compat.slot_delay(self.crawler.engine.downloader, slot), "project"
        if clock is not None:
            now = self.job.now()
            if clock.given_up_until > now:
                waiting.forget(slot)  # its requests fail, they do not wait
                return
            if clock.throttled and clock.throttle_s >= delay_s:
                delay_s, why = clock.throttle_s, "throttle"
            if clock.asked_s > 0.0 and clock.asked_s >= delay_s:
                delay_s, why = clock.asked_s, "asked"
            if clock.held_until > now:
                waiting.note(slot, host, clock.held_why, delay_s=delay_s, until=clock.held_until)
                return
        if delay_s > 0.0:
            waiting.note(slot, host, why, delay_s=delay_s)
        else:
            waiting.forget(slot)

    # The line

    def say(self) -> None:
        """Log the line, if anything waits; whatever goes wrong, the next one comes."""
        try:
            line = self.line()
        except Exception:
            if not self._failed:
                self._failed = True
                logger.error("What the crawl waits for cannot be said.", exc_info=True)
            return
        if line is not None:
            logger.info("%s", line, extra={"spider": self.crawler.spider})

    def line(self) -> str | None:
        """What the crawl waits for now, None when for nothing."""
        now = self.job.now()
        for slot in self.waiting.over(now):
            self._look_at(slot)
        direct, unsent = self._in_the_downloader()
        hosts = len(self.waiting) + len(direct)
        if not hosts:
            return None
        reasons = [words for why in REASONS if (words := self._reason(why, direct, now))]
        queued = sum(map(len, self._queues)) + unsent
        parts = [f"Waiting for {number(hosts, 'host')} ({', '.join(reasons)}), {number(queued, 'request')} queued."]
        notes = self.waiting.slowest(LOOKED_AT) or direct.slowest(LOOKED_AT)
        if notes:
            parts += self._slowest(notes, now)
        return " ".join(parts)

    def _in_the_downloader(self) -> tuple[Waiting, int]:
        """What waits in the downloader itself, and how many requests: no more than it may have at one time."""
        waiting = Waiting()
        unsent = 0
        for slot, load in self.job.under_way.loads.items():
            if load.unsent:
                unsent += load.unsent
                if slot not in self.waiting:
                    self._note(waiting, slot, slot)
        return waiting, unsent

    def _reason(self, why: str, direct: Waiting, now: float) -> str:
        count = self.waiting.counts.get(why, 0) + direct.counts.get(why, 0)
        if not count:
            return ""
        end = min(self.waiting.first_end(why), direct.first_end(why))
        if end == NO_END:
            return f"{count} {REASONS[why]}"
        return f"{count} {REASONS[why]}{' until' if count == 1 else ', the first until'} {self._clock_time(end, now)}"

    def _clock_time(self, at: float, now: float) -> str:
        wall = self.job.wall()
        return clock_time(wall + at - now, wall)

    def _slowest(self, notes: list[Note], now: float) -> list[str]:
        queued = {note.slot: self._number_queued(note.slot) for note in notes}

        def left_s(note: Note) -> float:
            hold = 0.0 if note.until == NO_END else max(note.until - now, 0.0)
            return hold + queued[note.slot] * note.delay_s

        slowest = max(notes, key=lambda note: (note.delay_s, left_s(note)))
        longest = max(notes, key=left_s)
        parts = []
        if slowest.delay_s:
            asked_by = self._asked_by(slowest)
            parts.append(
                f"The slowest: {slowest.host}, {delay(slowest.delay_s, bool(asked_by))} between requests{asked_by},"
                f" {_to_go(queued[slowest.slot], left_s(slowest))}."
            )
        if longest is not slowest or not slowest.delay_s:
            parts.append(f"The longest: {longest.host}, {_to_go(queued[longest.slot], left_s(longest))}.")
        return parts

    def _number_queued(self, slot: str) -> int:
        load = self.job.under_way.loads.get(slot)
        return sum(queue.queued(slot) for queue in self._holders(slot)) + (load.unsent if load else 0)

    def _asked_by(self, note: Note) -> str:
        """Who says so: in the words of the summary where it is the site."""
        clock = self.job.pace.known(note.host)
        if clock is None or clock.asked_s != note.delay_s:
            return ""
        return f", as {clock.asked_by} asks" if clock.asked_by else ", as the site asks"


def _to_go(queued: int, left_s: float) -> str:
    left = spoken(left_s)
    return f"{queued} queued, {left if left.startswith('more') else f'about {left}'} to go"
