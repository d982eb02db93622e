"""What a host's refusals and failures mean for how long it is left alone.

Decides the wait after an answer 429 or 503 and after other failures that are retried. Retry-After itself is read by
``retry_after``; the host's counters are the caller's.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Statuses with which a server says "later" (RFC 6585 4, RFC 9110 15.6.4).
LATER = frozenset({429, 503})
#: An incident is forgotten when this many seconds, or twice the last wait, have passed without another.
QUIET_S = 60.0
_BACKOFF_CEILING_S = 3600.0


@dataclass(frozen=True)
class Pause:
    """What to do with a host. ``wait_s``: leave it alone for so long. ``give_up_s``: meanwhile, let its requests fail
    for so long (``inf``: for this run), None for not. ``too_long``: it is given up because of the time it named.
    ``why``: for people."""

    wait_s: float
    give_up_s: float | None = None
    too_long: bool = False
    why: str = ""


def pause(
    retry_after_s: float | None,
    *,
    incident: int,
    in_a_row: int,
    waits_s: tuple[float, ...],
    retry_after_max_s: float,
    most_in_a_row: int,
) -> Pause:
    """What a refusal for rate means.

    ``retry_after_s``: what it asked for, None if nothing usable. ``incident``: which one since the last quiet time, 1
    is the first. ``in_a_row``: how many without a good answer between them, this one included; more than
    ``most_in_a_row`` and the host is given up. ``waits_s``: the waits for incidents that name no time; the last one
    repeats. A host is never asked earlier than it said: more than ``retry_after_max_s`` gives it up until then.
    """
    if retry_after_s is not None and retry_after_s > retry_after_max_s:
        return Pause(
            retry_after_s,
            retry_after_s,
            True,
            f"it asked to be left alone for {retry_after_s:g} s, more than"
            f" SCOUR_RETRY_AFTER_MAX = {retry_after_max_s:g} s",
        )
    own = waits_s[min(incident, len(waits_s)) - 1] if waits_s else 1.0
    wait = own if retry_after_s is None else retry_after_s
    if in_a_row > most_in_a_row:
        return Pause(wait, float("inf"), why=f"it refused for rate {in_a_row} times in a row")
    return Pause(wait)


def forgiven(now: float, held_until: float, last_wait_s: float) -> bool:
    """Whether the quiet since the last incident's wait is long enough to forget it."""
    return now - held_until > max(QUIET_S, 2.0 * last_wait_s)


def backoff_s(first_s: float, nth: int) -> float:
    """The wait after the ``nth`` retried failure in a row: ``first_s`` doubling, at most an hour; 0 when it is 0."""
    return min(first_s * 2.0 ** min(nth - 1, 32), _BACKOFF_CEILING_S)
