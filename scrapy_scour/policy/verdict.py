"""The one shape of answer that every policy gives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """Whether something may be done, why, and what decided it.

    ``allowed``
        True or False; never None: what cannot be decided is not allowed.
    ``reason``
        One plain sentence part for people, without the URL ("Disallow: /private").
    ``source``
        What decided, precise enough to look it up: ``"robots.txt line 7"``,
        ``"scope: excluded pattern"``; empty when nothing spoke against it.
    """

    allowed: bool
    reason: str = ""
    source: str = ""

    def __bool__(self) -> bool:
        return self.allowed
