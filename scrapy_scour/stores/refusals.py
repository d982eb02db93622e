"""Remembers why requests ended without a page, for the report: reasons with their number and some URLs of each.

Memory is bounded: past so many different reasons of one category the rarest are only summed. Decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator

#: Different reasons of one category that are kept, and of which the most frequent are for the page.
KEPT_REASONS = 200
MOST_REASONS = 20
#: Examples of one reason.
MOST_EXAMPLES = 5
#: Characters kept of a URL or a reason.
LONGEST_TEXT = 300
#: Stands in a reason for what differs from host to host.
SOME = "\u2026"

_URL = re.compile(r"https?://[^\s'\"<>]*[^\s'\"<>().,;:]")
_NAME = re.compile(r"([\w-]+(?:\.[\w-]+)*)(?::\d+)?")


def without_hosts(text: str, hosts: Container[str]) -> str:
    """The text with ``SOME`` for every URL and for the names of ``hosts``: what it says of one it says of many."""
    return _NAME.sub(lambda name: SOME if name[1].lower() in hosts else name[0], _URL.sub(SOME, text))


class Reason:
    """One reason for which requests ended without a page: how many, and some of their URLs."""

    __slots__ = ("count", "examples")

    def __init__(self) -> None:
        self.count = 0
        self.examples: list[str] = []

    def add(self, count: int, examples: Iterable[str]) -> None:
        """Count so many more, and keep their examples as long as there is room."""
        self.count += count
        if len(self.examples) < MOST_EXAMPLES:
            self.examples = [*self.examples, *examples][:MOST_EXAMPLES]


class Refusals:
    """Why requests ended without a page, by category and text.

    Of so many different reasons that some were summed, one that comes again is counted from then on.
    """

    def __init__(self) -> None:
        self._reasons: dict[str, dict[str, Reason]] = {}
        self._others: dict[str, Reason] = {}

    def add(self, category: str, text: str, url: str) -> None:
        """Count one."""
        reasons = self._reasons.setdefault(category, {})
        text = text[:LONGEST_TEXT]
        reason = reasons.get(text)
        if reason is None:
            if len(reasons) >= KEPT_REASONS:
                self._sum_half(category, reasons)
            reason = reasons[text] = Reason()
        reason.add(1, [url if len(url) <= LONGEST_TEXT else f"{url[:LONGEST_TEXT]} ..."])

    def groups(self) -> Iterator[tuple[str, int, list[tuple[str, Reason]], Reason]]:
        """Category, number, its most frequent reasons and the sum of the others; the largest first."""
        found = []
        for category, reasons in self._reasons.items():
            ordered = sorted(reasons.items(), key=lambda item: -item[1].count)
            rest = Reason()
            for reason in (*(reason for _, reason in ordered[MOST_REASONS:]), self._others.get(category, Reason())):
                rest.add(reason.count, reason.examples)
            number = sum(reason.count for _, reason in ordered[:MOST_REASONS]) + rest.count
            found.append((category, number, ordered[:MOST_REASONS], rest))
        yield from sorted(found, key=lambda group: -group[1])

    def _sum_half(self, category: str, reasons: dict[str, Reason]) -> None:
        """Sum the rarer half; it costs each new reason a fixed part of a sort."""
        others = self._others.setdefault(category, Reason())
        for text in sorted(reasons, key=lambda text: reasons[text].count)[: len(reasons) // 2]:
            reason = reasons.pop(text)
            others.add(reason.count, reason.examples)
