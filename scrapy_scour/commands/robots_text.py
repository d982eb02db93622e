"""The answers of ``scrapy robots`` for people: 80 columns, the facts about a file once, then a verdict per URL.

Sites write what is printed here, so nothing of it reaches a terminal that is not a printable character.
"""

from __future__ import annotations

import textwrap
from collections import OrderedDict
from collections.abc import Callable, Sequence

from scrapy_scour.commands.robots_answer import Answer, ForAgent
from scrapy_scour.commands.robots_identity import Identity
from scrapy_scour.commands.robots_site import File, Site

WIDTH = 80
_LABEL = 14
#: How much of a long list is shown; the JSON form has all of it.
_MOST_SITEMAPS = 5
_MOST_WARNINGS = 20
_MOST_HEADER = 300
#: Sites whose facts count as told.
_MOST_TOLD = 10_000


class TextReport:
    """Writes answers as they come."""

    def __init__(
        self, write: Callable[[str], object], identity: Identity, sent: str | None, notes: Sequence[str]
    ) -> None:
        self._write = write
        self._identity = identity
        self._sent = sent
        self._notes = notes
        self._told: OrderedDict[str, None] = OrderedDict()
        self._begun = False

    def add(self, answer: Answer) -> None:
        """Write one answer, after the facts about its site when they are new."""
        out = [] if self._begun else [*self._whom(), ""]
        if answer.site is not None and self._is_new(answer.site):
            out += ([""] if self._begun else []) + [*_facts(answer.site, self._identity), ""]
        self._begun = True
        out.append(f"{answer.verdict:<8} {printable(answer.url)}")
        out += _wrapped(printable(answer.reason), " " * 9)
        for row in _rows(answer.agents or ()):
            out += _wrapped(row, " " * 9, " " * 13)
        self._write("\n".join(out) + "\n")

    def _is_new(self, site: Site) -> bool:
        key = site.origin or site.file.url
        new = key not in self._told
        self._told[key] = None
        self._told.move_to_end(key)
        if len(self._told) > _MOST_TOLD:
            self._told.popitem(last=False)
        return new

    def _whom(self) -> list[str]:
        identity = self._identity
        header = printable(identity.header[:_MOST_HEADER])
        name = printable(identity.token) if identity.token else "* (a crawler without a name)"
        said = f"{name}, from {identity.token_from}"
        of_header = identity.token_from == identity.header_from
        if of_header and header not in ("", name):
            said += f": {header}"
        out = _field("asked for", said)
        if self._sent is not None and not (of_header and self._sent == identity.header):
            out += _field("sent as", printable(self._sent[:_MOST_HEADER]) or "nobody, no User-Agent is set")
        for note in self._notes:
            out += _field("note", printable(note))
        return out


def _facts(site: Site, identity: Identity) -> list[str]:
    out = [printable(site.origin or site.file.url)]
    for hop, url in enumerate((site.file.url, *site.file.redirects)):
        if site.file.redirects:
            out += _field("redirects" if not hop else "", printable(f"-> {url}" if hop else url), "  ")
    out += _field("robots.txt", _obtained(site.file), "  ")
    if site.file.state in ("read", "file"):
        out += _field("group", _group(site, identity), "  ")
    if site.file.state != "unreachable":
        out += _field("delay", _delay(site), "  ")
    for number, sitemap in enumerate(site.sitemaps[:_MOST_SITEMAPS]):
        out += _field("" if number else "sitemaps", printable(sitemap), "  ")
    out += _more(len(site.sitemaps) - _MOST_SITEMAPS)
    for number, warning in enumerate(site.warnings[:_MOST_WARNINGS]):
        said = printable(f"line {warning.line}: {warning.message}")
        out += _field("" if number else "warnings", said, "  ")
    return out + _more(len(site.warnings) - _MOST_WARNINGS)


def _more(count: int) -> list[str]:
    return _field("", f"and {count} more (--json has them all)", "  ") if count > 0 else []


def _obtained(file: File) -> str:
    if file.state == "file":
        return f"{_size(file)}, from a file"
    parts = []
    if file.status is not None:
        parts.append(f"status {file.status}" + (f" from {file.address}" if file.address else ""))
    if file.state == "unavailable":
        parts.append("so there are no rules")
    elif file.state == "unreachable":
        parts.append("could not be read")
    else:
        parts.append(_size(file))
    if file.age is not None:
        parts.append("read just now" if file.age < 60 else f"read {file.age / 60:.0f} min ago")
    return ", ".join(part for part in parts if part)


def _size(file: File) -> str:
    size = file.size or 0
    said = f"{size} bytes" if size < 10_000 else f"{size / 1000:.0f} kB" if size < 1_000_000 else f"{size / 1e6:.1f} MB"
    return f"{said} read, the rest was cut off" if file.truncated else said


def _group(site: Site, identity: Identity) -> str:
    if site.read_by is not None:
        return f"not known, read by {printable(site.read_by)}"
    if site.group is None:
        return "none, neither for this name nor for *" if identity.token else "none for *"
    if site.group_is_own:
        return f"{printable(site.group)} (the group * does not apply)"
    return f"{printable(site.group)} (there is none for {printable(identity.token)})" if identity.token else site.group


def _delay(site: Site) -> str:
    if site.unheeded:
        set_by = f"{site.delay:g} s between two requests ({site.delay_from})" if site.delay else "none set"
        return f"{set_by}; the {site.unheeded:g} s that robots.txt asks for are not kept"
    if not site.delay:
        return "none asked for, none set"
    asked = []
    if site.request_rate:
        asked.append(f"Request-rate {site.request_rate['requests']:g} in {site.request_rate['seconds']:g} s")
    if site.crawl_delay is not None:
        asked.append(f"Crawl-delay {site.crawl_delay:g} s")
    said = f"{site.delay:g} s between two requests ({site.delay_from})"
    if site.too_slow is not None:
        said = f"{site.delay:g} s asked for ({site.delay_from}), too long: the host is skipped"
    return f"{said}; the file has {' and '.join(asked)}" if len(asked) > 1 else said


def _rows(agents: Sequence[ForAgent]) -> list[str]:
    """One row for all crawlers with the same verdict by the same line, at the same pace."""
    alike: dict[tuple[str, int | None, str | None, float], list[str]] = {}
    for agent in agents:
        alike.setdefault((agent.verdict, agent.line, agent.rule, agent.delay), []).append(printable(agent.token))
    rows = []
    for (verdict, line, rule, delay), names in alike.items():
        why = f" by line {line}: {printable(rule or '')}" if line else ", no rule matches"
        pace = f", delay {delay:g} s" if delay else ""
        rows.append(f"{verdict} for {', '.join(names)}{why}{pace}")
    return rows


def printable(text: str) -> str:
    """The text with an escape for each character that is not printable."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _field(label: str, text: str, indent: str = "") -> list[str]:
    first = f"{indent}{label}".ljust(_LABEL) + " "
    return _wrapped(text, first, " " * (_LABEL + 1))


def _wrapped(text: str, first: str, rest: str | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=first if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first.rstrip()]
