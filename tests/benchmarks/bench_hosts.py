"""A crawl of very many hosts with a few pages each: pages per second, ours and stock.

    python tests/benchmarks/bench_hosts.py [--hosts 20000] [--pages 3] [--runs 3]

Answers come at once, on a connection each. robots.txt is off on both sides, so that the scheduler's share shows;
``--robots`` turns it on, which adds one robots.txt per host on both sides. Sides take turns; medians of the runs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from crawl_once import ADDON, STOCK, Figures, Group, run
from server import Server, fast


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=20_000)
    parser.add_argument("--pages", type=int, default=3)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--robots", action="store_true")
    given = parser.parse_args()
    group = {"hosts": Group([fast(number) for number in range(given.hosts)], given.pages)}
    pages = given.hosts * given.pages
    found: dict[str, list[Figures]] = {"ours": [], "stock": []}
    with Server(closes=True) as server:
        for _ in range(given.runs):
            for side, way in (("ours", ADDON), ("stock", STOCK)):
                found[side].append(run(server.port, group, {**way, "ROBOTSTXT_OBEY": given.robots}))
                server.report()
    print(f"{given.hosts} hosts, {given.pages} pages each, medians of {given.runs}")
    for side, runs in found.items():
        wall = statistics.median(pages / figures.wall_s for figures in runs)
        processor = statistics.median(pages / figures.cpu_s for figures in runs)
        peak = statistics.median(figures.peak_mib for figures in runs)
        print(f"{side:6} {wall:7.1f} pages/s {processor:7.1f} pages/CPU s, peak {peak:.0f} MiB")


if __name__ == "__main__":
    main()
