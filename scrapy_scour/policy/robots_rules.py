"""The rules of one group: patterns, and which of them decides about a path (RFC 9309 2.2.2, 2.2.3).

A Disallow matches if any reasonable reading of it matches, an Allow only as written.  Matching is a search
for each literal between two stars, leftmost first, never backtracking: linear in pattern and path, whatever
they hold.

Everything here is text of one character an octet, so that the pieces of a file can be compared with a URL as it is.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from scrapy_scour.policy.robots_lines import ALLOW, DISALLOW, read_line
from scrapy_scour.policy.urls import PLAIN, is_plain, normal_length, normal_path, normal_query

_PREFIX: Final = PLAIN.translate(None, b"*$#")
_PREFIX_CLASS: Final = f"[{re.escape(_PREFIX.decode())}]*"
# Rules as most are written: what is left when these are taken out of a group is read line by line.
_PLAIN_DISALLOW = re.compile(rf"\nDisallow:[ \t]*/({_PREFIX_CLASS})[ \t]*(?=\n|\Z)")
_USUAL_RULE = re.compile(r"\n(Disallow|Allow):[ \t]*([^\s#]*)[ \t]*(?=\n|\Z)", re.ASCII)
_IS_PREFIX = re.compile(rf"/{_PREFIX_CLASS}\Z")
_LITERAL = re.compile(_PREFIX_CLASS)
_NOT_LITERAL = re.compile(rf"(?:%[0-9A-Fa-f]{{2}}|[^{re.escape(_PREFIX.decode())}])+")
# From here on a search in sorted prefixes is cheaper than a comparison with each.
_MANY: Final = 64
_BUCKET: Final = 32


class Pattern:
    """One pattern, ready to match; ``either_spelling`` as for `normal_path`.

    A literal that holds an escaped delimiter has two forms: in the path the escape is another character, in
    the query it is the same (``/*a%2Fb`` is not ``/a/b`` but is ``/x?u=a/b``); which one counts is decided by
    where it is found.
    """

    __slots__ = ("_anchored", "_first", "_rest", "value")

    def __init__(self, value: str, *, either_spelling: bool, plain: bool = False) -> None:
        """``plain``: it is known that the value is its own normal form."""
        self.value = value
        self._anchored = value.endswith("$")
        first, *rest = (value[:-1] if self._anchored else value).split("*")
        if rest and not rest[-1]:  # a star at the end takes everything, anchored or not
            self._anchored = False
        self._first = first
        self._rest: list[str | tuple[str, str]] = [literal for literal in rest if literal]
        if not (plain or _is_plain(value)):
            self._first = _normal(normal_path, first, either_spelling)
            self._rest = [_forms(literal, either_spelling) for literal in rest if literal]

    def matches(self, path: str) -> bool:
        """Whether the pattern matches a path in the normal form of the same ``either_spelling``."""
        first, rest = self._first, self._rest
        if not path.startswith(first):
            return False
        at = len(first)
        if not rest:
            return not self._anchored or len(path) == at
        query = 0
        for literal in rest[:-1] if self._anchored else rest:
            if isinstance(literal, str):
                at = path.find(literal, at) + len(literal)
                if at < len(literal):
                    return False
                continue
            query = query or path.find("?") + 1 or len(path) + 1
            # Once in the query the form for the path cannot occur; before it, it ends first if it occurs at
            # all.
            found, length = (path.find(literal[0], at), len(literal[0])) if at < query else (-1, 0)
            if found < 0:
                found, length = path.find(literal[1], max(at, query)), len(literal[1])
                if found < 0:
                    return False
            at = found + length
        return not self._anchored or self._ends(path, at)

    def _ends(self, path: str, at: int) -> bool:
        """Whether the last literal ends the path without reaching back before ``at``."""
        last = self._rest[-1]
        if isinstance(last, str):
            return path.endswith(last) and len(path) - len(last) >= at
        query = path.find("?") + 1 or len(path) + 1
        in_path, in_query = last
        return (path.endswith(in_path) and len(path) - len(in_path) >= at) or (
            path.endswith(in_query) and len(path) - len(in_query) >= max(at, query)
        )


def _is_plain(value: str) -> bool:
    return is_plain(value.encode("latin-1"))


def _normal(form: Callable[..., bytes], text: str, either_spelling: bool) -> str:
    return form(text.encode("latin-1"), either_spelling=either_spelling).decode("latin-1")


def _forms(literal: str, either_spelling: bool) -> str | tuple[str, str]:
    in_path = _normal(normal_path, literal, either_spelling)
    in_query = _normal(normal_query, literal, either_spelling)
    return in_path if in_path == in_query else (in_path, in_query)


class Patterns:
    """The patterns of one kind in a group, kept by what it takes to match them; most are the beginning of a path.

    ``prefixes`` are without their leading slash; those from ``_starred`` on had a star at the end.  ``many`` holds
    both instead where there are many.  ``_special`` are all others; ``traces`` has for each a literal that a path must
    hold for it to match, and only then is one without escapes taken apart.
    """

    __slots__ = ("_special", "_starred", "many", "prefixes", "traces")

    def __init__(self, tails: list[str], values: list[str], *, either_spelling: bool) -> None:
        """``tails`` are plain patterns without their slash, ``values`` any others as written."""
        starred: list[str] = []
        special: list[str | Pattern] = []
        traces: list[str] = []
        for value in values:
            head = value[:-1] if value[-1:] == "*" else value
            if _IS_PREFIX.match(head):
                (tails if head is value else starred).append(head[1:])
            elif value[:1] in _BEGINNINGS:  # any other matches no path (RFC 9309 2.2.2)
                special.append(value if _is_plain(value) else Pattern(value, either_spelling=either_spelling))
                traces.append(_trace(value))
        self._special = tuple(special)
        self._starred = len(tails)
        self.traces = tuple(traces)
        self.prefixes: tuple[str, ...] = ()
        self.many: tuple[_Many, ...] = ()
        if len(tails) + len(starred) > _MANY:
            self.many = (_Many("", tails), _Many("*", starred)) if starred else (_Many("", tails),)
        elif starred:
            self.prefixes = (*sorted(tails), *starred)
        elif tails:
            tails.sort()
            self.prefixes = tuple(tails)

    def begins(self, url: str, start: int) -> bool:
        """Whether one surely matches a URL without escapes whose path, but for its slash, begins at ``start``."""
        if not self.many:
            return url.startswith(self.prefixes, start)
        tail = url[start:]
        return any(many.longest(tail) is not None for many in self.many)

    def longest(self, path: str) -> str | None:
        """The most specific pattern that matches a path in normal form, None if none does."""
        best = None
        if path.startswith(self.prefixes, 1):
            tail = path[1:]
            best = _longest_start(self.prefixes, tail, self._starred)
            best = best if best is None else f"/{best}"
            if self._starred < len(self.prefixes):
                for prefix in self.prefixes[self._starred :]:
                    if tail.startswith(prefix):
                        best = _longer(best, f"/{prefix}*")
        for many in self.many:
            found = many.longest(path[1:])
            if found is not None:
                best = _longer(best, f"/{found}{many.end}")
        if self.traces:
            for special, trace in zip(self._special, self.traces, strict=False):
                if trace in path:
                    if isinstance(special, str):
                        if _matches_plain(special, path):
                            best = _longer(best, special)
                    elif special.matches(path):
                        best = _longer(best, special.value)
        return best


NO_PATTERNS: Final = Patterns([], [], either_spelling=True)
_BEGINNINGS: Final = ("/", "*")


def _matches_plain(value: str, path: str) -> bool:
    """`Pattern.matches` for a value that is its own normal form; most have one star or none and need no pattern."""
    first, star, rest = value.partition("*")
    if not star:
        return path == value[:-1] if value.endswith("$") else path.startswith(value)
    if not path.startswith(first):
        return False
    if "*" in rest:
        return Pattern(value, either_spelling=False, plain=True).matches(path)
    if rest.endswith("$"):
        return path.endswith(rest[:-1]) and len(path) >= len(first) + len(rest) - 1
    return path.find(rest, len(first)) >= 0


def _trace(value: str) -> str:
    """A literal of a pattern that no normalisation changes, ``""`` if there is none.

    The longest behind the first star, if it says enough: patterns with stars often share what stands before it.
    """
    behind = value.partition("*")[2].strip("*$")
    if len(behind) > 2 and _LITERAL.fullmatch(behind):
        return behind
    longest = max(_NOT_LITERAL.split(behind), key=len)
    return longest if len(longest) > 2 else max(_NOT_LITERAL.split(value), key=len)


def _longest_start(beginnings: Sequence[str], tail: str, end: int | None = None) -> str | None:
    """The longest of some sorted texts that a text starts with, None if it starts with none.

    What sorts last before the text starts it, or shares a beginning with it that any shorter one must start.
    """
    at = bisect_right(beginnings, tail, 0, end)
    while at:
        last = beginnings[at - 1]
        if tail.startswith(last):
            return last
        tail = _shared(tail, last)
        at = bisect_right(beginnings, tail, 0, at - 1)
    return None


def _shared(one: str, other: str) -> str:
    """How both texts begin."""
    for at, (this, that) in enumerate(zip(one, other, strict=False)):
        if this != that:
            return one[:at]
    return min(one, other, key=len)


class _Many:
    """Many plain beginnings, sorted, in few pieces of memory: which is the longest that a path starts with?

    ``end`` is what stood behind each of them.
    """

    __slots__ = ("_buckets", "_heads", "end")

    def __init__(self, end: str, tails: list[str]) -> None:
        different = sorted(set(tails))
        self.end = end
        self._heads = different[::_BUCKET]
        self._buckets = ["\n".join(different[first : first + _BUCKET]) for first in range(0, len(different), _BUCKET)]

    def longest(self, tail: str) -> str | None:
        """The longest of them that a text starts with, None if it starts with none."""
        while True:
            at = bisect_right(self._heads, tail)
            if not at:
                return None
            bucket = self._buckets[at - 1].split("\n")
            last = bucket[bisect_right(bucket, tail) - 1]
            if tail.startswith(last):
                return last
            tail = _shared(tail, last)


def _length(value: str) -> int:
    raw = value.encode("latin-1")
    return normal_length(raw) if "?" in value or not is_plain(raw) else len(raw)


def _longer(best: str | None, value: str) -> str:
    return best if best is not None and _length(best) >= _length(value) else value


class Rules:
    """What one group says: its Disallow patterns, and its Allow patterns, which matter once one of those matched."""

    __slots__ = ("_allow", "disallow", "only_disallows")

    only_disallows: bool
    """Whether no Allow could overrule a Disallow."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        tails: list[str] = []
        refused: list[str] = []
        allowed: list[str] = []
        for chunk in chunks:
            _collect(chunk.decode("latin-1"), tails, refused, allowed)
        self.disallow = Patterns(tails, refused, either_spelling=True) if tails or refused else NO_PATTERNS
        self._allow: Patterns | tuple[str, ...] | None = tuple(allowed) or None
        self.only_disallows = not allowed

    def deciding(self, path: bytes) -> tuple[int, bytes]:
        """Kind and text of the rule that decides about a path as written, ``(0, b"")`` if no Disallow matches.

        The longest pattern decides, Allow if both are as long (RFC 9309 2.2.2).
        """
        plain = is_plain(path)
        text = (path if plain else normal_path(path, either_spelling=True)).decode("latin-1")
        refused = self.disallow.longest(text)
        if refused is None:
            return 0, b""
        allow = self._allowing()
        if allow and not plain:
            text = normal_path(path, either_spelling=False).decode("latin-1")
        allowed = allow.longest(text) if allow else None
        if allowed is None or _length(allowed) < _length(refused):
            return DISALLOW, refused.encode("latin-1")
        return ALLOW, allowed.encode("latin-1")

    def allowing(self, path: bytes) -> bytes:
        """Text of the most specific Allow that matches a path as written, ``b""`` if none does."""
        allow = self._allowing()
        found = allow.longest(normal_path(path, either_spelling=False).decode("latin-1")) if allow else None
        return (found or "").encode("latin-1")

    def may_allow(self, url: str, start: int) -> bool:
        """Whether an Allow may match a URL without escapes whose path, but for its slash, begins at ``start``."""
        allow = self._allowing()
        if allow is None:
            return False
        for trace in allow.traces:
            if trace in url:
                return True
        return allow.begins(url, start)

    def _allowing(self) -> Patterns | None:
        if isinstance(self._allow, tuple):
            self._allow = Patterns([], list(self._allow), either_spelling=False)
        return self._allow


def _collect(chunk: str, tails: list[str], refused: list[str], allowed: list[str]) -> None:
    """Sort the rules of a chunk: plain Disallow patterns without their slash, others, Allow patterns."""
    parts = _PLAIN_DISALLOW.split(chunk)
    tails += parts[1::2]
    rest = "".join(parts[::2])
    if "llow:" in rest:
        parts = _USUAL_RULE.split(rest)
        for key, value in zip(parts[1::3], parts[2::3], strict=True):
            (allowed if key == "Allow" else refused).append(value)
        rest = "".join(parts[::3])
    lower = rest.lower()
    if "low" in lower or "law" in lower:
        for line in rest.encode("latin-1").split(b"\n"):
            kind, octets = read_line(line)
            if kind == DISALLOW:
                refused.append(octets.decode("latin-1"))
            elif kind == ALLOW:
                allowed.append(octets.decode("latin-1"))
