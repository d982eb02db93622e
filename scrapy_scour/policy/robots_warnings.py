"""What the owner of a site would want to know about a robots.txt: lines that do not say what they seem to
say.

Reads every line, unlike the engine; meant for people, asked for rarely.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final, NamedTuple

from scrapy_scour.policy import robots_lines as lines
from scrapy_scour.policy.robots_pace import seconds_of

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
_OTHER_KEYS: Final = frozenset({"host", "clean-param", "noindex", "content-signal", "cache-delay", "comment"})


class RobotsWarning(NamedTuple):
    """``line`` counts from 1; ``message`` is one sentence without the line."""

    line: int
    message: str


def warnings_about(text: bytes, *, truncated: bool, marked: bool) -> list[RobotsWarning]:
    """The warnings about a text as `robots_lines.read_body` gives it, by line, the first hundred of them.

    ``truncated``: only the first part of the file is known; ``marked``: it began with a byte order mark.
    """
    found = _Findings()
    if marked:
        found.add(1, "the file starts with a byte order mark, which some crawlers read as part of the first key")
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
    if truncated:
        found.add(text.count(b"\n"), "the file is over the size limit, what follows this line was not read")
    return sorted(found.warnings, key=lambda warning: warning.line)


class _Findings:
    """Reads line after line and remembers where in a group it is."""

    def __init__(self) -> None:
        self.warnings: list[RobotsWarning] = []
        self._in_group = False
        self._last_was_agent_run = False
        self._delay_in_run = 0

    def add(self, number: int, message: str) -> None:
        self.warnings.append(RobotsWarning(number, message))

    def read(self, number: int, line: bytes) -> None:
        kind, value = lines.read_line(line)
        if not kind:
            self._odd_key(number, line)
            return
        self._spelling(number, line, kind)
        if kind == lines.AGENT:
            self._agent(number, value)
        elif kind in lines.RULES:
            self._rule(number, line, value)
            self._last_was_agent_run, self._delay_in_run = False, 0
        elif kind == lines.CRAWL_DELAY:
            self._crawl_delay(number, value)

    def _agent(self, number: int, value: bytes) -> None:
        if not value:
            self.add(number, "a user-agent line without a name is ignored")
            return
        if self._delay_in_run:
            self.add(
                self._delay_in_run,
                f"this Crawl-delay does not end its group: the rules below line {number} are for the agents "
                "above it too (RFC 9309 2.2.1), the delay is not for those below",
            )
        self._in_group, self._last_was_agent_run, self._delay_in_run = True, True, 0
        agent = lines.agent_of(value)
        if not agent:
            self.add(number, f"{_shown(value)} is no product token (RFC 9309 2.2.1), these rules are for nobody")
        elif agent not in (value.lower(), lines.EVERYONE) or (agent == lines.EVERYONE and value != agent):
            self.add(number, f"{_shown(value)} is read as {_shown(value[: len(agent)])} (RFC 9309 2.2.1)")

    def _rule(self, number: int, line: bytes, value: bytes) -> None:
        if not self._in_group:
            self.add(number, f"{_shown(line)} stands before any user-agent line and is for nobody")
        if value and value[:1] not in (b"/", b"*"):
            self.add(number, f"{_shown(value)} can never match: a path starts with '/' (RFC 9309 2.2.2)")

    def _crawl_delay(self, number: int, value: bytes) -> None:
        if not self._in_group:
            self.add(number, "this Crawl-delay stands before any user-agent line and is for nobody")
        if seconds_of(value) is None:
            self.add(number, f"{_shown(value)} is no number of seconds, the line is ignored")
        if self._last_was_agent_run:
            self._delay_in_run = number

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
        if colon:
            near = get_close_matches(name, _KNOWN_KEYS, n=1, cutoff=0.75) if len(name) <= 20 else []
            if near and name not in _OTHER_KEYS:
                self.add(number, f"unknown key {_shown(key.strip())}, is {near[0]!r} meant? The line is ignored")
        elif name.split(" ")[0] in _KNOWN_KEYS:
            self.add(number, f"no colon in {_shown(line)}: the line is ignored")


def _shown(value: bytes) -> str:
    text = value.strip().decode("utf-8", "replace")
    return repr(text if len(text) <= 60 else text[:57] + "...")
