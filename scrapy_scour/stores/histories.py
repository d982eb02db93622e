"""Remembers how each host was treated, for the report: counts, gaps, holds, and some moments of a long crawl.

Memory is bounded whatever the crawl: a host keeps so many moments and then every second of them, all hosts together
likewise, and past so many hosts those with the least to tell are only summed. Counts and smallest gaps are exact, a
median is that of the moments kept. Decides nothing; times are seconds since the crawl began, given by the caller.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable

from scrapy_scour.policy.failures import FailureCategory

#: Hosts that are remembered one by one.
MOST_HOSTS = 20_000
#: Moments kept of one host, and of all together; 16 bytes each.
MOST_MOMENTS_OF_ONE = 256
MOST_MOMENTS = 500_000
#: A host keeps at least so many, however many hosts there are.
FEWEST_MOMENTS_OF_ONE = 8
#: Holds of one host whose times are kept, and gaps that were too short; all are counted.
MOST_SPANS = 32
MOST_SHORT = 16
#: A gap counts as too short when it is shorter than the asked delay by more than this: clocks are not exact.
TOLERANCE_S = 0.02
#: A hold that is given up so soon, seconds, was given up as it began: one step of the crawl, and no time.
SHORTEST_HOLD_S = 0.01
#: The gap of a request that none came before.
NO_GAP = -1.0


_OUT_OF_SCOPE = FailureCategory.OUT_OF_SCOPE.value


class HostHistory:
    """One host.

    ``pages``: responses that became pages. ``requests``: dispatched to the network, robots.txt included. ``refused``:
    requests that ended without a page, by category. ``asked_s``, ``asked_by``: the delay that the site asks for, 0.0
    for none, and the line that says so; ``over_max_s``, ``over_max_by``: one above the project's maximum, for which the
    host was skipped (asked_s is 0.0) or which was cut to asked_s. ``smallest_s``: the shortest time from the end of a
    transfer to the next dispatch, 0.0 when they overlapped, None while there was none. ``too_short``: gaps below the
    delay that was asked then, ``shorts`` some of them as (time, gap). ``held``: how often it was left alone, by reason;
    ``held_s`` for how long in all, to its end even if that is after the crawl's; ``spans`` when (begin, end).
    ``given_up``: why its requests failed, "" when they did not. ``times``, ``gaps``: the moments kept, ``NO_GAP`` for
    the gap of the first.
    """

    __slots__ = (
        "_every",
        "_skipped",
        "asked_by",
        "asked_s",
        "gaps",
        "given_up",
        "held",
        "held_s",
        "held_until",
        "host",
        "over_max_by",
        "over_max_s",
        "pages",
        "refused",
        "requests",
        "shorts",
        "smallest_s",
        "spans",
        "times",
        "too_short",
    )

    def __init__(self, host: str) -> None:
        self.host = host
        self.pages = 0
        self.requests = 0
        self.refused: Counter[str] | None = None
        self.asked_s = 0.0
        self.asked_by = ""
        self.over_max_s = 0.0
        self.over_max_by = ""
        self.smallest_s: float | None = None
        self.too_short = 0
        self.shorts: list[tuple[float, float]] | None = None
        self.held: Counter[str] | None = None
        self.held_s = 0.0
        self.held_until = float("-inf")
        self.spans: list[tuple[float, float]] | None = None
        self.given_up = ""
        self.times: array[float] | None = None
        self.gaps: array[float] | None = None
        self._every = 1
        self._skipped = 0

    @property
    def refusals(self) -> int:
        """Requests that ended without a page."""
        return self.refused.total() if self.refused else 0

    @property
    def holds(self) -> int:
        """How often it was left alone."""
        return self.held.total() if self.held else 0

    def held_within(self, end_s: float) -> float:
        """For how long it was left alone, up to the end of the crawl."""
        return max(self.held_s - max(self.held_until - end_s, 0.0), 0.0)

    @property
    def rank(self) -> tuple[float, ...]:
        """The larger, the more there is to tell: asked at all, then short gaps, given up, holds, ..."""
        asked_at_all = self.requests > 0
        return asked_at_all, self.too_short, bool(self.given_up), self.holds, self.refusals, self.asked_s, self.requests

    @property
    def median_s(self) -> float | None:
        """The median of the gaps kept, None when there is none."""
        gaps = sorted(gap for gap in self.gaps or () if gap != NO_GAP)
        middle = len(gaps) // 2
        if not gaps:
            return None
        return gaps[middle] if len(gaps) % 2 else (gaps[middle - 1] + gaps[middle]) / 2

    def keep(self, at_s: float, gap_s: float, most: int) -> int:
        """Keep a moment, or every second one when there are ``most``; by how many there are more now."""
        self._skipped += 1
        if self._skipped < self._every:
            return 0
        self._skipped = 0
        if self.times is None or self.gaps is None:
            self.times, self.gaps = array("d"), array("d")
        before = len(self.times)
        if before >= most:
            self.thin()
        self.times.append(at_s)
        self.gaps.append(gap_s)
        return len(self.times) - before

    def thin(self) -> None:
        """Keep every second moment, now and from now on."""
        if self.times is not None and self.gaps is not None:
            self.times, self.gaps = self.times[::2], self.gaps[::2]
            self._every *= 2


class Rest:
    """Hosts that are only summed, ``contacted`` of them asked for anything.

    One that came back after it was summed counts as another host.
    """

    def __init__(self) -> None:
        self.hosts = 0
        self.contacted = 0
        self.pages = 0
        self.requests = 0
        self.refused: Counter[str] = Counter()
        self.holds = 0
        self.too_short = 0
        self.asked = 0

    def add(self, hosts: Iterable[HostHistory]) -> Rest:
        """Add hosts; gives itself back."""
        for host in hosts:
            self.hosts += 1
            self.contacted += host.requests > 0
            self.pages += host.pages
            self.requests += host.requests
            self.refused.update(host.refused or {})
            self.holds += host.holds
            self.too_short += host.too_short
            self.asked += host.asked_s > 0.0
        return self

    def copy(self) -> Rest:
        """The same sums, to be added to."""
        other = Rest()
        other.__dict__.update(self.__dict__, refused=self.refused.copy())
        return other


class Histories:
    """All hosts of one crawl, and the sums of those that did not fit (``rest``).

    ``elsewhere``: requests out of scope, of hosts that are none of these.
    """

    def __init__(self, most_hosts: int = MOST_HOSTS, most_moments: int = MOST_MOMENTS) -> None:
        self.rest = Rest()
        self.elsewhere = 0
        self._hosts: dict[str, HostHistory] = {}
        self._most_hosts = most_hosts
        self._most_moments = most_moments
        self._most_of_one = MOST_MOMENTS_OF_ONE
        self._moments = 0

    def __len__(self) -> int:
        return len(self._hosts)

    @property
    def hosts(self) -> list[HostHistory]:
        """Those that are remembered one by one."""
        return list(self._hosts.values())

    def of(self, host: str) -> HostHistory:
        """The history of a host, made when new."""
        history = self._hosts.get(host)
        if history is None:
            if len(self._hosts) >= self._most_hosts:
                self._sum_half()
            history = self._hosts[host] = HostHistory(host)
        return history

    def sent(self, host: str, at_s: float, gap_s: float | None, asked_s: float, asked_by: str) -> None:
        """A request goes out. ``gap_s``: since the last transfer ended, 0.0 while one runs, None for the first."""
        history = self.of(host)
        history.requests += 1
        history.asked_s, history.asked_by = asked_s, asked_by
        if gap_s is not None:
            if history.smallest_s is None or gap_s < history.smallest_s:
                history.smallest_s = gap_s
            if gap_s < asked_s - TOLERANCE_S:
                history.too_short += 1
                if history.shorts is None:
                    history.shorts = []
                if len(history.shorts) < MOST_SHORT:
                    history.shorts.append((at_s, gap_s))
        self._moments += history.keep(at_s, NO_GAP if gap_s is None else gap_s, self._most_of_one)
        if self._moments > self._most_moments and self._most_of_one > FEWEST_MOMENTS_OF_ONE:
            self._thin()

    def refused(self, host: str, category: str) -> None:
        """A request ended without a page.

        A link that leads out of the crawl makes no host of it: there may be many more of those than hosts.
        """
        if category == _OUT_OF_SCOPE and host not in self._hosts:
            self.elsewhere += 1
            return
        history = self.of(host)
        if history.refused is None:
            history.refused = Counter()
        history.refused[category] += 1

    def hold(self, host: str, why: str) -> None:
        """Count that the host is left alone once more; for how long, :meth:`held` is told."""
        history = self.of(host)
        if history.held is None:
            history.held = Counter()
        history.held[why] += 1

    def held(self, host: str, now_s: float, until_s: float) -> None:
        """The host is left alone until then. While it is already, that time becomes longer."""
        history = self.of(host)
        begin = max(now_s, history.held_until)
        if until_s <= begin:
            return
        history.held_s += until_s - begin
        if history.spans is None:
            history.spans = []
        if begin == now_s:
            if len(history.spans) < MOST_SPANS:
                history.spans.append((begin, until_s))
        elif history.spans and history.spans[-1][1] == history.held_until:
            history.spans[-1] = (history.spans[-1][0], until_s)
        history.held_until = until_s

    def given_up(self, host: str, now_s: float, why: str) -> None:
        """The host's requests fail from now on: nothing waits for the end of a hold any more."""
        history = self.of(host)
        history.given_up = why
        until = history.held_until
        if until <= now_s:
            return
        end_s = now_s
        if history.spans and history.spans[-1][1] == until:
            begin, _ = history.spans.pop()
            if now_s - begin >= SHORTEST_HOLD_S:
                history.spans.append((begin, now_s))
            else:
                end_s = begin
        history.held_s -= until - end_s
        history.held_until = now_s

    def _thin(self) -> None:
        self._most_of_one = max(self._most_of_one // 2, FEWEST_MOMENTS_OF_ONE)
        for history in self._hosts.values():
            while history.times is not None and len(history.times) > self._most_of_one:
                history.thin()
        self._moments = sum(len(history.times or ()) for history in self._hosts.values())

    def _sum_half(self) -> None:
        """Sum the half with the least to tell; it costs each host that comes a fixed part of a sort."""
        ordered = sorted(self._hosts.values(), key=lambda history: history.rank)
        half = ordered[: (len(ordered) + 1) // 2]
        self.rest.add(half)
        for history in half:
            del self._hosts[history.host]
            self._moments -= len(history.times or ())
