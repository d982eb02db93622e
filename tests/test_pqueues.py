"""The scheduler queue in a crawl, as the servers see it, and where it has to be a drop-in for the stock one."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import scrapy
from scrapy import Request, Spider, signals
from scrapy.core.downloader import Downloader
from scrapy.core.scheduler import Scheduler
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.pqueues import DownloaderAwarePriorityQueue
from scrapy.squeues import FifoMemoryQueue, LifoMemoryQueue, PickleFifoDiskQueue, PickleLifoDiskQueue
from scrapy.utils.reactor import is_asyncio_reactor_installed
from scrapy.utils.test import get_crawler

from scrapy_scour import compat
from scrapy_scour.job import job_of
from scrapy_scour.pqueues import LONGEST_SLEEP_S, SPARE_ENTRIES, PolitePriorityQueue
from tests.support.crawl import NO_JITTER, Requests, Result, crawl, sleep
from tests.support.site import Answer, Seen, Site, Sites, gaps, max_in_flight, starts

TOLERANCE_S = 0.02
NO_ROBOTS = {"ROBOTSTXT_OBEY": False}


def numbered(site: Site, count: int, **options: Any) -> list[Request]:
    return [Request(site.url(f"/{number}"), dont_filter=True, **options) for number in range(count)]


def pages(site: Site) -> list[Seen]:
    return [seen for seen in site.log if seen.path != "/robots.txt"]


# A queue by itself


class Bench:
    """Queues on a downloader that sends nothing, under a clock of the test's own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        self.now = 1000.0
        self.timers: list[Any] = []
        self.wakes = 0
        self.crawler: Crawler = get_crawler(Spider, {"TELNETCONSOLE_ENABLED": False, **settings})
        self.crawler.spider = Spider(name="bench")
        self.downloader = Downloader(self.crawler)
        self.crawler.engine = SimpleNamespace(downloader=self.downloader, paused=False, _slot=None)  # type: ignore[assignment]
        self.job = job_of(self.crawler)
        self.job.now = lambda: self.now  # type: ignore[method-assign]
        monkeypatch.setattr(compat, "slot_now", lambda: self.now)
        monkeypatch.setattr(compat, "later", self._later)
        monkeypatch.setattr(compat, "wake_engine", self._wake)

    def _later(self, seconds: float, function: Any) -> Any:
        timer = SimpleNamespace(at=self.now + seconds, function=function, cancelled=False)
        timer.cancel = lambda: setattr(timer, "cancelled", True)
        self.timers.append(timer)
        return timer

    def _wake(self, crawler: Crawler) -> None:
        self.wakes += 1

    def queue(
        self,
        cls: Any = PolitePriorityQueue,
        downstream: Any = FifoMemoryQueue,
        key: str = "",
        state: Any = None,
        start: Any = None,
    ) -> Any:
        return cls.from_crawler(
            self.crawler, downstream_queue_cls=downstream, key=key, startprios=state, start_queue_cls=start
        )

    def armed(self) -> list[Any]:
        return [timer for timer in self.timers if not timer.cancelled]

    def ends(self, request: Request) -> None:
        """The request goes through the downloader and leaves it."""
        self.downloader.active.add(request)
        self.downloader.active.remove(request)

    def sends(self, request: Request) -> None:
        """The request goes to the network."""
        self.downloader.active.add(request)
        self.job.dispatched(request, self.job.clock_of(request), self.now)

    def answers(self, request: Request) -> None:
        """Its transfer ends; it is still in the downloader."""
        self.job.transfer_ended(request, self.job.clock_of(request), 0.1, None)

    def all_of(self, queue: Any) -> list[Request]:
        """Everything, in the order in which it is handed out when each request ends at once."""
        found = []
        while (request := queue.pop()) is not None:
            found.append(request)
            self.ends(request)
        return found


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    made = Bench(monkeypatch)
    yield made
    made.downloader.close()


def test_a_host_with_media_under_way_waits_for_one_with_nothing(bench: Bench) -> None:
    """What went past the queue counts, also when some of it has ended meanwhile."""
    queue = bench.queue()
    for host in "abc":
        queue.push(Request(f"http://{host}.test/1"))
    media = [Request(f"http://a.test/m{number}") for number in range(4)]
    for request in media:
        bench.sends(request)
    bench.answers(media[0])
    assert [request.url for request in (queue.pop(), queue.pop(), queue.pop())] == [
        f"http://{host}.test/1" for host in "bca"
    ]


def test_a_paused_crawl_looks_by_one_timer_that_ends_with_it(bench: Bench) -> None:
    """Whatever ends while it is paused and another host waits for the time."""
    queue = bench.queue()
    bench.job.pace.clock("held.test", bench.now).hold(bench.now + 60.0, "retry_after")
    for url in [f"http://a.test/{number}" for number in range(20)] + ["http://held.test/1"]:
        queue.push(Request(url))
    sent = []
    while (request := queue.pop()) is not None:
        bench.sends(request)
        sent.append(request)
    bench.crawler.engine.paused = True  # type: ignore[union-attr]
    for request in sent[:3]:
        bench.answers(request)
        bench.downloader.active.remove(request)
        assert [timer.at for timer in bench.armed() if timer.function == queue._time_is_up] == [bench.now + 0.25]
    queue._spider_closed()
    assert bench.armed() == []


def test_a_slot_has_room_again_whatever_a_listener_makes_of_an_answer(bench: Bench) -> None:
    def breaks(*_: Any) -> None:
        raise RuntimeError("broken")

    queue = bench.queue()
    for number in range(20):
        queue.push(Request(f"http://a.test/{number}"))
    sent = []
    while (request := queue.pop()) is not None:
        bench.sends(request)
        sent.append(request)
    bench.job.on_ended.insert(0, breaks)
    with pytest.raises(RuntimeError, match="broken"):
        bench.answers(sent[0])
    bench.downloader.active.remove(sent[0])
    assert queue.pop() is not None
    assert queue.pop() is None


@pytest.mark.filterwarnings("ignore:.*CONCURRENT_REQUESTS_PER_IP")
def test_a_limit_per_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """CONCURRENT_REQUESTS_PER_IP is refused, as by the stock queue."""
    bench = Bench(monkeypatch)
    try:
        bench.crawler.settings.frozen = False
        bench.crawler.settings.set("CONCURRENT_REQUESTS_PER_IP", 4)
        for cls in (PolitePriorityQueue, DownloaderAwarePriorityQueue):
            with pytest.raises(ValueError, match="CONCURRENT_REQUESTS_PER_IP"):
                bench.queue(cls)
    finally:
        bench.downloader.close()


def test_the_state_of_a_queue_by_priority_only_is_refused(bench: Bench) -> None:
    """What another kind of queue left in the job directory is refused with what to do."""
    with pytest.raises(ValueError, match="SCHEDULER_PRIORITY_QUEUE it was started with"):
        bench.queue(state=[0, -1])


def test_a_downloader_without_slots_is_refused(bench: Bench) -> None:
    """A downloader that is not Scrapy's has no slots that could be asked."""
    bench.crawler.engine = SimpleNamespace(downloader=object(), _slot=None)  # type: ignore[assignment]
    with pytest.raises(ValueError, match="DOWNLOADER is object"):
        bench.queue()


def some_requests() -> list[Request]:
    """Several hosts and slots, priorities, start requests; one slot has a name that no folder can have."""
    found = []
    for number in range(60):
        meta: dict[str, Any] = {}
        if number % 7 == 0:
            meta["download_slot"] = "api/v1: übung?"
        if number % 3 == 0:
            meta["is_start_request"] = True
        host = f"host{number % 4}.test"
        found.append(
            Request(f"http://{host}/{number}", priority=(0, 5, -2)[number % 3 if number % 2 else 0], meta=meta)
        )
    return found


def by_slot(requests: Iterable[Request]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for request in requests:
        slot = request.meta.get("download_slot") or request.url.split("/")[2]
        found.setdefault(slot, []).append(request.url)
    return found


@pytest.mark.parametrize("downstream", [PickleFifoDiskQueue, PickleLifoDiskQueue])
@pytest.mark.parametrize("start", [None, PickleFifoDiskQueue])
@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        (PolitePriorityQueue, DownloaderAwarePriorityQueue),
        (DownloaderAwarePriorityQueue, PolitePriorityQueue),
        (PolitePriorityQueue, PolitePriorityQueue),
    ],
)
def test_a_job_directory_goes_from_one_queue_to_the_other(
    bench: Bench, tmp_path: Path, writer: Any, reader: Any, start: Any, downstream: Any
) -> None:
    """Ours resumes what the stock queue left, and the stock queue what ours left: all of it, in stock's order."""

    def after_resuming(folder: Path, first: Any, second: Any) -> tuple[dict[str, list[str]], dict[str, set[int]]]:
        queue = bench.queue(first, downstream, str(folder), start=start)
        for request in some_requests():
            queue.push(request)
        taken = [queue.pop() for _ in range(3)]
        for request in taken:
            bench.ends(request)
            queue.push(request)
        state = json.loads(json.dumps(queue.close()))
        resumed = bench.queue(second, downstream, str(folder), state, start)
        assert len(resumed) == 60
        found = by_slot(bench.all_of(resumed))
        assert len(resumed) == 0
        return found, {slot: set(priorities) for slot, priorities in state.items()}

    found, state = after_resuming(tmp_path / "mixed", writer, reader)
    assert sum(map(len, found.values())) == len({url for urls in found.values() for url in urls}) == 60
    if writer is not reader:
        _, stock_state = after_resuming(tmp_path / "stock", DownloaderAwarePriorityQueue, DownloaderAwarePriorityQueue)
        assert state == stock_state

    plain = bench.queue(DownloaderAwarePriorityQueue, downstream, str(tmp_path / "order"), start=start)
    mine = bench.queue(PolitePriorityQueue, downstream, str(tmp_path / "order of ours"), start=start)
    for queue in (plain, mine):
        for request in some_requests():
            queue.push(request)
    assert by_slot(bench.all_of(mine)) == by_slot(bench.all_of(plain))


def test_slots_without_requests_in_a_state_are_nothing(bench: Bench, tmp_path: Path) -> None:
    """A state that names slots and priorities of which nothing is left is an empty queue, and leaves no folder."""
    queue = bench.queue(downstream=PickleFifoDiskQueue, key=str(tmp_path), state={"a.test": [0, 1], "b.test": [0]})
    assert len(queue) == 0
    assert queue.pop() is None
    assert not list(tmp_path.iterdir())
    assert not bench.armed()


def test_a_drained_slot_leaves_no_folder(bench: Bench, tmp_path: Path) -> None:
    """The folder of a slot goes when its last request does."""
    queue = bench.queue(downstream=PickleLifoDiskQueue, key=str(tmp_path), start=PickleFifoDiskQueue)
    for request in some_requests():
        queue.push(request)
    assert len(list(tmp_path.iterdir())) == 5
    bench.all_of(queue)
    assert not list(tmp_path.iterdir())


def test_a_request_that_cannot_be_stored_leaves_nothing(bench: Bench, tmp_path: Path) -> None:
    """A request that the disk queue refuses is an error for the scheduler, and is not kept, counted or waited for."""
    queue = bench.queue(downstream=PickleFifoDiskQueue, key=str(tmp_path))
    with pytest.raises(ValueError, match="not an instance method"):
        queue.push(Request("http://a.test/", callback=lambda response: None))
    assert len(queue) == 0
    assert "a.test" not in queue
    assert not list(tmp_path.iterdir())
    queue.push(Request("http://a.test/1"))
    with pytest.raises(ValueError, match="not an instance method"):
        queue.push(Request("http://a.test/", callback=lambda response: None))
    assert [request.url for request in bench.all_of(queue)] == ["http://a.test/1"]


@pytest.mark.parametrize("cls", [PolitePriorityQueue, DownloaderAwarePriorityQueue])
def test_a_stored_request_that_cannot_be_read_costs_itself_only(bench: Bench, tmp_path: Path, cls: Any) -> None:
    """A callback that the spider no longer has: the request is an error when its turn comes, all others are handed out,
    as in stock."""

    class Was(Spider):
        def gone(self, response: Any) -> None: ...

    bench.crawler.spider = Was(name="was")
    queue = bench.queue(cls, PickleFifoDiskQueue, str(tmp_path))
    for number in range(9):
        callback = bench.crawler.spider.gone if number in (0, 4, 8) else None  # type: ignore[attr-defined]
        queue.push(Request(f"http://host{number % 3}.test/{number}", callback=callback))
    state = queue.close()
    bench.crawler.spider = Spider(name="is")
    queue = bench.queue(cls, PickleFifoDiskQueue, str(tmp_path), state)
    urls = []
    while len(queue):
        with contextlib.suppress(ValueError):
            request = queue.pop()
            bench.ends(request)
            urls.append(request.url[-1])
    assert sorted(urls) == list("123567")


@pytest.mark.parametrize("downstream", [PickleLifoDiskQueue, PickleFifoDiskQueue])
def test_looking_at_the_next_request_does_not_touch_what_is_stored(
    bench: Bench, tmp_path: Path, downstream: Any
) -> None:
    """What comes on disk after a look at the request before it costs neither of them: a slot shared by two hosts and a
    resumed one, of which the next host is not known, are looked at."""
    pushed, found = [], []
    state = None
    for turn in range(3):
        queue = bench.queue(downstream=downstream, key=str(tmp_path), state=state)
        for number in range(6):
            for name in ("a", "b"):
                url = f"http://{name}.test/{turn}-{number}"
                queue.push(Request(url, meta={"download_slot": "shared"}))
                pushed.append(url)
            bench.job.pace.clock("a.test", bench.now).hold(bench.now + 1, "retry_after", probe=False)
            bench.job.pace.clock("b.test", bench.now).hold(bench.now + 1, "retry_after", probe=False)
            assert queue.pop() is None  # looked at, not handed out
            bench.now += 2
            if number % 3 == 0:
                found.append(queue.pop())
                bench.ends(found[-1])
        state = queue.close()
    queue = bench.queue(downstream=downstream, key=str(tmp_path), state=state)
    assert queue.peek() is not None
    queue.push(Request("http://a.test/last", meta={"download_slot": "shared"}))
    found += bench.all_of(queue)
    assert sorted(request.url for request in found) == sorted([*pushed, "http://a.test/last"])


def test_the_least_active_slot_is_first_then_the_one_without_a_turn_for_longest(bench: Bench) -> None:
    """Slots take turns; one with more under way comes after those with less."""
    queue = bench.queue()
    for number in range(9):
        queue.push(Request(f"http://{'abc'[number % 3]}.test/{number}"))
    first = [queue.pop() for _ in range(3)]
    assert [request.url for request in first] == ["http://a.test/0", "http://b.test/1", "http://c.test/2"]
    bench.ends(first[2])
    bench.ends(first[0])
    assert [queue.pop().url for _ in range(3)] == ["http://a.test/3", "http://c.test/5", "http://b.test/4"]


def test_requests_that_did_not_come_from_the_queue_take_places_of_their_slot(bench: Bench) -> None:
    """Media and robots.txt requests count against the slot's limit while they are in the downloader."""
    queue = bench.queue()
    for request in numbered(SimpleNamespace(url=lambda path: f"http://a.test{path}"), 2):  # type: ignore[arg-type]
        queue.push(request)
    media = [Request(f"http://a.test/image/{number}") for number in range(8)]
    for request in media:
        bench.downloader.active.add(request)
    assert queue.pop() is None
    assert not [timer for timer in bench.armed() if timer.function != queue._count_out_lost]
    bench.downloader.active.remove(media[0])
    assert bench.wakes == 1
    assert queue.pop().url == "http://a.test/0"
    assert queue.pop() is None


def test_peek_is_what_pop_gives_and_changes_nothing(bench: Bench) -> None:
    """``peek`` shows the next request, also between start requests and others, and None when all have to wait."""
    queue = bench.queue(downstream=LifoMemoryQueue, start=FifoMemoryQueue)
    assert queue.peek() is None
    for request in some_requests():
        queue.push(request)
    for left in range(60, 0, -1):
        assert len(queue) == left
        shown = queue.peek()
        assert queue.peek() is shown
        assert queue.pop() is shown
        bench.ends(shown)
    queue.push(Request("http://a.test/"))
    bench.job.pace.clock("a.test", bench.now).hold(bench.now + 5, "test")
    assert queue.peek() is None
    assert len(queue) == 1
    assert "a.test" in queue


class Unpeekable:
    """A queue class with the least that is asked of one."""

    def __init__(self) -> None:
        self.held: list[Request] = []

    @classmethod
    def from_crawler(cls, crawler: Crawler, key: str) -> Unpeekable:
        return cls()

    def push(self, request: Request) -> None:
        self.held.append(request)

    def pop(self) -> Request | None:
        return self.held.pop(0) if self.held else None

    def close(self) -> None:
        pass

    def __len__(self) -> int:
        return len(self.held)


def test_a_queue_class_without_peek_works(bench: Bench) -> None:
    """Everything is handed out where the queue class cannot peek, in slots that hosts share too."""
    queue = bench.queue(downstream=Unpeekable)
    for number in range(6):
        queue.push(Request(f"http://host{number % 3}.test/{number}", meta={"download_slot": "shared"}))
    with pytest.raises(NotImplementedError):
        queue.peek()
    assert [request.url[-1] for request in bench.all_of(queue)] == list("012345")


def test_a_host_that_was_given_up_is_handed_out_at_once(bench: Bench) -> None:
    """Requests that are going to fail do not wait for the hold of their host."""
    queue = bench.queue()
    clock = bench.job.pace.clock("a.test", bench.now)
    clock.hold(math.inf, "test")
    for number in range(20):
        queue.push(Request(f"http://a.test/{number}"))
    assert queue.pop() is None
    clock.give_up(math.inf, "test")
    assert bench.wakes == 1
    assert len(bench.all_of(queue)) == 20


def test_an_hour_of_waiting_wakes_nobody(bench: Bench) -> None:
    """One timer for the time at which the host may be asked, none in between, none after the end."""
    queue = bench.queue()
    bench.job.pace.clock("a.test", bench.now).hold(bench.now + 3000, "test")
    queue.push(Request("http://a.test/"))
    for _ in range(100):
        assert queue.pop() is None
        bench.now += 29.0
    assert len(bench.timers) == 1
    assert bench.timers[0].at == pytest.approx(4000.0)
    bench.now = 4000.001
    assert queue.pop() is not None


def test_a_wait_without_an_end_is_looked_at_once_an_hour(bench: Bench) -> None:
    """A timer never gets a number that an event loop cannot take."""
    queue = bench.queue()
    clock = bench.job.pace.clock("a.test", bench.now)
    clock.hold(math.inf, "test")
    queue.push(Request("http://a.test/"))
    assert queue.pop() is None
    assert [timer.at - bench.now for timer in bench.armed()] == [LONGEST_SLEEP_S]


@pytest.mark.parametrize("by", ["close", "spider_closed"])
def test_no_timer_outlives_the_crawl(bench: Bench, by: str) -> None:
    """The timer is gone when the queue is closed, and for a memory queue, which nobody closes, with the spider."""
    queue = bench.queue()
    bench.job.pace.clock("a.test", bench.now).hold(bench.now + 30, "test")
    queue.push(Request("http://a.test/"))
    assert queue.pop() is None
    assert len(bench.armed()) == 1
    if by == "close":
        queue.close()
        assert not bench.job.on_left
        assert not bench.job.pace.listeners or queue._clock_changed not in bench.job.pace.listeners
    else:
        bench.crawler.signals.send_catch_log(signals.spider_closed, spider=bench.crawler.spider, reason="finished")
    assert not bench.armed()


def test_what_is_no_longer_true_does_not_pile_up(bench: Bench) -> None:
    """Heaps stay within twice the slots, however often slots change places; nothing is kept of 3,000 hosts gone by."""
    queue = bench.queue()
    for number in range(20):
        queue.push(Request(f"http://host{number % 10}.test/{number}"))
    for _ in range(2000):
        request = queue.pop()
        bench.ends(request)
        queue.push(request)
        bench.job.pace.clock("host1.test", bench.now).hold(bench.now + 0.001, "test", probe=False)
        bench.now += 0.01
        assert len(queue._ready) + len(queue._waiting) <= 2 * (2 * 10 + SPARE_ENTRIES)
    bench.all_of(queue)
    for number in range(3000):
        queue.push(Request(f"http://new{number}.test/"))
        bench.all_of(queue)
    assert len(queue) == 0
    parts = (queue.pqueues, queue._waiting, queue._shared, queue._watchers, bench.job.under_way.loads)
    assert not any(parts)
    assert len(queue._ready) <= SPARE_ENTRIES
    assert len(bench.job.under_way) == 0


# In a crawl, from the servers' logs


@pytest.mark.parametrize("stock", [False, True])
async def test_a_limit_of_one_is_one_at_the_server(site: Site, stock: bool) -> None:
    """CONCURRENT_REQUESTS_PER_DOMAIN = 1 without a delay: never two in flight. Stock on asyncio: many at once."""
    if stock and not is_asyncio_reactor_installed():
        pytest.skip("stock starts a transfer at once on this reactor, and counts it in time")
    site.default = Answer("page", delay=0.05)
    settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1, **NO_ROBOTS}
    await crawl(numbered(site, 24), settings, stock=stock)
    assert len(site.log) == 24
    most = max_in_flight(site.log)
    assert most > 8 if stock else most == 1


@pytest.mark.parametrize("stock", [False, True])
async def test_a_waiting_host_does_not_fill_the_places_of_others(sites: Sites, stock: bool) -> None:
    """THROT-06: many URLs of a slow host, then fast hosts: these have all places but one from the start. Stock: one or
    two, and one more for each that the slow host gives back."""
    slow, *fast = (sites(f"127.0.0.{number}") for number in range(1, 7))
    slow.default = Answer("page")
    for one in fast:
        one.default = Answer("page", delay=0.3)
    requests = numbered(slow, 20) + [request for one in fast for request in numbered(one, 6)]
    settings = {"DOWNLOAD_SLOTS": {slow.host: {"delay": 0.3}}, "CONCURRENT_REQUESTS": 16, **NO_JITTER, **NO_ROBOTS}
    await crawl(requests, settings, stock=stock)
    assert len(slow.log) == 20
    assert [len(one.log) for one in fast] == [6] * 5
    assert min(starts(slow.log)) >= 0.3 - 0.1  # a delay of the user's counts from the dispatch
    third = sorted(seen.at for seen in slow.log)[2]
    most = max_in_flight(seen for one in fast for seen in one.log if seen.at < third)
    assert most <= 4 if stock else most >= 8


async def test_every_host_has_its_own_clock(sites: Sites) -> None:
    """DELAY-09: one host asks for a delay, one does not: the second ends in its own time, the first keeps its delay."""
    slow, fast = sites("127.0.0.1"), sites("127.0.0.2")
    for one in (slow, fast):
        one.default = Answer("page")
    slow.robots("User-agent: *\nCrawl-delay: 0.3\n")
    fast.robots("")
    pairs = zip(numbered(slow, 8), numbered(fast, 8), strict=True)
    await crawl([request for pair in pairs for request in pair])
    assert len(pages(slow)) == len(pages(fast)) == 8
    assert min(gaps(slow.log)) >= 0.3 - TOLERANCE_S
    fast_ended = max(seen.at for seen in fast.log)
    assert sum(seen.at < fast_ended for seen in pages(slow)) <= 4


async def test_a_host_in_trouble_is_never_asked_more_at_once(site: Site) -> None:
    """THROT-09: answers get slower and more of them are 429: from a refusal to the next good answer, no more are in
    flight than when it came."""
    asked = 0

    def answer(seen: Seen) -> Answer:
        nonlocal asked
        asked += 1
        trouble = 12 < asked < 40 and asked % 3 == 0
        delay = 0.05 + 0.005 * asked
        return Answer("later", 429, {"Retry-After": "1"}, delay=delay) if trouble else Answer("page", delay=delay)

    for number in range(24):
        site.route(f"/{number}", answer)
    result = await crawl(numbered(site, 24), {"RETRY_TIMES": 5, **NO_ROBOTS})
    assert len(result.responses) == 24
    refused = [seen for seen in site.log if seen.status == 429]
    assert refused
    for one in refused:
        assert one.ended is not None
        good = [s.ended for s in site.log if s.status == 200 and s.at > one.ended and s.ended is not None]
        until = min(good, default=math.inf)
        then = sum(s.at < one.ended <= (s.ended or math.inf) for s in site.log)
        # Requests that had left before the refusal could arrive do not count.
        for moment in (s.at for s in site.log if one.ended + 0.1 < s.at < until):
            assert sum(s.at <= moment < (s.ended or math.inf) for s in site.log) <= then


class LooksLongAtTheFirst:
    async def process_response(self, request: Request, response: Response, spider: Any = None) -> Response:
        if request.url.endswith("/0"):
            await sleep(0.6)
        return response


@pytest.mark.deadline(10)
async def test_a_host_whose_answer_is_looked_at_keeps_its_clock(sites: Sites) -> None:
    """Its next request waits until the answer has left, and hears of that, however many hosts come in between."""
    slow, another = sites("127.0.0.2"), sites("127.0.0.3")
    slow.robots("User-agent: *\nCrawl-delay: 0.1\n")
    another.robots("")
    slow.default = another.default = Answer("page")

    class Meanwhile(Spider):
        name = "meanwhile"

        async def start(self) -> AsyncIterator[Request]:
            for request in numbered(slow, 3):
                yield request
            await sleep(0.5)  # the first answer is in the middlewares, longer than the delay
            job_of(self.crawler).pace._next_prune = 1  # as with very many hosts
            for request in numbered(another, 1):
                yield request

        def parse(self, response: Response) -> None:
            pass

    await crawl(Meanwhile, {"DOWNLOADER_MIDDLEWARES": {LooksLongAtTheFirst: 900}})
    assert sorted(seen.path for seen in pages(slow)) == ["/0", "/1", "/2"]
    assert min(gaps(slow.log)) >= 0.1 - TOLERANCE_S


async def test_the_engine_is_woken_when_a_host_may_be_asked_and_not_before(site: Site) -> None:
    """A crawl that only waits goes on at the right time, not at the engine's heartbeat, and asks nothing in between."""
    site.default = Answer("page")
    site.robots("User-agent: *\nCrawl-delay: 0.8\n")
    empty = 0

    class Counting(Requests):
        @classmethod
        def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Counting:
            spider = super().from_crawler(crawler, *args, **kwargs)

            def count() -> None:
                nonlocal empty
                empty += 1

            spider.counting = count
            crawler.signals.connect(count, signal=signals.scheduler_empty)
            return spider

    result = Result()
    began = time.monotonic()
    await crawl(Counting, spider_args={"start": numbered(site, 3), "result": result})
    assert len(result.responses) == 3
    assert 2.4 - TOLERANCE_S <= time.monotonic() - began < 4.5
    assert empty < 40


async def test_a_slot_that_hosts_share_is_kept_by_all_of_them(sites: Sites) -> None:
    """A slot named by the user has its delay between requests of different hosts, and each host its own."""
    first, second = sites("127.0.0.1"), sites("127.0.0.2")
    for one in (first, second):
        one.default = Answer("page")
    second.robots("User-agent: *\nCrawl-delay: 0.5\n")
    slot = {"download_slot": "pair"}
    requests = [
        r for pair in zip(numbered(first, 4, meta=slot), numbered(second, 4, meta=slot), strict=True) for r in pair
    ]
    result = await crawl(requests, {"DOWNLOAD_SLOTS": {"pair": {"delay": 0.2}}, **NO_JITTER})
    assert len(result.responses) == 8
    assert min(starts(pages(first) + pages(second))) >= 0.2 - TOLERANCE_S
    assert min(gaps(second.log)) >= 0.5 - TOLERANCE_S


async def test_a_spider_that_waits_for_an_empty_scheduler_goes_on(sites: Sites) -> None:
    """``start()`` may wait for ``scheduler_empty``; the spider is never called idle while requests wait; it ends."""
    slow, fast = sites("127.0.0.1"), sites("127.0.0.2")
    for one in (slow, fast):
        one.default = Answer("page")
    slow.robots("User-agent: *\nCrawl-delay: 0.3\n")
    seen: list[str] = []
    idle: list[int] = []

    class Lazy(scrapy.Spider):
        name = "lazy"

        @classmethod
        def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Lazy:
            spider = super().from_crawler(crawler, *args, **kwargs)
            crawler.signals.connect(spider.idle, signal=signals.spider_idle)
            return spider

        async def start(self) -> AsyncIterator[Any]:
            for request in numbered(slow, 3):
                yield request
            for request in numbered(fast, 3):
                await self.crawler.signals.wait_for(signals.scheduler_empty)
                yield request

        def parse(self, response: Any) -> None:
            seen.append(response.url)

        def idle(self) -> None:
            idle.append(len(self.crawler.engine._slot.scheduler))

    if not hasattr(scrapy.signalmanager.SignalManager, "wait_for"):
        pytest.skip("this Scrapy cannot wait for a signal")
    result = await crawl(Lazy)
    assert len(seen) == 6
    assert result.finish_reason == "finished"
    assert idle
    assert not any(idle)


async def test_a_paused_crawl_sends_nothing_and_goes_on(site: Site) -> None:
    """The timer does not get past a pause; after it the crawl goes on as in stock."""
    site.default = Answer("page")
    marks: list[float] = []

    class Pausing(Requests):
        async def pause(self) -> None:
            self.crawler.engine.pause()
            await sleep(0.3)  # what was under way
            marks.append(time.monotonic())
            await sleep(0.8)
            marks.append(time.monotonic())
            self.crawler.engine.unpause()

        def parse(self, response: Any, **kwargs: Any) -> Iterator[Request]:
            yield from super().parse(response, **kwargs)
            if len(self.result.responses) == 2:
                compat.schedule(self.pause())

    result = Result()
    settings = {"DOWNLOAD_DELAY": 0.25, **NO_JITTER, **NO_ROBOTS}
    await crawl(Pausing, settings, spider_args={"start": numbered(site, 6), "result": result})
    assert len(site.log) == 6
    assert not [seen for seen in site.log if marks[0] < seen.at < marks[1]]
    assert min(seen.at for seen in site.log if seen.at > marks[1]) < marks[1] + 2  # not the engine's heartbeat, 5 s


class Filtering(Scheduler):
    """Takes requests out and lets some of them go nowhere."""

    def next_request(self) -> Request | None:
        while (request := super().next_request()) is not None and "drop" in request.url:
            pass
        return request


class Deferring(Scheduler):
    """Takes every request out and puts it back once."""

    def next_request(self) -> Request | None:
        request = super().next_request()
        if request is not None and "seen" not in request.meta:
            request.meta["seen"] = True
            self.enqueue_request(request)
            return super().next_request()
        return request


@pytest.mark.parametrize("delay_s", [0, 0.1])
@pytest.mark.parametrize("scheduler", [Filtering, Deferring])
async def test_a_scheduler_may_take_out_what_it_does_not_send(site: Site, scheduler: type, delay_s: float) -> None:
    site.default = Answer("page")
    dropped = [Request(site.url(f"/drop{number}"), dont_filter=True) for number in range(3 if delay_s else 12)]
    settings = {"SCHEDULER": scheduler, "DOWNLOAD_DELAY": delay_s, **NO_JITTER, **NO_ROBOTS}
    requests = [*numbered(site, 5), *(dropped if scheduler is Filtering else [])]
    result = await crawl(requests, settings)
    assert sorted(seen.path for seen in site.log) == [f"/{number}" for number in range(5)]
    assert result.finish_reason == "finished"


async def test_one_object_that_is_requested_twice_at_a_time_leaves_its_host_free(site: Site) -> None:
    """Stock drops the second with a KeyError; what comes after it is still asked, one at a time too."""
    site.default = Answer("page", delay=0.1)
    site.answer("/later", Answer("x", 503, {"Retry-After": "1"}))
    twice = Request(site.url("/twice"), dont_filter=True)
    settings = {"RETRY_TIMES": 1, "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue", **NO_ROBOTS}
    await crawl([twice, twice, *numbered(site, 3), Request(site.url("/later")), *numbered(site, 6)[3:]], settings)
    assert {f"/{number}" for number in range(6)} <= {seen.path for seen in site.log}


async def test_a_slot_that_is_opened_while_the_crawl_runs_is_noticed(site: Site) -> None:
    site.default = Answer("page")

    class Opening(Requests):
        async def open(self) -> None:
            slot = self.crawler.engine.downloader.slots[site.host]
            slot.concurrency = 0
            await sleep(0.3)
            slot.concurrency = 8

        def parse(self, response: Any, **kwargs: Any) -> Iterator[Request]:
            yield from super().parse(response, **kwargs)
            if len(self.result.responses) == 1:
                compat.schedule(self.open())

    settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1, **NO_ROBOTS}
    began = time.monotonic()
    await crawl(Opening, settings, spider_args={"start": numbered(site, 6), "result": Result()})
    assert len(site.log) == 6
    assert time.monotonic() - began < 4  # not the engine's heartbeat, 5 s


async def test_a_crawl_that_is_stopped_while_everything_waits_stops_and_keeps_it(site: Site, tmp_path: Path) -> None:
    """Closing does not wait for hosts; with a job directory the next run has every request, by either queue."""
    site.default = Answer("page")
    settings = {"DOWNLOAD_SLOTS": {site.host: {"delay": 60}}, "CLOSESPIDER_TIMEOUT": 1, **NO_JITTER, **NO_ROBOTS}
    began = time.monotonic()
    first = await crawl(numbered(site, 6), settings, jobdir=tmp_path)
    assert time.monotonic() - began < 8
    assert first.finish_reason == "closespider_timeout"
    assert len(site.log) == 1
    stock_queue = {"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue"}
    stop_again = {"CLOSESPIDER_PAGECOUNT": 2, "CONCURRENT_REQUESTS": 1, **NO_ROBOTS}
    await crawl([], {**stop_again, **stock_queue}, stock=True, jobdir=tmp_path)
    assert 2 <= len(site.log) < 6
    await crawl([], NO_ROBOTS, jobdir=tmp_path)
    assert sorted(seen.path for seen in site.log) == [f"/{number}" for number in range(6)]


class Starting(Requests):
    """Counts how often the engine asks in vain; ``late`` is asked for after all the others, again and again until so
    many ``pages`` are there."""

    late: str
    pages = 0
    asked_in_vain = 0

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Starting:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.in_vain, signal=signals.scheduler_empty)
        return spider

    def in_vain(self) -> None:
        self.asked_in_vain += 1

    async def start(self) -> AsyncIterator[Any]:
        async for request in super().start():
            yield request
        yield self.recorded(Request(self.late, dont_filter=True))
        while len(self.result.responses) < self.pages:
            yield self.recorded(Request(self.late, dont_filter=True))


async def test_start_requests_of_a_busy_host_are_taken_without_a_question_for_each(
    sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one of a host that is free, however late it comes, still goes out at once."""
    monkeypatch.setattr(compat, "_AT_ONCE_S", 60.0)  # however slow this machine is
    busy, free = sites(), sites("127.0.0.2")
    busy.default = Answer("page", delay=0.4)
    free.default = Answer("page")
    settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1, "CLOSESPIDER_PAGECOUNT": 3, **NO_ROBOTS}
    args = {"start": numbered(busy, 400), "late": free.url("/late"), "result": Result()}
    result = await crawl(Starting, settings, spider_args=args)
    assert isinstance(result.spider, Starting)
    assert result.spider.asked_in_vain < 100  # with a turn of the loop for each it is more than 400
    (late,) = free.log
    first, second, *_ = busy.log
    assert first.at < late.at < second.at


async def test_pages_arrive_while_a_slow_start_goes_on(sites: Sites) -> None:
    """As one that reads a database does, without letting the loop turn."""
    site = sites()
    site.default = Answer("page", delay=0.01)

    class Slow(Starting):
        async def start(self) -> AsyncIterator[Any]:
            async for request in super().start():
                time.sleep(0.03)
                yield request
            self.by_then = len(self.result.responses)

    settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1, **NO_ROBOTS}
    args = {"start": numbered(site, 30), "late": site.url("/late"), "result": Result()}
    result = await crawl(Slow, settings, spider_args=args)
    assert isinstance(result.spider, Slow)
    assert result.spider.by_then >= 5


async def test_a_request_that_a_middleware_moves_to_another_slot_frees_the_slot_that_it_came_from(sites: Sites) -> None:
    site = sites()
    site.robots("")
    site.default = Answer("page")
    site.answer("/0", Answer("page", delay=1.0))

    class Moving:
        def process_request(self, request: Request) -> None:
            if request.url.endswith("/0"):
                request.meta["download_slot"] = "other"

    first, second = numbered(site, 2)
    settings = {"DOWNLOAD_DELAY": 0.2, "DOWNLOADER_MIDDLEWARES": {Moving: 5000}, **NO_JITTER}
    await crawl([first.replace(priority=1), second], settings)
    slow, other = pages(site)
    assert slow.ended is not None
    assert other.at < slow.ended


async def test_a_start_that_waits_for_pages_gets_them(sites: Sites) -> None:
    """Its requests are all of one host, which is busy all the time; it never lets the loop turn by itself."""
    site = sites()
    site.default = Answer("page", delay=0.02)
    settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1, "CLOSESPIDER_PAGECOUNT": 8, **NO_ROBOTS}
    args = {"start": numbered(site, 3), "late": site.url("/late"), "pages": 5, "result": Result()}
    result = await crawl(Starting, settings, spider_args=args)
    assert result.finish_reason == "closespider_pagecount"
    assert len(site.log) >= 8


async def test_no_limit_in_total_leaves_the_limits_of_hosts(sites: Sites) -> None:
    """CONCURRENT_REQUESTS = 0 (no limit, where Scrapy has that): each host still has its own."""
    crawler = get_crawler(Spider, {"CONCURRENT_REQUESTS": 0, "TELNETCONSOLE_ENABLED": False})
    crawler.spider = Spider(name="probe")
    downloader = Downloader(crawler)
    nothing_is_sent = downloader.needs_backout()
    downloader.close()
    if nothing_is_sent:
        pytest.skip("this Scrapy sends nothing at all with CONCURRENT_REQUESTS = 0")
    hosts = [sites(f"127.0.0.{number}") for number in range(1, 5)]
    for one in hosts:
        one.default = Answer("page", delay=0.2)
    settings = {"CONCURRENT_REQUESTS": 0, "CONCURRENT_REQUESTS_PER_DOMAIN": 3, **NO_ROBOTS}
    await crawl([request for one in hosts for request in numbered(one, 9)], settings)
    assert [len(one.log) for one in hosts] == [9] * 4
    assert [max_in_flight(one.log) for one in hosts] == [3] * 4
