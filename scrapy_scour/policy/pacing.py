"""How long a host is left alone between two requests.

Decides waits from what the site asked, what the user set and what was measured. It knows no hosts, keeps no
state and draws no dice: the random number comes in as ``draw``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scrapy_scour.policy.verdict import Verdict


@dataclass(frozen=True)
class MultipleOf:
    """A wait as a multiple of the time that the last answer took. ``factor`` is finite and not negative."""

    factor: float

    def __post_init__(self) -> None:
        if isinstance(self.factor, bool) or not isinstance(self.factor, (int, float)):
            raise ValueError(f"MultipleOf takes a number, not {self.factor!r}")
        if not math.isfinite(self.factor) or self.factor < 0:
            raise ValueError(f"MultipleOf takes a finite number that is not negative, not {self.factor!r}")

    def __str__(self) -> str:
        return f"{self.factor:g}x"


@dataclass(frozen=True)
class Throttle:
    """The adaptive wait after each answer.

    ``wait_from`` and ``wait_to`` are both :class:`MultipleOf` or both seconds, ``wait_from <= wait_to``.
    ``at_least_s`` is a floor in seconds, ``at_most_s`` a ceiling in seconds or None for none; the ceiling is
    not below the floor. Raises ValueError for anything else.
    """

    wait_from: MultipleOf | float
    wait_to: MultipleOf | float
    at_least_s: float
    at_most_s: float | None

    def __post_init__(self) -> None:
        low, high = self.wait_from, self.wait_to
        if isinstance(low, MultipleOf) != isinstance(high, MultipleOf):
            raise ValueError("both ends are multiples, or both are seconds")
        if _amount(low) > _amount(high):
            raise ValueError("the first is not larger than the second")
        if self.at_most_s is not None and self.at_most_s < self.at_least_s:
            raise ValueError("the wait at most is not below the wait at least")

    def wait_s(self, duration_s: float, draw: float) -> float:
        """Seconds to wait after an answer that took ``duration_s`` seconds; ``draw`` in [0, 1] picks in the range."""
        low, high = _amount(self.wait_from), _amount(self.wait_to)
        if isinstance(self.wait_from, MultipleOf):
            low, high = low * duration_s, high * duration_s
        wait = max(low + (high - low) * draw, self.at_least_s)
        return wait if self.at_most_s is None else min(wait, self.at_most_s)


def _amount(value: MultipleOf | float) -> float:
    return value.factor if isinstance(value, MultipleOf) else value


@dataclass(frozen=True)
class AskedDelay:
    """What becomes of the delay that a site asks for: the seconds to keep, or a refusal.

    ``clamped`` is True when the site asked for more than is kept.
    """

    seconds: float
    verdict: Verdict
    clamped: bool = False


def asked_delay(asked_s: float, maximum_s: float | None, over_maximum: str, source: str = "") -> AskedDelay:
    """Apply ``SCOUR_CRAWL_DELAY_MAX``: seconds, None for no maximum; ``over_maximum`` is "skip" or "clamp"."""
    if maximum_s is None or asked_s <= maximum_s:
        return AskedDelay(asked_s, Verdict(True))
    if over_maximum == "clamp":
        return AskedDelay(maximum_s, Verdict(True), clamped=True)
    reason = f"the site asks for {asked_s:g} s between requests, more than SCOUR_CRAWL_DELAY_MAX = {maximum_s:g} s"
    return AskedDelay(asked_s, Verdict(False, reason, source))


def growing_wait(waits_s: tuple[float, ...], nth: int) -> float:
    """The wait after the ``nth`` failure in a row (1 is the first): the list, then its last value doubled on and on.

    Never above a day. An empty list waits 0 s first and then grows from 1 s, so that nothing loops tightly.
    """
    if nth <= len(waits_s):
        return waits_s[nth - 1]
    last = max(waits_s[-1] if waits_s else 0.0, 1.0)
    return float(min(last * 2.0 ** min(nth - len(waits_s), 32), 86_400.0))
