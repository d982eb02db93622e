"""What waits, by reason and by delay, is always what was last noted of each slot."""

from __future__ import annotations

import math
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from scrapy_scour.stores.waiting import LOOKS, NO_END, SPARE_ENTRIES, Waiting

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
            waiting.note(slot, slot, why, delay_s=delay)
            table[slot] = (why, NO_END, delay)
        elif what == "hold":
            slot, why, until = values
            waiting.note(slot, slot, why, delay_s=0.0, until=until)
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
        assert {note.slot for note in found} == set(table)


def test_a_slot_that_is_slower_than_all_have_been_is_found_at_once() -> None:
    """Delays of the throttle go up and down; one that was slow for a while stays in the way only within bounds."""
    waiting = Waiting()
    for n in range(10 * LOOKS):
        waiting.note(f"{n}", f"{n}", "throttle", delay_s=50.0)
        waiting.note(f"{n}", f"{n}", "throttle", delay_s=1.0)
    waiting.note("7", "7", "throttle", delay_s=60.0)
    assert waiting.slowest(1)[0].slot == "7"
    while waiting.slowest(1)[0].delay_s == 60.0:
        waiting.note("7", "7", "throttle", delay_s=2.0)
    for _ in range(20):  # each question puts a few in their places
        waiting.slowest(1)
    assert [note.slot for note in waiting.slowest(1)] == ["7"]


def test_what_is_over_leaves_nothing_behind() -> None:
    """However often slots come and go, the heaps stay near what waits."""
    waiting = Waiting()
    for n in range(20_000):
        waiting.note(f"{n}", f"{n}", "retry_after", delay_s=float(n % 7), until=float(n))
        waiting.note(f"{n % 10}", f"{n % 10}", "asked", delay_s=float(n))
        waiting.forget(f"{n}")
    assert len(waiting) <= 10
    held = sum(len(heap) for heap in waiting._ends.values())
    assert held + len(waiting._delays) <= 6 * (10 + SPARE_ENTRIES)
