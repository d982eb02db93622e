"""The rules of one group: patterns, and which of them decides about a path (RFC 9309 2.2.2, 2.2.3).

A Disallow matches if any reasonable reading of it matches, an Allow only as written.  Matching is a search
for each literal between two stars, leftmost first, never backtracking: linear in pattern and path, whatever
they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from scrapy_scour.policy.robots_lines import ALLOW, DISALLOW, read_line
from scrapy_scour.policy.urls import PLAIN, is_plain, normal_length, normal_path, normal_query

_PREFIX: Final = PLAIN.translate(None, b"*$")
_USUAL_LEAD_IN: Final = b"\nDisallow: /"
# From here on a look-up per length of prefix is cheaper than a comparison per prefix.
_MANY: Final = 256


class Pattern:
    """One pattern, ready to match; ``either_spelling`` as for `normal_path`.

    A literal that holds an escaped delimiter has two forms: in the path the escape is another character, in
    the query it is the same (``/*a%2Fb`` is not ``/a/b`` but is ``/x?u=a/b``); which one counts is decided by
    where it is found.
    """

    __slots__ = ("_anchored", "_first", "_rest", "length", "value")

    def __init__(self, value: bytes, *, either_spelling: bool) -> None:
        self.value = value
        self.length = normal_length(value)
        self._anchored = value.endswith(b"$")
        first, *rest = (value[:-1] if self._anchored else value).split(b"*")
        self._first = normal_path(first, either_spelling=either_spelling)
        self._rest = tuple(
            literal if is_plain(literal) else _forms(literal, either_spelling) for literal in rest if literal
        )
        if rest and not rest[-1]:  # a star at the end takes everything, anchored or not
            self._anchored = False

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
    """The patterns of one kind in a group.  Those that are nothing but the beginning of a path are kept as
    such.

    ``prefixes`` are kept without their leading slash, and compared with a path without its own.
    """

    __slots__ = ("_lengths", "_prefixes", "_special")

    def __init__(self, tails: Iterable[bytes], special: Sequence[Pattern]) -> None:
        self._prefixes: tuple[bytes, ...] | frozenset[bytes] = tuple(tails)
        self._lengths: tuple[int, ...] = ()
        if len(self._prefixes) > _MANY:
            self._prefixes = frozenset(self._prefixes)
            self._lengths = tuple(sorted({len(prefix) for prefix in self._prefixes}, reverse=True))
        self._special = tuple(sorted(special, key=_length, reverse=True)) if len(special) > 1 else tuple(special)

    def __len__(self) -> int:
        return len(self._prefixes) + len(self._special)

    def longest(self, path: bytes) -> tuple[int, bytes] | None:
        """Length and text of the most specific pattern that matches, None if none does."""
        prefix = self._longest_prefix(path[1:])
        length = -1 if prefix is None else normal_length(b"/" + prefix)
        for pattern in self._special:
            if pattern.length <= length:
                break
            if pattern.matches(path):
                return pattern.length, pattern.value
        return None if prefix is None else (length, b"/" + prefix)

    def _longest_prefix(self, tail: bytes) -> bytes | None:
        prefixes = self._prefixes
        if isinstance(prefixes, tuple):
            if not tail.startswith(prefixes):
                return None
            return max((prefix for prefix in prefixes if tail.startswith(prefix)), key=len)
        for length in self._lengths:
            if tail[:length] in prefixes and len(tail) >= length:
                return tail[:length]
        return None


def _length(pattern: Pattern) -> int:
    return pattern.length


class Rules:
    """What one group says: its Disallow patterns, and its Allow patterns, which only matter once one of those
    matched.
    """

    __slots__ = ("_allow", "_disallow")

    def __init__(self, chunks: Sequence[bytes]) -> None:
        refused: list[bytes] = []
        allowed: list[bytes] = []
        for chunk in chunks:
            _collect(chunk, refused, allowed)
        self._disallow = _patterns(refused, either_spelling=True)
        self._allow: Patterns | list[bytes] = allowed

    @property
    def is_empty(self) -> bool:
        """Whether it has no pattern; a Disallow without a value is no rule (RFC 9309 2.2.2)."""
        return not len(self._disallow) and not len(self._allow)

    def deciding(self, path: bytes) -> tuple[int, bytes]:
        """Kind and text of the rule that decides about a path as written, ``(0, b"")`` if no Disallow
        matches.

        The longest pattern decides, Allow if both are as long (RFC 9309 2.2.2).
        """
        plain = is_plain(path)
        refused = self._disallow.longest(path if plain else normal_path(path, either_spelling=True))
        if refused is None:
            return 0, b""
        if isinstance(self._allow, list):
            self._allow = _patterns(self._allow, either_spelling=False)
        allowed = self._allow.longest(path if plain else normal_path(path, either_spelling=False))
        return (DISALLOW, refused[1]) if allowed is None or allowed[0] < refused[0] else (ALLOW, allowed[1])


def _patterns(values: list[bytes], *, either_spelling: bool) -> Patterns:
    """From the values as written.  One that does not start with a slash or a star matches no path (RFC 9309
    2.2.2).
    """
    tails, special = [], []
    for value in values:
        if value[:1] == b"/" and not value.translate(None, _PREFIX):
            tails.append(value[1:])
        elif value[:1] in (b"/", b"*"):
            special.append(Pattern(value, either_spelling=either_spelling))
    return Patterns(tails, special)


def _collect(chunk: bytes, refused: list[bytes], allowed: list[bytes]) -> None:
    for line in chunk.split(b"\n"):
        if line:
            kind, value = read_line(line)
            if kind == DISALLOW:
                refused.append(value)
            elif kind == ALLOW:
                allowed.append(value)
