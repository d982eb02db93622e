"""What an answer that says "later" means for its host, and what other failures do."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_scour.policy.retry import LATER, QUIET_S, Pause, backoff_s, forgiven, pause


def decide(
    asked: float | None, *, incident: int = 1, in_a_row: int = 1, waits: tuple[float, ...] = (10.0, 60.0)
) -> Pause:
    return pause(asked, incident=incident, in_a_row=in_a_row, waits_s=waits, retry_after_max_s=60.0, most_in_a_row=2)


def test_the_statuses_that_say_later_are_429_and_503() -> None:
    assert {429, 503} == LATER


@pytest.mark.parametrize("asked", [0.5, 4.0, 60.0])
@pytest.mark.parametrize("incident", [1, 2, 9])
def test_a_usable_time_is_what_is_waited_whatever_the_incident(asked: float, incident: int) -> None:
    assert decide(asked, incident=incident) == Pause(asked)


@pytest.mark.parametrize(("incident", "wait"), [(1, 10.0), (2, 60.0), (3, 60.0), (50, 60.0)])
def test_without_a_usable_time_the_configured_waits_count_per_incident_and_the_last_repeats(
    incident: int, wait: float
) -> None:
    assert decide(None, incident=incident) == Pause(wait)


def test_without_configured_waits_there_is_still_one() -> None:
    assert decide(None, waits=()) == Pause(1.0)


@pytest.mark.parametrize("asked", [60.1, 86_400.0, 1e12])
def test_a_time_over_the_maximum_gives_the_host_up_until_then(asked: float) -> None:
    decided = decide(asked)
    assert (decided.wait_s, decided.give_up_s, decided.too_long) == (asked, asked, True)
    assert "SCOUR_RETRY_AFTER_MAX = 60 s" in decided.why


@pytest.mark.parametrize("asked", [None, 1.0])
def test_a_host_that_refuses_too_often_in_a_row_is_given_up_for_the_run(asked: float | None) -> None:
    decided = decide(asked, incident=3, in_a_row=3)
    assert decided.give_up_s == math.inf
    assert not decided.too_long
    assert decided.wait_s == (60.0 if asked is None else 1.0)


@given(
    st.none() | st.floats(1e-3, 1e12), st.integers(1, 100), st.integers(1, 100), st.lists(st.floats(0, 1e5), max_size=4)
)
def test_a_host_is_never_asked_earlier_than_it_said(
    asked: float | None, incident: int, in_a_row: int, waits: list[float]
) -> None:
    decided = decide(asked, incident=incident, in_a_row=in_a_row, waits=tuple(waits))
    if asked is not None:
        assert decided.wait_s >= asked
    if decided.give_up_s is not None:
        assert decided.give_up_s >= decided.wait_s
    assert (in_a_row > 2) <= (decided.give_up_s is not None)


@pytest.mark.parametrize(
    ("quiet", "last_wait", "forgets"),
    [(QUIET_S, 1.0, False), (QUIET_S + 0.1, 1.0, True), (119.0, 60.0, False), (121.0, 60.0, True), (-5.0, 1.0, False)],
)
def test_incidents_are_forgotten_after_a_minute_or_twice_the_last_wait(
    quiet: float, last_wait: float, forgets: bool
) -> None:
    assert forgiven(1000.0 + quiet, 1000.0, last_wait) is forgets


@pytest.mark.parametrize(
    ("first", "waits"), [(0.0, [0.0, 0.0, 0.0]), (2.0, [2.0, 4.0, 8.0]), (3000.0, [3000.0, 3600.0, 3600.0])]
)
def test_backoff_doubles_up_to_an_hour_and_nothing_stays_nothing(first: float, waits: list[float]) -> None:
    assert [backoff_s(first, nth) for nth in (1, 2, 3)] == waits
    assert backoff_s(first, 10_000) == (3600.0 if first else 0.0)
