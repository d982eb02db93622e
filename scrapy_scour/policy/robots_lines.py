"""A robots.txt as text: what a line is, and which lines belong to an agent.

Decides what the octets of a file say (RFC 9309 2.2, 2.3), not yet what a pattern matches: that is
`robots_rules`. Nothing is kept per line: a crawler asks a file under one name, so the lines of other agents
are passed over unread, and everything here works on slices of the text.  All of it takes time linear in the
size of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final

AGENT, ALLOW, DISALLOW, CRAWL_DELAY, REQUEST_RATE, VISIT_TIME, SITEMAP = range(1, 8)
"""The kinds of record; 0 is a line that says nothing to us."""

_DISALLOW_KEYS: Final = (b"disallow", b"dissallow", b"dissalow", b"disalow", b"diasllow", b"disallaw")
_KEYS: Final = {
    b"user-agent": AGENT,
    b"useragent": AGENT,
    b"user agent": AGENT,
    b"allow": ALLOW,
    **dict.fromkeys(_DISALLOW_KEYS, DISALLOW),
    b"crawl-delay": CRAWL_DELAY,
    b"crawl delay": CRAWL_DELAY,
    b"request-rate": REQUEST_RATE,
    b"request rate": REQUEST_RATE,
    b"visit-time": VISIT_TIME,
    b"visit time": VISIT_TIME,
    b"sitemap": SITEMAP,
    b"sitemaps": SITEMAP,
    b"site-map": SITEMAP,
}
# The usual spellings, so that most lines need no second look.
_AS_WRITTEN: Final = {
    spelling: kind
    for key, kind in _KEYS.items()
    for spelling in (
        key,
        key.capitalize(),
        b"-".join(word.capitalize() for word in key.split(b"-")),
        key.upper(),
    )
}
# Never Allow: leniency opens nothing.
_WITHOUT_COLON: Final = {b"user-agent": AGENT, b"useragent": AGENT, **dict.fromkeys(_DISALLOW_KEYS, DISALLOW)}

# What a line of that kind must contain in lower case: a quick way to know that a text has none.
_TRACES: Final = {
    ALLOW: (b"allow",),
    DISALLOW: (b"llow", b"alow", b"allaw"),
    CRAWL_DELAY: (b"crawl",),
    REQUEST_RATE: (b"request",),
    VISIT_TIME: (b"visit",),
    SITEMAP: (b"sitemap", b"site-map"),
}

RULES: Final = frozenset({ALLOW, DISALLOW})
EVERYONE: Final = b"*"
_LEAD_IN: Final = b"\nuser-agent:"
_PRODUCT = re.compile(rb"[A-Za-z0-9_\-\x80-\xff]*")
_UTF8_MARK: Final = b"\xef\xbb\xbf"
# A cut line may end within an escape, or at a "$" that was not the last octet: without them it says more, not
# less.
_CUT_WITHIN = re.compile(rb"(?:%[0-9A-Fa-f]?|\$)\Z")


# --- From the octets of a body to a text with one kind of line end ------------------------------------------


def read_body(body: bytes, *, truncated: bool) -> bytes:
    """The text of a body: no byte order mark, every line led in by one LF (the first one too).

    ``truncated``: more was sent than this.  A last line without an end is then part of a line: a Disallow
    stays (its beginning refuses more), an Allow would allow more and a user-agent line would name somebody
    else, so those go.
    """
    if body[:1] >= b"\xef":
        body = _without_mark(body)
    if b"\r" in body:
        body = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    text = b"\n" + body
    return _without_part_of_a_line(text) if truncated else text


def _without_mark(body: bytes) -> bytes:
    """A UTF-8 mark, or part of one, is dropped; UTF-16 is decoded if NULs show that it is; any other octet stays."""
    if (body[:2] == b"\xff\xfe" and body[3:4] == b"\0") or (body[:2] == b"\xfe\xff" and body[2:3] == b"\0"):
        return body.decode("utf-16", "replace").encode("utf-8", "replace")
    for mark in (_UTF8_MARK, _UTF8_MARK[:2], _UTF8_MARK[:1], b"\xff\xfe", b"\xfe\xff"):
        if body.startswith(mark):
            return body[len(mark) :]
    return body


def without_open_end(text: bytes) -> bytes:
    """Without the user-agent lines at the end of a cut text: what they are told was cut off, so it is not known.

    Taken as they stand they would be told nothing, and be exempt from the rules for everyone.
    """
    end = len(text)
    line_end = end
    while line_end > 0:
        start = text.rfind(b"\n", 0, line_end)
        kind = read_line(text[start + 1 : line_end])[0]
        if kind in RULES:
            break
        if kind == AGENT:
            end = start
        line_end = start
    return text[:end]


def _without_part_of_a_line(text: bytes) -> bytes:
    start = text.rfind(b"\n") + 1
    kind, _ = read_line(text[start:])
    if kind in (ALLOW, AGENT):
        return text[:start]
    return text[:start] + _CUT_WITHIN.sub(b"", text[start:]) if kind == DISALLOW else text


# --- One line -----------------------------------------------------------------------------------------------


def read_line(line: bytes) -> tuple[int, bytes]:
    """Kind and value of a line (without its end); the value is as written, without comment and space around
    it.
    """
    if b"#" in line:
        line = line[: line.index(b"#")]
    key, colon, value = line.partition(b":")
    kind = _AS_WRITTEN.get(key) if colon else 0
    if kind:
        return kind, value.strip()
    if colon:
        kind = _KEYS.get(b" ".join(key.lower().split()))
        if kind:
            return kind, value.strip()
    words = line.split()
    if len(words) == 2:
        kind = _WITHOUT_COLON.get(words[0].lower())
        if kind:
            return kind, words[1]
    return 0, b""


def lines_of(text: bytes, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, bytes]]:
    """Kind, value and place in the text of every line in some sections of it."""
    for start, end in spans:
        at = start
        for line in text[start:end].split(b"\n"):
            kind, value = read_line(line)
            if kind:
                yield kind, at, value
            at += len(line) + 1


def has_key(key: bytes) -> bool:
    """Whether that is a key we know, misspelled or not; in lower case, with single spaces."""
    return key in _KEYS


def find_rule(text: bytes, spans: Sequence[tuple[int, int]], kind: int, value: bytes) -> int:
    """Where the first line with that rule begins in some sections of the text, 0 if it is not there."""
    for start, end in spans:
        at = text.find(value, start, end)
        while at >= 0:
            behind = at + len(value)
            line_end = text.find(b"\n", behind, end)
            line_end = end if line_end < 0 else line_end
            if text[behind : behind + 1] in _AFTER_VALUE:
                begin = text.rfind(b"\n", start, at) + 1
                if read_line(text[begin:line_end]) == (kind, value):
                    return begin
            at = text.find(value, line_end, end)
    return 0


_AFTER_VALUE: Final = (b"", b"\n", b"#", b" ", b"\t", b"\v", b"\f")


def written(text: bytes, at: int) -> str:
    """The line that begins there, for people: without comment and space around it."""
    end = text.find(b"\n", at)
    return without_comment(text[at : len(text) if end < 0 else end]).decode("utf-8", "replace")


def without_comment(line: bytes) -> bytes:
    """A line or a value without comment and space around it."""
    return (line.partition(b"#")[0] if b"#" in line else line).strip()


def line_number(text: bytes, at: int) -> int:
    """The number, from 1, of the line at a place in the text."""
    return text.count(b"\n", 0, at)


def agent_of(value: bytes) -> bytes:
    """The product token that a user-agent line names, cut where a token ends, lower case; ``*`` for everyone.

    ``b""`` is a value that names nobody.
    """
    if value[:1] == EVERYONE and not value[1:2].strip():
        return EVERYONE
    return _PRODUCT.match(value)[0].lower()  # type: ignore[index]  # the pattern matches the empty text too


# --- Which lines belong to an agent -------------------------------------------------------------------------


def mentions(lower: bytes, kind: int) -> bool:
    """Whether a text in lower case may have a line of that kind."""
    return _any_in(_TRACES[kind], lower)


def _starts_with_rule(part: bytes) -> bool:
    """Whether the line below the user-agent line plainly is a rule: mostly it is."""
    return part.startswith(_USUAL_RULES, part.find(b"\n"))


def _has_record(part: bytes, kinds: frozenset[int]) -> bool:
    """Whether a user-agent line's part (see `_parts`) has a record of those kinds below that line."""
    below = part.partition(b"\n")[2].lstrip()
    return any(mentions(below, kind) for kind in kinds) and any(
        read_line(line)[0] in kinds for line in below.split(b"\n")
    )


def _agent_value_at(line: bytes) -> int:
    """Where the value of a user-agent line begins, -1 if the line is none."""
    if read_line(line)[0] != AGENT:
        return -1
    colon = line.find(b":")
    if colon >= 0 and b" ".join(line[:colon].lower().split()) in _KEYS:
        return colon + 1
    word = line.split(None, 1)[0]
    return line.index(word) + len(word)


def _parts(lower: bytes) -> tuple[list[bytes], list[int]]:
    """For every user-agent line: the text from its value to the next user-agent line, and where that begins.

    The list of places is empty when they follow from the lengths: each part but the first comes after the
    usual lead-in.
    """
    parts = lower.split(_LEAD_IN)
    if lower.count(b"agent") == len(parts) - 1:
        return parts, []
    starts, values = [], []
    seen = lower.find(b"agent")
    while seen >= 0:
        start = lower.rfind(b"\n", 0, seen) + 1
        end = lower.find(b"\n", seen)
        end = len(lower) if end < 0 else end
        value = _agent_value_at(lower[start:end])
        if value >= 0:
            starts.append(start - 1)
            values.append(start + value)
        seen = lower.find(b"agent", end)
    ends = [*starts, len(lower)]
    return [lower[: ends[0]], *map(lower.__getitem__, map(slice, values, ends[1:]))], [0, *values]


def _value(part: bytes) -> bytes:
    return without_comment(part.partition(b"\n")[0])


_WIDE: Final = (b"  ", b" \t", b"\t", b" \v", b"\v", b" \f", b"\f")


def usual_sections(lower: bytes, agent: bytes) -> tuple[int, tuple[tuple[int, int], ...]] | None:
    """What `Sections` finds for everyone, if the agent is not named and every user-agent line is written the usual way.

    So it is in most files: where the value of the first ``User-agent: *`` stands (0 without one), and where the rules
    for everyone do.  None where it takes more to know.
    """
    agents = lower.count(b"agent")
    at = lower.find(_USUAL_EVERYONE)
    if agents == 1 and at >= 0:  # everything below that line belongs to it
        return at + _TO_VALUE, ((at + _TO_VALUE + 1, len(lower)),)
    if agent in lower or lower.count(_LEAD_IN) != agents or _UNUSUAL.search(lower):
        return None
    label_at, spans = (at + _TO_VALUE if at >= 0 else 0), []
    while at >= 0:
        start = at + _TO_VALUE + 1
        if not lower.startswith(_USUAL_RULES, start):
            return None
        end = lower.find(_LEAD_IN, start)
        end = len(lower) if end < 0 else end
        spans.append((start, end))
        at = lower.find(_USUAL_EVERYONE, end)
    return label_at, tuple(spans)


_USUAL_EVERYONE: Final = _LEAD_IN + b" *\n"
_TO_VALUE: Final = len(_LEAD_IN) + 1
_USUAL_RULES: Final = (b"\ndisallow:", b"\nallow:")
# A user-agent line without a name, or one for everyone that is written in another way.
_UNUSUAL = re.compile(rb"\nuser-agent:(?:[ \t\v\f]*(?:[\n#]|\Z|\*(?:[^\n]|\Z))|(?! \*)[ \t\v\f]*\*)")


def _any_in(pieces: tuple[bytes, ...], text: bytes) -> bool:
    for piece in pieces:  # noqa: SIM110  # a generator costs more than the search
        if piece in text:
            return True
    return False


@lru_cache(maxsize=64)
def _beginnings(agent: bytes) -> tuple[bytes, tuple[bytes, ...]]:
    """How a part begins that names the agent: as it mostly does, and all ways in which it can."""
    return b" %s\n" % agent, (b" " + agent, agent, *_WIDE)


class Sections:
    """The user-agent lines of a text, for looking up what stands under a name.  Short-lived."""

    __slots__ = ("_lengths", "_parts", "_starts", "lower")

    def __init__(self, text: bytes) -> None:
        """``text`` in any case."""
        self.lower = text.lower()
        self._parts, self._starts = _parts(self.lower)
        self._lengths: list[int] = []

    def named(self, agent: bytes) -> list[int]:
        """The numbers of the user-agent lines that name this agent (in lower case), first to last."""
        if agent not in self.lower or (agent != EVERYONE and agent_of(agent) != agent):
            return []
        usual, possible = _beginnings(agent)
        return [
            number
            for number, part in enumerate(self._parts)
            if number and (part.startswith(usual) or (part.startswith(possible) and agent_of(_value(part)) == agent))
        ]

    def all(self) -> list[int]:
        """The numbers of all user-agent lines that name somebody."""
        return [number for number in range(1, len(self._parts)) if agent_of(_value(self._parts[number]))]

    def value_at(self, number: int) -> int:
        """Where in the text the value of a user-agent line begins."""
        return self._start(number)

    def below(self, numbers: list[int], enders: frozenset[int]) -> tuple[tuple[int, int], ...]:
        """Where the records stand that belong to any of these user-agent lines.

        A run of user-agent lines goes on until a record of the kinds in ``enders`` (RFC 9309 2.2.1: a rule);
        what follows, up to the next run, belongs to every line of the run.  A line without a name is no
        user-agent line.
        """
        spans = []
        parts = self._parts
        last = 0
        for number in numbers:
            if number <= last:
                continue
            last = number
            while last < len(parts) and not _starts_with_rule(parts[last]) and not _has_record(parts[last], enders):
                last += 1
            if last == len(parts):
                break
            spans.append(self._below_span(last))
            while last + 1 < len(parts) and not _value(parts[last + 1]):
                last += 1
                spans.append(self._below_span(last))
        return tuple(spans)

    def _start(self, number: int) -> int:
        if self._starts:
            return self._starts[number]
        if number == 1:
            return len(self._parts[0]) + len(_LEAD_IN)
        if not self._lengths:
            self._lengths = list(accumulate(map(len, self._parts)))
        return self._lengths[number - 1] + number * len(_LEAD_IN)

    def _below_span(self, number: int) -> tuple[int, int]:
        start, part = self._start(number), self._parts[number]
        first = part.find(b"\n")
        return start + (len(part) if first < 0 else first), start + len(part)
