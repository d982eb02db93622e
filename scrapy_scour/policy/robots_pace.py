"""The pace that a robots.txt asks for: Crawl-delay, Request-rate, Visit-time; and its sitemaps.

None of these is part of RFC 9309, which lets a crawler read other records but not change the rules by them
(2.2.4). Crawl-delay is read here; the others as Protego reads them, line by line, so that one odd line spoils
no other.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from scrapy_scour.policy import robots_lines as lines

if TYPE_CHECKING:
    from protego import Protego, RequestRate, VisitTime

_DECIMAL = re.compile(rb"(?=\.?[0-9])0*([0-9]*)(?:\.([0-9]*))?\Z")
_LONGEST: Final = sys.float_info.max
_PACE_KINDS: Final = (lines.CRAWL_DELAY, lines.REQUEST_RATE, lines.VISIT_TIME)
_DELAY_ENDERS: Final = lines.RULES | {lines.CRAWL_DELAY}
_OTHER_ENDERS: Final = lines.RULES | set(_PACE_KINDS)


def seconds_of(value: bytes) -> float | None:
    """A plain non-negative decimal, None for anything else; never infinite, whatever its size."""
    found = _DECIMAL.match(value)
    if not found:
        return None
    whole, fraction = found[1], (found[2] or b"")[:30]
    return _LONGEST if len(whole) > sys.float_info.max_10_exp else float(b"%s.%s" % (whole or b"0", fraction))


def source_of(text: bytes, at: int) -> str:
    """How a verdict and a delay name a line of the file."""
    return f"robots.txt line {lines.line_number(text, at)}"


class Pace(NamedTuple):
    """What one name is asked.  ``delay_s`` is what to wait between requests, ``source`` the line that says
    so.
    """

    crawl_delay: float | None = None
    request_rate: RequestRate | None = None
    visit_time: VisitTime | None = None
    delay_s: float = 0.0
    source: str = ""

    @classmethod
    def may_be_in(cls, lower: bytes) -> bool:
        """Whether a file (in lower case) needs to be read for its pace at all; most need not."""
        return b"crawl" in lower or b"request" in lower or b"visit" in lower

    @classmethod
    def read(cls, text: bytes, agent: bytes) -> Pace:
        """What the file asks of this agent (lower case, or ``*``) by name."""
        sections = lines.Sections(text)
        numbers = sections.named(agent)
        crawl_delay, rate, visit, delay_s, asked_at = None, None, None, -1.0, 0
        if lines.mentions(sections.lower, lines.CRAWL_DELAY):
            # A crawl-delay line ends a run of user-agent lines too, but only for crawl-delays.
            for kind, at, value in lines.lines_of(text, sections.below(numbers, _DELAY_ENDERS)):
                seconds = seconds_of(value) if kind == lines.CRAWL_DELAY else None
                if seconds is not None and seconds > delay_s:
                    crawl_delay, delay_s, asked_at = seconds, seconds, at
        if any(lines.mentions(sections.lower, kind) for kind in (lines.REQUEST_RATE, lines.VISIT_TIME)):
            for kind, at, value in lines.lines_of(text, sections.below(numbers, _OTHER_ENDERS)):
                if kind == lines.VISIT_TIME and visit is None:
                    visit = _visit_time(value)
                elif kind == lines.REQUEST_RATE:
                    asked = rate_of(value)
                    if asked is not None and (rate is None or _interval(asked) > _interval(rate)):
                        rate = asked
                        if _interval(asked) > delay_s:
                            delay_s, asked_at = _interval(asked), at
        return cls(crawl_delay, rate, visit, max(delay_s, 0.0), source_of(text, asked_at) if asked_at else "")


NO_PACE: Final = Pace()


def sitemaps_of(text: bytes) -> list[str]:
    """The sitemaps that a file names, in its order."""
    if not lines.mentions(text.lower(), lines.SITEMAP):
        return []
    written = [line for line in text.split(b"\n") if lines.mentions(line.lower(), lines.SITEMAP)]
    read = _protego(b"\n".join(written))
    return list(read.sitemaps) if read else []


def _interval(rate: RequestRate) -> float:
    """Seconds per request."""
    try:
        return float(rate.seconds / rate.requests)
    except OverflowError:
        return _LONGEST


def rate_of(value: bytes) -> RequestRate | None:
    """A rate as Protego reads it; None for one that cannot be kept."""
    read = _protego(b"User-agent: *\nRequest-rate: " + value)
    rate = read.request_rate("*") if read else None
    return rate if rate and rate.requests > 0 and rate.seconds >= 0 else None


def _visit_time(value: bytes) -> VisitTime | None:
    read = _protego(b"User-agent: *\nVisit-time: " + value)
    return read.visit_time("*") if read else None


def _protego(text: bytes) -> Protego | None:
    from protego import Protego  # only for the few files that have such lines

    try:
        return Protego.parse(text.decode("utf-8", "replace"))
    except Exception:  # whatever it stumbles over, a site's file is no reason to fail
        return None
