"""What an answer that says "later" means for its host, and what other failures do."""

from __future__ import annotations

import math
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_scour.policy.retry import LATER, QUIET_S, Pause, backoff_s, forgiven, pause
from scrapy_scour.policy.retry_after import retry_after_s

NOW = 1_800_000_000.0
DATE = formatdate(NOW, usegmt=True).encode()


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


#: Retry-After values, the answer's Date, seconds asked for (RFC 9110 10.2.3, 5.6.7).
HEADERS: list[tuple[list[bytes], bytes | None, float | None]] = [
    ([b"2"], None, 2.0),
    ([b" 120 "], None, 120.0),
    ([b"0"], None, None),
    ([b"-5"], None, None),
    ([b"1.5"], None, None),
    ([b"soon"], None, None),
    ([b""], None, None),
    ([b"\xff\xfe"], None, None),
    ([], None, None),
    ([b"1", b"7"], None, 7.0),
    ([b"nonsense", b"3"], None, 3.0),
    ([b"1" + b"0" * 30], None, 1e12),
    ([formatdate(NOW + 5, usegmt=True).encode()], DATE, 5.0),
    ([formatdate(NOW + 5, usegmt=True).encode()], None, 5.0),
    # the server's clock is ten minutes slow: its own Date counts
    ([formatdate(NOW - 595, usegmt=True).encode()], formatdate(NOW - 600, usegmt=True).encode(), 5.0),
    ([formatdate(NOW + 5, usegmt=True).encode()], b"no date", 5.0),
    ([formatdate(NOW - 5, usegmt=True).encode()], DATE, None),
    ([b"Friday, 15-Jan-27 08:00:05 GMT"], b"Fri, 15 Jan 2027 08:00:00 GMT", 5.0),
    ([b"Fri Jan 15 08:00:05 2027"], b"Fri, 15 Jan 2027 08:00:00 GMT", 5.0),
    ([b"Fri, 99 Nov 2027 23:59:59 GMT"], DATE, None),
]


@pytest.mark.parametrize(("values", "date", "seconds"), HEADERS)
def test_retry_after_is_seconds_or_a_date_against_the_answers_own(
    values: list[bytes], date: bytes | None, seconds: float | None
) -> None:
    assert retry_after_s(values, response_date=date, wall_now=NOW) == seconds


@given(st.lists(st.binary(max_size=60), max_size=3), st.none() | st.binary(max_size=60))
def test_reading_retry_after_never_fails_and_never_gives_less_than_nothing(
    values: list[bytes], date: bytes | None
) -> None:
    asked = retry_after_s(values, response_date=date, wall_now=NOW)
    assert asked is None or (asked > 0 and math.isfinite(asked))
