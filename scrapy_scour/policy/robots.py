"""robots.txt by RFC 9309: from the octets of a file to a verdict that names the line that decided.

Decides whether one path may be fetched under one name, and how long that name is asked to wait between
requests. What a status, a redirect or no answer means is `access`; getting the file and keeping it is not
decided here. A file is read under one name at a time and only when asked, so that the groups of other
crawlers cost nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from scrapy_scour.policy import robots_lines as lines
from scrapy_scour.policy.robots_lines import ALLOW, DISALLOW
from scrapy_scour.policy.robots_pace import NO_PACE, Pace, sitemaps_of, source_of
from scrapy_scour.policy.robots_rules import Rules
from scrapy_scour.policy.urls import base_of, octets_of, path_and_query
from scrapy_scour.policy.verdict import Verdict

if TYPE_CHECKING:
    from protego import RequestRate, VisitTime

    from scrapy_scour.policy.robots_warnings import RobotsWarning

_ROBOTS_PATH: Final = b"/robots.txt"
_ROBOTS_NAME: Final = "robots.txt"
_NOBODY: Final = object()
_NO_BASE: Final = "\n"
_ALLOWED: Final = Verdict(True)
_BEGINS: Final = (b"/", b"*")
_MARKS: Final = (b"\xef", b"\xff\xfe", b"\xfe\xff")
# How many other names are remembered: a crawler has one, a project with several spiders a few.
_MOST_GROUPS: Final = 16


def parse(body: bytes | str, *, max_size: int | None = None, truncated: bool = False) -> Robots:
    """Read a robots.txt.  Never raises and never refuses: any octets are a file, most of them one without
    rules.

    ``max_size``
        How many octets are looked at; None for all.  RFC 9309 2.5 asks for at least 512,000.
    ``truncated``
        The body was cut already, so that its last line may be part of one.
    """
    octets = octets_of(body) if isinstance(body, str) else bytes(body)
    cut_within_a_line = truncated
    if max_size is not None and len(octets) > max_size:
        truncated = True
        cut_within_a_line = octets[max_size : max_size + 1] not in (b"\r", b"\n")
        octets = octets[:max_size]
    text = lines.read_body(octets, truncated=cut_within_a_line)
    if truncated:
        text = lines.without_open_end(text)
    mark = octets[:2] if octets[:1] >= b"\xef" and octets.startswith(_MARKS) else b""
    return Robots(text, truncated=truncated, mark=mark)


def _section_of(text: bytes, token: str | None) -> tuple[bool, int, tuple[tuple[int, int], ...]]:
    """Where in a file that stands which is for one name.

    Whether the name stands there itself, or else it is what is said to ``*``; where the value of its first user-agent
    line begins, 0 without one; and where its records are.
    """
    agent = (octets_of(token).lower() if token else b"") or lines.EVERYONE
    usual = lines.usual_sections(text.lower(), agent)
    if usual is not None:
        return False, usual[0], usual[1]
    sections = lines.Sections(text)
    numbers = sections.named(agent)
    own = bool(numbers) and agent != lines.EVERYONE
    if not numbers:
        numbers = sections.named(lines.EVERYONE)
    label_at = sections.value_at(numbers[0]) if numbers else 0
    return own, label_at, sections.below(numbers, lines.RULES)


class _Group:
    """What a file says to one name.  Where it stands is looked up again when a person asks."""

    __slots__ = ("own", "pace", "rules")

    def __init__(self, text: bytes, token: str | None) -> None:
        self.own, _, spans = _section_of(text, token)
        self.rules = Rules([text[start:end] for start, end in spans])
        self.pace: Pace | None = None


class Robots:
    """The rules of one robots.txt, see `parse`.

    ``token`` is everywhere a bare product token (see `agents.product_token`); None stands for a crawler without a
    name, which only ``*`` speaks to.  A token is compared whole, ASCII case-insensitive (RFC 9309 2.2.1).
    """

    __slots__ = (
        "_base",
        "_group",
        "_mark",
        "_others",
        "_text",
        "_token",
        "truncated",
    )

    _group: _Group  # that of `_token`

    truncated: bool
    """Whether part of the file was not looked at, because of its size."""

    def __init__(self, text: bytes, *, truncated: bool, mark: bytes = b"") -> None:
        self._text = text
        self._mark = mark
        self._token: object = _NOBODY
        self._others: dict[object, _Group] | None = None
        self._base = ""  # what the URLs of the origin begin with that was asked about first
        self.truncated = truncated

    def _group_of(self, token: str | None) -> _Group:
        """The group that applies; the one asked for last, and a few others, are kept."""
        if token == self._token:
            return self._group
        others = self._others or {}
        if self._token is not _NOBODY:
            others[self._token] = self._group
            if len(others) > _MOST_GROUPS:
                del others[next(iter(others))]
            self._others = others
        group = others.pop(token, None)
        if group is None:
            group = _Group(self._text, token)
        self._token, self._group = token, group
        return group

    # --- May this be fetched? -------------------------------------------------------------------------------

    def _decides(self, url: str, token: str | None) -> int:
        """The kind of the rule that decides about a URL, 0 if no Disallow matches.

        Most are known at first sight, without taking the URL apart, if it is of the origin asked about before and holds
        no escape: what normalisation would still escape occurs in no prefix and no trace.
        """
        rules = (self._group if token == self._token else self._group_of(token)).rules
        base = self._base or self._base_from(url)
        if "%" not in url and url.startswith(base):
            start = len(base)
            disallow = rules.disallow
            if url.startswith(disallow.prefixes, start) or (disallow.many and disallow.begins(url, start)):
                if not url.startswith(_ROBOTS_NAME, start) and (
                    rules.only_disallows or not rules.may_allow(url, start)
                ):
                    return DISALLOW
            else:
                for trace in disallow.traces:
                    if trace in url:
                        break
                else:
                    return 0
        return self._deciding(url, token)[0]

    def _base_from(self, url: str) -> str:
        self._base = base_of(url)
        return self._base or _NO_BASE

    def _deciding(self, url: str, token: str | None) -> tuple[int, bytes]:
        """Kind and text of the rule that decides about a URL, kind 0 if no Disallow matches."""
        base = self._base or _NO_BASE
        path = octets_of(url[len(base) - 1 :]) if url.startswith(base) and "#" not in url else path_and_query(url)
        if path == _ROBOTS_PATH:  # RFC 9309 2.2.2: always allowed
            return 0, b""
        return self._group_of(token).rules.deciding(path)

    def allowed(self, url: str, token: str | None) -> bool:
        """Whether the URL may be fetched under that name: `verdict` without its reason."""
        return self._decides(url, token) != DISALLOW

    def verdict(self, url: str, token: str | None, *, ignore_wildcard: bool = False) -> Verdict:
        """Whether the URL may be fetched under that name, and which line says so.

        The source is empty if no Disallow matches, ``"robots.txt line 7"`` otherwise, also when a longer
        Allow decided.  The line is looked up when it is read.
        ``ignore_wildcard``: only the rules of the token's own group refuse, those of ``*`` do not.
        """
        kind = self._decides(url, token)
        if not kind or (ignore_wildcard and not self._group_of(token).own):
            return _ALLOWED
        return Verdict(kind == ALLOW, "", "", partial(self._explanation, url, token))

    def _explanation(self, url: str, token: str | None) -> tuple[str, str]:
        """Reason and source of a verdict."""
        return self._named(token, *self._deciding(url, token))

    def _named(self, token: str | None, kind: int, value: bytes) -> tuple[str, str]:
        _, label_at, spans = _section_of(self._text, token)
        at = lines.find_rule(self._text, spans, kind, value)
        group = lines.written(self._text, label_at)
        return f"{lines.written(self._text, at)} (group {group})", source_of(self._text, at)

    def allowing(self, url: str, token: str | None) -> Verdict:
        """The Allow that a URL matches, also where no Disallow does, for people; without a source if none does.

        `verdict` does not look for it: an Allow that overrules nothing decides nothing.
        """
        value = self._group_of(token).rules.allowing(path_and_query(url))
        return Verdict(True, *self._named(token, ALLOW, value)) if value else _ALLOWED

    # --- Who is spoken to, and what else is said ------------------------------------------------------------

    def group_label(self, token: str | None) -> str | None:
        """The group that applies, as its first user-agent line names it; None if not even ``*`` is there."""
        _, label_at, _ = _section_of(self._text, token)
        return lines.written(self._text, label_at) if label_at else None

    @property
    def text(self) -> bytes:
        """The file as it is read: without a byte order mark, each line led in by one LF."""
        return self._text

    @property
    def is_empty(self) -> bool:
        """Whether the file has no rule for anybody: an empty file, an HTML page, empty Disallow lines."""
        sections = lines.Sections(self._text)
        spans = sections.below(sections.all(), lines.RULES)
        return not any(
            kind in lines.RULES and value[:1] in _BEGINS for kind, _, value in lines.lines_of(self._text, spans)
        )

    def warnings(self) -> list[RobotsWarning]:
        """What the owner of the site would want to know about the file, by line.  Reads the whole file."""
        from scrapy_scour.policy.robots_warnings import warnings_about  # rarely asked

        return warnings_about(self._text, truncated=self.truncated, mark=self._mark)

    # --- How fast? ------------------------------------------------------------------------------------------

    def _pace(self, token: str | None) -> Pace:
        group = self._group_of(token)
        if group.pace is None:
            own = octets_of(token).lower() if group.own and token else lines.EVERYONE
            group.pace = Pace.read(self._text, own) if Pace.may_be_in(self._text.lower()) else NO_PACE
        return group.pace

    def crawl_delay(self, token: str | None) -> float | None:
        """Seconds that Crawl-delay asks of that name; None if it asks nothing, a named group inherits nothing
        of ``*``.
        """
        return self._pace(token).crawl_delay

    def delay(self, token: str | None) -> float:
        """Seconds to leave between two requests: the larger of Crawl-delay and Request-rate, 0 if neither
        asks.
        """
        return self._pace(token).delay_s

    def delay_source(self, token: str | None) -> str:
        """Which line asks for `delay`, ``"robots.txt line 7"``; empty if none does."""
        return self._pace(token).source

    def request_rate(self, token: str | None) -> RequestRate | None:
        """The slowest Request-rate for that name, as Protego reads it."""
        return self._pace(token).request_rate

    def visit_time(self, token: str | None) -> VisitTime | None:
        """The first Visit-time for that name, as Protego reads it."""
        return self._pace(token).visit_time

    @property
    def sitemaps(self) -> list[str]:
        """The sitemaps that the file names, in its order, as Protego reads them; they belong to no group."""
        return sitemaps_of(self._text)
