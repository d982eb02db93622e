"""What the owner of a site would want to know about a robots.txt: lines that do not say what they seem to
say.

Reads every line, unlike the engine; meant for people, asked for rarely.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final, NamedTuple

from scrapy_scour.policy import robots_lines as lines
from scrapy_scour.policy.robots_pace import rate_of, seconds_of

_MOST: Final = 100
_PROPER: Final = {lines.AGENT: b"user-agent", lines.ALLOW: b"allow", lines.DISALLOW: b"disallow"}
_KNOWN_KEYS: Final = (
    "user-agent",
    "allow",
    "disallow",
    "crawl-delay",
    "sitemap",
    "request-rate",
    "visit-time",
)
_NEAR: Final = 0.8
_PACE: Final = frozenset({lines.CRAWL_DELAY, lines.REQUEST_RATE, lines.VISIT_TIME})
_GZIP: Final = b"\n\x1f\x8b"
_FULL_URL: Final = (b"http://", b"https://", b"ftp://")
_OTHER_KEYS: Final = frozenset({"host", "clean-param", "noindex", "content-signal", "cache-delay", "comment"})


class RobotsWarning(NamedTuple):
    """``line`` counts from 1; ``message`` is one sentence without the line."""

    line: int
    message: str


def warnings_about(text: bytes, *, truncated: bool, mark: bytes) -> list[RobotsWarning]:
    """The warnings about a text as `robots_lines.read_body` gives it, by line, the first hundred of them.

    ``truncated``: only the first part of the file is known; ``mark``: how it began with a byte order mark, else empty.
    """
    page = text.lstrip()[:1] == b"<"
    found = _Findings(is_page=page)
    if mark.startswith(b"\xef"):
        found.add(1, "the file starts with a byte order mark, which some crawlers read as part of the first key")
    elif mark:
        found.add(1, "the file is UTF-16 by its byte order mark, not UTF-8 (RFC 9309 2.3): not every crawler reads it")
    if page:
        at = len(text) - len(text.lstrip())
        found.add(lines.line_number(text, at), "this looks like a web page, not like a robots.txt")
    try:
        text.decode()
    except UnicodeDecodeError as error:
        found.add(
            lines.line_number(text, error.start),
            "not UTF-8 (RFC 9309 2.3): the octets are compared as they are",
        )
    for number, line in enumerate(text.split(b"\n")[1:], start=1):
        if len(found.warnings) >= _MOST:
            break
        if line.strip():
            found.read(number, line)
    if found.unread and not (found.has_records or page):
        said = ", which looks like gzip data," if text.startswith(_GZIP) else ""
        found.add(found.unread, f"no line of the file{said} can be read as one of a robots.txt")
    if truncated:
        found.add(text.count(b"\n"), "the file is over the size limit, what follows this line was not read")
    return sorted(found.warnings, key=lambda warning: warning.line)


class _Findings:
    """Reads line after line and remembers where in a group it is."""

    def __init__(self, *, is_page: bool) -> None:
        self.warnings: list[RobotsWarning] = []
        self.has_records = False
        self.unread = 0  # the first line that says nothing to anybody and is no comment
        self._is_page = is_page
        self._in_group = False
        self._in_agent_run = False
        self._between: tuple[int, bytes, bool] | None = None  # line, key, whether it asks for a pace
        self._joined: list[RobotsWarning] = []  # to be said if rules follow

    def add(self, number: int, message: str) -> None:
        self.warnings.append(RobotsWarning(number, message))

    def read(self, number: int, line: bytes) -> None:
        kind, value = lines.read_line(line)
        if not kind:
            self._odd_key(number, line)
            return
        self.has_records = True
        self._spelling(number, line, kind)
        if kind == lines.AGENT:
            self._agent(number, value)
            return
        if kind in lines.RULES:
            self._rule(number, line, value)
            return
        if kind in _PACE:
            self._pace(number, line, kind, value)
        elif kind == lines.SITEMAP and not value.lower().startswith(_FULL_URL):
            self.add(number, f"the sitemap {_shown(value)} is no full URL, crawlers may ignore it")
        self._stands_between(number, line, pace=kind in _PACE)

    def _stands_between(self, number: int, line: bytes, *, pace: bool) -> None:
        """Note a line that does not end the user-agent lines above it, though it looks so."""
        if self._in_agent_run and (self._between is None or pace):
            self._between = number, line.partition(b":")[0], pace

    def _agent(self, number: int, value: bytes) -> None:
        if not value:
            self.add(number, "a user-agent line without a name is ignored")
            return
        if self._between is not None:
            at, key, pace = self._between
            self._joined.append(
                RobotsWarning(
                    at,
                    f"this {_plain(key)} does not end its group: the rules below line {number} are for the agents "
                    "above it too (RFC 9309 2.2.1)" + (", the delay is not for those below" if pace else ""),
                )
            )
        self._in_group, self._in_agent_run, self._between = True, True, None
        agent = lines.agent_of(value)
        if not agent:
            self.add(number, f"{_shown(value)} is no product token (RFC 9309 2.2.1), these rules are for nobody")
        elif agent not in (value.lower(), lines.EVERYONE) or (agent == lines.EVERYONE and value != agent):
            self.add(number, f"{_shown(value)} is read as {_shown(value[: len(agent)])} (RFC 9309 2.2.1)")

    def _rule(self, number: int, line: bytes, value: bytes) -> None:
        self.warnings += self._joined
        self._joined, self._in_agent_run, self._between = [], False, None
        if not self._in_group:
            self.add(number, f"{_shown(line)} stands before any user-agent line and is for nobody")
        if value and value[:1] not in (b"/", b"*"):
            self.add(number, f"{_shown(value)} can never match: a path starts with '/' (RFC 9309 2.2.2)")
        if b"\0" in value:
            self.add(number, f"{_shown(value)} holds a NUL octet, which can only match %00 in a URL")

    def _pace(self, number: int, line: bytes, kind: int, value: bytes) -> None:
        if not self._in_group:
            key = _plain(line.partition(b":")[0])
            self.add(number, f"this {key} stands before any user-agent line and is for nobody")
        if kind == lines.CRAWL_DELAY and seconds_of(value) is None:
            self.add(number, f"{_shown(value)} is no number of seconds, the line is ignored")
        if kind == lines.REQUEST_RATE and rate_of(value) is None:
            self.add(number, f"{_shown(value)} is no number of requests per seconds like 1/10, the line is ignored")

    def _spelling(self, number: int, line: bytes, kind: int) -> None:
        proper = _PROPER.get(kind)
        if proper is None:
            return
        key, colon, _ = line.partition(b":")
        key = b" ".join(key.lower().split())
        if key == proper:
            return
        word = line.split()[0].lower()
        if lines.has_key(key) and colon:
            self.add(number, f"{_shown(key)} is not {_shown(proper)}: read as such here, not by every crawler")
        else:
            self.add(number, f"no colon after {_shown(word)}: read as one here, not by every crawler")

    def _odd_key(self, number: int, line: bytes) -> None:
        line = lines.without_comment(line)
        key, colon, _ = line.partition(b":")
        name = b" ".join(key.split()).decode("utf-8", "replace").lower()
        if colon and name in _OTHER_KEYS:
            self.has_records = True
            self._stands_between(number, line, pace=False)
            return
        if line and not self.unread:
            self.unread = number
        if self._is_page:
            return
        if colon:
            near = get_close_matches(name, _KNOWN_KEYS, n=1, cutoff=_NEAR) if len(name) <= 20 else []
            if near:
                self.add(number, f"unknown key {_shown(key.strip())}, is {near[0]!r} meant? The line is ignored")
        elif name.split(" ")[0] in _KNOWN_KEYS:
            self.add(number, f"no colon in {_shown(line)}: the line is ignored")


def _plain(key: bytes) -> str:
    return key.strip().decode("utf-8", "replace").capitalize()


def _shown(value: bytes) -> str:
    text = value.strip().decode("utf-8", "replace")
    return repr(text if len(text) <= 60 else text[:57] + "...")
