"""How the pace line, the summary and the report put numbers and times into words.

Pure: no clock, no log, and no number is too large for it.
"""

from __future__ import annotations

from datetime import datetime

_DAY_S = 86_400
#: Longer times are only called so, seconds: a hundred years.
_VERY_LONG_S = 36_525 * _DAY_S
#: A delay is said in seconds up to here, then as a duration.
MANY_S = 1e7


def spoken(seconds: float) -> str:
    """A duration as a person would say it, in at most two units; rounded up, so that it never promises too much."""
    if not seconds < _VERY_LONG_S:
        return "more than 100 years"
    left = int(-(-seconds // 1))
    if left < 60:
        return f"{left} s"
    minutes = -(-left // 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours + (minutes > 0), 24)
    return f"{days} days {hours} h" if hours else f"{days} days"


def delay(seconds: float, exact: bool) -> str:
    """A delay in seconds; ``exact`` for one that somebody wrote, in three digits else."""
    if seconds >= MANY_S:
        return spoken(seconds)
    return f"{seconds:g} s" if exact else f"{seconds:.3g} s"


def clock_time(wall: float, wall_now: float) -> str:
    """Local time, as in the log; with the date when it is not within a day."""
    try:
        there = datetime.fromtimestamp(wall)
    except (ValueError, OverflowError, OSError):
        return "after the year 9999"
    return f"{there:%H:%M:%S}" if wall - wall_now < _DAY_S else f"{there:%Y-%m-%d %H:%M:%S}"


def number(count: int, word: str) -> str:
    """So many of something: ``word`` in the singular."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
