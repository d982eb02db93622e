"""robots.txt by RFC 9309: from the octets of a file to a verdict that names the line that decided.

Decides whether one path may be fetched under one name, and how long that name is asked to wait between
requests. What a status, a redirect or no answer means is `access`; getting the file and keeping it is not
decided here. A file is read under one name at a time and only when asked, so that the groups of other
crawlers cost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scrapy_scour.policy import robots_lines as lines
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
_ALLOWED: Final = Verdict(True)
_BEGINS: Final = (b"/", b"*")
_MARKS: Final = (b"\xef", b"\xff\xfe", b"\xfe\xff")
# How many other names are remembered: a crawler has one, a project with several spiders a few.
_MOST_GROUPS: Final = 4


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
    return Robots(text, truncated=truncated, marked=octets[:1] >= b"\xef" and octets.startswith(_MARKS))


class _Group:
    """What a file says to one name.  ``own`` is False if the name stands nowhere and the rules are those of ``*``."""

    __slots__ = ("label_at", "own", "pace", "rules", "spans")

    def __init__(self, text: bytes, agent: bytes) -> None:
        self.label_at = lines.only_for_everyone(text.lower())
        if self.label_at:
            self.own = False
            self.spans: tuple[tuple[int, int], ...] = ((self.label_at + 1, len(text)),)
        else:
            sections = lines.Sections(text)
            numbers = sections.named(agent)
            self.own = bool(numbers) and agent != lines.EVERYONE
            if not numbers:
                numbers = sections.named(lines.EVERYONE)
            self.label_at = sections.value_at(numbers[0]) if numbers else 0
            self.spans = sections.below(numbers, lines.RULES)
        self.rules = Rules([text[start:end] for start, end in self.spans])
        self.pace: Pace | None = None


class Robots:
    """The rules of one robots.txt, see `parse`.

    ``token`` is everywhere a bare product token (see `agents.product_token`); None stands for a crawler without a
    name, which only ``*`` speaks to.  A token is compared whole, ASCII case-insensitive (RFC 9309 2.2.1).
    """

    __slots__ = (
        "_base",
        "_group",
        "_marked",
        "_only_disallows",
        "_others",
        "_prefixes",
        "_ready_for",
        "_text",
        "_token",
        "_traces",
        "truncated",
    )

    # Set with `_ready_for`: what the URLs of this origin begin with, and what `Rules` says about URLs without escapes.
    _base: str
    _prefixes: tuple[str, ...]
    _traces: tuple[str, ...]
    _only_disallows: bool

    truncated: bool
    """Whether part of the file was not looked at, because of its size."""

    def __init__(self, text: bytes, *, truncated: bool, marked: bool) -> None:
        self._text = text
        self._marked = marked
        self._token: str | None = None
        self._group: _Group | None = None
        self._others: dict[str | None, _Group] | None = None
        self.truncated = truncated
        self._ready_for: object = _NOBODY

    def _group_of(self, token: str | None) -> _Group:
        """The group that applies; the one asked for last, and a few others, are kept."""
        if token == self._token and self._group is not None:
            return self._group
        others = self._others or {}
        if self._group is not None:
            others[self._token] = self._group
            if len(others) > _MOST_GROUPS:
                del others[next(iter(others))]
            self._others = others
        group = others.pop(token, None)
        if group is None:
            group = _Group(self._text, (octets_of(token).lower() if token else b"") or lines.EVERYONE)
        self._token, self._group = token, group
        return group

    def _at_first_sight(self, url: str, token: str | None) -> bool | None:
        """Whether a URL is allowed, for the way that most go, without taking it apart; None if it needs to be.

        Works on the URL as it is, if it is of the origin asked about before and holds no escape: what normalisation
        would still escape occurs in no prefix and no trace.  True only if no Disallow matches.
        """
        if token != self._ready_for and not self._made_ready(url, token):
            return None
        base = self._base
        start = len(base)
        if "%" in url or not url.startswith(base):
            return None
        if url.startswith(self._prefixes, start):
            if url.startswith(_ROBOTS_NAME, start) or (
                not self._only_disallows and self._group_of(token).rules.may_allow(url, start)
            ):
                return None
            return False
        for trace in self._traces:
            if trace in url:
                return None
        return True

    def _made_ready(self, url: str, token: str | None) -> bool:
        base = base_of(url)
        if not base:
            return False
        rules = self._group_of(token).rules
        self._base, self._ready_for = base, token
        self._prefixes, self._traces, self._only_disallows = rules.prefixes, rules.traces, rules.only_disallows
        return True

    # --- May this be fetched? -------------------------------------------------------------------------------

    def allowed(self, url: str, token: str | None) -> bool:
        """Whether the URL may be fetched under that name: `verdict` without its reason."""
        seen = self._at_first_sight(url, token)
        if seen is not None:
            return seen
        path = path_and_query(url)
        return self._group_of(token).rules.deciding(path)[0] != lines.DISALLOW or path == _ROBOTS_PATH

    def verdict(self, url: str, token: str | None, *, ignore_wildcard: bool = False) -> Verdict:
        """Whether the URL may be fetched under that name, and which line says so.

        The source is empty if no Disallow matches, ``"robots.txt line 7"`` otherwise, also when a longer
        Allow decided.
        ``ignore_wildcard``: only the rules of the token's own group refuse, those of ``*`` do not.
        """
        if self._at_first_sight(url, token):
            return _ALLOWED
        path = path_and_query(url)
        group = self._group_of(token)
        rule = group.rules.deciding(path)
        if not rule[0] or path == _ROBOTS_PATH or (ignore_wildcard and not group.own):
            return _ALLOWED  # RFC 9309 2.2.2: /robots.txt is always allowed
        kind, value = rule
        at = lines.find_rule(self._text, group.spans, kind, value)
        reason = f"{lines.written(self._text, at)} (group {self._label(group)})"
        return Verdict(kind == lines.ALLOW, reason, source_of(self._text, at))

    # --- Who is spoken to, and what else is said ------------------------------------------------------------

    def _label(self, group: _Group) -> str | None:
        return lines.written(self._text, group.label_at) if group.label_at else None

    def group_label(self, token: str | None) -> str | None:
        """The group that applies, as its first user-agent line names it; None if not even ``*`` is there."""
        return self._label(self._group_of(token))

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

        return warnings_about(self._text, truncated=self.truncated, marked=self._marked)

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
