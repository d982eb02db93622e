"""What one robots.txt says to each of the crawlers that it names, as people want to know it.

A file may name hundreds, mostly in a few groups: each group is read once, and judges each path once. Decides nothing
by itself: the rules are `robots_rules`, the pace is `robots_pace`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from scrapy_scour.policy import robots_lines as lines
from scrapy_scour.policy.robots_pace import NO_PACE, Pace
from scrapy_scour.policy.robots_rules import Rules
from scrapy_scour.policy.urls import path_and_query

_ROBOTS_PATH: Final = b"/robots.txt"


class Said(NamedTuple):
    """What is said to one crawler about one URL.

    ``name``: in lower case, ``*`` for all that are not named. ``line`` (from 1) and ``rule``: what decided, an Allow
    that overrules nothing included; None without. ``delay_s``: what that crawler is asked to leave between requests.
    """

    name: str
    allowed: bool
    line: int | None
    rule: str | None
    delay_s: float


class _Group:
    """The rules and the pace of crawlers to which the same lines speak."""

    def __init__(self, text: bytes, spans: tuple[tuple[int, int], ...], delay_s: float) -> None:
        self._text = text
        self._spans = spans
        self._rules = Rules([text[start:end] for start, end in spans])
        self._lines: dict[tuple[int, bytes], tuple[int, str]] = {}
        self.delay_s = delay_s

    def says(self, path: bytes) -> tuple[bool, int | None, str | None]:
        """Whether a path is allowed, and the line that says so."""
        if path == _ROBOTS_PATH:  # RFC 9309 2.2.2: always allowed
            return True, None, None
        kind, value = self._rules.deciding(path)
        if not kind:
            kind, value = lines.ALLOW, self._rules.allowing(path)
        allowed = kind == lines.ALLOW
        return (allowed, *self._line(kind, value)) if value else (allowed, None, None)

    def _line(self, kind: int, value: bytes) -> tuple[int, str]:
        found = self._lines.get((kind, value))
        if found is None:
            at = lines.find_rule(self._text, self._spans, kind, value)
            found = self._lines[kind, value] = lines.line_number(self._text, at), lines.written(self._text, at)
        return found


class Agents:
    """The crawlers that a file (its text as in `Robots`) names, and what it says to each."""

    def __init__(self, text: bytes) -> None:
        sections = lines.Sections(text)
        numbers: dict[bytes, list[int]] = {}
        runs: dict[int, int] = {}
        before = -1
        for number in sections.all():
            at = sections.value_at(number)
            numbers.setdefault(lines.agent_of(_line_at(text, at)), []).append(number)
            # Lines one below the other are spoken to as one.
            together = number == before + 1 and _is_next_line(text, sections.value_at(before), at)
            runs[number] = runs[before] if together else number
            before = number
        everyone = numbers.pop(lines.EVERYONE, [])
        has_pace = Pace.may_be_in(sections.lower)
        groups: dict[tuple[int, ...], _Group] = {}
        self._groups: dict[str, _Group] = {}
        for name, own in [*numbers.items(), (lines.EVERYONE, everyone)]:
            key = tuple(dict.fromkeys(runs[number] for number in own))
            if key not in groups:
                delay_s = (Pace.read(text, name) if has_pace else NO_PACE).delay_s
                groups[key] = _Group(text, sections.below(own, lines.RULES), delay_s)
            self._groups[name.decode("utf-8", "surrogateescape")] = groups[key]

    @property
    def names(self) -> list[str]:
        """In lower case and in the order of the file; ``*`` last, also where the file does not name it."""
        return list(self._groups)

    def say(self, url: str) -> Iterator[Said]:
        """What each of them is told about a URL, or a bare path."""
        path = path_and_query(url)
        said: dict[int, tuple[bool, int | None, str | None]] = {}
        for name, group in self._groups.items():
            if id(group) not in said:
                said[id(group)] = group.says(path)
            yield Said(name, *said[id(group)], group.delay_s)


def _line_at(text: bytes, at: int) -> bytes:
    end = text.find(b"\n", at)
    return lines.without_comment(text[at : len(text) if end < 0 else end])


def _is_next_line(text: bytes, first: int, second: int) -> bool:
    """Whether nothing but empty lines stands between the lines at these places."""
    end = text.find(b"\n", first)
    return not text[end : text.rfind(b"\n", end, second) + 1].strip()
