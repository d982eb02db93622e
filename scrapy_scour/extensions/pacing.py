"""Keeps the pace of every host: crawl delays, the adaptive throttle, holds.

The only writer of download slots (through ``compat``). What a site asked travels in
``response.meta["scour_crawl_delays"]`` and is noted here; so is what its answers say about "later". The waiting itself is
done by the slots and the scheduler queue, which ask the host's clock.
"""

from __future__ import annotations

import logging
import math
import random
from typing import TYPE_CHECKING, Any

from scrapy import signals

from scrapy_scour import compat, stats
from scrapy_scour.exceptions import RateLimited
from scrapy_scour.job import job_of
from scrapy_scour.permission import CRAWL_DELAYS
from scrapy_scour.policy.retry import LATER, backoff_s, forgiven, pause
from scrapy_scour.policy.retry_after import retry_after_s
from scrapy_scour.policy.urls import canonical_host, without_userinfo

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

    from scrapy_scour.stores.pace import HostClock

logger = logging.getLogger(__name__)

#: Where the pace of an earlier run is kept in ``spider.state``.
STATE = "scrapy_scour"


class PacingExtension:
    """See the module. Without it nothing is sent: the wire check refuses while the host clocks are not in place."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.job = job_of(crawler)
        settings = crawler.settings
        self._throttle = self.job.settings.throttle
        self._retry_codes = {int(code) for code in settings.getlist("RETRY_HTTP_CODES")}
        self._retry_times = settings.getint("RETRY_TIMES")
        self._backoff = self.job.settings.retry_backoff
        self._answered: set[Request] = set()
        self._last_wait: dict[str, float] = {}
        self.job.on_ended.append(self._ended)
        for handler, signal in (
            (self.spider_opened, signals.spider_opened),
            (self.engine_started, signals.engine_started),
            (self.spider_closed, signals.spider_closed),
            (self.request_reached_downloader, signals.request_reached_downloader),
            (self.response_downloaded, signals.response_downloaded),
        ):
            crawler.signals.connect(handler, signal=signal)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    # The crawl begins and ends

    def spider_opened(self, spider: Spider) -> None:
        self.job.install_gate()
        self.job.permission.warn_at_start()

    def engine_started(self) -> None:
        """Adopt the pace of an earlier run: after ``spider_opened``, when the spider's state has been read."""
        state = getattr(self.crawler.spider, "state", None)
        if isinstance(state, dict):
            kept = state.get(STATE)
            state[STATE] = kept if isinstance(kept, dict) else {}
            self.job.pace.load(state[STATE], now=self.job.now(), wall=self.job.wall())

    def spider_closed(self, spider: Spider) -> None:
        """Before Scrapy's own extension writes the spider's state (``addon`` puts us before it)."""
        self.job.pace.save(self.job.now(), self.job.wall())

    # What sites ask for, wherever it was read

    def request_reached_downloader(self, request: Request, spider: Spider) -> None:
        """Note the delays that a request brings along, so that its own page already waits."""
        self._note_delays(request.meta.get(CRAWL_DELAYS))

    def _note_delays(self, delays: Any) -> None:
        if not isinstance(delays, dict):
            return
        for host, seconds in delays.items():
            if isinstance(seconds, (int, float)) and math.isfinite(seconds) and seconds > 0 and isinstance(host, str):
                clock = self.job.pace.clock(canonical_host(host), self.job.now())
                if seconds > clock.asked_s:
                    clock.ask(CRAWL_DELAYS, float(seconds))

    # What answers say

    def _ended(self, request: Request, clock: HostClock | None, duration_s: float) -> None:
        """A transfer has ended, just before the next may begin."""
        answered = request in self._answered
        self._answered.discard(request)
        if clock is None:
            return
        if self._throttle is not None:
            wait = self._throttle.wait_s(duration_s, random.random())
            # An error that comes back at once is no sign of a fast server.
            clock.throttle_s = wait if answered else max(wait, clock.throttle_s)
        if not answered and self._backoff and not self.job.fetcher.is_ours(request):
            self._back_off(clock)

    def response_downloaded(self, response: Response, request: Request, spider: Spider) -> None:
        """An answer came from the network, and the next request has not gone out yet."""
        self._answered.add(request)
        clock = self.job.clock_of(request)
        if clock is None or self.job.fetcher.is_ours(request):
            return
        if response.status in LATER:
            self._later(clock, request, response)
        elif response.status in self._retry_codes:
            if self._backoff:
                self._back_off(clock)
        elif clock.probing or clock.incidents_in_a_row or clock.failures:
            clock.answered_well()

    def _later(self, clock: HostClock, request: Request, response: Response) -> None:
        """The host said "later": leave all of it alone."""
        job, now = self.job, self.job.now()
        if clock.given_up_until > now:
            return
        last_wait = self._last_wait.get(clock.host, 0.0)
        if job.began_at.get(request, now) > clock.incident_at:  # not in flight already when the incident began
            if clock.incidents and forgiven(now, clock.held_until, last_wait):
                clock.incidents = 0
            clock.incidents += 1
            clock.incidents_in_a_row += 1
            clock.incident_at = now
        asked = retry_after_s(
            response.headers.getlist("Retry-After"), response_date=response.headers.get("Date"), wall_now=job.wall()
        )
        settings = job.settings
        decided = pause(
            asked,
            incident=max(clock.incidents, 1),
            in_a_row=clock.incidents_in_a_row,
            waits_s=settings.retry_waits,
            retry_after_max_s=settings.retry_after_max,
            most_in_a_row=max(len(settings.retry_waits), self._retry_times),
        )
        if decided.give_up_s is not None:
            self._give_up(clock, now + decided.give_up_s, decided.why)
            return
        if now + decided.wait_s > clock.held_until:
            why = "retry_after" if asked is not None else "retry_wait"
            job.count.add(stats.HOLD, why)
            self._last_wait[clock.host] = decided.wait_s
            logger.info(
                "%s answered %d: the host is left alone for %g s (%s).",
                clock.host,
                response.status,
                decided.wait_s,
                "it asked for it" if asked is not None else "it named no usable time",
            )
            clock.hold(now + decided.wait_s, why)

    def _give_up(self, clock: HostClock, until: float, why: str) -> None:
        job = self.job
        job.count.add(stats.HOSTS_GIVEN_UP)
        reason = f"{clock.host} is given up: {why}"
        if job.settings.retry_after_over_max == "spider":
            logger.error("%s; the crawl stops (SCOUR_RETRY_AFTER_OVER_MAX).", reason)
            clock.give_up(until, reason)
            compat.close_spider(self.crawler, "scour_rate_limited")
        else:
            logger.warning("%s; its requests end as rate_limited.", reason)
            clock.give_up(until, reason)
        compat.fail_queued(
            self.crawler.engine.downloader,
            lambda request: job.host_of(request) == clock.host,
            lambda request: RateLimited(reason, url=without_userinfo(job.real_url(request))),
        )

    def _back_off(self, clock: HostClock) -> None:
        clock.failures += 1
        wait = backoff_s(self._backoff, clock.failures)
        self.job.count.add(stats.HOLD, "backoff")
        clock.hold(self.job.now() + wait, "backoff", probe=False)
