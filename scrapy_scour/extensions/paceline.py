"""Says every ``LOGSTATS_INTERVAL`` seconds what the crawl waits for; nothing while nothing waits.

``pace_watch`` keeps that up to date as things happen, so the line itself costs the same however many hosts there are.
With a scheduler queue of another kind, what waits is only seen where it sits then: in the downloader.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.asyncio import create_looping_call

from scrapy_scour.job import job_of
from scrapy_scour.pace_watch import PaceWatch, Standing, Unsent
from scrapy_scour.pace_words import clock_time, delay, number, spoken
from scrapy_scour.stores.waiting import NO_END, Note, Waiting

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from typing_extensions import Self

logger = logging.getLogger(__name__)

#: Why a host waits, in the order of the line: in "3 <words>". Holds are followed by their end.
REASONS: dict[str, str] = {
    "asked": "asked by robots.txt",
    "throttle": "paced by the adaptive throttle",
    "autothrottle": "paced by AutoThrottle",
    "project": "paced by the project's own delay",
    "retry_after": "held by Retry-After",
    "retry_wait": "held after a refusal for rate",
    "backoff": "held after failures",
    "robots_unreachable": "held since robots.txt could not be read",
}
#: Hosts that are looked at for the slowest one and for one with more to do: so many of the slowest, and of those that
#: are held the longest.
LOOKED_AT = 20


class PaceLineExtension:
    """See the module. Not there at all when ``LOGSTATS_INTERVAL`` is 0 or None."""

    def __init__(self, crawler: Crawler, interval_s: float) -> None:
        self.crawler = crawler
        self.job = job = job_of(crawler)
        self.interval_s = interval_s
        self.watch = PaceWatch(crawler, job)
        self._task: Any = None
        self._failed = False
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
        unsent = self.job.under_way.unsent()
        both = self.watch.up_to_date(now), self.watch.in_the_downloader(unsent)
        hosts = sum(map(len, both))
        if not hosts:
            return None
        reasons = [words for why in REASONS if (words := self._reason(why, both, now))]
        queued = sum(map(len, self.watch.queues)) + sum(sum(slots.values()) for slots in unsent.values())
        parts = [
            f"Waiting for {number(hosts, 'host')} ({', '.join(reasons)}),"
            f" {self._at_least}{number(queued, 'request')} queued."
        ]
        notes = {note.host: note for waiting in both for note in waiting.slowest(LOOKED_AT)}
        last = {note.host: note for waiting in both for note in waiting.latest(LOOKED_AT)}
        parts += self._named({**notes, **last}, unsent, now)
        return " ".join(parts)

    @property
    def _at_least(self) -> str:
        """What stands before a number that does not count what waits in a scheduler queue that is not ours."""
        return "" if self.watch.queues else "at least "

    def _reason(self, why: str, both: tuple[Waiting, ...], now: float) -> str:
        count = sum(waiting.counts.get(why, 0) for waiting in both)
        if not count:
            return ""
        end = min(waiting.first_end(why) for waiting in both)
        if end == NO_END:
            return f"{count} {REASONS[why]}"
        return f"{count} {REASONS[why]}{' until' if count == 1 else ', the first until'} {self._clock_time(end, now)}"

    def _clock_time(self, at: float, now: float) -> str:
        wall = self.job.wall()
        return clock_time(wall + at - now, wall)

    def _named(self, notes: dict[str, Note], unsent: Unsent, now: float) -> list[str]:
        """The slowest host; and, of those looked at, one that takes longer still."""
        stand = {host: self.watch.standing(note, unsent, now) for host, note in notes.items()}

        def left_s(note: Note) -> float:
            known = stand[note.host].left_s
            return known if known is not None else 0.0 if note.until == NO_END else note.until - now

        if not notes:
            return []
        slowest = max(notes.values(), key=lambda note: (note.delay_s, left_s(note)))
        longest = max(notes.values(), key=left_s)
        if not slowest.delay_s:
            return [f"The last: {self._called(longest, stand[longest.host], now)}."]
        asked_by = self._asked_by(slowest)
        pace = f", {delay(slowest.delay_s, bool(asked_by))} between requests{asked_by}"
        parts = [f"The slowest: {self._called(slowest, stand[slowest.host], now, pace)}."]
        if stand[slowest.host].left_s is not None and left_s(longest) > left_s(slowest):
            parts.append(f"Longer: {self._called(longest, stand[longest.host], now)}.")
        return parts

    def _called(self, note: Note, stand: Standing, now: float, pace: str = "") -> str:
        """The host of a note and what it has to do."""
        parts = [f"{note.host or '(no host)'}{pace}", f"{self._at_least}{stand.queued} queued"]
        if stand.mixed:
            parts[-1] += " with those of other hosts"
        elif stand.turns < stand.queued:
            parts.append(f"{stand.turns or 'no'} more may go")
        if stand.left_s is not None and stand.turns:
            left = spoken(stand.left_s)
            about = self._at_least or ("" if left.startswith("more") else "about ")
            parts.append(f"{about}{left} to go")
        elif note.until != NO_END:
            parts.append(f"not before {self._clock_time(note.until, now)}")
        return ", ".join(parts)

    def _asked_by(self, note: Note) -> str:
        """Who says so: in the words of the summary where it is the site."""
        clock = self.job.pace.known(note.host)
        if clock is None or clock.asked_s != note.delay_s:
            return ""
        return f", as {clock.asked_by} asks" if clock.asked_by else ", as the site asks"
