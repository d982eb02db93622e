"""The rules of one group: patterns, and which of them decides about a path (RFC 9309 2.2.2, 2.2.3).

A Disallow matches if any reasonable reading of it matches, an Allow only as written.  Matching is a search
for each literal between two stars, leftmost first, never backtracking: linear in pattern and path, whatever
they hold.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from scrapy_scour.policy.robots_lines import ALLOW, DISALLOW, read_line, without_comment
from scrapy_scour.policy.urls import PLAIN, is_plain, normal_length, normal_path, normal_query

_PREFIX: Final = PLAIN.translate(None, b"*$#")
_USUAL_LEAD_IN: Final = b"\nDisallow: /"
_LITERAL = re.compile(rb"[" + re.escape(_PREFIX) + rb"]*")
_NOT_LITERAL = re.compile(rb"(?:%[0-9A-Fa-f]{2}|[^" + re.escape(_PREFIX) + rb"])+")
# From here on a search in sorted prefixes is cheaper than a comparison with each.
_MANY: Final = 64


class Pattern:
    """One pattern, ready to match; ``either_spelling`` as for `normal_path`.

    A literal that holds an escaped delimiter has two forms: in the path the escape is another character, in
    the query it is the same (``/*a%2Fb`` is not ``/a/b`` but is ``/x?u=a/b``); which one counts is decided by
    where it is found.
    """

    __slots__ = ("_anchored", "_first", "_rest", "value")

    def __init__(self, value: bytes, *, either_spelling: bool) -> None:
        self.value = value
        self._anchored = value[-1:] == b"$"
        first, *rest = (value[:-1] if self._anchored else value).split(b"*")
        if rest and not rest[-1]:  # a star at the end takes everything, anchored or not
            self._anchored = False
        self._first = first
        self._rest: list[bytes | tuple[bytes, bytes]] = [literal for literal in rest if literal]
        if not is_plain(value):
            self._first = normal_path(first, either_spelling=either_spelling)
            self._rest = [_forms(literal, either_spelling) for literal in rest if literal]

    def matches(self, path: bytes) -> bool:
        """Whether the pattern matches a path in the normal form of the same ``either_spelling``."""
        first, rest = self._first, self._rest
        if not path.startswith(first):
            return False
        at = len(first)
        if not rest:
            return not self._anchored or len(path) == at
        query = 0
        for literal in rest[:-1] if self._anchored else rest:
            if isinstance(literal, bytes):
                at = path.find(literal, at) + len(literal)
                if at < len(literal):
                    return False
                continue
            query = query or path.find(b"?") + 1 or len(path) + 1
            # Once in the query the form for the path cannot occur; before it, it ends first if it occurs at
            # all.
            found, length = (path.find(literal[0], at), len(literal[0])) if at < query else (-1, 0)
            if found < 0:
                found, length = path.find(literal[1], max(at, query)), len(literal[1])
                if found < 0:
                    return False
            at = found + length
        return not self._anchored or self._ends(path, at)

    def _ends(self, path: bytes, at: int) -> bool:
        """Whether the last literal ends the path without reaching back before ``at``."""
        last = self._rest[-1]
        if isinstance(last, bytes):
            return path.endswith(last) and len(path) - len(last) >= at
        query = path.find(b"?") + 1 or len(path) + 1
        in_path, in_query = last
        return (path.endswith(in_path) and len(path) - len(in_path) >= at) or (
            path.endswith(in_query) and len(path) - len(in_query) >= max(at, query)
        )


def _forms(literal: bytes, either_spelling: bool) -> bytes | tuple[bytes, bytes]:
    in_path = normal_path(literal, either_spelling=either_spelling)
    in_query = normal_query(literal, either_spelling=either_spelling)
    return in_path if in_path == in_query else (in_path, in_query)


class Patterns:
    """The patterns of one kind in a group, kept by what it takes to match them; most are the beginning of a path.

    ``prefixes`` are without their leading slash; those from ``_starred`` on had a star at the end.  ``_many`` holds
    both instead where there are many.  ``_special`` are all others; ``traces`` has for each a literal that a path must
    hold for it to match, and only then is one without escapes taken apart.
    """

    __slots__ = ("_either_spelling", "_many", "_special", "_starred", "prefixes", "traces")

    def __init__(self, tails: list[bytes], values: list[bytes], *, either_spelling: bool) -> None:
        """``tails`` are plain patterns without their slash, ``values`` any others as written."""
        starred: list[bytes] = []
        special: list[bytes | Pattern] = []
        traces: list[bytes] = []
        for value in values:
            head = value[:-1] if value[-1:] == b"*" else value
            if head[:1] == b"/" and not head.translate(None, _PREFIX):
                (tails if head is value else starred).append(head[1:])
            elif value[:1] in _BEGINNINGS:  # any other matches no path (RFC 9309 2.2.2)
                special.append(value if is_plain(value) else Pattern(value, either_spelling=either_spelling))
                traces.append(_trace(value))
        self._either_spelling = either_spelling
        self._special = tuple(special)
        self._starred = len(tails)
        self._many: tuple[_Many, ...] = ()
        self.prefixes: tuple[str, ...] = ()
        if len(tails) + len(starred) > _MANY:
            self._many = (_Many(b"/%s", tails), _Many(b"/%s*", starred))
            traces.append(b"")
        elif tails or starred:
            self.prefixes = (*b"\n".join(tails + starred).decode("ascii").split("\n"),)
        self.traces: tuple[str, ...] = (*b"\n".join(traces).decode("ascii").split("\n"),) if traces else ()

    def normal(self, path: bytes) -> bytes:
        """The form of a path that these patterns are compared with."""
        return normal_path(path, either_spelling=self._either_spelling)

    def longest(self, path: bytes) -> tuple[int, bytes] | None:
        """Length and text of the most specific pattern that matches a path in normal form, None if none does."""
        text = path.decode("latin-1")
        best = None
        if text.startswith(self.prefixes, 1):
            plain = [prefix for prefix in self.prefixes[: self._starred] if text.startswith(prefix, 1)]
            starred = [prefix for prefix in self.prefixes[self._starred :] if text.startswith(prefix, 1)]
            if plain:
                best = _longer(best, b"/" + max(plain, key=len).encode())
            if starred:
                best = _longer(best, b"/%s*" % max(starred, key=len).encode())
        for special, trace in zip(self._special, self.traces, strict=False):
            if trace in text and (isinstance(special, Pattern) or _may_begin(special, path)):
                pattern = special if isinstance(special, Pattern) else Pattern(special, either_spelling=False)
                if pattern.matches(path):
                    best = _longer(best, pattern.value)
        for many in self._many:
            found = many.longest(path[1:])
            if found is not None:
                best = _longer(best, found)
        return best


_BEGINNINGS: Final = (b"/", b"*")


def _trace(value: bytes) -> bytes:
    """A literal of a pattern that no normalisation changes, ``b""`` if there is none.

    The longest behind the first star, if any: patterns with stars often share what stands before it.
    """
    behind = value.partition(b"*")[2].strip(b"*$")
    if behind and not behind.translate(None, _PREFIX):
        return behind
    return max(_NOT_LITERAL.split(behind), key=len) or max(_NOT_LITERAL.split(value), key=len)


def _may_begin(value: bytes, path: bytes) -> bool:
    """Whether a path begins like the literal that a pattern begins with, as far as no normalisation changes that."""
    return path.startswith(_LITERAL.match(value)[0])  # type: ignore[index]  # it matches the empty text too


class _Many:
    """Many plain beginnings, sorted, as one piece of memory: which is the longest that a path starts with?

    ``form`` is how the pattern of one was written.
    """

    __slots__ = ("_ends", "_form", "_sorted")

    def __init__(self, form: bytes, tails: list[bytes]) -> None:
        different = sorted(set(tails))
        self._form = form
        self._sorted = b"\n".join(different)
        self._ends = array("I", accumulate(map(len, different), lambda end, length: end + 1 + length))

    def _tail(self, number: int) -> bytes:
        return self._sorted[self._ends[number - 1] + 1 if number else 0 : self._ends[number]]

    def longest(self, tail: bytes) -> bytes | None:
        """What sorts last before the tail starts it, or shares a beginning with it that any shorter one must start."""
        numbers = range(len(self._ends))
        beginning = tail
        while True:
            at = bisect_right(numbers, beginning, key=self._tail)
            if not at:
                return None
            last = self._tail(at - 1)
            if beginning.startswith(last):
                return self._form % last
            shared, different = 0, min(len(last), len(beginning)) + 1
            while different - shared > 1:
                middle = (shared + different) // 2
                shared, different = (middle, different) if last.startswith(beginning[:middle]) else (shared, middle)
            beginning = beginning[:shared]


def _longer(best: tuple[int, bytes] | None, value: bytes) -> tuple[int, bytes]:
    length = normal_length(value)
    return best if best is not None and best[0] >= length else (length, value)


class Rules:
    """What one group says: its Disallow patterns, and its Allow patterns, which matter once one of those matched."""

    __slots__ = ("_allow", "_disallow")

    def __init__(self, chunks: Sequence[bytes]) -> None:
        tails: list[bytes] = []
        refused: list[bytes] = []
        allowed: list[bytes] = []
        for chunk in chunks:
            _collect(chunk, tails, refused, allowed)
        self._disallow = Patterns(tails, refused, either_spelling=True)
        self._allow: Patterns | tuple[bytes, ...] | None = tuple(allowed) or None

    def deciding(self, path: bytes) -> tuple[int, bytes]:
        """Kind and text of the rule that decides about a path as written, ``(0, b"")`` if no Disallow matches.

        The longest pattern decides, Allow if both are as long (RFC 9309 2.2.2).
        """
        plain = is_plain(path)
        refused = self._disallow.longest(path if plain else self._disallow.normal(path))
        if refused is None:
            return 0, b""
        allow = self._allowing()
        allowed = allow.longest(path if plain else allow.normal(path)) if allow else None
        return (DISALLOW, refused[1]) if allowed is None or allowed[0] < refused[0] else (ALLOW, allowed[1])

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Only a URL that has one of these after its origin and slash, or holds one of `traces`, is refused.

        That is, if the URL has no escapes.  The first are certain: a Disallow matches such a URL.
        """
        return self._disallow.prefixes

    @property
    def traces(self) -> tuple[str, ...]:
        """What a URL without escapes must hold to be refused by anything else than `prefixes`; not certain."""
        return self._disallow.traces

    @property
    def only_disallows(self) -> bool:
        """Whether no Allow could overrule a Disallow."""
        return not self._allow

    def may_allow(self, url: str, start: int) -> bool:
        """Whether an Allow may match a URL without escapes whose path, but for its slash, begins at ``start``."""
        allow = self._allowing()
        return allow is not None and (
            url.startswith(allow.prefixes, start) or any(trace in url for trace in allow.traces)
        )

    def _allowing(self) -> Patterns | None:
        if isinstance(self._allow, tuple):
            self._allow = Patterns([], list(self._allow), either_spelling=False)
        return self._allow


def _collect(chunk: bytes, tails: list[bytes], refused: list[bytes], allowed: list[bytes]) -> None:
    """Sort the rules of a chunk: plain Disallow patterns without their slash, others, Allow patterns.

    Most lines are written the usual way, and splitting at how they begin is the cheapest way to read those.
    """
    before, *parts = chunk.split(_USUAL_LEAD_IN)
    if before and _may_have_rules(before):
        _collect_lines(before, refused, allowed)
    if not parts:
        return
    # What follows the last of these lines is seldom more of them.
    parts[-1], _, others = parts[-1].partition(b"\n")
    if others and _may_have_rules(others):
        _collect_lines(others, refused, allowed)
    if not b"".join(parts).translate(None, _PREFIX):
        tails += parts  # no other line between them, nothing to clean and nothing special
        return
    for part in parts:
        if b"\n" in part:
            part, _, others = part.partition(b"\n")
            if others and _may_have_rules(others):
                _collect_lines(others, refused, allowed)
        if part.translate(None, _PREFIX):
            refused.append(without_comment(b"/" + part))
        else:
            tails.append(part)


def _may_have_rules(chunk: bytes) -> bool:
    lower = chunk.lower()
    return b"low" in lower or b"law" in lower


def _collect_lines(chunk: bytes, refused: list[bytes], allowed: list[bytes]) -> None:
    for line in chunk.split(b"\n"):
        if line:
            kind, value = read_line(line)
            if kind == DISALLOW:
                refused.append(value)
            elif kind == ALLOW:
                allowed.append(value)
