"""What the components of one crawl share: settings, scope, host clocks, robots store, counters.

Components find it with :func:`job_of`; the first one makes it, which also checks the whole set-up, so that no
component starts in a crawl that is set up wrongly. Decides nothing.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_scour import compat, setup_check, stats
from scrapy_scour.exceptions import (
    Outcome,
    OutOfScope,
    PolicyCheckFailed,
    RateLimited,
    RequestLimitReached,
    SettingsError,
)
from scrapy_scour.outcomes import Outcomes, file_problems
from scrapy_scour.permission import Permission
from scrapy_scour.policy.retry import Pause
from scrapy_scour.policy.robots import parse
from scrapy_scour.policy.scope import Scope, ScopeError
from scrapy_scour.policy.urls import canonical_host, host_of, origin_of, same_host, without_userinfo
from scrapy_scour.policy.verdict import Verdict
from scrapy_scour.report_file import report_problems
from scrapy_scour.robotsfetch import RobotsFetcher
from scrapy_scour.robotstxt import RFC9309RobotParser
from scrapy_scour.settings import ScourSettings, collect, refusal
from scrapy_scour.stats import Counter
from scrapy_scour.stores.pace import NEVER, HostClock, PaceStore
from scrapy_scour.stores.robots import RobotsStore
from scrapy_scour.stores.sites import Sites
from scrapy_scour.stores.under_way import UnderWay

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_scour.pqueues import PolitePriorityQueue

_T = TypeVar("_T")

_ATTRIBUTE = "_scrapy_scour_job"

#: meta key: the real URL of a request that goes to a rendering service by URL.
REAL_URL = "scour_url"
#: meta key: the request went back to the scheduler to wait; its value is the ``dont_filter`` it came with.
WAITING = "scour_waiting"
#: meta key: a redirect has brought the request to this origin, not the spider; only harmless headers may be added.
OFF_HOST = "scour_off_host"

#: A host name in its canonical form already, as nearly all are: nothing to work out or to remember.
_PLAIN_HOST = re.compile(r"(?:[a-z0-9_-]+\.)*[a-z_-][a-z0-9_-]*")

#: A list of domains in which no host is.
_NO_DOMAIN = frozenset({"\0"})

logger = logging.getLogger(__name__)


class Job:
    """One crawl. ``settings``, ``count``, ``pace`` and ``now()`` are for every component.

    ``gate_installed`` is True once the host clocks stand before the downloader; until then nothing may be sent.
    ``under_way`` holds the requests that are in the downloader or on their way there, until they have left it.
    ``on_answered(slot key)`` is called when the transfer of one has ended, after ``on_ended`` has looked at what came.
    ``on_left(slot key, host, answered)`` is called for each that leaves, ``answered``: its transfer had ended before.
    ``on_slot_changed(slot key)`` is called when a delay was written,
    ``on_queued(queue, slot key)`` when a slot of our scheduler queue has got its first request, has lost its
    last, or has a request of another host next, ``on_hold(clock, reason)`` when a hold is counted.
    """

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        values, problems = collect(crawler.settings)
        problems += setup_check.problems(crawler.settings)
        problems += file_problems(values.get("outcomes_file"))
        problems += report_problems(values.get("report_file"), values.get("outcomes_file"))
        self._scope, self._domains = Scope(), None
        try:
            self._scope, self._domains = self._read_scope(values)
        except ScopeError as error:
            problems += error.problems
        if problems:
            raise SettingsError(refusal(problems))
        self.settings = ScourSettings(**values)
        self._name_the_bot()
        self.count = Counter(crawler.stats)
        self.under_way = UnderWay()
        self.pace = PaceStore(throttled=self.settings.throttle_enabled, in_use=self.under_way.hosts)
        self.permission = Permission(self)
        self.outcomes = Outcomes(self)
        self.fetcher = RobotsFetcher(self, self.robots_parser())
        self.robots = RobotsStore(
            self.fetcher.fetch,
            spawn=compat.schedule,
            now=self.now,
            ttl_s=self.settings.robotstxt_ttl,
            size=self.settings.robotstxt_cache_size,
            waits_s=self.settings.robotstxt_waits,
            retry_after_max_s=self.settings.retry_after_max,
        )
        self.gate_installed = False
        #: Requests that were refused for rate in a way that is not held against them (``downloadermiddlewares.retry``).
        self.spared: set[Request] = set()
        self.on_left: list[Callable[[str, str, bool], None]] = []
        self.on_slot_changed: list[Callable[[str], None]] = []
        self.on_queued: list[Callable[[Any, str], None]] = []
        self.queues: list[PolitePriorityQueue] = []
        self.on_entered: list[Callable[[Request], None]] = []
        self.on_dispatched: list[Callable[[Request, HostClock | None], None]] = []
        self.on_ended: list[Callable[[Request, HostClock | None, float, Response | None], None]] = []
        self.on_answered: list[Callable[[str], None]] = []
        self.on_hold: list[Callable[[HostClock, str], None]] = []
        self.on_lost: list[Callable[[Request, OutOfScope], None]] = []
        self.sites = Sites()

    def _name_the_bot(self) -> None:
        """``SCOUR_BOT_USER_AGENT`` sets ``USER_AGENT``, unless that was set with more weight (by a spider, say)."""
        bot, settings = self.settings.bot_user_agent, self.crawler.settings
        if bot is None:
            return
        weight = settings.getpriority("SCOUR_BOT_USER_AGENT") or 0
        if settings.frozen or (settings.getpriority("USER_AGENT") or 0) > weight:
            logger.warning("USER_AGENT = %r stays; SCOUR_BOT_USER_AGENT = %s is not used.", settings["USER_AGENT"], bot)
            return
        settings.set("USER_AGENT", str(bot), priority=weight)

    def robots_parser(self) -> Callable[[bytes, bool], Any]:
        """How a body becomes a parser: ours unless the project set ``ROBOTSTXT_PARSER``."""
        settings = self.crawler.settings
        chosen = load_object(settings["ROBOTSTXT_PARSER"]) if settings.getpriority("ROBOTSTXT_PARSER") else None
        if chosen is None or issubclass(chosen, RFC9309RobotParser):
            cls = chosen or RFC9309RobotParser
            return lambda body, cut: cls(parse(body, truncated=cut))
        return lambda body, cut: build_from_crawler(chosen, self.crawler, body)

    now = staticmethod(time.monotonic)

    @staticmethod
    def wall() -> float:
        """Wall time, seconds since the epoch: only for what is saved or compared with dates from outside."""
        return time.time()

    @cached_property
    def downloader(self) -> Any:
        """The crawl's downloader; there is none before the engine is made."""
        return self.crawler.engine.downloader

    def install_gate(self) -> None:
        """Put the host clocks before every transfer. Safe to call again."""
        compat.install_gate(self.downloader, self)
        self.gate_installed = True

    # Whose request is it

    def real_url(self, request: Request) -> str:
        """The URL that politeness is about: the one behind a rendering service, or the request's own."""
        real = request.meta.get(REAL_URL)
        return real if real and isinstance(real, str) else request.url

    def host_of(self, request: Request) -> str:
        """Canonical host name of the site that the request is for; "" when there is none."""
        if REAL_URL in request.meta:
            real = self.real_url(request)
            if real is not request.url:
                return host_of(real)
        place = self.under_way.places.get(request)
        return (place.host if place is not None and place.by_url else "") or self.sites.of(request.url).host

    def place_of(self, request: Request) -> tuple[str, str]:
        """The request's download slot and the host of its site: mostly one name, and nothing has to be worked out."""
        downloader, meta = self.downloader, request.meta
        if compat.DOWNLOAD_SLOT in meta or REAL_URL in meta or not compat.names_slots_by_host(downloader):
            return compat.slot_key(downloader, request), self.host_of(request)
        host, as_spelled, _ = self.sites.of(request.url)
        if as_spelled and host:
            return host, host
        slot = compat.slot_key(downloader, request)
        return slot, slot if _PLAIN_HOST.fullmatch(slot) else self.host_of(request)

    def clock_of(self, request: Request) -> HostClock | None:
        """The clock of the request's host; None for a request that belongs to none (``file:``, ``data:``)."""
        place = self.under_way.places.get(request)
        # A clock is never dropped while a request of its host is in the downloader.
        if place is not None and place.clock is not None and REAL_URL not in request.meta:
            return place.clock
        host = self.host_of(request)
        if not host:
            return None
        clock = self.pace.known(host) or self.pace.clock(host, self.now())
        if place is not None and place.by_url and place.host == host:
            place.clock = clock
        return clock

    def began_at(self, request: Request, otherwise: _T) -> float | _T:
        """When the request went to the network, monotonic seconds; ``otherwise`` when it is not there."""
        place = self.under_way.places.get(request)
        return otherwise if place is None or place.began_at is None else place.began_at

    def name_slot(self, request: Request) -> None:
        """Give requests of one host one download slot, whatever the spelling of its name or the service in between."""
        meta = request.meta
        if compat.DOWNLOAD_SLOT in meta:
            return
        host, as_spelled, _ = self.sites.of(request.url)
        if meta.get(REAL_URL):
            host, as_spelled = self.host_of(request), False
        if host and not as_spelled:
            meta[compat.DOWNLOAD_SLOT] = host

    def slot_is_default(self, request: Request) -> bool:
        """Whether the request's download slot is the one it would get by its host, not one that the user chose."""
        named = request.meta.get(compat.DOWNLOAD_SLOT)
        if named is None or named == self.host_of(request):
            return True
        return bool(named == compat.default_slot_key(self.downloader, request))

    def check_real_url(self, request: Request) -> None:
        """Raise PolicyCheckFailed for a ``scour_url`` that names no site: nothing could be judged by it."""
        if REAL_URL in request.meta and origin_of(str(request.meta[REAL_URL])) is None:
            raise PolicyCheckFailed(
                f"meta {REAL_URL!r} must be an absolute http(s) URL: {request.meta[REAL_URL]!r}",
                url=without_userinfo(request.url),
                trail=request.meta.get("redirect_urls", ()),
            )

    # Whether it is inside the job

    def _read_scope(self, values: dict[str, Any]) -> tuple[Scope, list[Any] | None]:
        spider = self.crawler.spider
        domains = getattr(spider, "allowed_domains", None)
        patterns = []
        for kind in ("include", "exclude"):
            of_spider = getattr(spider, f"scope_{kind}", None)
            patterns.append([*values.get(f"scope_{kind}", ()), *self._listed(of_spider)])
        scope, warnings = Scope.build(domains, *patterns)
        for warning in warnings:
            logger.warning("%s", warning)
        return scope, list(domains) if isinstance(domains, (list, tuple, set, frozenset)) else None

    @staticmethod
    def _listed(value: Any) -> list[Any]:
        """The patterns of a spider attribute; what is neither one nor several is left to ``Scope.build`` to refuse."""
        return [] if value is None else list(value) if isinstance(value, (list, tuple, set, frozenset)) else [value]

    @property
    def scope(self) -> Scope:
        """The boundary; read again when the spider changes its ``allowed_domains``.

        A change that cannot be read, or that leaves no domain where there was one, keeps the boundary as it was: a
        filter never disappears by accident. Where there was none, what cannot be read lets nothing in.
        """
        domains = getattr(self.crawler.spider, "allowed_domains", None)
        if domains is None and self._domains is None:
            return self._scope
        now = list(domains) if isinstance(domains, (list, tuple, set, frozenset)) else None
        if now != self._domains:
            self._domains = now
            try:
                scope, _ = self._read_scope(
                    {"scope_include": self.settings.scope_include, "scope_exclude": self.settings.scope_exclude}
                )
                if self._scope.domains and not scope.domains:
                    raise ScopeError(["allowed_domains was emptied while the crawl runs"])
                self._scope = scope
            except ScopeError as error:
                if self._scope.domains:
                    logger.error("The scope stays as it was: %s", error)
                else:
                    logger.error("Nothing is in scope until this can be read: %s", error)
                    self._scope = replace(self._scope, domains=_NO_DOMAIN)
        return self._scope

    def judge_request(self, request: Request) -> Verdict:
        """Whether what the spider asks for is inside the job."""
        meta = request.meta
        return self.scope.judge_request(
            self.real_url(request) if REAL_URL in meta else request.url,
            dont_filter=request.dont_filter,
            allow_offsite=bool(meta.get("allow_offsite")),
        )

    def judge_hop(self, request: Request, target: str) -> Verdict:
        """Whether a hop from the request's URL to ``target`` may be taken.

        What let the request itself out of the list of domains covers hops on that same host only.
        """
        allowed = bool(request.meta.get("allow_offsite"))
        host = self.host_of(request)
        exempt = same_host(request.url, target) and (allowed or not self.scope.allows_host(host))
        return self.scope.judge_hop(
            request.url,
            target,
            exempt_host=host if exempt else None,
            allow_offsite=allowed,
            private_addresses=self.settings.redirect_private_addresses,
        )

    def lost(self, request: Request, refusal: OutOfScope) -> OutOfScope:
        """Tell who listens that the request ends out of scope; gives the refusal back, to be raised."""
        for listener in self.on_lost:
            listener(request, refusal)
        return refusal

    @staticmethod
    def is_off_host(request: Request) -> bool:
        """Whether a redirect has brought the request to a host that is not the one it was made for.

        The mark names the origin that it is about: in meta that a callback copied to another request it says nothing.
        """
        mark = request.meta.get(OFF_HOST)
        return mark is not None and mark == str(origin_of(request.url))

    def off_host_mark(self, request: Request, url: str) -> dict[str, str]:
        """The meta of a request for ``url`` made on account of ``request``; empty on the host it was made for."""
        if same_host(self.real_url(request), url) and not self.is_off_host(request):
            return {}
        return {OFF_HOST: str(origin_of(url))}

    # Whether it is its turn

    def refuse_if_given_up(self, request: Request) -> None:
        """Raise RateLimited for a host that was given up."""
        if not self.pace.any_given_up:
            return
        clock = self.pace.known(self.host_of(request))
        if clock is not None and clock.given_up_until != NEVER and clock.given_up_until > self.now():
            raise RateLimited(
                clock.given_up_why,
                url=without_userinfo(self.real_url(request)),
                trail=request.meta.get("redirect_urls", ()),
            )

    def count_hold(self, clock: HostClock, why: str) -> None:
        """Count that the host is left alone, once for each time that it has to be."""
        self.count.add(stats.HOLD, why)
        for listener in self.on_hold:
            listener(clock, why)

    def give_up(self, clock: HostClock, decided: Pause) -> None:
        """Let the host's requests fail, those that wait in the downloader at once, or stop the crawl.

        Stopping (``SCOUR_RETRY_AFTER_OVER_MAX``) is for a host that named a time over the maximum.
        """
        known = clock.given_up_until > self.now()
        reason = f"{clock.host} is given up: {decided.why}"
        clock.give_up(self.now() + (decided.give_up_s or 0.0), reason)
        if known:
            return
        self.count.add(stats.HOSTS_GIVEN_UP)
        if decided.too_long and self.settings.retry_after_over_max == "spider":
            logger.error("%s; the crawl stops (SCOUR_RETRY_AFTER_OVER_MAX).", reason)
            compat.close_spider(self.crawler, "scour_rate_limited")
        else:
            logger.warning("%s; its requests end as rate_limited.", reason)

        def refusal(request: Request) -> RateLimited:
            self.uncount_attempt(request)
            return RateLimited(reason, url=without_userinfo(self.real_url(request)))

        compat.fail_queued(self.downloader, lambda request: self.host_of(request) == clock.host, refusal)

    def count_attempt(self, request: Request) -> None:
        """Count a request that is about to go to the network, or raise RateLimited or RequestLimitReached."""
        self.refuse_if_given_up(request)  # since the robots check, perhaps
        limit = self.settings.max_requests_per_domain
        if not limit:
            return
        host = self.host_of(request)
        made = self.pace.counts.get(host, 0)
        if made >= limit:
            raise RequestLimitReached(
                f"{host} has had its {limit} requests (SCOUR_MAX_REQUESTS_PER_DOMAIN)",
                url=without_userinfo(self.real_url(request)),
                trail=request.meta.get("redirect_urls", ()),
            )
        self.pace.counts[host] = made + 1

    def uncount_attempt(self, request: Request) -> None:
        """Take back what was counted for a request that did not go to the network after all."""
        host = self.host_of(request)
        if self.settings.max_requests_per_domain and self.pace.counts.get(host) and not self.fetcher.is_ours(request):
            self.pace.counts[host] -= 1

    def wait_elsewhere(self, request: Request, clock: HostClock | None) -> Request | None:
        """A copy for the scheduler when the host, that of ``clock``, has to wait, None when the request may go on.

        A request that cannot go back goes on and waits in its download slot.
        """
        place = self.under_way.places.get(request)
        if place is None or not place.from_queue or clock is None:
            return None
        key = request.meta.get(compat.DOWNLOAD_SLOT) or place.slot
        if compat.slot_turn(self.downloader, key, clock, self.now()) > 0.0 or clock.busy():
            return self.back_to_scheduler(request)
        return None

    def back_to_scheduler(self, request: Request) -> Request:
        """A copy that the scheduler takes although it has seen the request, to hand out when the host may be asked."""
        back = request.copy()
        back.meta[WAITING] = request.dont_filter
        back.dont_filter = True
        self.count.add(stats.REQUEUED)
        return back

    @staticmethod
    def restore(request: Request) -> None:
        """Make a request that has waited what it was before."""
        meta = request.meta
        if WAITING in meta:
            request.dont_filter = bool(meta.pop(WAITING))

    # How it ended

    def ended(self, request: Request, outcome: Outcome) -> None:
        """Record the end of a request that never gets to the downloader."""
        self.outcomes.record(request, outcome)

    # What compat's slots tell

    def entered(self, request: Request) -> None:
        """The request is in the downloader; one that the scheduler queue handed out is counted already."""
        place = self.under_way.places.get(request)
        if place is None:
            slot, host = self.place_of(request)
            place = self.under_way.enter(request, slot, host, from_queue=False)
        place.by_url = REAL_URL not in request.meta
        for listener in self.on_entered:
            listener(request)

    def slot_changed(self, key: str) -> None:
        for listener in self.on_slot_changed:
            listener(key)

    def queued(self, key: str) -> bool:
        """Whether requests for the slot wait in our scheduler queues."""
        return any(key in queue for queue in self.queues)

    def all_must_wait(self) -> bool:
        """Whether requests wait in our scheduler queues, and none of them may be asked for now."""
        some_wait = False
        for queue in self.queues:
            if queue.asleep:
                some_wait = True
            elif len(queue):
                return False
        return some_wait

    def look_again(self, slot: compat.PoliteSlot) -> None:
        """A slot that waited for a request of another slot may have its turn now."""
        compat.process_queue(self.downloader, slot)

    def may_repeat(self, name: str) -> bool:
        """Whether a request to the host may be sent again at once, unseen by anybody, when its connection breaks."""
        if self.settings.max_requests_per_domain or self.settings.retry_backoff:
            return False
        host = canonical_host(name)
        for request in self.under_way.places:
            if REAL_URL in request.meta and self.sites.of(request.url).host == host:
                return False  # to a service: whose page it is that would be asked for again is not known there
        clock = self.pace.known(host)
        return clock is None or not (clock.one_at_a_time or clock.wait_s(self.now()))

    def dispatched(self, request: Request, clock: HostClock | None, now: float) -> str | None:
        """The name of the slot under which the request is counted, None when it is not."""
        slot = self.under_way.sent(request, now)
        for listener in self.on_dispatched:
            listener(request, clock)
        return slot

    def transfer_ended(
        self, request: Request, clock: HostClock | None, duration_s: float, answer: Response | None
    ) -> None:
        """``answer``: None after an error, and where the downloader does not tell it (``compat.tells_answers``)."""
        place = self.under_way.answered(request)
        try:
            for listener in self.on_ended:
                listener(request, clock, duration_s, answer)
        finally:  # whatever went wrong there, the slot has room
            if place is not None:
                place.began_at = None
                for room in self.on_answered:
                    room(place.slot)

    def left(self, request: Request) -> None:
        """The request has left the downloader, however it ended."""
        if self.spared:
            self.spared.discard(request)
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
        except Exception:
            compat.fail_start(crawler)
            raise
        crawler.__dict__[_ATTRIBUTE] = job
    return job  # type: ignore[no-any-return]
