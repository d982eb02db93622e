"""What a Retry-After header asks for.

Decides how many seconds a host wants to be left alone. It does not decide what is done about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

#: A number with more digits than this is "longer than any crawl", not a number to compute with.
_MOST_DIGITS = 12
#: A leap second, which RFC 9110 5.6.7 permits.
_LEAP_SECOND = re.compile(r"(?<=\d\d:\d\d:)60\b")
#: The obsolete form of RFC 850, with a year of two digits.
_TWO_DIGIT_YEAR = re.compile(r"\b\d{1,2}-[A-Za-z]{3}-(\d\d)\b")


def retry_after_s(values: Iterable[bytes], *, response_date: bytes | None, wall_now: float) -> float | None:
    """Seconds from the answer until the host may be asked again, or None when no value is usable.

    ``values``: the Retry-After header lines (RFC 9110 10.2.3): whole seconds, or a date in any of the three forms of
    RFC 9110 5.6.7, which counts from the answer's own ``Date`` when that is readable, else from ``wall_now`` (seconds
    since the epoch), so that a server with a wrong clock is understood. Of several lines, or numbers that a proxy has
    joined with commas, the longest counts. Zero,
    negative, past and unreadable values are not usable: they say nothing about when.
    """
    waits = [wait for value in values if (wait := _one(value, response_date, wall_now)) is not None and wait > 0]
    return max(waits) if waits else None


def _one(value: bytes, response_date: bytes | None, wall_now: float) -> float | None:
    text = value.decode("latin-1").strip()
    numbers = [number.strip() for number in text.split(",")]
    if all(number.isascii() and number.isdigit() for number in numbers):
        return max(map(_seconds, numbers))
    at = http_date(text, wall_now=wall_now)
    if at is None:
        return None
    date = http_date(response_date.decode("latin-1"), wall_now=wall_now) if response_date is not None else None
    return at - (wall_now if date is None else date)


def _seconds(number: str) -> float:
    digits = number.lstrip("0")
    return float(digits or "0") if len(digits) <= _MOST_DIGITS else 10.0**_MOST_DIGITS


def http_date(text: str, *, wall_now: float) -> float | None:
    """An HTTP date as seconds since the epoch, None when it is none (RFC 9110 5.6.7: three forms, always UTC).

    A year of two digits is the nearest one that is no more than 50 years after ``wall_now``.
    """
    if not any(character.isdigit() for character in text) or not any(character.isalpha() for character in text):
        return None
    try:
        moment = parsedate_to_datetime(_LEAP_SECOND.sub("59", text.strip()))
        if _TWO_DIGIT_YEAR.search(text):
            latest = datetime.fromtimestamp(wall_now, tz=timezone.utc).year + 50
            moment = moment.replace(year=latest - (latest - moment.year) % 100)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        return moment.timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def utc(seconds: float) -> str:
    """A moment for people, to the second, UTC."""
    return datetime.fromtimestamp(seconds, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
