"""The gaps that a server sees: what its robots.txt asked for, counted from the end of its last answer, whatever else
goes on in the crawl. The server's log is the witness; robots.txt counts as a request, and so does the first page."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.core.downloader import Downloader
from scrapy.utils.reactor import is_asyncio_reactor_installed
from scrapy.utils.test import get_crawler

from scrapy_scour import compat
from scrapy_scour.job import job_of
from tests.support.crawl import NO_JITTER, ROOT, Requests, Result, clean_environment, crawl, sleep
from tests.support.site import Answer, Seen, Site, Sites, closed, gaps, hang, max_in_flight, page_requests, starts

SLACK = 0.02
"""Seconds by which a gap may look shorter than it was: the client and the witness read their clocks apart."""

STOCK_QUEUE = "scrapy.pqueues.ScrapyPriorityQueue"
QUEUES = pytest.mark.parametrize("queue", ["ours", "stock"])


def queue_settings(queue: str) -> dict[str, Any]:
    return {} if queue == "ours" else {"SCHEDULER_PRIORITY_QUEUE": STOCK_QUEUE}


def asking(site: Site, delay: float | str, page: Answer | None = None) -> Site:
    site.robots(f"User-agent: *\nCrawl-delay: {delay}\n")
    site.default = page or Answer("page")
    return site


def assert_gaps(seen: Iterable[Seen], delay: float, at_least: int) -> None:
    """At least so many requests, no two of them closer than ``delay`` from the end of the earlier."""
    seen = list(seen)
    assert len(seen) >= at_least
    short = [gap for gap in gaps(seen) if gap < delay - SLACK]
    assert not short, f"{len(short)} gaps below {delay} s: {[round(gap, 3) for gap in short]}"


def assert_clean(result: Result) -> None:
    assert result.package_tracebacks == []
    assert result.finish_reason == "finished"


class Mixed(Spider):
    """Everything that can come to one host: pages, retries, slow and failing ones, hops from elsewhere, media."""

    name = "mixed"
    here = ""
    there = ""
    pages = 0
    fetched: list[str]

    async def start(self) -> AsyncIterator[Any]:
        self.fetched = []
        for number in range(self.pages):
            yield Request(f"{self.here}/{number}", self.parse)
        for path in ("/slow1", "/slow2", "/broken", "/hangs", "/busy"):
            yield Request(self.here + path, self.parse, meta={"download_timeout": 0.6}, errback=self.failed)
        yield Request(self.there + "/go", self.parse)

    async def parse(self, response: Any) -> Any:
        self.fetched.append(response.url)
        if response.url.endswith(("/1", "/2")):
            media = Request(response.url.replace("/1", "/m1").replace("/2", "/m2"))
            self.fetched.append((await self.crawler.engine.download_async(media)).url)

    def failed(self, failure: Any) -> None:
        self.fetched.append(failure.request.url)


async def mixed(sites: Sites, queue: str, pages: int, stock: bool) -> tuple[Site, Result]:
    here, there = sites.named("a.test", "b.test")
    asking(here, 0.2)
    here.page("/slow1", "slow", delay=0.3)
    here.page("/slow2", "slow", body_delay=0.25)
    here.answer("/broken", closed())
    here.answer("/hangs", hang())
    here.sequence("/busy", [Answer("broken", 500), Answer("fine")])
    there.robots("")
    there.redirect("/go", here.url("/landed"))
    settings = {**queue_settings(queue), "AUTOTHROTTLE_ENABLED": True, "AUTOTHROTTLE_START_DELAY": 0.05}
    return here, await crawl(
        Mixed, settings, stock=stock, spider_args={"here": here.url(""), "there": there.url(""), "pages": pages}
    )


@pytest.mark.deadline(40)
@pytest.mark.parametrize(("queue", "pages"), [("ours", 19), ("stock", 3)])
async def test_over_thirty_requests_of_every_kind_no_gap_is_below_the_asked_delay(
    sites: Sites, queue: str, pages: int
) -> None:
    here, result = await mixed(sites, queue, pages, stock=False)
    assert_clean(result)
    # robots.txt, 2 slow ones, two that fail twice, one that is retried, a hop, 2 media
    assert_gaps(here.log, 0.2, at_least=pages + 12)
    assert max_in_flight(here.log) == 1
    assert sorted(result.spider.fetched) == sorted(  # type: ignore[union-attr]
        here.url(f"/{name}")
        for name in [*range(pages), "slow1", "slow2", "broken", "hangs", "busy", "landed", "m1", "m2"]
    )


async def test_stock_keeps_none_of_these_gaps(sites: Sites) -> None:
    here, _ = await mixed(sites, "ours", 10, stock=True)
    assert len(here.log) >= 20
    assert min(gaps(here.log)) < 0.1
    assert max_in_flight(here.log) > 1


class Collecting(Spider):
    """Throws every idle slot away after each page, as Scrapy does with slots that were idle for a minute."""

    name = "collecting"
    urls: list[str]

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.urls[0], self.parse)

    def parse(self, response: Any) -> Any:
        downloader = self.crawler.engine.downloader
        downloader._slot_gc(age=-60)  # as if a minute had passed
        assert not downloader.slots
        following = self.urls.index(response.url) + 1
        if following < len(self.urls):
            return Request(self.urls[following], self.parse)
        return None


async def test_an_idle_slot_that_was_collected_keeps_the_delay(sites: Sites) -> None:
    (site,) = sites.named("a.test")
    asking(site, 0.3)
    result = await crawl(Collecting, spider_args={"urls": [site.url(f"/{n}") for n in range(3)]})
    assert_clean(result)
    assert "spider_exceptions/AssertionError" not in result.stats
    assert_gaps(site.log, 0.3, at_least=4)

    site.log.clear()
    urls = [site.url(f"/{n}") for n in range(3)]
    await crawl(Collecting, {"DOWNLOAD_DELAY": 0.3}, stock=True, spider_args={"urls": urls})
    assert len(site.log) == 4
    assert min(gaps(site.log)) < 0.15  # stock's new slot knows nothing of the last request


async def test_a_slot_thrown_away_while_its_host_is_left_alone_keeps_what_it_was_set_to(sites: Sites) -> None:
    """In stock the waiting requests keep their slot; here they wait in the scheduler."""
    (site,) = sites.named("a.test")
    site.default = Answer("page")
    site.sequence("/later", [Answer("x", 429, {"Retry-After": "1"}), Answer("page")])
    found: list[float] = []

    class Collected(Requests):
        def parse(self, response: Any, **kwargs: Any) -> Iterator[Request]:
            yield from super().parse(response, **kwargs)
            slots = self.crawler.engine.downloader.slots
            if response.url.endswith("/first"):
                slots["a.test"].delay = 0.5
                compat.schedule(self.collect())
                for path in ("/later", "/1", "/2"):
                    yield self.recorded(Request(site.url(path)))
            else:
                found.append(slots["a.test"].user_delay_s)

        async def collect(self) -> None:
            await sleep(0.9)
            self.crawler.engine.downloader._slot_gc(age=-60)  # as if a minute had passed

    settings = {"ROBOTSTXT_OBEY": False, "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue"}
    start = [Request(site.url("/first"))]
    await crawl(Collected, settings, spider_args={"start": start, "result": Result()})
    assert found == [0.5, 0.5, 0.5]
    assert len(site.log) == 5


class First(Spider):
    """One request first, the others when it is answered, so that its robots.txt is known."""

    name = "first"
    requests: list[Request]

    async def start(self) -> AsyncIterator[Any]:
        yield self.requests[0].replace(callback=self.parse)

    def parse(self, response: Any) -> Any:
        for request in self.requests[1:]:
            yield request.replace(callback=self.nothing)

    def nothing(self, response: Any) -> None:
        pass


@QUEUES
async def test_http_and_https_of_one_host_share_its_clock(sites: Sites, queue: str) -> None:
    plain, secure = sites(name="a.test"), sites(tls=True, name="a.test")
    asking(plain, 0.25)
    secure.robots("")
    secure.default = Answer("page")
    urls = [plain.url("/0"), secure.url("/1"), plain.url("/2"), secure.url("/3"), plain.url("/4")]
    result = await crawl(First, queue_settings(queue), spider_args={"requests": [Request(url) for url in urls]})
    assert_clean(result)
    assert_gaps([*plain.log, *secure.log], 0.25, at_least=7)


async def test_every_spelling_of_an_address_shares_its_clock_and_its_robots_txt(sites: Sites) -> None:
    site = asking(sites(), 0.2)
    names = ["127.0.0.1", "127.1", "0x7f000001", "2130706433", "0177.0.0.1"]
    result = await crawl([f"http://{name}:{site.port}/{number}" for number, name in enumerate(names)])
    assert_clean(result)
    assert len(site.requests("/robots.txt")) == 1
    assert_gaps(site.log, 0.2, at_least=5)


async def test_every_spelling_of_a_host_shares_its_clock(sites: Sites) -> None:
    (site,) = sites.named("a.test")
    asking(site, 0.2)
    names = ["a.test", "A.TEST", "a.test.", "A.Test.", "a.test"]
    urls = [f"http://{name}:{site.port}/{number}" for number, name in enumerate(names)]
    result = await crawl(urls)
    assert_clean(result)
    assert len(result.responses) == 5
    assert len(site.requests("/robots.txt")) == 1
    assert_gaps(site.log, 0.2, at_least=6)


async def test_every_spelling_of_a_host_shares_its_limit(sites: Sites) -> None:
    """Also once one of them is known to be in scope."""
    (site,) = sites.named("a.test")
    site.robots("")
    site.default = Answer("page", delay=0.1)

    class Found(Spider):
        name = "found"

        async def start(self) -> AsyncIterator[Request]:
            yield Request(site.url("/first"), self.parse)

        def parse(self, response: Any) -> Iterator[Request]:
            for number in range(4):
                for name in ("a.test", "A.TEST", "a.test."):
                    yield Request(f"http://{name}:{site.port}/{name}/{number}", lambda _: None)

    result = await crawl(Found, {"CONCURRENT_REQUESTS_PER_DOMAIN": 3})
    assert len(page_requests(site)) == 13
    assert max_in_flight(site.log) == 3
    assert result.package_tracebacks == []


@QUEUES
async def test_two_hosts_in_one_slot_of_the_user_keep_each_its_own_gap(sites: Sites, queue: str) -> None:
    a, b = sites.named("a.test", "b.test")
    asking(a, 0.25)
    asking(b, 0.2)
    requests = [
        Request(site.url(f"/{number}"), meta={"download_slot": "both"}) for number in range(4) for site in (a, b)
    ]
    result = await crawl(requests, queue_settings(queue))
    assert_clean(result)
    assert len(result.responses) == 8
    assert_gaps(a.log, 0.25, at_least=5)
    assert_gaps(b.log, 0.2, at_least=5)


@QUEUES
async def test_one_host_in_two_slots_of_the_user_keeps_one_gap(sites: Sites, queue: str) -> None:
    (site,) = sites.named("a.test")
    asking(site, 0.2, Answer("page", delay=0.1))
    requests = [Request(site.url(f"/{number}"), meta={"download_slot": f"slot{number % 2}"}) for number in range(6)]
    result = await crawl(requests, queue_settings(queue))
    assert_clean(result)
    assert len(result.responses) == 6
    assert_gaps(site.log, 0.2, at_least=7)


AUTO: dict[str, Any] = {"AUTOTHROTTLE_ENABLED": True, "AUTOTHROTTLE_START_DELAY": 0.05}


@pytest.mark.parametrize(
    ("settings", "duration", "gap"),
    [
        ({**AUTO, "DOWNLOAD_DELAY": 0.05}, 0.0, 0.2),
        (AUTO, 0.35, 0.35),  # AutoThrottle waits for as long as an answer takes
        ({"DOWNLOAD_SLOTS": {"a.test": {"concurrency": 4, "delay": 0.0}}}, 0.0, 0.2),
        ({**AUTO, "DOWNLOAD_SLOTS": {"a.test": {"concurrency": 4, "delay": 0.35}}, "DOWNLOAD_DELAY": 0.35}, 0.0, 0.35),
        ({"DOWNLOAD_DELAY": 0.35, "SCHEDULER_PRIORITY_QUEUE": STOCK_QUEUE}, 0.0, 0.35),
    ],
    ids=["asked", "AutoThrottle", "no delay for the slot", "the slot's", "the user's, stock queue"],
)
async def test_the_larger_of_the_asked_and_the_users_delay_counts_and_jitter_never_shortens_it(
    sites: Sites, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], duration: float, gap: float
) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: low)  # the jitter is as short as it can be
    (site,) = sites.named("a.test")
    asking(site, 0.2, Answer("page", delay=duration))
    result = await crawl([site.url(f"/{number}") for number in range(3)], settings)
    assert_clean(result)
    # Before robots.txt was read there was only the user's delay, which counts from dispatch with its jitter.
    assert_gaps(site.requests()[1:], gap, at_least=3)
    assert site.gaps()[0] >= 0.2 - SLACK


async def test_stock_counts_a_delay_from_dispatch_and_halves_it_by_jitter(
    sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: low)
    (site,) = sites.named("a.test")
    asking(site, 0.4, Answer("page", delay=0.3))
    await crawl([site.url(f"/{number}") for number in range(3)], {"DOWNLOAD_DELAY": 0.4}, stock=True)
    assert len(site.requests()) == 4
    assert min(starts(site.requests())) < 0.3
    assert max_in_flight(site.log) > 1


async def test_a_delay_that_only_the_user_set_runs_from_dispatch_with_its_jitter(sites: Sites) -> None:
    (site,) = sites.named("a.test")
    site.robots("")
    site.default = Answer("page", delay=0.5)
    result = await crawl([site.url(f"/{number}") for number in range(4)], {"DOWNLOAD_DELAY": 0.2})
    assert_clean(result)
    pages = [seen for seen in site.requests() if seen.path != "/robots.txt"]
    assert min(starts(pages)) >= 0.1 - SLACK
    assert max_in_flight(pages) > 1


async def test_a_request_rate_is_kept_as_a_delay(sites: Sites) -> None:
    (site,) = sites.named("a.test")
    site.robots("User-agent: *\nRequest-rate: 4/1\nDisallow: /x\n")
    site.default = Answer("page")
    result = await crawl([site.url(f"/{number}") for number in range(4)])
    assert_clean(result)
    assert_gaps(site.log, 0.25, at_least=5)


async def test_a_host_over_the_maximum_is_skipped_or_asked_at_the_maximum_and_the_run_ends(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    asking(a, 99_999_999_999)
    b.robots("")
    b.default = Answer("page")
    urls = [*(a.url(f"/{number}") for number in range(3)), b.url("/")]
    skipped = await crawl(urls, {"SCOUR_CRAWL_DELAY_MAX": 0.2})
    assert_clean(skipped)
    assert a.paths() == ["/robots.txt"]
    assert skipped.urls() == [b.url("/")]
    assert skipped.stats["scour/outcome/crawl_delay_too_long"] == 3
    assert {failed.error.category.value for failed in skipped.errors} == {"crawl_delay_too_long"}  # type: ignore[attr-defined]
    assert len([text for text in skipped.messages() if "a.test is skipped" in text]) == 1

    a.log.clear()
    clamped = await crawl(urls, {"SCOUR_CRAWL_DELAY_MAX": 0.2, "SCOUR_CRAWL_DELAY_OVER_MAX": "clamp"})
    assert_clean(clamped)
    assert len(clamped.responses) == 4
    assert_gaps(a.log, 0.2, at_least=4)
    assert clamped.stats["scour/delay/clamped"] == 1
    assert len([text for text in clamped.messages() if "is asked every 0.2 s instead" in text]) == 1


async def test_a_delay_over_a_minute_is_said_once_and_waits_even_for_the_first_page(sites: Sites) -> None:
    (site,) = sites.named("a.test")
    asking(site, 61)
    result = await crawl([site.url(f"/{number}") for number in range(3)], {"CLOSESPIDER_TIMEOUT": 1})
    assert result.finish_reason == "closespider_timeout"
    assert result.package_tracebacks == []
    assert site.paths() == ["/robots.txt"]
    assert len([text for text in result.messages() if "61 s between requests" in text]) == 1


async def test_every_response_tells_what_each_host_of_its_chain_asked_in_plain_types(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    asking(a, 0.2)
    a.redirect("/go", b.url("/landed"))
    b.robots("")
    b.default = Answer("page")
    result = await crawl([a.url("/go"), b.url("/plain")])
    assert_clean(result)
    assert result.page(b.url("/landed")).meta["scour_crawl_delays"] == {"a.test": 0.2, "b.test": 0}
    assert result.page(b.url("/plain")).meta["scour_crawl_delays"] == {"b.test": 0}
    told = json.loads(json.dumps(result.page(b.url("/landed")).meta["scour_crawl_delays"]))
    assert told == {"a.test": 0.2, "b.test": 0}


@QUEUES
async def test_a_delay_that_another_process_reported_is_kept(sites: Sites, queue: str) -> None:
    a, b = sites.named("a.test", "b.test")
    for site in (a, b):
        site.robots("")
        site.default = Answer("page")
    reported = {"scour_crawl_delays": {"B.test": 0.3, "a.test": 0, "": 5, "c.test": "9", "d.test": float("nan")}}
    requests = [Request(a.url("/"), meta=reported), *(Request(b.url(f"/{number}")) for number in range(3))]
    result = await crawl(First, queue_settings(queue), spider_args={"requests": requests})
    assert_clean(result)
    assert_gaps(b.log, 0.3, at_least=4)


async def test_a_reported_delay_over_the_maximum_does_not_keep_the_run_from_ending(sites: Sites) -> None:
    (site,) = sites.named("a.test")
    site.default = Answer("page")
    requests = [Request(site.url(f"/{n}"), meta={"scour_crawl_delays": {"a.test": 1e9}}) for n in range(3)]
    result = await crawl(requests, {"ROBOTSTXT_OBEY": False, "SCOUR_CRAWL_DELAY_MAX": 0.2})
    assert_clean(result)
    assert len(result.responses) == 3
    assert_gaps(site.log, 0.2, at_least=3)


async def test_hops_from_many_hosts_take_their_turn_at_the_one_they_lead_to(sites: Sites) -> None:
    hub, *others = sites.named("hub.test", "h1.test", "h2.test", "h3.test", "h4.test")
    asking(hub, 0.2)
    for number, site in enumerate(others):
        site.robots("")
        site.redirect("/x", hub.url(f"/{number}"))
    result = await crawl([site.url("/x") for site in others], {"SCOUR_ROBOTSTXT_TTL": 0.45})
    assert_clean(result)
    assert len(result.responses) == 4
    assert len(hub.requests("/robots.txt")) >= 2  # reading it again takes a turn as well
    assert_gaps(hub.log, 0.2, at_least=6)


async def test_other_hosts_are_not_slowed_by_one_that_asks_for_a_delay(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    asking(a, 0.3)
    b.robots("")
    b.default = Answer("page")
    urls = [site.url(f"/{number}") for number in range(4) for site in (a, b, b, b, b)]
    result = await crawl([Request(url, dont_filter=True) for url in urls], {"CONCURRENT_REQUESTS": 4})
    assert_clean(result)
    assert_gaps(a.log, 0.3, at_least=5)
    assert len(b.log) == 17
    assert b.requests()[-1].at < a.requests()[2].at


@pytest.mark.deadline(60)
def test_the_gaps_are_kept_without_asyncio_too() -> None:
    if not is_asyncio_reactor_installed():
        pytest.skip("this is that run")
    command = [sys.executable, "-m", "pytest", "tests/test_slots.py", "-q", "-p", "no:cacheprovider"]
    command += ["--override-ini=addopts=", "--reactor=default", "-k", "two_slots and stock or collected"]
    run = subprocess.run(command, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:]
    assert "2 passed" in run.stdout


def connect_after(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
    """Have the connections of the crawl take so long to open, one after the other."""
    from twisted.internet import reactor
    from twisted.internet.endpoints import TCP4ClientEndpoint
    from twisted.internet.task import deferLater

    connect, opened = TCP4ClientEndpoint.connect, iter(seconds)

    def slow_connect(self: Any, factory: Any) -> Any:
        waiting = deferLater(reactor, next(opened))  # type: ignore[arg-type]
        return waiting.addCallback(lambda _: connect(self, factory))

    monkeypatch.setattr(TCP4ClientEndpoint, "connect", slow_connect)


async def test_the_users_delay_counts_from_when_the_connection_is_there(
    sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening a connection may take long, also to a host whose address is known already."""
    (site,) = sites.named("a.test")
    site.robots("")
    site.default = Answer("page", delay=0.02, end="close")
    connect_after(monkeypatch, 0.0, 0.4, 0.0, 0.4, 0.0)  # the first is for robots.txt
    result = await crawl([site.url(f"/{number}") for number in range(4)], {"DOWNLOAD_DELAY": 0.5, **NO_JITTER})
    assert len(result.responses) == 4
    assert min(starts(page_requests(site))) >= 0.5 - SLACK


class Slowing(Spider):
    """Asks for two pages, and for a delay when the first is there."""

    name = "slowing"
    site: Site

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.site.url("/0"))

    def parse(self, response: Any) -> Iterator[Request]:
        self.crawler.engine.downloader.slots[self.site.host].delay = 0.5
        yield Request(self.site.url("/1"), callback=self.nothing)

    def nothing(self, response: Any) -> None:
        pass


async def test_a_delay_that_a_callback_sets_counts_from_when_the_last_request_was_written(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection took long to open, and nobody had asked for a delay then."""
    connect_after(monkeypatch, 0.4, 0.0)
    site.default = Answer("page")
    await crawl(Slowing, {"ROBOTSTXT_OBEY": False, **NO_JITTER}, spider_args={"site": site})
    assert len(site.log) == 2
    assert min(starts(site.log)) >= 0.5 - SLACK


class OneForAll(Downloader):
    """A project's downloader that names its slots its own way."""

    def get_slot_key(self, request: Request) -> str:
        return request.meta.get("download_slot") or "all"


async def test_a_slot_that_the_downloader_names_is_taken_for_no_host(sites: Sites) -> None:
    """The pace and the limit of each host stay its own."""
    one, other = sites.named("one.test", "other.test")
    asking(one, 0.2)
    other.robots("")
    other.default = Answer("page", delay=0.1)
    requests = [site.url(f"/{number}") for number in range(5) for site in (other, one)]
    settings = {"DOWNLOADER": OneForAll, "SCOUR_MAX_REQUESTS_PER_DOMAIN": 3}
    result = await crawl(requests, settings)
    assert [len(page_requests(site)) for site in (one, other)] == [3, 3]
    assert result.stats["scour/outcome/request_limit"] == 4
    assert_gaps(one.log, 0.2, 4)
    assert min(gaps(page_requests(other))) < 0.1


# --- One slot by itself -------------------------------------------------------------------------------------


def one_slot() -> tuple[Any, Any, Request]:
    """A slot of a downloader that sends nothing, its job, and a request for it."""
    crawler = get_crawler(Spider)
    crawler.spider = Spider(name="world")
    crawler.engine = SimpleNamespace(downloader=Downloader(crawler), paused=False, _slot=None)  # type: ignore[assignment]
    job, request = job_of(crawler), Request("http://a.test/")
    job.install_gate()
    return job.downloader._get_slot(request)[1], job, request


def test_one_object_that_is_downloaded_twice_at_a_time_ends_twice() -> None:
    """``transferring`` holds it once: Scrapy's own second removal fails, and the host is free all the same."""
    slot, job, request = one_slot()
    for _ in range(2):
        slot.queue.append((request, None))
        slot.queue.popleft()
        slot.transferring.add(request)
    clock = job.clock_of(request)
    assert (slot._busy, clock.in_flight) == (2, 2)
    slot.transferring.remove(request)
    assert (slot._busy, clock.in_flight) == (1, 1)
    with pytest.raises(KeyError):
        slot.transferring.remove(request)
    assert (slot._busy, clock.in_flight) == (0, 0)
    assert not slot._running


async def test_the_delay_counts_from_when_a_request_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """When its transfer begins, and once more when the loop has turned, in which its octets leave."""
    now = [100.0]
    monkeypatch.setattr(compat, "slot_now", lambda: now[0])
    slot, _, request = one_slot()
    slot.delay = 5.0
    slot.queue.append((request, None))
    slot.queue.popleft()
    now[0] = 101.0
    slot.transferring.add(request)
    assert slot.lastseen == 101.0
    now[0] = 102.0
    await sleep(0.02)
    assert slot.lastseen == 102.0
    slot.transferring.remove(request)


def test_the_clock_is_that_of_the_site_that_is_named_last() -> None:
    """A middleware may send a request by way of a service when its own host's clock has been looked up already."""
    _, job, request = one_slot()
    job.downloader.active.add(request)
    assert [job.clock_of(request).host, job.host_of(request)] == ["a.test"] * 2
    request.meta["scour_url"] = "http://b.test/"
    assert [job.clock_of(request).host, job.host_of(request)] == ["b.test"] * 2
    del request.meta["scour_url"]
    assert [job.clock_of(request).host, job.host_of(request)] == ["a.test"] * 2
    job.downloader.active.remove(request)
