"""Pop plus push per request, and memory per host, of the scheduler queue and of Scrapy's own.

    python tests/benchmarks/bench_queue.py [--hosts 10 100 ...] [--runs 3]

Each host has three requests queued. A turn is one request handed out, another one leaving the downloader and a
request of its host scheduled anew, so the number of hosts stays; what the queue does when requests enter and leave the
downloader is in the time. It is processor time. Medians of the runs, ours and stock in turn, each in a process of its
own. Stock has fewer turns at many hosts, it takes that long.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections import deque
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

HOSTS = (10, 100, 1_000, 10_000, 100_000)
QUEUES = {
    "ours": "scrapy_scour.pqueues.PolitePriorityQueue",
    "stock": "scrapy.pqueues.DownloaderAwarePriorityQueue",
}
PER_HOST = 3
UNDER_WAY = 16


def measure(name: str, hosts: int, memory: bool) -> dict[str, float]:
    """One run in this process: seconds per turn, or bytes per host."""
    from scrapy import Request, Spider
    from scrapy.core.downloader import Downloader
    from scrapy.squeues import FifoMemoryQueue, LifoMemoryQueue
    from scrapy.utils.misc import load_object
    from scrapy.utils.reactor import install_reactor
    from scrapy.utils.test import get_crawler

    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    crawler = get_crawler(Spider, {"TELNETCONSOLE_ENABLED": False})
    crawler.spider = Spider(name="bench")
    downloader = Downloader(crawler)
    crawler.engine = SimpleNamespace(downloader=downloader, paused=False, _slot=None)
    queue = load_object(QUEUES[name]).from_crawler(
        crawler, downstream_queue_cls=LifoMemoryQueue, key="", start_queue_cls=FifoMemoryQueue
    )
    urls = [f"http://host{number}.example/{{}}" for number in range(hosts)]
    if memory:
        requests = [Request(url.format(0)) for url in urls]
        for request in requests:
            downloader.get_slot_key(request)  # parsed URLs are cached with the request, and are not the queue's
        gc.collect()
        tracemalloc.start()
        for request in requests:
            queue.push(request)
        gc.collect()
        return {"bytes": tracemalloc.get_traced_memory()[0] / hosts}

    for page in range(PER_HOST):
        for url in urls:
            queue.push(Request(url.format(page)))
    turns = 20_000 if name == "ours" else max(20, min(20_000, 3_000_000 // hosts))
    under_way: deque[Request] = deque()
    clock = time.thread_time  # processor time: other work on the machine is not the queue's

    def turn() -> float:
        began = clock()
        request = queue.pop()
        downloader.active.add(request)
        spent = clock() - began
        downloader._get_slot(request)[1].active.add(request)
        under_way.append(request)
        if len(under_way) > UNDER_WAY // 2:
            gone = under_way.popleft()
            downloader._get_slot(gone)[1].active.remove(gone)
            began = clock()
            downloader.active.remove(gone)
            queue.push(gone)
            spent += clock() - began
        return spent

    for _ in range(UNDER_WAY):
        turn()
    gc.collect()
    gc.freeze()
    return {"seconds": sum(turn() for _ in range(turns)) / turns}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, nargs="+", default=HOSTS)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--one", nargs=3, metavar=("QUEUE", "HOSTS", "WHAT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        name, hosts, what = given.one
        print(json.dumps(measure(name, int(hosts), what == "memory")))
        return

    def medians(hosts: int, what: str, key: str) -> dict[str, float]:
        found: dict[str, list[float]] = {name: [] for name in QUEUES}
        for _ in range(given.runs):
            for name in QUEUES:
                command = [sys.executable, __file__, "--one", name, str(hosts), what]
                run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
                found[name].append(json.loads(run.stdout)[key])
        return {name: statistics.median(values) for name, values in found.items()}

    print(f"pop plus push, medians of {given.runs}")
    print(f"{'hosts':>8} {'ours, us':>10} {'stock, us':>12}")
    for hosts in given.hosts:
        found = medians(hosts, "time", "seconds")
        print(f"{hosts:>8} {found['ours'] * 1e6:>10.1f} {found['stock'] * 1e6:>12.1f}", flush=True)
    hosts = min(max(given.hosts), 20_000)
    found = medians(hosts, "memory", "bytes")
    print(f"memory per host at {hosts} hosts: ours {found['ours']:.0f} bytes, stock {found['stock']:.0f} bytes")


if __name__ == "__main__":
    main()
