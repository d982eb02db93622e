"""One crawl in a process of its own, and its figures as one line of JSON. Used by the benchmarks beside it.

``run(port, groups, settings)`` starts it; ``groups`` maps a group's name to the hosts and the pages of each.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

QUEUE_ONLY = {"SCHEDULER_PRIORITY_QUEUE": "scrapy_scour.pqueues.PolitePriorityQueue"}
ADDON = {"ADDONS": {"scrapy_scour.Addon": 500}}
STOCK: dict[str, Any] = {}


@dataclass(frozen=True)
class Group:
    """Hosts that are asked for ``pages`` pages each."""

    hosts: list[str]
    pages: int


@dataclass(frozen=True)
class Figures:
    """``ended_s``: seconds from the start to the last page of each group, ``by_then`` how many pages of all groups had
    arrived then and ``cpu_by_then`` the processor time; ``wall_s``: to the end of the crawl; ``cpu_s``: its processor
    time, without start-up. ``pages``: how many arrived. ``peak_mib``: largest resident size.
    """

    ended_s: dict[str, float]
    by_then: dict[str, int]
    cpu_by_then: dict[str, float]
    wall_s: float
    cpu_s: float
    pages: int
    peak_mib: float

    @property
    def everything_s(self) -> float:
        return max(self.ended_s.values())


def run(
    port: int, groups: Mapping[str, Group], settings: Mapping[str, Any], *, collect_after: int = 0, links: int = 0
) -> Figures:
    """Crawl all groups together; fails unless every page arrived.  ``collect_after``: so many new objects are made
    before Python's garbage collector runs, 0 for as many as it likes. ``links``: only the first page of each host is
    asked for at the start, the others are found on pages with so many links each; 0 for all at the start.
    """
    job = {
        "collect_after": collect_after,
        "links": links,
        "port": port,
        "groups": {name: [group.hosts, group.pages] for name, group in groups.items()},
        "settings": dict(settings),
    }
    done = subprocess.run(
        [sys.executable, __file__], input=json.dumps(job), capture_output=True, text=True, cwd=ROOT, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-4000:])
    try:
        figures = Figures(**json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, TypeError, ValueError) as error:
        raise RuntimeError(done.stderr[-4000:]) from error
    wanted = sum(len(group.hosts) * group.pages for group in groups.values())
    if figures.pages != wanted:
        raise RuntimeError(f"{figures.pages} pages of {wanted}\n{done.stderr[-4000:]}")
    return figures


def main() -> None:
    import gc
    import resource

    import scrapy
    from scrapy.crawler import AsyncCrawlerProcess

    job = json.load(sys.stdin)
    result: dict[str, Any] = {"ended_s": {}, "by_then": {}, "cpu_by_then": {}, "pages": 0}
    if job["collect_after"]:
        gc.set_threshold(job["collect_after"])

    class Pages(scrapy.Spider):
        name = "pages"

        async def start(self) -> AsyncIterator[Any]:
            self.began = time.monotonic()
            self.cpu = time.process_time()
            groups = job["groups"].items()
            for page in range(1 if job["links"] else max(pages for _, (_, pages) in groups)):
                for name, (hosts, pages) in groups:
                    if page < pages:
                        for host in hosts:
                            yield self.page(host, page, name)

        @staticmethod
        def page(host: str, page: int, group: str) -> scrapy.Request:
            url = f"http://{host}:{job['port']}/{page}"
            return scrapy.Request(url, dont_filter=True, cb_kwargs={"group": group, "host": host, "page": page})

        def parse(self, response: Any, group: str, host: str, page: int) -> Iterator[scrapy.Request]:
            result["ended_s"][group] = time.monotonic() - self.began
            result["pages"] += 1
            result["by_then"][group] = result["pages"]
            result["cpu_by_then"][group] = time.process_time() - self.cpu
            found = page * job["links"]
            for linked in range(found + 1, min(found + job["links"] + 1, job["groups"][group][1])):
                yield self.page(host, linked, group)

        def closed(self, reason: str) -> None:
            result["wall_s"] = time.monotonic() - self.began
            result["cpu_s"] = time.process_time() - self.cpu

    base = {"TELNETCONSOLE_ENABLED": False, "LOG_LEVEL": "WARNING", "REMOTE_CONTROL_ENABLED": False}
    process = AsyncCrawlerProcess({**base, **job["settings"]})
    process.crawl(Pages)
    process.start()
    result["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(result))


if __name__ == "__main__":
    main()
