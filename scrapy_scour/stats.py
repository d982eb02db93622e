"""Every stats key that scrapy-scour sets: the only place that spells one.

Keys that stock Scrapy sets keep their names (``robotstxt/``, ``offsite/``, ``retry/``). Ours are ``scour/...``,
each over a closed set: no URL, host or other text from outside is ever part of a key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_scour import compat
from scrapy_scour.policy.failures import FailureCategory

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector


@dataclass(frozen=True)
class Stat:
    """One key, or a family of keys: ``{part}`` in ``name`` stands for each of ``parts``."""

    name: str
    help: str
    parts: tuple[str, ...] = ()

    def keys(self) -> Iterator[str]:
        """Every key of the family."""
        if not self.parts:
            yield self.name
        for part in self.parts:
            yield self.name.replace("{part}", part)

    def key(self, part: str) -> str:
        """The key for ``part``; a KeyError for a part outside the closed set."""
        if part not in self.parts:
            raise KeyError(f"{part!r} is not one of {self.parts}")
        return self.name.replace("{part}", part)


CATEGORIES = tuple(category.value for category in FailureCategory)
ROBOTS_ENDINGS = ("rules", "no_rules", "not_obtained")
HOLDS = ("retry_after", "retry_wait", "backoff", "robots_unreachable")

PAGES = Stat("scour/pages", "Responses that reached the spider as pages (statuses that are no failure).")
OUTCOME = Stat("scour/outcome/{part}", "Requests that ended without a page, by category.", CATEGORIES)
OUTCOMES = Stat("scour/outcomes", "Requests that ended without a page, all categories.")
HOP = Stat("scour/redirect/hops", "Redirect hops taken.")
REQUEUED = Stat("scour/requeued", "Requests that went back to the scheduler because their host has to wait.")
ROBOTS = Stat("scour/robotstxt/{part}", "robots.txt files read, by what they came to.", ROBOTS_ENDINGS)
ROBOTS_NOT_CURRENT = Stat(
    "scour/robotstxt/answered_by_middleware",
    "robots.txt answers that a middleware gave instead of the network, and that were fetched again.",
)
ROBOTS_TRUNCATED = Stat("scour/robotstxt/truncated", "robots.txt files longer than SCOUR_ROBOTSTXT_MAXSIZE.")
ROBOTS_AGENT_CHANGED = Stat(
    "scour/robotstxt/agent_changed",
    "Requests whose User-Agent changed after the robots check and that were checked again.",
)
ROBOTS_HOSTS_CLOSED = Stat(
    "scour/robotstxt/hosts_closed", "Hosts of which robots.txt refused every URL that was asked for."
)
ROBOTS_HOSTS_UNREACHABLE = Stat("scour/robotstxt/hosts_unreachable", "Hosts whose robots.txt could not be read.")
DELAY_HOSTS = Stat("scour/delay/hosts", "Hosts that asked for a delay.")
DELAY_MAX = Stat("scour/delay/max", "The longest delay that is kept for a host, seconds.")
DELAY_CLAMPED = Stat("scour/delay/clamped", "Hosts whose delay was cut to SCOUR_CRAWL_DELAY_MAX.")
HOLD = Stat("scour/hold/{part}", "Times a host was left alone, by reason.", HOLDS)
HOSTS_GIVEN_UP = Stat("scour/hosts_given_up", "Hosts that were given up because they went on refusing for rate.")
LIMIT_HOSTS = Stat("scour/limit/hosts", "Hosts of which requests were refused for SCOUR_MAX_REQUESTS_PER_DOMAIN.")
SCOPE_STARTS_LOST = Stat("scour/scope/starts_out_of_scope", "Start requests that ended out of scope.")
EXTERNAL = Stat("scour/external/fetches", "Calls to an external provider that were let through.")

#: Stock keys that we set, with stock's meaning.
ROBOTS_FORBIDDEN = Stat("robotstxt/forbidden", "Requests that robots.txt refused.")
ROBOTS_REQUESTS = Stat("robotstxt/request_count", "robots.txt files asked for, hops not counted.")
ROBOTS_RESPONSES = Stat("robotstxt/response_count", "robots.txt answers.")
ROBOTS_STATUS = Stat(
    "robotstxt/response_status_count/{part}", "robots.txt answers by status.", tuple(str(n) for n in range(100, 1000))
)
ROBOTS_EXCEPTIONS = Stat(
    "robotstxt/exception_count/{part}", "robots.txt requests without an answer, by exception class."
)
OFFSITE_DOMAINS = Stat("offsite/domains", "Hosts that the scope refused.")
OFFSITE_FILTERED = Stat("offsite/filtered", "Requests of the spider that the scope refused.")
RETRY_COUNT = Stat("retry/count", "Retries.")
RETRY_MAX = Stat("retry/max_reached", "Requests given up after their retries.")
RETRY_REASON = Stat("retry/reason_count/{part}", "Retries by reason.")

#: Families whose part is a class name or a reason of Scrapy's own, as in stock.
OPEN = (ROBOTS_EXCEPTIONS, RETRY_REASON)
_OPEN_NAMES = frozenset(stat.name for stat in OPEN)

ALL: tuple[Stat, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Stat))


class Counter:
    """Counts through Scrapy's stats collector, by :class:`Stat` and part."""

    def __init__(self, stats: StatsCollector) -> None:
        self._stats = stats
        self._attributes = compat.stats_of(stats)

    def add(self, stat: Stat, part: str = "", count: int = 1) -> None:
        """Add ``count`` to the key."""
        if stat.name in _OPEN_NAMES:
            key = stat.name.replace("{part}", part)
        else:
            key = stat.key(part) if stat.parts else stat.name
        if self._attributes is None:
            self._stats.inc_value(key, count)
        else:
            counts = self._attributes["_stats"]
            counts[key] = counts.get(key, 0) + count

    def largest(self, stat: Stat, value: float) -> None:
        """Keep the largest value seen."""
        self._stats.max_value(stat.name, value)

    def get(self, stat: Stat, part: str = "") -> float:
        """The current value, 0 when nothing was counted."""
        value: float = self._stats.get_value(stat.key(part) if stat.parts else stat.name, 0)
        return value
