"""Remembers, per host, when it may be asked again.

A :class:`HostClock` is the truth about one host: what delay it asked for, when its last answer ended, how many
requests are with it now, and until when it is to be left alone. :class:`PaceStore` holds the clocks, bounded.
Times named ``now`` are monotonic seconds given by the caller; only what is saved for a later run is wall time.
Knows nothing of download slots; ``extensions.pacing`` and ``pqueues`` ask here and act.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Hashable, MutableMapping
from typing import Any, TypeGuard

from scrapy_scour.policy.retry import forgiven

NEVER = float("-inf")
STATE_VERSION = 1
BEFORE = "an earlier run"
#: The hold for a time that the host itself named. Only such a hold may be longer than a day.
NAMED_BY_HOST = "retry_after"
_DAY_S = 86_400.0


class HostClock:
    """One host's clock.

    ``asked_s``: the delay that the site asks for, seconds, 0.0 for none; the largest over its origins and agents.
    ``throttle_s``: what the adaptive throttle adds after the last answer, seconds.
    ``in_flight``: requests handed to the network and not ended.
    ``last_end``: when the last request ended (answer read, or failed), monotonic; ``NEVER`` before the first.
    ``pages``: requests that have passed every check and had their turn.
    ``held_until``, ``held_why``: not before this time, whatever the delay, and the reason in one word.
    ``probing``: after a hold, one request at a time until one is answered well.
    ``one_at_a_time``: the site asked for a delay, the throttle is on, or a hold has just ended: one request at a time.
    ``paced``: something of the host's own decides its next turn, or did; if not, it may be asked whenever there is
    room. Both are kept here, not worked out: they are asked for again and again.
    ``asked_by``: which file and line asks for the delay, for people. ``over_max_s``, ``over_max_by``: the same of one
    above the maximum that the project keeps, 0.0 for none; it paces nothing.
    ``troubled``: something went wrong that the next good answer ends; kept here like these two.
    ``incidents``: refusals for rate until a quiet time, ``incidents_in_a_row`` without a good answer between them,
    ``incident_at`` when the last began, ``incident_wait_s`` how long it had the host left alone; ``failures``: other
    failures in a row that are retried, ``failure_at`` when the last was noted.
    ``given_up_until``: requests fail instead of waiting until this time (``inf``: for this run).
    ``waiting``: download slots that have a request for this host and wait for one of another slot to end.
    """

    __slots__ = (
        "_asked",
        "asked_by",
        "asked_s",
        "failure_at",
        "failures",
        "given_up_until",
        "given_up_why",
        "held_until",
        "held_why",
        "host",
        "in_flight",
        "incident_at",
        "incident_wait_s",
        "incidents",
        "incidents_in_a_row",
        "last_end",
        "one_at_a_time",
        "over_max_by",
        "over_max_s",
        "paced",
        "pages",
        "probing",
        "store",
        "throttle_s",
        "throttled",
        "troubled",
        "waiting",
    )

    def __init__(self, host: str, store: PaceStore) -> None:
        self.host = host
        self.store = store
        self._asked: dict[Hashable, float] | None = None
        self.asked_s = 0.0
        self.asked_by = ""
        self.over_max_s = 0.0
        self.over_max_by = ""
        self.throttled = store.throttled
        self.throttle_s = 0.0
        self.in_flight = 0
        self.last_end = NEVER
        self.pages = 0
        self.held_until = NEVER
        self.held_why = ""
        self.probing = False
        self.given_up_until = NEVER
        self.given_up_why = ""
        self.incidents = 0
        self.incidents_in_a_row = 0
        self.incident_at = NEVER
        self.incident_wait_s = 0.0
        self.failures = 0
        self.failure_at = NEVER
        self.waiting: set[Any] | None = None
        self._settle()

    def _settle(self) -> None:
        """Bring up to date what follows from the rest."""
        self.one_at_a_time = self.asked_s > 0.0 or self.throttled or self.probing
        self.paced = self.one_at_a_time or self.held_until != NEVER
        self.troubled = self.probing or self.incidents_in_a_row > 0 or self.failures > 0

    def ask(self, source: Hashable, seconds: float) -> bool:
        """Note that ``source`` (an origin and agent) asks for ``seconds``; True when the host's delay changed.

        The first word of any source replaces what an earlier run remembered.
        """
        asked = self._asked
        if asked is None:
            if seconds <= 0.0:
                return False
            asked = self._asked = {}
        elif asked.get(source, 0.0) == seconds and BEFORE not in asked:
            return False
        if source != BEFORE:
            asked.pop(BEFORE, None)
        if seconds > 0.0:
            asked[source] = seconds
        else:
            asked.pop(source, None)
        largest = max(asked.values(), default=0.0)
        if largest == self.asked_s:
            return False
        self.asked_s = largest
        self._settle()
        self.store.saved_asked(self)
        self.store.changed(self)
        return True

    def hold(self, until: float, why: str, *, probe: bool = True) -> None:
        """Leave the host alone until ``until``; a hold never shortens one that is already there."""
        if until > self.held_until:
            self.held_until = until
            self.held_why = why
        self.probing = self.probing or probe
        self._settle()
        self.store.saved_hold(self)
        self.store.changed(self)

    def give_up(self, until: float, why: str) -> None:
        """Requests of this host fail from now until ``until`` instead of waiting."""
        self.store.any_given_up = True
        if until > self.given_up_until:
            self.given_up_until, self.given_up_why = until, why
        self.store.changed(self)

    def refused_for_rate(self, now: float, began_at: float) -> bool:
        """Note an answer that says "later" to a request that went out at ``began_at``; True for a new incident.

        What was in flight already when the last incident began belongs to it. Incidents are counted from anew after a
        quiet time, but a row of them ends only with a good answer.
        """
        if began_at <= self.incident_at:
            return False
        if self.incidents and self.quiet(now):
            self.incidents = 0
        self.incidents += 1
        self.incidents_in_a_row += 1
        self.incident_at = now
        self._settle()
        return True

    def failed(self, now: float, began_at: float) -> bool:
        """Note another failure that is retried; False when the request was in flight already at the last one."""
        if began_at <= self.failure_at:
            return False
        self.failures += 1
        self.failure_at = now
        self._settle()
        return True

    def answered_well(self, began_at: float = math.inf) -> None:
        """An answer that is no refusal for rate: a probe has succeeded, the host is back to normal.

        One to a request that went out, at ``began_at``, before the host said "later" says nothing about that.
        """
        if not self.troubled:
            return
        if began_at > self.failure_at:
            self.failures = 0
        probing = self.probing
        if began_at > self.incident_at:
            self.incidents_in_a_row = 0
            self.probing = False
        self._settle()
        self.store.saved_hold(self)
        if probing and not self.probing:
            self.store.changed(self)

    def began(self) -> None:
        """A request was handed to the network."""
        self.in_flight += 1

    def ended(self, now: float) -> None:
        """A request ended, whatever came of it."""
        self.in_flight -= 1
        self.last_end = now
        if self.one_at_a_time:  # else its next turn never depended on this one
            self.store.changed(self)

    def wait_s(self, now: float, user_delay_s: float = 0.0) -> float:
        """Seconds until this host may be asked, 0.0 for now, leaving aside that it may be busy.

        ``user_delay_s`` is the delay that the user or AutoThrottle set; it counts from the end of the last answer
        once the host is asked one at a time, else Scrapy's own slot keeps it.
        """
        wait = self.held_until - now
        if self.asked_s > 0.0 or self.throttled:
            delay = max(self.asked_s, self.throttle_s, user_delay_s)
            paced = self.last_end + delay - now
            if paced > wait:
                wait = paced
        return wait if wait > 0.0 else 0.0

    def busy(self) -> bool:
        """True while the host is asked one at a time and a request is with it."""
        return self.in_flight > 0 and self.one_at_a_time

    def is_default(self, now: float) -> bool:
        """True when forgetting this clock would lose nothing that a later request needs."""
        return (
            self.in_flight == 0
            and self.wait_s(now) == 0.0
            and self.given_up_until <= now
            and not self.waiting
            and (self.at_ease or self.quiet(now))
        )

    def quiet(self, now: float) -> bool:
        """Whether the last thing that went wrong is long enough ago to be forgotten."""
        return forgiven(now, max(self.held_until, self.incident_at, self.failure_at), self.incident_wait_s)

    @property
    def at_ease(self) -> bool:
        """Nothing went wrong with this host that still counts."""
        return not (self.troubled or self.incidents)


class PaceStore:
    """All clocks of one crawl. Idle ones are dropped past ``size``, so memory stays bounded; those of hosts ``in_use``
    are not: somebody waits for what they say to change.

    ``throttled``: the adaptive throttle is on. ``listeners`` are called with a clock when something that decides the
    host's next turn has changed. ``state``: a plain dict that a later run can read (wall times), kept current.
    """

    def __init__(self, *, throttled: bool = False, size: int = 20_000, in_use: Container[str] = ()) -> None:
        self.throttled = throttled
        self._in_use = in_use
        self.size = size
        self._clocks: dict[str, HostClock] = {}
        #: ``known(host)``: the clock of ``host`` if there is one. No method of its own: it is asked most of all.
        self.known: Callable[[str], HostClock | None] = self._clocks.get
        #: Whether any host was ever given up.
        self.any_given_up = False
        self._next_prune = size
        self.listeners: list[Callable[[HostClock], None]] = []
        self.state: MutableMapping[str, Any] = {}
        self.wall_minus_monotonic = 0.0
        self.counts: MutableMapping[str, int] = {}

    def clock(self, host: str, now: float) -> HostClock:
        """The clock of ``host`` (canonical name), made when new."""
        found = self._clocks.get(host)
        if found is None:
            if len(self._clocks) >= self._next_prune:
                self._prune(now)
            found = self._clocks[host] = HostClock(host, self)
        return found

    def __len__(self) -> int:
        return len(self._clocks)

    def changed(self, clock: HostClock) -> None:
        for listener in self.listeners:
            listener(clock)

    def _prune(self, now: float) -> None:
        idle = [host for host, clock in self._clocks.items() if clock.is_default(now) and host not in self._in_use]
        for host in idle:
            del self._clocks[host]
            if self.state:
                self.state["asked"].pop(host, None)
                self.state["held"].pop(host, None)
        self._next_prune = max(self.size, 2 * len(self._clocks))

    # What survives a restart. Plain types only, changed in place, so that whoever saves it saves the current one.

    def load(self, state: MutableMapping[str, Any], *, now: float, wall: float) -> None:
        """Adopt ``state`` (a dict saved by an earlier run, or empty) and keep it current from here on.

        What is not of the right shape is put aside: a damaged file costs waits, never the crawl.
        """
        self.wall_minus_monotonic = wall - now
        before = state if state.get("version") == STATE_VERSION else {}
        asked, held, ended, counts = (
            dict(part) if isinstance(part := before.get(name), dict) else {}
            for name in ("asked", "held", "ended", "counts")
        )
        state.clear()
        state.update(version=STATE_VERSION, asked={}, held={}, ended={}, counts={})
        self.state = state
        for host, count in counts.items():
            if isinstance(host, str) and isinstance(count, int) and count > 0:
                state["counts"][host] = count
        # Counts taken before the state was there are added, never lost.
        for host, count in self.counts.items():
            state["counts"][host] = state["counts"].get(host, 0) + count
        self.counts = state["counts"]
        for host, at in ended.items():
            if isinstance(host, str) and _is_number(at):
                clock = self.clock(host, now)
                clock.last_end = max(clock.last_end, now + min(at - wall, 0.0))
        for host, seconds in asked.items():
            if isinstance(host, str) and _is_number(seconds) and not self.clock(host, now).asked_s:
                self.clock(host, now).ask(BEFORE, min(float(seconds), _DAY_S))
        for host, entry in held.items():
            if isinstance(host, str) and isinstance(entry, dict):
                self._load_hold(self.clock(host, now), entry, now, wall)
        for clock in self._clocks.values():
            self.saved_asked(clock)
            self.saved_hold(clock)

    @staticmethod
    def _load_hold(clock: HostClock, entry: dict[str, Any], now: float, wall: float) -> None:
        until, why, wait = entry.get("until"), entry.get("why"), entry.get("wait")
        incidents, in_a_row = entry.get("incidents"), entry.get("in_a_row")
        if not (_is_number(until) and _is_number(wait) and isinstance(why, str)):
            return
        clock.incidents = max(clock.incidents, incidents if isinstance(incidents, int) else 0)
        clock.incidents_in_a_row = max(clock.incidents_in_a_row, in_a_row if isinstance(in_a_row, int) else 0)
        clock.incident_wait_s = max(clock.incident_wait_s, float(wait))
        left = float(until) - wall
        if why != NAMED_BY_HOST:
            left = min(left, _DAY_S)
        clock.hold(now + left, why, probe=bool(entry.get("probing")))

    def saved_asked(self, clock: HostClock) -> None:
        """Keep the state's word on what the host asked for current."""
        if self.state:
            if clock.asked_s > 0.0:
                self.state["asked"][clock.host] = clock.asked_s
            else:
                self.state["asked"].pop(clock.host, None)

    def saved_hold(self, clock: HostClock) -> None:
        """Keep the state's word on how long the host is left alone, and how often it had to be, current."""
        if not self.state:
            return
        if clock.held_until == NEVER:
            self.state["held"].pop(clock.host, None)
            return
        self.state["held"][clock.host] = {
            "until": clock.held_until + self.wall_minus_monotonic,
            "why": clock.held_why,
            "probing": clock.probing,
            "incidents": clock.incidents,
            "in_a_row": clock.incidents_in_a_row,
            "wait": clock.incident_wait_s,
        }

    def held(self, now: float) -> list[HostClock]:
        """The clocks of hosts that are left alone now."""
        return [clock for clock in self._clocks.values() if clock.held_until > now]

    def save(self, now: float, wall: float) -> None:
        """Bring the state up to date for the last time: drop what is over, note the ends of last answers."""
        if not self.state:
            return
        held = self.state["held"]
        for host, entry in list(held.items()):
            clock = self._clocks.get(host)
            if entry["until"] <= wall and (clock is None or clock.at_ease or clock.quiet(now)):
                del held[host]
        self.state["ended"] = {
            host: wall - (now - clock.last_end)
            for host, clock in self._clocks.items()
            if (clock.asked_s > 0.0 or clock.throttled) and clock.last_end != NEVER
        }


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
