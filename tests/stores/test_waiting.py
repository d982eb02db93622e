"""What waits, by reason and by delay, is always what was last noted of each slot."""

from __future__ import annotations

import math
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from scrapy_scour.stores.waiting import NO_END, SPARE_ENTRIES, Note, Waiting

SLOTS = ("a", "b", "c", "d", "e", "f")
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("note"),
            st.sampled_from(SLOTS),
            st.sampled_from(("asked", "throttle")),
            st.sampled_from((0.1, 1.0, 2.5, 30.0)),
        ),
        st.tuples(
            st.just("hold"),
            st.sampled_from(SLOTS),
            st.sampled_from(("retry_after", "backoff")),
            st.sampled_from((1.0, 5.0, 9.0)),
        ),
        st.tuples(st.just("forget"), st.sampled_from(SLOTS)),
        st.tuples(st.just("over"), st.sampled_from((0.5, 5.0, 7.0))),
    ),
    max_size=60,
)


@given(STEPS)
def test_counts_ends_and_delays_are_those_of_a_plain_table(steps: list[tuple[Any, ...]]) -> None:
    waiting = Waiting()
    table: dict[str, tuple[str, float, float]] = {}
    for what, *values in steps:
        if what == "note":
            slot, why, delay = values
            waiting.note(slot, why, delay_s=delay)
            table[slot] = (why, NO_END, delay)
        elif what == "hold":
            slot, why, until = values
            waiting.note(slot, why, delay_s=0.0, until=until)
            table[slot] = (why, until, 0.0)
        elif what == "forget":
            waiting.forget(values[0])
            table.pop(values[0], None)
        else:
            ended = {slot for slot, (_, until, _) in table.items() if until <= values[0]}
            assert sorted(waiting.over(values[0])) == sorted(ended)
            for slot in ended:
                del table[slot]
        reasons = [why for why, _, _ in table.values()]
        assert waiting.counts == {why: reasons.count(why) for why in reasons}
        assert len(waiting) == len(table)
        for why in ("asked", "throttle", "retry_after", "backoff"):
            assert waiting.first_end(why) == min((end for w, end, _ in table.values() if w == why), default=math.inf)
        found = waiting.slowest(len(SLOTS))
        assert [note.delay_s for note in found] == sorted((delay for _, _, delay in table.values()), reverse=True)
        assert {note.host for note in found} == set(table)
        latest = waiting.latest(len(SLOTS))
        assert [note.until for note in latest] == sorted(
            (until for _, until, _ in table.values() if until != NO_END), reverse=True
        )


def test_the_slowest_is_found_at_once_whatever_was_slower_before() -> None:
    """Delays of the throttle go up and down, and hosts come and go: what was is in nobody's way."""
    waiting = Waiting()
    for n in range(2_000):
        waiting.note(f"{n}", "throttle", delay_s=50.0 + n)
        waiting.note(f"{n}", "throttle", delay_s=1.0)
    waiting.note("7", "throttle", delay_s=2.0)
    assert [(note.host, note.delay_s) for note in waiting.slowest(1)] == [("7", 2.0)]
    for n in range(2_000):
        waiting.note(f"gone {n}", "asked", delay_s=60.0, until=500.0)
    waiting.note("8", "backoff", delay_s=0.0, until=9.0)
    for n in range(2_000):
        waiting.forget(f"gone {n}")
    assert [note.host for note in waiting.slowest(1)] == ["7"]
    assert [note.host for note in waiting.latest(5)] == ["8"]
    assert len(waiting.slowest(3_000)) == 2_000


def test_a_question_costs_what_has_changed_since_the_last_one() -> None:
    """However many hosts there are: an order that is tidy is not looked through."""
    waiting = Waiting()
    for n in range(20_000):
        waiting.note(f"{n}", "throttle", delay_s=50.0 + n)
        waiting.note(f"{n}", "throttle", delay_s=1.0)
    waiting.slowest(20)
    for n in range(20):
        waiting.note(f"{n}", "throttle", delay_s=30.0)
        waiting.note(f"{n}", "throttle", delay_s=2.0)
    looks = 0

    class Counted(dict[str, Note]):
        def get(self, host: str, default: Any = None) -> Any:
            nonlocal looks
            looks += 1
            return super().get(host, default)

    waiting._notes = Counted(waiting._notes)
    assert {note.delay_s for note in waiting.slowest(20)} == {2.0}
    assert looks <= 10 * 20


def test_what_is_over_leaves_nothing_behind() -> None:
    """However often hosts come and go, the orders stay near what waits; also while all of them only go."""
    waiting = Waiting()

    def size() -> int:
        return len(waiting._slowest) + len(waiting._latest) + sum(map(len, waiting._ends.values()))

    for n in range(20_000):
        waiting.note(f"{n}", "retry_after", delay_s=float(n % 7), until=float(n))
        waiting.note(f"{n % 10}", "asked", delay_s=float(n))
        waiting.forget(f"{n}")
    assert len(waiting) <= 10
    assert size() <= 9 * (10 + SPARE_ENTRIES)
    for n in range(2_000):
        waiting.note(f"{n}", "retry_after", delay_s=1.0, until=float(n))
    for n in range(2_000):
        waiting.forget(f"{n}")
    assert len(waiting) == 0
    assert size() <= 3 * SPARE_ENTRIES
