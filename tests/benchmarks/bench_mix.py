"""Slow hosts beside fast ones: does anybody wait for somebody else's delay?

    python tests/benchmarks/bench_mix.py [--mix 1 2 3] [--runs 3] [--collect-after 10000]

Mixes 1 and 2 have delays set by the user (DOWNLOAD_SLOTS), robots.txt off on both sides; in mix 3 the slow hosts ask
for theirs in robots.txt (Crawl-delay), which stock reads and does not keep: it is timed, but has no bound to meet.
Answers take 2 ms, CONCURRENT_REQUESTS is Scrapy's 16. Each side crawls the fast hosts alone, the slow ones alone, then
both; medians of the runs. ``fast`` is the last fast page of the mix against the fast hosts alone, ``cpu`` the same in
processor time of the crawl, ``share`` all pages that had arrived by then against the fast ones: what the slow pages
that were due cost if each costs as much as a fast one. ``all`` is the last page of the mix against the longer of the
two alone. The shortest gap is the server's: from arrival to arrival for a delay of the user, from the end of an answer
to the next arrival for one that the site asked.

The fast hosts alone keep one processor busy, a tenth to a quarter of it with Python's garbage collector, which takes
longer the more hosts there are and runs as chance has it. On both sides it is let wait for ``--collect-after`` new
objects, so that what is compared is who is asked when; 0 leaves it as Python sets it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from crawl_once import ADDON, STOCK, Figures, Group, run
from server import HostReport, Server, fast, slow

LATENCY_S = 0.002
#: How much shorter a gap may look to the server, which has only half of a machine to log arrivals: from its own last
#: octet to the next arrival, and from one arrival to the next.
ASKED_TOLERANCE_S = 0.02
USER_TOLERANCE_S = 0.02
FAST_AT_MOST = 1.15
ALL_AT_MOST = 1.10


@dataclass(frozen=True)
class Mix:
    """``asked``: the delay is asked by the sites, not set by the user."""

    slow_hosts: int
    slow_pages: int
    delay_s: float
    fast_hosts: int
    fast_pages: int
    asked: bool = False

    def __str__(self) -> str:
        source = "Crawl-delay" if self.asked else "delay"
        return (
            f"{self.slow_hosts} hosts with {source} {self.delay_s:g} s and {self.slow_pages} pages each, "
            f"{self.fast_hosts} fast hosts with {self.fast_pages}"
        )

    @property
    def tolerance_s(self) -> float:
        return ASKED_TOLERANCE_S if self.asked else USER_TOLERANCE_S

    def groups(self) -> dict[str, Group]:
        return {
            "slow": Group([slow(number) for number in range(self.slow_hosts)], self.slow_pages),
            "fast": Group([fast(number) for number in range(self.fast_hosts)], self.fast_pages),
        }

    def settings(self) -> dict[str, Any]:
        if self.asked:
            return {"ROBOTSTXT_OBEY": True}
        slots = {slow(number): {"delay": self.delay_s, "jitter": 0} for number in range(self.slow_hosts)}
        return {"ROBOTSTXT_OBEY": False, "DOWNLOAD_SLOTS": slots}

    def shortest_gap(self, report: Mapping[str, HostReport]) -> float:
        """Of all slow hosts, seconds, as the server saw it."""
        seen = [report[slow(number)] for number in range(self.slow_hosts)]
        gaps = [host.end_gap_s if self.asked else host.start_gap_s for host in seen]
        return min(gap for gap in gaps if gap is not None)


MIXES = {
    1: Mix(16, 10, 2.0, 24, 200),
    2: Mix(200, 4, 5.0, 10, 500),
    3: Mix(1000, 2, 30.0, 10, 1600, asked=True),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mix", type=int, nargs="+", default=sorted(MIXES), choices=sorted(MIXES))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--collect-after", type=int, default=10_000)
    given = parser.parse_args()
    kept = True
    for number in given.mix:
        mix = MIXES[number]
        print(f"mix {number}: {mix}; medians of {given.runs}, collector after {given.collect_after}")
        print(
            f"{'':6} {'fast alone':>11} {'slow alone':>11} {'fast in mix':>12} {'all':>8}"
            f" {'fast':>6} {'cpu':>6} {'share':>6} {'all':>6}  gap"
        )
        with Server(latency_s=LATENCY_S, crawl_delay_s=mix.delay_s if mix.asked else 0.0) as server:
            for side, way in (("ours", ADDON), ("stock", STOCK)):
                kept = _measure(side, {**way, **mix.settings()}, mix, server, given) and kept
    return 0 if kept else 1


def _measure(side: str, settings: Mapping[str, Any], mix: Mix, server: Server, given: argparse.Namespace) -> bool:
    both = mix.groups()
    times: dict[str, list[float]] = {
        "fast": [],
        "slow": [],
        "fast in mix": [],
        "all": [],
        "pages": [],
        "cpu": [],
        "mixed cpu": [],
    }
    gap = float("inf")

    def crawl(*names: str) -> Figures:
        nonlocal gap
        figures = run(server.port, {name: both[name] for name in names}, settings, collect_after=given.collect_after)
        report = server.report()
        if "slow" in names:
            gap = min(gap, mix.shortest_gap(report))
        return figures

    for _ in range(given.runs):
        alone = crawl("fast")
        times["fast"].append(alone.everything_s)
        times["cpu"].append(alone.cpu_by_then["fast"])
        times["slow"].append(crawl("slow").everything_s)
        mixed = crawl("slow", "fast")
        times["fast in mix"].append(mixed.ended_s["fast"])
        times["all"].append(mixed.everything_s)
        times["pages"].append(mixed.by_then["fast"])
        times["mixed cpu"].append(mixed.cpu_by_then["fast"])
    median = {name: statistics.median(values) for name, values in times.items()}
    fast_ratio = median["fast in mix"] / median["fast"]
    share = median["pages"] / (mix.fast_hosts * mix.fast_pages)
    cpu_ratio = median["mixed cpu"] / median["cpu"]
    all_ratio = median["all"] / max(median["fast"], median["slow"])
    print(
        f"{side:6} {median['fast']:>9.1f} s {median['slow']:>9.1f} s {median['fast in mix']:>10.1f} s"
        f" {median['all']:>6.1f} s {fast_ratio:>6.2f} {cpu_ratio:>6.2f} {share:>6.2f} {all_ratio:>6.2f}  {gap:.3f} s",
        flush=True,
    )
    if side == "stock":
        return True
    kept = fast_ratio <= FAST_AT_MOST and all_ratio <= ALL_AT_MOST and gap >= mix.delay_s - mix.tolerance_s
    if not kept:
        print(f"       not within {FAST_AT_MOST} and {ALL_AT_MOST}, or a gap below {mix.delay_s:g} s", flush=True)
    return kept


if __name__ == "__main__":
    sys.exit(main())
