"""Writes one HTML page about the crawl at its end (``SCOUR_REPORT_FILE``). Changes nothing that the crawl does.

Sees every dispatch, hold and ending as the host clocks and outcomes tell them; ``stores.histories`` keeps them in
bounded memory, ``report_page`` makes the page.
"""

from __future__ import annotations

import logging
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import NotConfigured

from scrapy_scour import stats
from scrapy_scour.job import job_of
from scrapy_scour.outcomes import clean_reason
from scrapy_scour.policy.urls import host_of, without_userinfo
from scrapy_scour.report_file import replace_file
from scrapy_scour.report_page import ReportData, page
from scrapy_scour.signals import request_refused
from scrapy_scour.stores.histories import Histories
from scrapy_scour.stores.pace import NEVER
from scrapy_scour.stores.refusals import Refusals, without_hosts
from scrapy_scour.summary import WORDS

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from scrapy_scour.exceptions import Outcome
    from scrapy_scour.stores.pace import HostClock

logger = logging.getLogger(__name__)

#: The files of the crawls that run in this process.
_to_write: list[Path] = []


class ReportExtension:
    """See the module. Not there at all without ``SCOUR_REPORT_FILE``."""

    def __init__(self, crawler: Crawler, path: str) -> None:
        self.crawler = crawler
        self.job = job = job_of(crawler)
        self.path = Path(path).absolute()  # a spider may change the folder
        self.histories = Histories()
        self.refusals = Refusals()
        self._began = job.now()
        self._began_at = job.wall()
        self._reason = ""
        self._started = False
        job.on_dispatched.append(self._dispatched)
        job.on_hold.append(self._hold)
        job.pace.listeners.append(self._clock_changed)
        job.outcomes.on_page.append(self._page)
        for handler, signal in (
            (self.spider_opened, signals.spider_opened),
            (self.engine_started, signals.engine_started),
            (self.spider_closed, signals.spider_closed),
            (self.engine_stopped, signals.engine_stopped),
            (self.request_refused, request_refused),
        ):
            crawler.signals.connect(handler, signal=signal)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        path = job_of(crawler).settings.report_file
        if path is None:
            raise NotConfigured
        return cls(crawler, path)

    def spider_opened(self, spider: Spider) -> None:
        self._began = self.job.now()
        self._began_at = self.job.wall()
        if self.path in _to_write:
            logger.warning(
                "SCOUR_REPORT_FILE = %r: another crawl writes it too; the last to end stays.", str(self.path)
            )
        _to_write.append(self.path)

    def engine_started(self) -> None:
        self._started = True

    # What is seen on the way

    def _dispatched(self, request: Request, clock: HostClock | None) -> None:
        if clock is None:
            return
        now = self.job.began_at(request, self.job.now())
        gap = None
        if clock.in_flight > 1:  # this one counts already
            gap = 0.0
        elif clock.last_end != NEVER:
            gap = now - clock.last_end
        self.histories.sent(clock.host, now - self._began, gap, clock.asked_s, clock.asked_by)

    def _clock_changed(self, clock: HostClock) -> None:
        now = self.job.now()
        if clock.given_up_until > now:
            self.histories.given_up(clock.host, now - self._began, clean_reason(clock.given_up_why))
        elif clock.held_until > now:
            self.histories.held(clock.host, now - self._began, clock.held_until - self._began)

    def _hold(self, clock: HostClock, why: str) -> None:
        self.histories.hold(clock.host, why)

    def _page(self, request: Request) -> None:
        self.histories.of(self.job.host_of(request)).pages += 1

    def request_refused(self, request: Request, outcome: Outcome) -> None:
        category = outcome.category.value
        host = self.job.host_of(request)
        self.histories.refused(host, category)
        url = without_userinfo(outcome.url or self.job.real_url(request))
        hosts = {host, *(host_of(one) for one in (url, *outcome.trail[-1:]))}  # that of a hop, which may be refused
        self.refusals.add(category, without_hosts(clean_reason(outcome.reason), hosts), url)

    # The end

    def spider_closed(self, spider: Spider, reason: str) -> None:
        self._reason = reason
        if not self._started:  # closed while it was opened: nothing will be stopped, and nothing has been asked
            self._write()

    def engine_stopped(self) -> None:
        """After all handlers of ``spider_closed``: what still waited has its outcome by now."""
        self._write()

    def _write(self) -> None:
        if self.path in _to_write:
            _to_write.remove(self.path)
        try:
            replace_file(self.path, page(self.data()))
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            logger.error("SCOUR_REPORT_FILE = %r could not be written: %s", str(self.path), problem, exc_info=True)
        else:
            logger.info("The report of the crawl: %s", self.path)

    def data(self) -> ReportData:
        """Everything that the page shows."""
        job = self.job
        now = job.now()
        for history in self.histories.hosts:
            clock = job.pace.known(history.host)
            if clock is not None:  # what was learned after its last request
                history.asked_s, history.asked_by = clock.asked_s, clock.asked_by
                history.over_max_s, history.over_max_by = clock.over_max_s, clock.over_max_by
        return ReportData(
            spider=str(getattr(self.crawler.spider, "name", "")),
            began=_shown(self._began_at),
            ended=_shown(job.wall()),
            duration_s=now - self._began,
            finish_reason=self._reason,
            pages=int(job.count.get(stats.PAGES)),
            outcomes=int(job.count.get(stats.OUTCOMES)),
            hosts=self.histories.hosts,
            rest=self.histories.rest,
            refusals=self.refusals,
            words={category.value: words for category, words in WORDS.items()},
            elsewhere=self.histories.elsewhere,
        )


def _shown(wall: float) -> str:
    return f"{datetime.fromtimestamp(wall, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
