"""Keeps the pace of every host: crawl delays, the adaptive throttle, holds.

The only writer of download slots (through ``compat``). What a site asked travels in
``response.meta["scour_crawl_delays"]`` and is noted here; so is what its answers say about "later". The waiting itself
is done by the slots and the scheduler queue, which ask the host's clock.
"""

from __future__ import annotations

import logging
import math
import random
from typing import TYPE_CHECKING, Any

from scrapy import signals

from scrapy_scour import compat
from scrapy_scour.job import job_of
from scrapy_scour.permission import CRAWL_DELAYS
from scrapy_scour.policy.pacing import asked_delay
from scrapy_scour.policy.retry import LATER, Pause, backoff_s, pause
from scrapy_scour.policy.retry_after import retry_after_s
from scrapy_scour.policy.urls import canonical_host
from scrapy_scour.stores.pace import NAMED_BY_HOST

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Headers, Response
    from typing_extensions import Self

    from scrapy_scour.stores.pace import HostClock

logger = logging.getLogger(__name__)

#: Where the pace of an earlier run is kept in ``spider.state``.
STATE = "scrapy_scour"
#: A page that is not there is an answer like any other; other errors come back faster than a page would.
_NOT_THERE = frozenset({404, 410})


#: A body of so many octets is not waited for before the status is looked at.
_SHORT_BODY = 65_536


class PacingExtension:
    """See the module. Without it nothing is sent: the wire check refuses while the host clocks are not in place."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.job = job_of(crawler)
        settings = crawler.settings
        self._throttle = self.job.settings.throttle
        self._retry_codes = {int(code) for code in settings.getlist("RETRY_HTTP_CODES")}
        self._telling = self._retry_codes | LATER
        self._retry_exceptions = compat.retry_exceptions(settings)
        self._retry_times = settings.getint("RETRY_TIMES")
        self._backoff = self.job.settings.retry_backoff if settings.getbool("RETRY_ENABLED") else 0.0
        # Requests whose transfer is about to end with an answer, where we have to listen for it.
        self._listens = False
        self._answered: dict[Request, Response] = {}
        # Requests that were answered "later" and whose transfer has not ended: for how long, and why.
        self._told_later: dict[Request, tuple[float, str]] = {}
        self.job.on_ended.append(self._ended)
        self.job.on_entered.append(self._entered)
        for handler, signal in (
            (self.spider_opened, signals.spider_opened),
            (self.engine_started, signals.engine_started),
            (self.spider_closed, signals.spider_closed),
            (self.headers_received, signals.headers_received),
        ):
            crawler.signals.connect(handler, signal=signal)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    # The crawl begins and ends

    def spider_opened(self, spider: Spider) -> None:
        self.job.install_gate()
        if not compat.tells_answers(self.job.downloader):
            self._listen()
        self.job.permission.warn_at_start()

    def engine_started(self) -> None:
        """Adopt the pace of an earlier run: after ``spider_opened``, when the spider's state has been read."""
        spider, job = self.crawler.spider, self.job
        state = getattr(spider, "state", None)
        if not isinstance(state, dict):
            if not self.crawler.settings.get("JOBDIR"):
                return
            state = {}  # it could not be read; what this run learns is kept all the same
            spider.state = state  # type: ignore[union-attr]
        kept = state.get(STATE)
        state[STATE] = kept if isinstance(kept, dict) else {}
        job.pace.load(state[STATE], now=job.now(), wall=job.wall())
        now = job.now()
        for clock in job.pace.held(now):
            left = clock.held_until - now
            if clock.held_why == NAMED_BY_HOST and left > job.settings.retry_after_max:
                why = f"it asked an earlier run to leave it alone, for {left:.0f} s more"
                job.give_up(clock, Pause(left, left, True, why))

    def spider_closed(self, spider: Spider) -> None:
        """Before Scrapy's own extension writes the spider's state (``addon`` puts us before it)."""
        self.job.pace.save(self.job.now(), self.job.wall())

    # What sites ask for, wherever it was read

    def _entered(self, request: Request) -> None:
        """Note the delays that a request brings along, so that its own page already waits."""
        if CRAWL_DELAYS in request.meta:
            self._note_delays(request.meta[CRAWL_DELAYS])

    def _note_delays(self, delays: Any) -> None:
        if not isinstance(delays, dict):
            return
        for host, seconds in delays.items():
            if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not isinstance(host, str):
                continue
            if math.isfinite(seconds) and seconds > 0 and canonical_host(host):
                clock = self.job.pace.clock(canonical_host(host), self.job.now())
                # Whether a host that asks for more is skipped is decided where its own robots.txt is read.
                kept = asked_delay(float(seconds), self.job.settings.crawl_delay_max, "clamp").seconds
                if kept > clock.asked_s:
                    clock.ask(CRAWL_DELAYS, kept)

    # What answers say

    def _ended(self, request: Request, clock: HostClock | None, duration_s: float, answer: Response | None) -> None:
        """A transfer has ended, just before the next may begin."""
        heard = self._answered.pop(request, None) if self._listens else None
        if heard is not None:
            answer = heard
        elif answer is None:
            if not self._listens and compat.transfer_error() is None:
                self._listen()  # the downloader was changed while it ran
        elif clock is not None:
            self._note_answer(request, answer, clock)
        if clock is None:
            return
        if self._told_later and (told := self._told_later.pop(request, None)) is not None:
            clock.hold(self.job.now() + told[0], told[1])  # the time runs from the end of the answer
        if self._throttle is not None:
            wait = self._throttle.wait_s(duration_s, random.random())
            # An error that comes back at once is no sign of a fast server.
            fast = answer is not None and (answer.status < 400 or answer.status in _NOT_THERE)
            clock.throttle_s = wait if fast else max(wait, clock.throttle_s)
        if answer is None and isinstance(compat.transfer_error(), self._retry_exceptions):
            self._back_off(clock, request)

    def headers_received(self, headers: Headers, body_length: Any, request: Request, **_: Any) -> None:
        """A host that says "later" is left alone from then on, however its body comes, and if it never does.

        Takes whatever the signal brings, which costs each answer less than to leave it out.
        """
        if (
            isinstance(body_length, int)
            and body_length <= _SHORT_BODY
            and not compat.values_of(headers, b"Retry-After")
        ):
            return  # all of it will be here in a moment
        status = compat.status_of_headers()
        if status in LATER:
            self._said_later(request, status, headers)

    def _listen(self) -> None:
        self._listens = True
        self.crawler.signals.connect(self.response_downloaded, signal=signals.response_downloaded)

    def response_downloaded(self, response: Response, request: Request) -> None:
        """With a downloader that tells its slots nothing of the answer."""
        self._answered[request] = response
        clock = self.job.clock_of(request)
        if clock is not None:
            self._note_answer(request, response, clock)

    def _note_answer(self, request: Request, response: Response, clock: HostClock) -> None:
        """An answer came from the network; the next request has not gone out yet. What fails here costs no answer."""
        try:
            if clock.troubled or response.status in self._telling:  # else it changes nothing
                self._read_answer(request, response, clock)
        except Exception:
            logger.error("What %s says of the pace could not be noted.", response, exc_info=True)

    def _read_answer(self, request: Request, response: Response, clock: HostClock) -> None:
        if response.status in LATER:
            self._said_later(request, response.status, response.headers)
        elif not self.job.fetcher.is_ours(request):
            if response.status in self._retry_codes:
                self._back_off(clock, request)
            else:
                clock.answered_well(self.job.began_at(request, math.inf))

    def _said_later(self, request: Request, status: int, headers: Headers) -> None:
        """The host said "later", of a page or of its robots.txt; once for each request."""
        clock = self.job.clock_of(request)
        if clock is None or request in self._told_later:
            return
        asked = retry_after_s(
            headers.getlist("Retry-After"), response_date=headers.get("Date"), wall_now=self.job.wall()
        )
        if self.job.fetcher.is_ours(request):
            self._robots_later(clock, request, asked)
        else:
            self._later(clock, request, status, asked)

    def _robots_later(self, clock: HostClock, request: Request, asked: float | None) -> None:
        """A time named with a robots.txt is one for the whole host, that of a hop too, whatever is known of its rules.

        What it means for the pages that wait for the file is decided where it is read.
        """
        if asked is None:
            return
        self._told_later[request] = (asked, NAMED_BY_HOST)
        clock.hold(self.job.now() + asked, NAMED_BY_HOST)
        most = self.job.settings.retry_after_max
        if asked > most:
            why = f"its robots.txt asked for {asked:g} s, more than SCOUR_RETRY_AFTER_MAX = {most:g} s"
            self.job.give_up(clock, Pause(asked, asked, why=why))

    def _later(self, clock: HostClock, request: Request, status: int, asked: float | None) -> None:
        """Leave all of the host alone."""
        job, now = self.job, self.job.now()
        new = clock.refused_for_rate(now, job.began_at(request, now))
        if not new or (asked is not None and clock.incidents_in_a_row == 1):
            job.spared.add(request)
        settings = job.settings
        decided = pause(
            asked,
            incident=max(clock.incidents, 1),
            in_a_row=clock.incidents_in_a_row,
            waits_s=settings.retry_waits,
            retry_after_max_s=settings.retry_after_max,
            most_in_a_row=max(len(settings.retry_waits), self._retry_times),
        )
        why = "retry_wait" if asked is None else NAMED_BY_HOST
        clock.incident_wait_s = decided.wait_s if new else max(decided.wait_s, clock.incident_wait_s)
        clock.hold(now + decided.wait_s, why)
        self._told_later[request] = (decided.wait_s, why)
        if decided.give_up_s is not None:
            job.give_up(clock, decided)
        elif new:
            job.count_hold(clock, why)
            logger.info(
                "%s answered %d: the host is left alone for %g s (%s).",
                clock.host,
                status,
                decided.wait_s,
                "it named no usable time" if asked is None else "it asked for it",
            )

    def _back_off(self, clock: HostClock, request: Request) -> None:
        """Leave the host alone after a failure that is retried, longer while they go on (``SCOUR_RETRY_BACKOFF``)."""
        job, now = self.job, self.job.now()
        if not self._backoff or request.meta.get("dont_retry"):
            return
        if clock.failed(now, job.began_at(request, now)):
            job.count_hold(clock, "backoff")
        clock.hold(now + backoff_s(self._backoff, clock.failures), "backoff", probe=False)
