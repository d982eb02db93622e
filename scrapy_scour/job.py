"""What the components of one crawl share: settings, scope, host clocks, robots store, counters.

Components find it with :func:`job_of`; the first one makes it, which also checks the whole set-up, so that no
component starts in a crawl that is set up wrongly. Decides nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from scrapy.utils.httpobj import urlparse_cached

from scrapy_scour import compat
from scrapy_scour.exceptions import SettingsError
from scrapy_scour.policy.scope import Scope
from scrapy_scour.policy.urls import canonical_host
from scrapy_scour.settings import PREFIX, ScourSettings, read_settings, refusal
from scrapy_scour.stats import Counter
from scrapy_scour.stores.pace import HostClock, PaceStore
from scrapy_scour.stores.under_way import UnderWay

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

_ATTRIBUTE = "_scrapy_scour_job"

#: meta key: the real URL of a request that goes to a rendering service by URL.
REAL_URL = "scour_url"
#: meta key: set by the robots store on its own requests.
ROBOTS_REQUEST = "scour_robotstxt"


class Job:
    """One crawl. ``settings``, ``count``, ``pace`` and ``now()`` are for every component.

    ``gate_installed`` is True once the host clocks stand before the downloader; until then nothing may be sent.
    ``under_way`` holds the requests that are in the downloader or on their way there, until they have left it.
    ``on_left(slot key, host)`` is called for each that leaves, ``on_slot_changed(slot key)`` when a delay was written.
    """

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.settings: ScourSettings = read_settings(crawler.settings)
        self.count = Counter(crawler.stats)
        self.pace = PaceStore(throttled=self.settings.throttle_enabled)
        self.gate_installed = False
        self.under_way = UnderWay()
        self.on_left: list[Callable[[str, str], None]] = []
        self.on_slot_changed: list[Callable[[str], None]] = []
        self.on_dispatched: list[Callable[[Request, HostClock | None], None]] = []
        self.on_ended: list[Callable[[Request, HostClock | None, float], None]] = []
        self._hosts: dict[str, str] = {}
        self._scope: Scope | None = None

    now = staticmethod(time.monotonic)

    @staticmethod
    def wall() -> float:
        """Wall time, seconds since the epoch: only for what is saved or compared with dates from outside."""
        return time.time()

    def install_gate(self) -> None:
        """Put the host clocks before every transfer. Safe to call again."""
        compat.install_gate(self.crawler.engine.downloader, self)
        self.gate_installed = True

    # Whose request is it

    def real_url(self, request: Request) -> str:
        """The URL that politeness is about: the one behind a rendering service, or the request's own."""
        return request.meta.get(REAL_URL) or request.url

    def host_of(self, request: Request) -> str:
        """Canonical host name of the site that the request is for; "" when there is none."""
        real = request.meta.get(REAL_URL) if request.meta else None
        name = urlparse_cached(request.replace(url=real) if real else request).hostname or ""
        host = self._hosts.get(name)
        if host is None:
            if len(self._hosts) > 50_000:
                self._hosts.clear()
            host = self._hosts[name] = canonical_host(name)
        return host

    def clock_of(self, request: Request) -> HostClock | None:
        """The clock of the request's host; None for a request that belongs to none (``file:``, ``data:``)."""
        host = self.host_of(request)
        return self.pace.clock(host, self.now()) if host else None

    # What compat's slots tell

    def entered(self, request: Request) -> None:
        """The request is in the downloader; one that the scheduler queue handed out is counted already."""
        if self.under_way.slot_of(request) is None:
            slot = compat.slot_key(self.crawler.engine.downloader, request)
            self.under_way.enter(request, slot, self.host_of(request), from_queue=False)

    def slot_changed(self, key: str) -> None:
        for listener in self.on_slot_changed:
            listener(key)

    def dispatched(self, request: Request, clock: HostClock | None) -> None:
        self.under_way.sent(request)
        for listener in self.on_dispatched:
            listener(request, clock)

    def transfer_ended(self, request: Request, clock: HostClock | None, duration_s: float) -> None:
        for listener in self.on_ended:
            listener(request, clock, duration_s)

    def left(self, request: Request) -> None:
        """The request has left the downloader, however it ended."""
        place = self.under_way.leave(request)
        if place is not None:
            for listener in self.on_left:
                listener(*place)

    def may_go_back(self, request: Request) -> bool:
        """Whether the request may be sent back to the scheduler to wait there.

        Only one that our scheduler queue handed out: it will not hand it out again before the host's time. Any other
        (a media request, another queue) would come straight back.
        """
        return request in self.under_way


def job_of(crawler: Crawler) -> Job:
    """The crawl's :class:`Job`, made and checked by the first component that asks.

    Raises :class:`SettingsError` for any wrong set-up, also when an earlier component asked before.
    """
    job = crawler.__dict__.get(_ATTRIBUTE)
    if job is None:
        try:
            job = Job(crawler)
        except SettingsError:
            compat.fail_start(crawler)
            raise
        crawler.__dict__[_ATTRIBUTE] = job
    return job  # type: ignore[no-any-return]


__all__ = ["PREFIX", "Job", "job_of", "refusal"]
