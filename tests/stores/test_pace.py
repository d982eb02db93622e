"""Host clocks: what they allow when, what a hold and a delay do to each other, and what survives a restart."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scrapy_scour.policy.retry import QUIET_S
from scrapy_scour.stores.pace import BEFORE, NEVER, HostClock, PaceStore

WALL = 1_800_000_000.0


def clock_of(store: PaceStore | None = None, host: str = "a.test", now: float = 0.0) -> HostClock:
    return (PaceStore() if store is None else store).clock(host, now)


def loaded(state: dict[str, Any] | None = None, *, now: float = 0.0, wall: float = WALL) -> PaceStore:
    store = PaceStore()
    store.load({} if state is None else state, now=now, wall=wall)
    return store


def restart(store: PaceStore, *, now: float, wall: float, later: float, new_now: float = 7.0) -> PaceStore:
    """Save at ``now``, read again ``later`` seconds after that by a process whose clock shows ``new_now``."""
    store.save(now, wall)
    return loaded(json.loads(json.dumps(store.state)), now=new_now, wall=wall + later)


# Delays


def test_a_new_host_may_be_asked_at_once() -> None:
    clock = clock_of()
    assert clock.wait_s(0.0) == clock.wait_s(0.0, 100.0) == 0.0
    assert not clock.one_at_a_time
    assert not clock.busy()


def test_an_asked_delay_runs_from_the_end_of_the_last_answer() -> None:
    clock = clock_of()
    clock.ask("origin", 4.0)
    clock.began()
    assert clock.busy()
    clock.ended(10.0)
    assert not clock.busy()
    assert clock.wait_s(10.0) == 4.0
    assert clock.wait_s(13.0) == 1.0
    assert clock.wait_s(14.0) == clock.wait_s(99.0) == 0.0


def test_the_largest_of_all_delays_counts() -> None:
    clock = PaceStore(throttled=True).clock("a.test", 0.0)
    clock.began()
    clock.ended(0.0)
    clock.throttle_s = 2.0
    assert clock.wait_s(0.0) == 2.0
    clock.ask("origin", 3.0)
    assert clock.wait_s(0.0) == 3.0
    assert clock.wait_s(0.0, 5.0) == 5.0


def test_a_delay_of_the_user_alone_is_left_to_the_slot() -> None:
    clock = clock_of()
    clock.began()
    clock.ended(0.0)
    assert clock.wait_s(0.0, 5.0) == 0.0
    assert not clock.one_at_a_time


def test_of_several_origins_and_agents_the_largest_delay_counts_and_each_may_change_its_own() -> None:
    clock = clock_of()
    assert clock.ask("http", 2.0)
    assert clock.ask("https", 5.0)
    assert not clock.ask("http", 3.0)
    assert clock.asked_s == 5.0
    assert clock.ask("https", 1.0)
    assert clock.asked_s == 3.0
    assert clock.ask("http", 0.0)
    assert clock.asked_s == 1.0
    assert clock.ask("https", 0.0)
    assert clock.asked_s == 0.0
    assert not clock.ask("another", 0.0)


def test_a_change_is_told_once() -> None:
    store = PaceStore()
    told: list[str] = []
    store.listeners.append(lambda clock: told.append(clock.host))
    clock = clock_of(store)
    clock.ask("origin", 2.0)
    clock.ask("origin", 2.0)
    clock.ask("another", 1.0)
    assert told == ["a.test"]


def test_an_end_is_told_where_it_decides_the_next_turn_and_not_elsewhere() -> None:
    store = PaceStore()
    told: list[str] = []
    store.listeners.append(lambda clock: told.append(clock.host))
    clock = clock_of(store)
    for _ in range(2):
        clock.began()
        clock.ended(1.0)
        assert told == []  # nothing paces the host: it may be asked before and after
    clock.hold(2.0, "retry_after")
    told.clear()
    clock.began()
    clock.ended(3.0)
    assert told == ["a.test"]  # the probe has ended, others wait for that


@pytest.mark.parametrize("paced_by", ["nothing", "delay", "throttle", "hold", "probe"])
def test_what_is_not_paced_never_waits(paced_by: str) -> None:
    clock = clock_of(PaceStore(throttled=paced_by == "throttle"))
    if paced_by == "delay":
        clock.ask("origin", 2.0)
    elif paced_by in ("hold", "probe"):
        clock.hold(2.0, "backoff", probe=paced_by == "probe")
    assert clock.paced is (paced_by != "nothing")
    for now in (0.0, 1.0, 2.0):
        clock.began()
        assert clock.paced or not clock.busy()
        clock.ended(now)
        assert clock.paced or clock.wait_s(now, 5.0) == 0.0


# Holds


def test_a_hold_and_a_delay_do_not_reset_each_other() -> None:
    clock = clock_of()
    clock.ask("origin", 4.0)
    clock.began()
    clock.ended(0.0)
    clock.hold(1.0, "retry_after")
    assert clock.wait_s(0.0) == 4.0
    clock.hold(10.0, "retry_after")
    assert clock.wait_s(0.0) == 10.0
    clock.ask("origin", 20.0)
    assert clock.wait_s(0.0) == 20.0
    clock.ask("origin", 0.0)
    assert clock.wait_s(0.0) == 10.0
    clock.answered_well()
    assert clock.wait_s(0.0) == 10.0


def test_a_hold_is_followed_by_one_probe_until_an_answer_is_good() -> None:
    clock = clock_of()
    clock.hold(5.0, "retry_after")
    clock.began()
    assert clock.busy()
    clock.ended(6.0)  # an error: no answer
    clock.began()
    assert clock.busy()
    clock.answered_well()
    assert not clock.busy()


def test_a_good_answer_to_a_request_from_before_the_incident_releases_no_probe() -> None:
    clock = clock_of()
    clock.refused_for_rate(10.0, 9.0)
    clock.failed(11.0, 9.0)
    clock.hold(20.0, "retry_after")
    clock.answered_well(9.5)
    assert (clock.probing, clock.incidents_in_a_row, clock.failures) == (True, 1, 1)
    clock.answered_well(10.5)
    assert (clock.probing, clock.incidents_in_a_row, clock.failures) == (False, 0, 1)
    clock.answered_well(20.0)
    assert clock.failures == 0


def test_a_backoff_is_followed_by_no_probe() -> None:
    clock = clock_of()
    clock.hold(5.0, "backoff", probe=False)
    assert not clock.one_at_a_time


def test_answers_in_flight_belong_to_the_incident() -> None:
    clock = clock_of()
    assert clock.refused_for_rate(10.0, began_at=9.0)
    for began_at in (8.0, 9.5, 10.0):
        assert not clock.refused_for_rate(11.0, began_at=began_at)
    assert (clock.incidents, clock.incidents_in_a_row) == (1, 1)
    assert clock.refused_for_rate(20.0, began_at=19.0)
    assert (clock.incidents, clock.incidents_in_a_row) == (2, 2)


def test_incidents_are_forgiven_after_a_quiet_time_but_a_row_ends_only_with_a_good_answer() -> None:
    clock = clock_of()
    clock.refused_for_rate(0.0, -1.0)
    clock.incident_wait_s = 10.0
    clock.hold(10.0, "retry_wait")
    clock.refused_for_rate(10.0 + QUIET_S, 11.0)
    assert clock.incidents == 2
    clock.hold(100.0, "retry_wait")
    clock.refused_for_rate(100.0 + QUIET_S + 0.1, 101.0)
    assert (clock.incidents, clock.incidents_in_a_row) == (1, 3)
    clock.answered_well()
    assert (clock.incidents, clock.incidents_in_a_row) == (1, 0)


def test_failures_in_flight_at_once_are_one_and_a_good_answer_forgives() -> None:
    clock = clock_of()
    assert clock.failed(1.0, 0.0)
    assert not clock.failed(1.1, 0.5)
    assert clock.failed(3.0, 2.0)
    assert clock.failures == 2
    clock.answered_well()
    assert clock.failures == 0


def test_giving_up_only_ever_reaches_further() -> None:
    clock = clock_of()
    clock.give_up(100.0, "first")
    clock.give_up(50.0, "second")
    assert (clock.given_up_until, clock.given_up_why) == (100.0, "first")


# Memory


def test_idle_clocks_are_dropped_past_the_size_also_from_the_state() -> None:
    store = PaceStore(size=100)
    store.load({}, now=0.0, wall=WALL)
    for number in range(10_000):
        clock = store.clock(f"h{number}.test", float(number))
        clock.ask("origin", 2.0)
        clock.began()
        clock.ended(float(number))
        clock.hold(float(number), "backoff", probe=False)
    assert len(store) <= 202
    assert len(store.state["asked"]) <= 202
    assert len(store.state["held"]) <= 202
    assert store.known("h9999.test") is not None


def test_a_hundred_thousand_hosts_leave_twice_the_size_at_most() -> None:
    """Less than 1.5 KB for each clock that is kept; 5,000 hosts a second, each asking for 2 s."""
    store = PaceStore()
    tracemalloc.start()
    try:
        for number in range(100_000):
            now = number / 5_000
            clock = store.clock(f"h{number}.test", now)
            clock.ask("origin", 2.0)
            clock.began()
            clock.ended(now)
            assert len(store) <= 2 * store.size
            running = store.known(f"h{number - 9_999}.test") if number > 9_999 else clock
            assert running is not None  # not one whose delay is still running
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(store) >= 10_000
    assert 100 * len(store) < kept < 1500 * len(store), f"{kept / len(store):.0f} octets a clock"


def _busy(clock: HostClock) -> None:
    clock.began()


def _asked(clock: HostClock) -> None:
    clock.ask("origin", 1000.0)
    clock.began()
    clock.ended(0.0)


def _held(clock: HostClock) -> None:
    clock.hold(1000.0, "retry_after")


def _probing(clock: HostClock) -> None:
    clock.hold(0.5, "retry_after")


def _refused(clock: HostClock) -> None:
    clock.refused_for_rate(0.0, -1.0)
    clock.hold(0.5, "retry_wait")
    clock.answered_well()


def _failing(clock: HostClock) -> None:
    clock.failed(0.0, -1.0)
    clock.hold(0.5, "backoff", probe=False)


def _given_up(clock: HostClock) -> None:
    clock.give_up(float("inf"), "for good")


def _waited_for(clock: HostClock) -> None:
    clock.waiting = {"a slot"}


@pytest.mark.parametrize("happened", [_busy, _asked, _held, _probing, _refused, _failing, _given_up, _waited_for])
def test_a_clock_that_a_later_request_needs_is_not_dropped(happened: Any) -> None:
    store = PaceStore(size=10)
    happened(store.clock("needed.test", 0.0))
    for number in range(100):
        store.clock(f"h{number}.test", 1.0)
    assert store.known("needed.test") is not None
    assert len(store) < 30


@pytest.mark.parametrize("happened", [_probing, _refused, _failing])
def test_what_went_wrong_long_ago_keeps_no_clock(happened: Any) -> None:
    store = PaceStore(size=10)
    happened(store.clock("old.test", 0.0))
    for number in range(100):
        store.clock(f"h{number}.test", 1.0 + QUIET_S)
    assert store.known("old.test") is None


# A restart


def test_the_state_is_plain_and_a_restart_keeps_waits_levels_and_counts() -> None:
    store = loaded()
    a, b, c = (store.clock(f"{name}.test", 0.0) for name in "abc")
    a.ask(("origin", "agent"), 5.0)
    a.began()
    a.ended(100.0)
    b.refused_for_rate(99.0, 98.0)
    b.incident_wait_s = 60.0
    b.hold(160.0, "retry_after")
    c.refused_for_rate(50.0, 49.0)
    c.incident_wait_s = 10.0
    c.hold(60.0, "retry_wait")
    c.answered_well()
    store.counts["a.test"] = 4
    after = restart(store, now=101.0, wall=WALL + 101.0, later=1.5)
    assert after.clock("a.test", 7.0).wait_s(7.0) == pytest.approx(2.5, abs=1e-5)
    b = after.clock("b.test", 7.0)
    assert b.wait_s(7.0) == pytest.approx(57.5, abs=1e-5)
    assert (b.probing, b.held_why, b.incidents, b.incidents_in_a_row) == (True, "retry_after", 1, 1)
    c = after.clock("c.test", 7.0)
    assert c.wait_s(7.0) == 0.0
    assert (c.probing, c.incidents, c.incidents_in_a_row) == (False, 1, 0)
    assert after.counts == {"a.test": 4}


def test_what_an_earlier_run_was_asked_gives_way_to_what_the_site_says_now() -> None:
    store = loaded()
    store.clock("a.test", 0.0).ask("origin", 5.0)
    store.clock("b.test", 0.0).ask("origin", 5.0)
    after = restart(store, now=1.0, wall=WALL + 1, later=1.0)
    a, b = after.clock("a.test", 7.0), after.clock("b.test", 7.0)
    assert a.asked_s == b.asked_s == 5.0
    a.ask("origin", 2.0)
    b.ask("origin", 0.0)
    assert (a.asked_s, b.asked_s) == (2.0, 0.0)
    again = restart(after, now=8.0, wall=WALL + 8, later=1.0)
    assert (again.clock("a.test", 7.0).asked_s, again.clock("b.test", 7.0).asked_s) == (2.0, 0.0)


def test_what_is_over_is_not_kept() -> None:
    store = loaded()
    clock = store.clock("a.test", 0.0)
    clock.hold(5.0, "robots_unreachable", probe=False)
    clock.ask("origin", 5.0)
    clock.ask("origin", 0.0)
    store.save(6.0, WALL + 6)
    assert store.state["held"] == store.state["asked"] == store.state["ended"] == {}


def test_a_run_that_is_killed_loses_nothing_that_the_run_before_saved() -> None:
    store = loaded()
    store.clock("a.test", 0.0).hold(60.0, "retry_after")
    store.save(1.0, WALL + 1)
    kept = json.dumps(store.state)
    killed = loaded(json.loads(kept), wall=WALL + 2)
    assert killed.clock("a.test", 0.0).wait_s(0.0) == pytest.approx(58.0, abs=1e-5)
    after = loaded(json.loads(kept), wall=WALL + 10)
    assert after.clock("a.test", 0.0).wait_s(0.0) == pytest.approx(50.0, abs=1e-5)


def test_a_state_is_current_at_any_moment() -> None:
    state: dict[str, Any] = {}
    store = loaded(state)
    store.clock("a.test", 0.0).hold(60.0, "retry_after")
    store.clock("a.test", 0.0).ask("origin", 3.0)
    after = loaded(json.loads(json.dumps(state)), wall=WALL + 10)
    assert after.clock("a.test", 0.0).wait_s(0.0) == pytest.approx(50.0, abs=1e-5)
    assert after.clock("a.test", 0.0).asked_s == 3.0


def test_a_wall_clock_that_went_back_does_not_put_an_answer_into_the_future() -> None:
    store = loaded()
    clock = store.clock("a.test", 0.0)
    clock.ask("origin", 5.0)
    clock.began()
    clock.ended(100.0)
    after = restart(store, now=100.0, wall=WALL + 100, later=-50_000.0)
    assert after.clock("a.test", 7.0).wait_s(7.0) == 5.0


def test_an_asked_delay_is_never_restored_as_more_than_a_day() -> None:
    state = {"version": 1, "asked": {"a.test": 1e300}, "held": {}, "counts": {}, "ended": {"a.test": WALL}}
    clock = loaded(state).clock("a.test", 0.0)
    assert clock.wait_s(0.0) == clock.asked_s == 86_400.0


def test_a_wait_of_our_own_is_never_restored_as_more_than_a_day() -> None:
    entry = {"until": 1e300, "why": "backoff", "probing": False, "incidents": 0, "in_a_row": 0, "wait": 0.0}
    state = {"version": 1, "asked": {}, "ended": {}, "counts": {}, "held": {"a.test": entry}}
    assert loaded(state).clock("a.test", 0.0).wait_s(0.0) == 86_400.0


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ENTRIES = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("until", "why", "probing", "incidents", "in_a_row", "wait"), VALUES),
)
STATES = st.fixed_dictionaries(
    {"version": st.just(1) | VALUES},
    optional={
        "asked": VALUES | st.dictionaries(st.text(max_size=5), VALUES),
        "held": VALUES | st.dictionaries(st.text(max_size=5), ENTRIES | VALUES),
        "ended": VALUES | st.dictionaries(st.text(max_size=5), VALUES),
        "counts": VALUES | st.dictionaries(st.text(max_size=5), VALUES),
    },
)


@given(STATES)
def test_a_damaged_state_costs_waits_never_the_crawl(state: dict[str, Any]) -> None:
    store = loaded(state)
    clock = store.clock("a.test", 0.0)
    clock.ask("origin", 2.0)
    clock.hold(5.0, "retry_after")
    store.counts["a.test"] = store.counts.get("a.test", 0) + 1
    store.save(1.0, WALL + 1)
    json.dumps(store.state, allow_nan=False)
    assert restart(store, now=1.0, wall=WALL + 1, later=0.0).clock("a.test", 7.0).wait_s(7.0) > 0


class Model(RuleBasedStateMachine):
    """One host under a clock that only goes forward, restarted now and then, and a plain account beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.store = PaceStore(size=2)
        self.store.load({}, now=0.0, wall=WALL)
        self.in_flight = 0
        self.asked: dict[str, float] = {}
        self.held_until = NEVER
        self.last_end = NEVER

    @property
    def clock(self) -> HostClock:
        return self.store.clock("a.test", self.now)

    @rule(seconds=st.floats(0.0, 200.0))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(source=st.sampled_from(["http", "https"]), seconds=st.floats(0.0, 50.0))
    def ask(self, source: str, seconds: float) -> None:
        if BEFORE in self.asked:
            del self.asked[BEFORE]
        self.asked[source] = seconds
        before = self.clock.asked_s
        changed = self.clock.ask(source, seconds)
        assert changed == (self.clock.asked_s != before)

    @rule(seconds=st.floats(0.0, 100.0), probe=st.booleans())
    def hold(self, seconds: float, probe: bool) -> None:
        self.held_until = max(self.held_until, self.now + seconds)
        self.clock.hold(self.now + seconds, "retry_after", probe=probe)

    @rule()
    def refused(self) -> None:
        self.clock.refused_for_rate(self.now, self.now - 1)

    @rule()
    def good(self) -> None:
        self.clock.answered_well()

    @rule()
    def begins(self) -> None:
        self.in_flight += 1
        self.clock.began()

    @precondition(lambda self: self.in_flight)
    @rule()
    def ends(self) -> None:
        self.in_flight -= 1
        self.last_end = self.now
        self.clock.ended(self.now)

    @rule()
    def others_come(self) -> None:
        known = self.store.known("a.test")
        for number in range(5):
            self.store.clock(f"h{number}", self.now)
        if known is not None and self.store.known("a.test") is None:
            # Dropped: whatever it asked for is over, and is asked again before its next page.
            self.asked = {}
            self.last_end = NEVER

    @precondition(lambda self: not self.in_flight)
    @rule(later=st.floats(0.0, 50.0))
    def restarts(self, later: float) -> None:
        wall = WALL + self.now
        self.store = restart(self.store, now=self.now, wall=wall, later=later, new_now=self.now + later)
        self.now += later
        asked = max(self.asked.values(), default=0.0)
        self.asked = {BEFORE: asked} if asked else {}
        if not asked:
            self.last_end = NEVER  # without a delay nobody needs it

    @invariant()
    def never_early(self) -> None:
        asked = max(self.asked.values(), default=0.0)
        assert self.clock.asked_s == asked
        earliest = max(self.held_until, self.last_end + asked if asked else NEVER)
        wait = self.clock.wait_s(self.now)
        assert wait == pytest.approx(max(earliest - self.now, 0.0), abs=1e-4)
        assert self.clock.busy() == (self.in_flight > 0 and self.clock.one_at_a_time)


TestModel = Model.TestCase
