"""The one shape of answer that every policy gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final


class Verdict:
    """Whether something may be done, why, and what decided it.

    ``allowed``
        True or False; never None: what cannot be decided is not allowed.
    ``reason``
        One plain sentence part for people, without the URL ("Disallow: /private").
    ``source``
        What decided, precise enough to look it up: ``"robots.txt line 7"``,
        ``"scope: excluded pattern"``; empty when nothing spoke against it.
    ``explain``
        Gives reason and source when one of them is asked for, instead of now: most are never read.
    """

    __slots__ = ("_said", "allowed")

    def __init__(
        self, allowed: bool, reason: str = "", source: str = "", explain: Callable[[], tuple[str, str]] | None = None
    ) -> None:
        self.allowed: Final = allowed
        self._said: tuple[str, str] | Callable[[], tuple[str, str]] = explain or (reason, source)

    def _explanation(self) -> tuple[str, str]:
        if not isinstance(self._said, tuple):
            self._said = self._said()
        return self._said

    @property
    def reason(self) -> str:
        return self._explanation()[0]

    @property
    def source(self) -> str:
        return self._explanation()[1]

    def __bool__(self) -> bool:
        return self.allowed

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Verdict):
            return NotImplemented
        return (self.allowed, self.reason, self.source) == (other.allowed, other.reason, other.source)

    def __hash__(self) -> int:
        return hash((self.allowed, self.reason, self.source))

    def __repr__(self) -> str:
        return f"Verdict(allowed={self.allowed!r}, reason={self.reason!r}, source={self.source!r})"
