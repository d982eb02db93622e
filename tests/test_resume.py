"""A crawl that is stopped and taken up again (JOBDIR) goes on as politely as it was: holds, delays, levels."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.exceptions import CloseSpider
from scrapy.settings import Settings

from scrapy_scour import setup_check
from scrapy_scour.exceptions import RateLimited, SettingsError
from tests.support.crawl import crawl, process_environment, write_project
from tests.support.site import Answer, Site, Sites, page_requests

SLACK = 0.02


class Stopping(Spider):
    """Fetches its URLs; the page whose address ends in /stop stops the crawl."""

    name = "stopping"
    urls: list[str]

    async def start(self) -> AsyncIterator[Any]:
        self.pages: list[str] = []
        self.failures: list[BaseException] = []
        for url in self.urls:
            yield Request(url, self.parse, errback=self.failed)

    def parse(self, response: Any) -> None:
        self.pages.append(response.url)
        if response.url.endswith("/stop"):
            raise CloseSpider("stopped by the test")

    def failed(self, failure: Any) -> None:
        self.failures.append(failure.value)


def open_site(site: Site) -> Site:
    site.robots("")
    site.default = Answer("page")
    return site


def state_of(jobdir: Path) -> dict[str, Any]:
    whole = pickle.loads((jobdir / "spider.state").read_bytes())
    return dict(whole["scrapy_scour"])


async def stopped_during_a_hold(sites: Sites, jobdir: Path, seconds: int, **settings: Any) -> tuple[Site, list[str]]:
    """A crawl that is stopped while ``a.test`` is left alone; its other pages are still to come."""
    a, b = map(open_site, sites.named("a.test", "b.test"))
    a.sequence("/r", [Answer("later", 429, {"Retry-After": str(seconds)}), Answer("page")])
    b.page("/stop", "stop", delay=0.3)
    urls = [a.url("/r"), *(a.url(f"/{n}") for n in range(3)), b.url("/stop")]
    values = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1, "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue"}
    values["SCHEDULER_DISK_QUEUE"] = "scrapy.squeues.PickleFifoDiskQueue"
    result = await crawl(Stopping, {**values, **settings}, jobdir=jobdir, spider_args={"urls": urls})
    assert result.package_tracebacks == []
    assert [seen.path for seen in page_requests(a)] == ["/r"]
    return a, urls


async def test_a_hold_is_kept_after_a_graceful_stop_and_resume_and_nothing_is_lost(
    sites: Sites, tmp_path: Path
) -> None:
    a, urls = await stopped_during_a_hold(sites, tmp_path, 2)
    held = state_of(tmp_path)["held"]["a.test"]
    assert (held["why"], held["probing"], held["incidents"], held["in_a_row"]) == ("retry_after", True, 1, 1)
    json.dumps(state_of(tmp_path), allow_nan=False)
    result = await crawl(Stopping, jobdir=tmp_path, spider_args={"urls": urls})
    first, second, *_ = [seen for seen in a.requests() if seen.at > (page_requests(a)[0].ended or 0)]
    assert first.at - (page_requests(a)[0].ended or 0) >= 2.0 - SLACK
    assert second.at > (first.ended or 0)
    assert sorted(result.spider.pages) == sorted(urls[:4])  # type: ignore[union-attr]
    assert result.finish_reason == "finished"
    assert result.package_tracebacks == []
    assert state_of(tmp_path)["held"]["a.test"]["incidents"] == 1  # the level, until it is forgiven
    assert state_of(tmp_path)["held"]["a.test"]["in_a_row"] == 0


async def test_stock_forgets_everything(sites: Sites, tmp_path: Path) -> None:
    a, b = map(open_site, sites.named("a.test", "b.test"))
    a.sequence("/r", [Answer("later", 429, {"Retry-After": "2"}), Answer("page")])
    b.page("/stop", "stop", delay=0.3)
    await crawl(Stopping, stock=True, spider_args={"urls": [a.url("/r"), b.url("/stop")]}, jobdir=tmp_path)
    await crawl(Stopping, stock=True, spider_args={"urls": [a.url("/again")]}, jobdir=tmp_path)
    assert a.requests()[-1].path == "/again"
    assert a.requests()[-1].at - (a.requests("/r")[0].ended or 0) < 1.5


async def test_an_asked_delay_runs_on_over_the_restart(sites: Sites, tmp_path: Path) -> None:
    (a,) = sites.named("a.test")
    a.robots("User-agent: *\nCrawl-delay: 0.8\n")
    a.default = Answer("page")
    urls = [a.url("/stop"), a.url("/1")]
    settings = {"SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue"}
    first = await crawl(Stopping, settings, jobdir=tmp_path, spider_args={"urls": urls})
    assert a.paths() == ["/robots.txt", "/stop"]
    assert state_of(tmp_path)["asked"] == {"a.test": 0.8}
    second = await crawl(Stopping, settings, jobdir=tmp_path, spider_args={"urls": urls})
    assert a.paths() == ["/robots.txt", "/stop", "/robots.txt", "/1"]
    assert min(a.gaps()) >= 0.8 - SLACK
    assert first.package_tracebacks == second.package_tracebacks == []


async def test_a_time_over_the_maximum_is_kept_and_the_hosts_requests_fail_until_then(
    sites: Sites, tmp_path: Path
) -> None:
    a, urls = await stopped_during_a_hold(sites, tmp_path, 3600)
    result = await crawl(Stopping, jobdir=tmp_path, spider_args={"urls": [*urls, a.url("/new")]})
    assert [seen.path for seen in a.requests()] == ["/robots.txt", "/r"]
    assert result.finish_reason == "finished"
    failures = result.spider.failures  # type: ignore[union-attr]
    assert failures
    assert {type(failure) for failure in failures} == {RateLimited}
    assert result.package_tracebacks == []


async def test_a_crawl_that_stopped_for_a_long_time_stops_again_and_loses_nothing(sites: Sites, tmp_path: Path) -> None:
    over = {"SCOUR_RETRY_AFTER_OVER_MAX": "spider"}
    a, urls = await stopped_during_a_hold(sites, tmp_path, 3600, **over)
    again = await crawl(Stopping, over, jobdir=tmp_path, spider_args={"urls": urls})
    assert again.finish_reason == "scour_rate_limited"
    assert [seen.path for seen in a.requests()] == ["/robots.txt", "/r"]
    # An hour later
    whole = pickle.loads((tmp_path / "spider.state").read_bytes())
    whole["scrapy_scour"]["held"]["a.test"]["until"] -= 3600
    (tmp_path / "spider.state").write_bytes(pickle.dumps(whole))
    last = await crawl(Stopping, over, jobdir=tmp_path, spider_args={"urls": urls})
    assert last.finish_reason == "finished"
    assert {*urls[:4]} <= {*last.spider.pages}  # type: ignore[union-attr]
    assert again.package_tracebacks == last.package_tracebacks == []


DAMAGED: list[Any] = [
    [],
    "state",
    {"version": 1},
    {"version": 1, "asked": [], "held": 3, "ended": None, "counts": "x"},
    {
        "version": 1,
        "asked": {"a.test": "soon", 3: 4.0, "b.test": float("nan")},
        "held": {"a.test": [1, 2], "b.test": {"until": "never"}, 5: {}},
        "ended": {"a.test": None},
        "counts": {"a.test": "many", "b.test": -3},
    },
    {"version": 99, "asked": {"a.test": 1e9}},
]


@pytest.mark.parametrize("damage", [*DAMAGED, b"no pickle at all", b""], ids=lambda value: repr(value)[:30])
async def test_a_damaged_state_costs_waits_never_the_crawl(sites: Sites, tmp_path: Path, damage: Any) -> None:
    site = open_site(sites())
    bytes_ = damage if isinstance(damage, bytes) else pickle.dumps({"scrapy_scour": damage, "mine": 1})
    (tmp_path / "spider.state").write_bytes(bytes_)
    result = await crawl(
        Stopping,
        {"SCOUR_MAX_REQUESTS_PER_DOMAIN": 2},
        jobdir=tmp_path,
        spider_args={"urls": [site.url(f"/{n}") for n in range(3)]},
    )
    assert len(result.spider.pages) == 2  # type: ignore[union-attr]
    assert result.finish_reason == "finished"
    assert result.package_tracebacks == []
    assert state_of(tmp_path)["counts"] == {site.host: 2}


SPIDER = """
import scrapy
from scrapy.exceptions import CloseSpider

class Stopping(scrapy.Spider):
    name = "stopping"

    async def start(self):
        for path in ("r", "0", "1"):
            yield scrapy.Request(self.a + path)
        yield scrapy.Request(self.b + "stop")

    def parse(self, response):
        if response.url.endswith("stop"):
            raise CloseSpider("stopped by the test")
"""


@pytest.mark.deadline(40)
def test_a_crawl_killed_during_a_hold_resumes_and_keeps_what_the_last_graceful_stop_kept(
    sites: Sites, tmp_path: Path
) -> None:
    a, b = map(open_site, sites.named("a.test", "b.test"))
    a.sequence("/r", [Answer("later", 429, {"Retry-After": "5"}), Answer("page")])
    b.page("/stop", "stop", delay=0.3)
    settings = """
ADDONS = {"scrapy_scour.Addon": 500}
JOBDIR = "job"
CONCURRENT_REQUESTS_PER_DOMAIN = 1
SCHEDULER_DISK_QUEUE = "scrapy.squeues.PickleFifoDiskQueue"
"""
    project = write_project(tmp_path, SPIDER, settings)
    command = [sys.executable, "-m", "scrapy", "crawl", "stopping", "-a", f"a={a.url('/')}", "-a", f"b={b.url('/')}"]
    from tests.support.crawl import DNS_RESOLVER_SETTING
    from tests.support.resolver import __name__ as resolver_module

    command += ["-s", f"{DNS_RESOLVER_SETTING}={resolver_module}.ProcessResolver"]

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, cwd=project, env=process_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    with start() as graceful:
        output, _ = graceful.communicate(timeout=20)
    assert graceful.returncode == 0, output[-2000:]
    assert [seen.path for seen in page_requests(a)] == ["/r"]
    with start() as killed:
        assert killed.stdout is not None
        for line in killed.stdout:  # until it is at work
            if "Spider opened" in line:
                break
        time.sleep(0.3)
        os.kill(killed.pid, signal.SIGKILL)
    assert [seen.path for seen in page_requests(a)] == ["/r"]
    with start() as resumed:
        output, _ = resumed.communicate(timeout=30)
    assert resumed.returncode == 0, output[-2000:]
    assert "Traceback" not in output
    assert "(finished)" in output
    later = [seen for seen in a.requests() if seen.at > (page_requests(a)[0].ended or 0)]
    assert later[0].at - (page_requests(a)[0].ended or 0) >= 5.0 - SLACK
    assert sorted(seen.path for seen in later if seen.path != "/robots.txt") == ["/0", "/1", "/r"]


class Leaving(Stopping):
    """The page that stops the crawl has twenty links."""

    def parse(self, response: Any) -> Any:
        if response.url.endswith("/stop"):
            for number in range(20):
                yield Request(response.urljoin(f"/{number}"), self.parse)
            raise CloseSpider("stopped by the test")


@pytest.mark.parametrize("kind", ["list", "dict"])
async def test_a_job_that_the_queue_cannot_resume_is_refused_before_anything_of_it_is_touched(
    sites: Sites, tmp_path: Path, kind: str
) -> None:
    """Ours a job of a queue that only knows priorities, and that one ours: what it kept of the spider stays too."""
    a = open_site(sites())
    by_priority = {"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue"}
    first, second = (by_priority, {}) if kind == "list" else ({}, by_priority)
    settings = {"DOWNLOAD_DELAY": 0.05, "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue"}
    settings["SCHEDULER_MEMORY_QUEUE"] = "scrapy.squeues.FifoMemoryQueue"
    await crawl(Leaving, {**settings, **first}, jobdir=tmp_path, spider_args={"urls": [a.url("/stop")]})
    state = json.loads((tmp_path / "requests.queue" / "active.json").read_text())
    assert state
    assert type(state).__name__ == kind
    kept = (tmp_path / "spider.state").read_bytes()
    seen = len(a.log)
    with pytest.raises(SettingsError, match=r"JOBDIR = .*cannot resume"):
        await crawl(Leaving, {**settings, **second}, jobdir=tmp_path, spider_args={"urls": []})
    assert (tmp_path / "spider.state").read_bytes() == kept
    assert len(a.log) == seen
    if kind == "dict":  # what stock makes of it
        copy = shutil.copytree(tmp_path, tmp_path.with_name("copy"))
        stock = await crawl(Leaving, {**settings, **second}, jobdir=copy, stock=True, spider_args={"urls": []})
        assert (len(a.log), stock.finish_reason) == (seen, "finished")
    await crawl(Leaving, {**settings, **first}, jobdir=tmp_path, spider_args={"urls": []})
    assert len({seen.path for seen in page_requests(a)}) == 21


@pytest.mark.parametrize("state", ["[0]", '{"a.test": [0]}', "{}", "no JSON"])
def test_a_job_is_left_to_a_queue_of_which_it_is_not_known_what_it_keeps(tmp_path: Path, state: str) -> None:
    folder = tmp_path / "requests.queue"
    folder.mkdir()
    (folder / "active.json").write_text(state)
    queues = {"ours": "scrapy_scour.pqueues.PolitePriorityQueue", "unknown": "collections.deque"}
    refused = {
        name: bool(setup_check.problems(Settings({"JOBDIR": str(tmp_path), "SCHEDULER_PRIORITY_QUEUE": queue})))
        for name, queue in queues.items()
    }
    assert refused == {"ours": state == "[0]", "unknown": False}


@pytest.mark.filterwarnings("ignore:.*CONCURRENT_REQUESTS_PER_IP")
async def test_limits_per_address_are_refused_with_our_queue(sites: Sites) -> None:
    a = open_site(sites())
    settings = {
        "CONCURRENT_REQUESTS_PER_IP": 2,
        "SCHEDULER_PRIORITY_QUEUE": "scrapy_scour.pqueues.PolitePriorityQueue",
    }
    with pytest.raises(SettingsError, match="CONCURRENT_REQUESTS_PER_IP = 2: must be 0"):
        await crawl([a.url("/")], settings)
    assert a.log == []
