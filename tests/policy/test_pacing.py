"""The waits: what a site asked, what the throttle makes of an answer, how failures in a row add up."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_scour.policy.pacing import MultipleOf, Throttle, asked_delay, growing_wait

SECONDS = st.floats(min_value=0.0, max_value=1e6)
DRAWS = st.floats(min_value=0.0, max_value=1.0)


@pytest.mark.parametrize("factor", [0, 1, 2.5, 100])
def test_a_multiple_takes_finite_numbers_that_are_not_negative(factor: float) -> None:
    assert MultipleOf(factor).factor == factor


@pytest.mark.parametrize("factor", [-1, -0.001, math.inf, math.nan, True, "2", None])
def test_a_multiple_refuses_anything_else(factor: Any) -> None:
    with pytest.raises(ValueError, match="MultipleOf takes"):
        MultipleOf(factor)


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ((MultipleOf(1), 2.0, 0.0, None), "both ends are multiples"),
        ((1.0, MultipleOf(2), 0.0, None), "both ends are multiples"),
        ((MultipleOf(2), MultipleOf(1), 0.0, None), "not larger than the second"),
        ((3.0, 2.0, 0.0, None), "not larger than the second"),
        ((1.0, 2.0, 5.0, 4.0), "not below"),
    ],
)
def test_a_throttle_refuses_mixed_kinds_and_crossed_bounds(arguments: Any, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        Throttle(*arguments)


#: from, to, at least, at most, duration, draw, wait
WAITS = [
    (MultipleOf(1), MultipleOf(2), 0.25, None, 0.1, 0.0, 0.25),
    (MultipleOf(1), MultipleOf(2), 0.25, None, 0.3, 0.0, 0.3),
    (MultipleOf(1), MultipleOf(2), 0.25, None, 0.3, 1.0, 0.6),
    (MultipleOf(1), MultipleOf(2), 0.25, None, 0.5, 0.5, 0.75),
    (MultipleOf(1), MultipleOf(2), 0.25, 0.7, 0.5, 1.0, 0.7),
    (1.0, 3.0, 0.25, None, 100.0, 0.0, 1.0),
    (1.0, 3.0, 0.25, None, 0.0, 1.0, 3.0),
    (1.0, 3.0, 2.0, None, 0.0, 0.0, 2.0),
    (2.0, 2.0, 0.0, None, 9.0, 0.3, 2.0),
]


@pytest.mark.parametrize(("low", "high", "least", "most", "duration", "draw", "wait"), WAITS)
def test_the_throttle_waits_within_its_range_and_bounds(
    low: Any, high: Any, least: float, most: float | None, duration: float, draw: float, wait: float
) -> None:
    assert Throttle(low, high, least, most).wait_s(duration, draw) == pytest.approx(wait)


@given(st.floats(0.0, 50.0), st.floats(0.0, 50.0), SECONDS, DRAWS, SECONDS)
def test_a_slower_answer_never_means_a_shorter_wait(
    factor: float, more: float, duration: float, draw: float, longer: float
) -> None:
    throttle = Throttle(MultipleOf(factor), MultipleOf(factor + more), 0.25, None)
    wait = throttle.wait_s(duration, draw)
    assert wait >= 0.25
    rounding = 1 + 1e-9
    assert factor * duration / rounding <= wait <= max(0.25, (factor + more) * duration * rounding)
    assert throttle.wait_s(duration + longer, draw) * rounding >= wait


@pytest.mark.parametrize(
    ("asked", "maximum", "over", "seconds", "allowed", "clamped"),
    [
        (10.0, None, "skip", 10.0, True, False),
        (99_999_999_999.0, None, "skip", 99_999_999_999.0, True, False),
        (10.0, 10.0, "skip", 10.0, True, False),
        (10.1, 10.0, "skip", 10.1, False, False),
        (10.1, 10.0, "clamp", 10.0, True, True),
        (0.0, 0.0, "skip", 0.0, True, False),
        (0.1, 0.0, "skip", 0.1, False, False),
    ],
)
def test_a_delay_over_the_maximum_is_refused_or_cut(
    asked: float, maximum: float | None, over: str, seconds: float, allowed: bool, clamped: bool
) -> None:
    kept = asked_delay(asked, maximum, over, "robots.txt line 2")
    assert (kept.seconds, bool(kept.verdict), kept.clamped) == (seconds, allowed, clamped)
    if not allowed:
        assert "SCOUR_CRAWL_DELAY_MAX" in kept.verdict.reason
        assert kept.verdict.source == "robots.txt line 2"


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        ((5.0, 30.0), [5.0, 30.0, 60.0, 120.0, 240.0]),
        ((), [2.0, 4.0, 8.0]),
        ((0.0,), [0.0, 2.0, 4.0]),
    ],
)
def test_failures_in_a_row_wait_the_list_and_then_double(waits: tuple[float, ...], expected: list[float]) -> None:
    assert [growing_wait(waits, nth) for nth in range(1, len(expected) + 1)] == expected


@given(st.lists(st.floats(0.0, 1000.0), max_size=4).map(lambda waits: tuple(sorted(waits))), st.integers(1, 10_000))
def test_a_growing_wait_never_shrinks_and_ends_at_a_day(waits: tuple[float, ...], nth: int) -> None:
    assert growing_wait(waits, nth) <= growing_wait(waits, nth + 1) <= 86_400.0
