"""The pace line says what a crawl waits for, is silent while it waits for nothing, and costs the same for all sizes."""

from __future__ import annotations

import math
import re
import sys
import time
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.core.downloader import Downloader
from scrapy.squeues import FifoMemoryQueue
from scrapy.utils.test import get_crawler

from scrapy_scour.extensions.paceline import PaceLineExtension
from scrapy_scour.job import job_of
from scrapy_scour.pace_words import spoken
from scrapy_scour.pqueues import PolitePriorityQueue
from scrapy_scour.stores.pace import HostClock
from tests.support.crawl import Result, crawl
from tests.support.site import Answer, Site, Sites

LOGGER = "scrapy_scour.extensions.paceline"
OFTEN = {"LOGSTATS_INTERVAL": 0.1}


def open_site(site: Site, robots: str = "", page: Answer | None = None) -> Site:
    site.robots(robots)
    site.default = page or Answer("page")
    return site


def asks_for(seconds: float) -> str:
    return f"User-agent: *\nCrawl-delay: {seconds}\n"


def lines(result: Result) -> list[str]:
    return [record.getMessage() for record in result.log if record.name == LOGGER]


def extension_of(result: Result) -> PaceLineExtension:
    found = [one for one in result.crawler.extensions.middlewares if isinstance(one, PaceLineExtension)]  # type: ignore[union-attr]
    assert len(found) == 1
    return found[0]


def assert_nothing_is_left(extension: PaceLineExtension) -> None:
    watch = extension.watch
    assert len(watch.waiting) == 0
    assert (watch._queued, watch._hosts, watch._others) == ({}, {}, {})


async def test_it_names_hosts_reasons_the_slowest_who_asked_and_the_time_left(sites: Sites) -> None:
    """One host asks for a delay, one says later: the line, the stats, the summary and the servers agree."""
    slow, later = sites.named("slow.test", "later.test")
    open_site(slow, asks_for(0.4))
    open_site(later)
    later.sequence("/r", [Answer("later", 429, {"Retry-After": "1"}), Answer("page")])
    one_each = {**OFTEN, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    first = [Request(later.url("/r"), priority=9), *(Request(slow.url(f"/{n}")) for n in range(5))]
    result = await crawl([*first, *(Request(later.url(f"/{n}")) for n in range(2))], one_each)

    both = [line for line in lines(result) if "Waiting for 2 hosts" in line and "until" in line]
    assert both, lines(result)
    found = re.fullmatch(
        r"Waiting for 2 hosts \(1 asked by robots\.txt, 1 held by Retry-After until (\d\d:\d\d:\d\d)\),"
        r" (\d+) requests queued\."
        r" The slowest: slow\.test, 0\.4 s between requests, as (http://slow\.test:\d+ robots\.txt line 2) asks,"
        r" (\d) queued, about (\d) s to go\.(?: Longer: later\.test, .*)?",
        both[-1],
    )
    assert found, both[-1]
    until, total, asked_by, queued, left = found.groups()
    refused = later.requests("/r")[0]
    assert refused.ended is not None
    # The server's clock of its own log is monotonic: brought to the wall by now.
    end = time.time() - time.monotonic() + refused.ended + 1.0
    shown = datetime.combine(datetime.fromtimestamp(end).date(), datetime.strptime(until, "%H:%M:%S").time())
    assert abs(shown.timestamp() - end) <= 1.1
    assert int(total) == int(queued) + 3
    assert int(left) == -(-int(queued) * 4 // 10)

    assert result.stats["scour/delay/max"] == 0.4
    assert result.stats["scour/delay/hosts"] == result.stats["scour/hold/retry_after"] == 1
    assert result.stats["scour/pages"] == 8
    summary = [record.getMessage() for record in result.log if "The slowest pace" in record.getMessage()]
    assert f"The slowest pace: slow.test, 0.4 s between requests, as {asked_by} asks." in summary[0]
    after = [line for line in lines(result) if "later.test" not in line and "held" not in line]
    assert after, "the hold is over before the crawl is"
    assert all("Waiting for 1 host (1 asked by robots.txt)" in line for line in after)
    assert_nothing_is_left(extension_of(result))


@pytest.mark.parametrize("delay", [0, 0.2])
async def test_nothing_is_printed_while_nothing_waits(site: Site, delay: float) -> None:
    """Slow answers and a full queue are no politeness; the twin asks for a delay."""
    open_site(site, asks_for(delay), Answer("page", delay=0.15))
    result = await crawl([Request(site.url(f"/{n}")) for n in range(4)], {**OFTEN, "CONCURRENT_REQUESTS": 1})
    assert len(result.responses) == 4
    assert bool(lines(result)) is bool(delay)


async def test_every_reason_to_wait_is_named(sites: Sites) -> None:
    asked, throttled, own, refusing, failing, closed = sites.named(
        "asked.test", "throttled.test", "own.test", "refusing.test", "failing.test", "closed.test"
    )
    open_site(asked, asks_for(0.9))
    open_site(throttled)
    open_site(own)
    open_site(refusing).sequence("/0", [Answer("later", 429), Answer("page")])
    open_site(failing).sequence("/0", [Answer("broken", 500), Answer("page")])
    closed.robots("", status=503)
    requests = [Request(site.url(f"/{n}")) for n in range(2) for site in sites.opened]
    result = await crawl(
        requests,
        {
            **OFTEN,
            "SCOUR_THROTTLE_ENABLED": True,
            "DOWNLOAD_SLOTS": {"own.test": {"delay": 0.8}},
            "SCOUR_RETRY_WAITS": [0.8],
            "SCOUR_RETRY_BACKOFF": 0.8,
            "SCOUR_ROBOTSTXT_WAITS": [0.8],
            "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        },
    )
    said = "\n".join(lines(result))
    for words in (
        "1 asked by robots.txt",
        "1 paced by the adaptive throttle",
        "1 paced by the project's own delay",
        "1 held after a refusal for rate until",
        "1 held after failures until",
        "1 held since robots.txt could not be read until",
    ):
        assert words in said, said
    assert_nothing_is_left(extension_of(result))


async def test_a_slot_of_the_users_waits_for_the_hosts_in_it(site: Site) -> None:
    """Whose name is not that of a host: found by its host's clock, and forgotten when it is empty."""
    open_site(site, asks_for(0.3))
    result = await crawl([Request(site.url(f"/{n}"), meta={"download_slot": "mine"}) for n in range(4)], OFTEN)
    assert any("1 asked by robots.txt" in line and "127.0.0.1, 0.3 s between" in line for line in lines(result))
    assert_nothing_is_left(extension_of(result))


@pytest.mark.parametrize(
    ("queue", "meta"),
    [
        ("ScrapyPriorityQueue", {}),
        ("DownloaderAwarePriorityQueue", {}),
        ("DownloaderAwarePriorityQueue", {"download_slot": "mine"}),
    ],
)
async def test_with_another_queue_it_says_what_the_downloader_shows(
    site: Site, queue: str, meta: dict[str, str]
) -> None:
    """By host whatever the slot; and that there may be more, which that queue does not tell."""
    open_site(site, asks_for(0.3))
    settings = {**OFTEN, "SCHEDULER_PRIORITY_QUEUE": f"scrapy.pqueues.{queue}"}
    result = await crawl([Request(site.url(f"/{n}"), meta=dict(meta)) for n in range(4)], settings)
    said = [line for line in lines(result) if line.startswith("Waiting for 1 host (1 asked by robots.txt), at least ")]
    assert said, lines(result)
    assert all(
        re.search(r"127\.0\.0\.1, 0\.3 s between .* asks, at least \d queued, at least \d s to go\.", line)
        for line in said
    )


async def test_a_resumed_job_knows_what_waits_on_disk(site: Site, tmp_path: Path) -> None:
    open_site(site, asks_for(0.3))
    requests = [Request(site.url(f"/{n}")) for n in range(5)]
    before = await crawl(requests, {"CLOSESPIDER_PAGECOUNT": 2}, jobdir=tmp_path)  # the robots.txt and a page
    left = before.stats["scheduler/enqueued/disk"] - before.stats["scheduler/dequeued/disk"]
    assert left >= 2
    after = await crawl([], {**OFTEN, "SCOUR_REPORT_FILE": tmp_path / "report.html"}, jobdir=tmp_path)
    assert len(after.responses) == left
    assert f"Waiting for 1 host (1 asked by robots.txt), {left} requests queued." in lines(after)[0]
    # It reads robots.txt itself, which says what was remembered: line, stats, summary and report all know.
    said = f"{site.url('').rstrip('/')} robots.txt line 2"
    assert f"0.3 s between requests, as {said} asks" in lines(after)[-1]
    assert (after.stats["scour/delay/hosts"], after.stats["scour/delay/max"]) == (1, 0.3)
    assert [record for record in after.log if f"0.3 s between requests, as {said} asks." in record.getMessage()]
    assert said in (tmp_path / "report.html").read_text()
    assert_nothing_is_left(extension_of(after))


async def test_requests_of_a_host_in_memory_and_on_disk_are_one_queue(site: Site, tmp_path: Path) -> None:
    """What cannot be stored stays in memory: the host waits once, for all of them."""
    open_site(site, asks_for(0.2))
    kept = [Request(site.url(f"/disk/{n}")) for n in range(2)]
    unkept = [Request(site.url(f"/memory/{n}"), callback=lambda response: None) for n in range(3)]
    result = await crawl([*kept, *unkept], OFTEN, jobdir=tmp_path)
    assert result.stats["scheduler/enqueued/memory"] >= 3
    found = [
        re.search(r"Waiting for 1 host .* (\d+) requests? queued\. .* (\d+) queued, about", line)
        for line in lines(result)
    ]
    assert found[0]
    assert int(found[0][1]) >= 3
    assert all(one and one[1] == one[2] for one in found)
    assert_nothing_is_left(extension_of(result))


@pytest.mark.parametrize("interval", [0, 0.0, None, "0"])
async def test_without_an_interval_there_is_nothing_of_it(site: Site, interval: Any) -> None:
    """No extension, no listener, no line."""
    open_site(site, asks_for(0.2))
    off = {"LOGSTATS_INTERVAL": interval, "EXTENSIONS": {"scrapy.extensions.logstats.LogStats": None}}
    result = await crawl([Request(site.url(f"/{n}")) for n in range(2)], off)
    assert len(result.responses) == 2
    assert lines(result) == []
    assert not [one for one in result.crawler.extensions.middlewares if isinstance(one, PaceLineExtension)]  # type: ignore[union-attr]
    assert job_of(result.crawler).on_queued == []  # type: ignore[arg-type]


class World:
    """A scheduler queue that is filled by hand, and the extension that sees it fill."""

    def __init__(self, settings: dict[str, Any] | None = None) -> None:
        crawler = get_crawler(Spider, {"TELNETCONSOLE_ENABLED": False, **(settings or {})})
        crawler.spider = Spider(name="world")
        crawler.engine = SimpleNamespace(downloader=Downloader(crawler), paused=False, _slot=None)  # type: ignore[assignment]
        self.job = job_of(crawler)
        self.extension = PaceLineExtension(crawler, 60.0)
        self.queue = PolitePriorityQueue.from_crawler(crawler, downstream_queue_cls=FifoMemoryQueue, key="")

    def asks(self, host: str, seconds: float, requests: int = 0, slot: str = "") -> HostClock:
        """The host's clock, which has just ended a transfer; so many requests for it are queued."""
        now = self.job.now()
        clock = self.job.pace.clock(host, now)
        clock.ask("robots.txt", seconds)
        clock.last_end = now
        for n in range(requests):
            self.queue.push(Request(f"http://{host}/{n}", meta={"download_slot": slot} if slot else {}))
        return clock

    def line(self) -> str:
        return self.extension.line() or ""


def test_a_host_that_takes_longer_than_the_slowest_is_named_and_none_is_called_the_longest() -> None:
    """Only what was looked at is claimed; of the slowest, the one with the most to do."""
    world = World()
    for n in range(25):
        world.asks(f"s{n}.test", 2.0, 1)
    held = world.asks("held.test", 0.0, 20)
    held.hold(world.job.now() + 50.0, "retry_after")
    world.asks("s7.test", 2.0, 3)
    line = world.line()
    assert "The slowest: s7.test, 2 s between requests, as the site asks, 4 queued, about 8 s to go." in line
    assert line.endswith(" Longer: held.test, 20 queued, about 50 s to go.")
    assert "longest" not in line


def test_what_waits_in_the_downloader_only_may_be_the_slowest() -> None:
    world = World()
    world.asks("pages.test", 0.3, 8)
    world.asks("media.test", 1.5)
    for n in range(3):
        world.job.under_way.enter(n, "media slot", "media.test", from_queue=False)
    line = world.line()
    assert line.startswith(
        "Waiting for 2 hosts (2 asked by robots.txt), 11 requests queued. The slowest: media.test, 1.5 s"
    )
    assert "asks, 3 queued, about 5 s to go." in line


def test_a_slot_of_several_hosts_waits_for_the_one_that_is_next_and_promises_no_time() -> None:
    """Whoever came into it first; how many of its requests are whose nobody has counted."""
    world = World()
    world.asks("fast.test", 0.0, 2, slot="s")
    world.asks("slow.test", 30.0, 4, slot="s")
    assert world.line() == ""
    for _ in range(2):
        request = world.queue.pop()
        assert request is not None
        assert "fast.test" in request.url
        world.job.under_way.sent(request, 0.0)
        world.job.left(request)
    world.asks("fast.test", 0.0, 3, slot="s")
    assert world.queue.pop() is None
    assert world.line() == (
        "Waiting for 1 host (1 asked by robots.txt), 7 requests queued. The slowest: slow.test, 30 s between requests,"
        " as the site asks, 7 queued with those of other hosts."
    )


def test_a_host_in_several_slots_is_one_host() -> None:
    world = World()
    for slot in ("a", "b", ""):
        world.asks("two.test", 0.4, 4, slot=slot)
    assert world.line() == (
        "Waiting for 1 host (1 asked by robots.txt), 12 requests queued. The slowest: two.test, 0.4 s between requests,"
        " as the site asks, 12 queued, about 5 s to go."
    )
    paced = World({"DOWNLOAD_DELAY": 2.0})
    for slot in ("a", "b"):
        paced.asks("two.test", 0.0, 4, slot=slot)  # a pace for each
    assert paced.line().endswith(" The slowest: two.test, 2 s between requests, 8 queued, about 8 s to go.")


def test_no_time_is_promised_for_a_host_whose_robots_txt_could_not_be_read() -> None:
    """It may ask for any delay then, or refuse everything."""
    world = World()
    world.asks("dead.test", 0.0, 500).hold(world.job.now() + 5.0, "robots_unreachable")
    assert re.search(r" The last: dead\.test, 500 queued, not before \d\d:\d\d:\d\d\.$", world.line())
    world.asks("dead.test", 2.0)  # of an earlier day
    assert re.search(
        r" The slowest: dead\.test, 2 s between requests, as the site asks, 500 queued, not before \S+\.$", world.line()
    )


def test_requests_over_the_limit_of_their_host_take_no_time() -> None:
    world = World({"SCOUR_MAX_REQUESTS_PER_DOMAIN": 10})
    world.asks("lim.test", 3.0, 500)
    world.job.pace.counts["lim.test"] = 8
    assert world.line().endswith(" as the site asks, 500 queued, 2 more may go, about 6 s to go.")
    world.job.pace.counts["lim.test"] = 10
    assert world.line().endswith(" as the site asks, 500 queued, no more may go.")


def test_autothrottle_is_called_by_its_name() -> None:
    world = World({"AUTOTHROTTLE_ENABLED": True, "DOWNLOAD_DELAY": 1.0})
    world.asks("a.test", 0.0, 2)
    assert world.line().startswith("Waiting for 1 host (1 paced by AutoThrottle), 2 requests queued.")


def world(hosts: int) -> PaceLineExtension:
    """A queue with this many hosts, each with a delay and two requests, and the extension that has seen it fill."""
    made = World()
    for n in range(hosts):
        clock = made.asks(f"h{n}.test", 10.0 + (n + 1) / hosts, 2)
        if n % 10 == 0:
            clock.hold(made.job.now() + 600.0 + n, "retry_after")
    return made.extension


def cost_s(extension: PaceLineExtension) -> float:
    """Seconds for one line, the best of many."""
    best = float("inf")
    for _ in range(30):
        began = time.perf_counter()
        extension.line()
        best = min(best, time.perf_counter() - began)
    return best


def test_a_line_costs_the_same_for_a_hundred_hosts_and_for_twenty_thousand() -> None:
    small, large = world(100), world(20_000)
    line = large.line()
    assert line is not None
    held = re.match(
        r"Waiting for 20000 hosts \(18000 asked by robots\.txt, 2000 held by Retry-After, the first until \S+\),"
        r" 40000 requests queued\.",
        line,
    )
    assert held, line
    assert "The slowest: h19999.test, 11 s between requests, as the site asks, 2 queued, about 22 s to go." in line
    assert cost_s(large) < 10 * cost_s(small)  # a look at each would be 200 times


def test_a_delay_and_a_hold_without_measure_are_said_too() -> None:
    """A site may write any number: neither one robots.txt nor one Retry-After takes the line from all others."""
    extension = world(2)
    clocks, now = extension.job.pace, extension.job.now()
    clocks.clock("h1.test", now).ask("robots.txt", sys.float_info.max)
    line = extension.line()
    assert line is not None
    assert (
        "The slowest: h1.test, more than 100 years between requests, as the site asks, 2 queued, more than 100"
        " years to go." in line
    ), line
    clocks.clock("h1.test", now).hold(now + 1e12, "retry_after")
    line = extension.line()
    assert line is not None
    assert "2 held by Retry-After, the first until" in line
    clocks.clock("h0.test", now).hold(now + 1e12, "retry_after")
    line = extension.line()
    assert line is not None
    assert "2 held by Retry-After, the first until after the year 9999" in line


def test_a_line_that_fails_is_one_error_and_not_the_last(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    extension = world(1)
    caplog.set_level("INFO", LOGGER)
    with monkeypatch.context() as broken:
        broken.setattr(extension, "line", lambda: 1 // 0)
        extension.say()
        extension.say()
    extension.say()
    said = [record.levelname for record in caplog.records if record.name == LOGGER]
    assert said == ["ERROR", "INFO"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.2, "1 s"),
        (59, "59 s"),
        (60, "1 min"),
        (61, "2 min"),
        (3600, "1 h"),
        (3660, "1 h 1 min"),
        (172_800, "2 days"),
        (180_000, "2 days 2 h"),
        (3e9, "34722 days 6 h"),
        (4e9, "more than 100 years"),
        (sys.float_info.max, "more than 100 years"),
        (math.inf, "more than 100 years"),
    ],
)
def test_a_time_is_said_in_two_units_at_most_and_never_too_short(seconds: float, words: str) -> None:
    assert spoken(seconds) == words
