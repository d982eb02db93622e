"""Retry-After as RFC 9110 10.2.3 has it: seconds, or a date in one of three forms against the answer's own clock."""

from __future__ import annotations

import datetime
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_scour.policy.retry_after import http_date, retry_after_s, utc

NOW = datetime.datetime(2026, 3, 4, 5, 6, 7, tzinfo=datetime.timezone.utc).timestamp()
"""Wed, 04 Mar 2026 05:06:07 GMT"""


def asked(*values: bytes, date: bytes | None = None, now: float = NOW) -> float | None:
    return retry_after_s(values, response_date=date, wall_now=now)


SECONDS: tuple[tuple[bytes, float], ...] = (
    (b"120", 120.0),
    (b" 7\t", 7.0),
    (b"007", 7.0),
    (b"5, 30", 30.0),
    (b"999999999999", 999_999_999_999.0),
    (b"9" * 400, 1e12),
    (b"0" * 400 + b"3", 3.0),
)


@pytest.mark.parametrize(("value", "seconds"), SECONDS, ids=[repr(value[:16]) for value, _ in SECONDS])
def test_a_whole_number_is_seconds_however_many_digits_it_has(value: bytes, seconds: float) -> None:
    """RFC 9110 10.2.3: delay-seconds."""
    assert asked(value) == seconds


DATES: tuple[tuple[str, bytes], ...] = (
    ("IMF-fixdate", b"Wed, 04 Mar 2026 05:07:07 GMT"),
    ("RFC 850", b"Wednesday, 04-Mar-26 05:07:07 GMT"),
    ("asctime", b"Wed Mar  4 05:07:07 2026"),
    ("another zone", b"Wed, 04 Mar 2026 06:07:07 +0100"),
    ("no zone", b"Wed, 04 Mar 2026 05:07:07"),
    ("a leap second", b"Wed, 04 Mar 2026 05:06:60 GMT"),
)


@pytest.mark.parametrize("value", [value for _, value in DATES], ids=[name for name, _ in DATES])
def test_a_date_is_read_in_all_three_forms_as_utc(value: bytes) -> None:
    """RFC 9110 5.6.7; a leap second is the second before."""
    assert asked(value) == (52.0 if b":60" in value else 60.0)


YEARS: tuple[tuple[str, int], ...] = (
    ("26", 2026),
    ("69", 2069),
    ("76", 2076),
    ("77", 1977),
    ("99", 1999),
    ("00", 2000),
)


@pytest.mark.parametrize(("written", "year"), YEARS)
def test_a_year_of_two_digits_is_at_most_fifty_years_ahead(written: str, year: int) -> None:
    """RFC 9110 5.6.7."""
    moment = http_date(f"Sunday, 06-Nov-{written} 08:49:37 GMT", wall_now=NOW)
    assert moment == datetime.datetime(year, 11, 6, 8, 49, 37, tzinfo=datetime.timezone.utc).timestamp()


NO_TIME: tuple[bytes, ...] = (
    b"",
    b"0",
    b"000",
    b"-5",
    b"+5",
    b"1.5",
    b"1e3",
    b"5s",
    b"soon",
    b"in 5 minutes",
    b"5, soon",
    b"5,",
    b"\xd9\xa3",
    "٣".encode(),
    b"\xff\xfe",
    b"\x00",
    b"99 Nov",
    b"Sun, 99 Nov 2026 08:49:37 GMT",
    b"Tue, 31 Feb 2026 08:49:37 GMT",
    b"Wed, 04 Mar 2026 25:00:00 GMT",
    b"Fri, 01 Jan 99999 00:00:00 GMT",
    b"Sun, 29-Feb-27 08:49:37 GMT",
    b"Wed, 04 Mar 2026 05:07:07 -9999",
    b"2026-03-04T05:07:07Z",
    b"Wed, 04 Mar 2026",
    b"Wed, 04 Mar 2026 05:06:07 GMT",
    b"Wed, 04 Mar 2026 05:06:06 GMT",
    b"Thu, 01 Jan 1970 00:00:00 GMT",
)


@pytest.mark.parametrize("value", NO_TIME, ids=repr)
def test_zero_negative_past_and_unreadable_values_say_nothing(value: bytes) -> None:
    assert asked(value) is None
    assert asked() is None


def test_of_several_lines_the_longest_usable_one_counts() -> None:
    assert asked(b"5", b"0", b"nonsense", b"Wed, 04 Mar 2026 05:06:37 GMT", b"-1") == 30.0


def test_a_date_counts_from_the_answers_own_date() -> None:
    """RFC 9110 6.6.1: a server whose clock is years off still says how long to wait."""
    assert asked(b"Sun, 06 Nov 1994 08:50:07 GMT", date=b"Sun, 06 Nov 1994 08:49:37 GMT") == 30.0
    assert asked(b"Sun Nov  6 08:50:07 1994", date=b"Sunday, 06-Nov-94 08:49:37 GMT") == 30.0
    assert asked(b"Wed, 04 Mar 2026 05:06:37 GMT", date=b"Wed, 04 Mar 2026 05:06:37 GMT") is None


@pytest.mark.parametrize("date", [None, b"", b"yesterday", b"Sun, 99 Nov 2026 08:49:37 GMT", b"1772600767"])
def test_without_a_readable_date_it_counts_from_our_own_clock(date: bytes | None) -> None:
    assert asked(b"Wed, 04 Mar 2026 05:06:37 GMT", date=date) == 30.0


def test_seconds_do_not_depend_on_any_clock() -> None:
    assert asked(b"30", date=b"Sun, 06 Nov 1994 08:49:37 GMT", now=0.0) == 30.0


@given(st.lists(st.binary(max_size=60), max_size=4), st.none() | st.binary(max_size=40))
def test_no_value_is_too_odd(values: list[bytes], date: bytes | None) -> None:
    """Whatever a server sends gives a positive number of seconds or None, never an error."""
    wait = retry_after_s(values, response_date=date, wall_now=NOW)
    assert wait is None or 0 < wait <= 1e12


@given(st.text(st.sampled_from("0123456789 :,-+JanFebMonGMT"), max_size=40))
def test_nothing_that_looks_like_a_date_is_an_error(text: str) -> None:
    moment = http_date(text, wall_now=NOW)
    assert moment is None or isinstance(moment, float)


@given(st.integers(min_value=1, max_value=10**9))
def test_every_date_ahead_is_understood(seconds: int) -> None:
    written = formatdate(NOW + seconds, usegmt=True).encode()
    assert asked(written) == pytest.approx(seconds, abs=1.0)


def test_a_moment_is_written_for_people() -> None:
    assert utc(NOW) == "2026-03-04 05:06:07 UTC"
