"""One host, nothing to wait for: what does politeness cost where none is asked?

    python tests/benchmarks/bench_single_host.py [--pages 3000] [--latency 0] [--runs 5] [--links 10]

Two pairs, default settings otherwise: the scheduler queue alone against Scrapy's default queue (robots.txt off), the
full add-on against stock with ROBOTSTXT_OBEY, both printed with the ratio to stock. Each twice: all pages are start
requests; all but the first are found by links. Sides take turns; medians of the runs, of the ratios of neighbours too.
Pages per CPU second say more than pages per second on a machine with other work.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from crawl_once import ADDON, QUEUE_ONLY, STOCK, Figures, Group, run
from server import Server, fast

PAIRS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "queue alone": (QUEUE_ONLY, STOCK),
    "full add-on": (ADDON, {"ROBOTSTXT_OBEY": True}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=3000)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds that each answer takes")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--links", type=int, default=10, help="links of each page, where pages are found by links")
    given = parser.parse_args()
    group = {"host": Group([fast(0)], given.pages)}
    print(f"{given.pages} pages of one host, answers after {given.latency:g} s, medians of {given.runs}")
    with Server(latency_s=given.latency) as server:
        for (name, pair), links in itertools.product(PAIRS.items(), (0, given.links)):
            found: tuple[list[Figures], list[Figures]] = ([], [])
            for _ in range(given.runs):
                for figures, settings in zip(found, pair, strict=True):
                    figures.append(run(server.port, group, settings, links=links))
                    most = server.report()[fast(0)].most_in_flight
                    if figures is found[0] and most > 8:
                        raise RuntimeError(f"{most} in flight at the server, the limit is 8")
            wall = [statistics.median(given.pages / one.wall_s for one in figures) for figures in found]
            cpu = [statistics.median(given.pages / one.cpu_s for one in figures) for figures in found]
            by_turns = statistics.median(stock.cpu_s / ours.cpu_s for ours, stock in zip(*found, strict=True))
            print(
                f"{name}, {'found by links' if links else 'start requests'}:"
                f" ours {wall[0]:.0f} pages/s, {cpu[0]:.0f} pages/CPU s; stock {wall[1]:.0f}, {cpu[1]:.0f};"
                f" ours/stock {wall[0] / wall[1]:.2f}, {cpu[0] / cpu[1]:.3f} (neighbours {by_turns:.3f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
