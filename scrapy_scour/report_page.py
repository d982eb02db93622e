"""Makes the report: from what is known of a crawl to one HTML page. Pure: no file, no clock, no log.

The page needs nothing but itself: no script, no other file, and its Content-Security-Policy lets nothing else in. Every
text of it that comes from outside is escaped by the template engine, whatever it is; URLs are text, not links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_scour.pace_words import MANY_S, spoken
from scrapy_scour.stores.histories import NO_GAP, TOLERANCE_S, HostHistory, Rest
from scrapy_scour.stores.refusals import Refusals

if TYPE_CHECKING:
    from jinja2 import Template

#: Hosts that the page shows one by one: those with the most to tell.
MOST_SHOWN = 200
#: How each reason for a hold reads.
HOLD_WORDS: Mapping[str, str] = {
    "retry_after": "Retry-After",
    "retry_wait": "refusal for rate",
    "backoff": "failures",
    "robots_unreachable": "robots.txt not readable",
}
_WIDTH, _HEIGHT = 300, 64


@dataclass
class ReportData:
    """What the page is made of. Times as text are shown as they are; ``duration_s`` is seconds.

    ``pages`` and ``outcomes`` are those of the stats, ``words`` says how each category reads in "12 <words>", ``hosts``
    are remembered one by one, ``rest`` are the sums of others, ``elsewhere`` requests out of scope of no host of these.
    """

    spider: str
    began: str
    ended: str
    duration_s: float
    finish_reason: str
    pages: int
    outcomes: int
    hosts: Sequence[HostHistory]
    rest: Rest
    refusals: Refusals
    words: Mapping[str, str] = field(default_factory=dict)
    elsewhere: int = 0


def page(data: ReportData, *, most_shown: int = MOST_SHOWN) -> str:
    """The page, HTML. Needs jinja2."""
    hosts = sorted(data.hosts, key=lambda host: (host.rank, host.host), reverse=True)
    shown, others = hosts[:most_shown], hosts[most_shown:]
    everything = data.rest.copy().add(hosts)
    return _template().render(
        data=data,
        hosts=[(host, plot(host, data.duration_s)) for host in shown],
        rest=data.rest.copy().add(others),
        everything=everything,
        groups=list(data.refusals.groups()),
        width=_WIDTH,
        height=_HEIGHT,
        hold_words=HOLD_WORDS,
        tolerance_ms=round(1000 * TOLERANCE_S),
    )


@dataclass(frozen=True)
class Plot:
    """The requests of one host over the time of the crawl, in the units of the drawing.

    ``kept``, ``short``: paths of dots, one for each request, as high as the gap before it. ``asked_y``: where the
    asked delay is, None when none is asked. ``spans``: (x, width) of the holds. ``top_s``: the gap at the upper edge,
    where longer ones are drawn. ``longest_s``: the longest gap.
    """

    kept: str
    short: str
    asked_y: float | None
    spans: Sequence[tuple[float, float]]
    top_s: float
    longest_s: float


def plot(host: HostHistory, duration_s: float) -> Plot | None:
    """The drawing of one host; None when there is no gap to be seen."""
    moments = [(at, gap) for at, gap in zip(host.times or (), host.gaps or (), strict=True) if gap != NO_GAP]
    if not moments:
        return None
    longest = max(gap for _, gap in moments)
    # A hold makes one gap that would press all others to the ground.
    top = min(max(longest, 2.0 * host.asked_s), 4.0 * host.asked_s) if host.asked_s else longest
    top = top or 1.0
    across = (_WIDTH - 8) / max(duration_s, 1e-3)
    up = (_HEIGHT - 12) / top

    def dot(at: float, gap: float) -> str:
        return f"M{4 + min(max(at, 0.0), duration_s) * across:.1f} {_HEIGHT - 6 - min(gap, top) * up:.1f}h0"

    shorts = host.shorts or ()
    return Plot(
        kept="".join(dot(*moment) for moment in moments if moment not in shorts),
        short="".join(dot(*moment) for moment in shorts),
        asked_y=round(_HEIGHT - 6 - host.asked_s * up, 1) if host.asked_s else None,
        spans=[
            (round(4 + begin * across, 1), round(max((min(end, duration_s) - begin) * across, 1.0), 1))
            for begin, end in host.spans or ()
            if 0.0 <= begin <= duration_s
        ],
        top_s=top,
        longest_s=longest,
    )


# How things read


def seconds(value: float | None) -> str:
    """Seconds, or milliseconds, in as many digits as tell something; very many as a duration; a dash for None."""
    if value is None:
        return "\u2013"
    if 0.0 < value < 0.0995:
        return f"{1000 * value:.0f} ms" if value >= 0.001 else "< 1 ms"
    if not value:
        return "0 s"
    if value >= MANY_S:
        return spoken(value)
    if value >= 100:
        return f"{value:,.0f} s"
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"


def duration(value: float) -> str:
    """A duration in hours, minutes and seconds."""
    minutes, left = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {left:02d} s" if minutes else f"{value:.1f} s"


def number(value: int) -> str:
    """A whole number with its thousands apart."""
    return f"{value:,}"


def plain(text: str) -> str:
    """The text with everything that is not to be seen as its escape: controls, marks that turn its direction round."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(seconds=seconds, duration=duration, number=number, plain=plain)
    return environment.from_string(Path(__file__).with_name("report.html").read_text(encoding="utf-8"))
