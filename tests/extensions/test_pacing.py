"""Leaving a host alone in real crawls: Retry-After, rate limits without it, backoff, the adaptive throttle."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider, signals
from scrapy.core.downloader import Downloader
from scrapy.statscollectors import MemoryStatsCollector

from scrapy_scour.exceptions import RateLimited
from scrapy_scour.extensions.pacing import PacingExtension
from scrapy_scour.policy.pacing import MultipleOf
from tests.support.crawl import Result, crawl, run_scrapy, sleep, write_project
from tests.support.site import Answer, Seen, Site, Sites, closed, gaps, hang, page_requests

SLACK = 0.02


def open_site(site: Site, page: Answer | None = None) -> Site:
    site.robots("")
    site.default = page or Answer("page")
    return site


def later(seconds: str | int | None, status: int = 429, **options: Any) -> Answer:
    headers = {} if seconds is None else {"Retry-After": str(seconds)}
    return Answer("later", status, headers, **options)


def refused(site: Site) -> list[Seen]:
    return [seen for seen in page_requests(site) if seen.status in (429, 503)]


def assert_left_alone(site: Site, since: Seen, seconds: float) -> None:
    """Nothing came to the site for so long after the answer, but what was in flight already."""
    assert since.ended is not None
    early = [
        (seen.path, round(seen.at - since.ended, 3))
        for seen in site.requests()
        if since.ended < seen.at < since.ended + seconds - SLACK
    ]
    assert early == []


async def hold_while_others_are_queued(sites: Sites, status: int, *, stock: bool) -> tuple[Site, Site, Result]:
    a, b = sites.named("a.test", "b.test")
    open_site(a, Answer("page", delay=0.7))  # what is in flight has arrived when /r says later
    open_site(b)
    a.sequence("/r", [later(1, status, delay=0.4), Answer("page", delay=0.1)])
    urls = [a.url("/r"), *(site.url(f"/{n}") for n in range(50) for site in ((a, b) if n < 20 else (b,)))]
    result = await crawl(
        [Request(url, priority=1 if url.endswith("/r") else 0) for url in urls], {"RETRY_TIMES": 2}, stock=stock
    )
    return a, b, result


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_holds_the_whole_host_then_one_probe_then_normal_and_nothing_is_lost(
    sites: Sites, status: int
) -> None:
    a, b, result = await hold_while_others_are_queued(sites, status, stock=False)
    (first,) = refused(a)
    assert_left_alone(a, first, 1.0)
    after = [seen for seen in a.requests() if seen.at > (first.ended or 0) + 0.5]
    assert len(after) >= 10
    assert after[1].at > (after[0].ended or 0)  # the probe is alone
    assert b.requests()[-1].at < after[0].at  # the other host had long been done
    assert sorted(result.urls()) == sorted({*(a.url(f"/{n}") for n in [*range(20), "r"]), *map(b.url, b.paths()[1:])})
    assert len(result.responses) == 71
    assert result.stats["scour/hold/retry_after"] == 1
    assert result.stats["retry/count"] == len(refused(a))
    assert result.package_tracebacks == []


async def test_stock_goes_on_at_once(sites: Sites) -> None:
    a, _, result = await hold_while_others_are_queued(sites, 429, stock=True)
    assert len(result.responses) == 71
    assert a.requests()[-1].at - (refused(a)[0].ended or 0) < 0.9


class Unlike(Downloader):
    """A project's downloader that transfers its own way, with names of its own."""

    async def _download(self, slot: Any, request: Request) -> Any:
        slot.transferring.add(request)
        try:
            answer = await self.handlers.download_request_async(request)
            self.signals.send_catch_log(
                signal=signals.response_downloaded, response=answer, request=request, spider=self.crawler.spider
            )
            return answer
        finally:
            slot.transferring.remove(request)
            self._process_queue(slot)


class Around(Downloader):
    """One that does something of its own around Scrapy's."""

    async def _download(self, slot: Any, request: Request) -> Any:
        return await super()._download(slot, request)


@pytest.mark.parametrize("downloader", [Downloader, Unlike, Around])
async def test_what_an_answer_says_is_heard_from_any_downloader(sites: Sites, downloader: type[Downloader]) -> None:
    """A hold, its probe, and a failure that is backed off from."""
    (site,) = sites.named("a.test")
    open_site(site, Answer("page", delay=0.1))
    site.sequence("/0", [later(1), Answer("page")])
    site.sequence("/1", [Answer("broken", 500), Answer("page")])
    settings = {"DOWNLOADER": downloader, "SCOUR_RETRY_BACKOFF": 0.3, "RETRY_TIMES": 2, "CONCURRENT_REQUESTS": 1}
    result = await crawl([site.url(f"/{n}") for n in range(4)], settings)
    (said,) = refused(site)
    assert_left_alone(site, said, 1.0)
    (broken,) = (seen for seen in site.requests("/1") if seen.status == 500)
    assert_left_alone(site, broken, 0.3)
    assert len(result.responses) == 4
    assert (result.stats["scour/hold/retry_after"], result.stats["scour/hold/backoff"]) == (1, 1)
    assert result.crawler is not None
    assert pacing(result.crawler)._answered == {}


def pacing(crawler: Any) -> PacingExtension:
    return next(one for one in crawler.extensions.middlewares if isinstance(one, PacingExtension))


@pytest.mark.parametrize("when", ["before the crawl", "while it runs"])
async def test_what_an_answer_says_is_heard_from_a_downloader_that_was_changed(
    sites: Sites, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """By the first answer that comes another way at the latest."""
    (site,) = sites.named("a.test")
    open_site(site)
    if when == "before the crawl":
        monkeypatch.setattr(Downloader, "_download", Unlike._download)
    else:
        site.route("/0", lambda _: monkeypatch.setattr(Downloader, "_download", Unlike._download) or Answer("page"))
    site.sequence("/2", [later(None), Answer("page")])
    settings = {
        "SCOUR_RETRY_WAITS": [1],
        "CONCURRENT_REQUESTS": 1,
        "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
    }
    result = await crawl([site.url(f"/{n}") for n in range(4)], settings)
    (said,) = refused(site)
    assert_left_alone(site, said, 1.0)
    assert len(result.responses) == 4


class Away(MemoryStatsCollector):
    """A collector whose server is away when a hold is counted."""

    def inc_value(self, key: str, *args: Any, **kwargs: Any) -> None:
        if key.startswith("scour/hold"):
            raise ConnectionError("the stats server is away")
        super().inc_value(key, *args, **kwargs)


async def test_what_fails_while_an_answer_is_noted_costs_neither_the_answer_nor_its_host(sites: Sites) -> None:
    site = open_site(sites())
    site.sequence("/0", [later(None), Answer("page")])
    settings = {"STATS_CLASS": Away, "SCOUR_RETRY_WAITS": [0.5], "RETRY_TIMES": 2, "CONCURRENT_REQUESTS": 1}
    result = await crawl([site.url(f"/{n}") for n in range(3)], settings)
    assert len(result.responses) == 3
    assert_left_alone(site, refused(site)[0], 0.5)
    assert any("could not be noted" in record.getMessage() for record in result.log)


@pytest.mark.parametrize("downloader", [Downloader, Unlike])
async def test_the_throttle_keeps_to_good_answers_with_any_downloader(
    sites: Sites, downloader: type[Downloader]
) -> None:
    (site,) = sites.named("a.test")
    open_site(site, Answer("page", delay=0.1))
    settings = {
        "DOWNLOADER": downloader,
        "SCOUR_THROTTLE_ENABLED": True,
        "SCOUR_THROTTLE_WAIT_BETWEEN": (MultipleOf(3),) * 2,
    }
    await crawl([site.url(f"/{n}") for n in range(4)], settings)
    assert min(gaps(page_requests(site))) >= 0.3 - SLACK


async def test_a_date_counts_against_the_servers_own_clock(sites: Sites) -> None:
    (site,) = sites.named("a.test")
    open_site(site)
    wrong = time.time() - 600
    dated = {"Date": formatdate(wrong, usegmt=True), "Retry-After": formatdate(wrong + 1, usegmt=True)}
    site.sequence("/r", [Answer("later", 503, dated), Answer("page")])
    result = await crawl([site.url("/r")])
    assert_left_alone(site, refused(site)[0], 1.0)
    assert result.urls() == [site.url("/r")]
    assert result.package_tracebacks == []


#: Answers "later" whose body comes slowly, or not to its end.
UNFINISHED: dict[str, Answer] = {
    "dribbles": later(1, piece=1, pause=0.1, delay=0.02),
    "breaks off": later(1, declared=100, end="close", delay=0.02),
    "is too long": replace(later(1), body="x" * 60_000, chunked=True, piece=1000, pause=0.01, delay=0.02),
    "takes too long": later(1, piece=1, pause=0.3, delay=0.02),
}


@pytest.mark.parametrize("how", UNFINISHED)
async def test_a_host_is_left_alone_from_the_headers_of_its_refusal_on_however_its_body_comes(
    sites: Sites, how: str
) -> None:
    site = open_site(sites(), Answer("page", delay=0.05))
    site.sequence("/0", [UNFINISHED[how], Answer("page")])
    settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 2, "DOWNLOAD_MAXSIZE": 5000, "DOWNLOAD_TIMEOUT": 0.7}
    result = await crawl([site.url(f"/{n}") for n in range(12)], settings)
    (said,) = refused(site)
    early = [seen.path for seen in page_requests(site) if said.at + 0.05 < seen.at < said.at + 1.0]
    assert early == []
    assert_left_alone(site, said, 0.9)  # an answer that was cut off ended for us before it did for the server
    assert len(result.responses) + len(result.errors) == 12
    assert len(result.errors) == (how == "is too long")
    assert result.package_tracebacks == []


async def test_a_connection_that_breaks_in_a_hold_is_not_tried_again_unseen_before_its_end(sites: Sites) -> None:
    """Twisted would send the request again at once over a new connection when a kept one breaks."""
    site = open_site(sites())
    site.default = Answer("page", delay=0.1)
    site.answer("/later", later(1, delay=0.1))
    site.sequence("/breaks", [replace(closed(), delay=0.3), Answer("page")])

    class Warm(Spider):
        name = "warm"

        async def start(self) -> AsyncIterator[Any]:
            for path in ("/0", "/1"):
                yield Request(site.url(path))
            await sleep(0.3)
            for path in ("/breaks", "/later"):
                yield Request(site.url(path), meta={"dont_retry": path == "/later"})

        def parse(self, response: Any) -> None:
            pass

    await crawl(Warm)
    assert_left_alone(site, refused(site)[0], 1.0)
    assert len(site.requests("/breaks")) == 2


async def test_a_burst_of_refusals_is_one_incident_and_takes_no_request_with_it(sites: Sites) -> None:
    (site,) = sites.named("a.test")
    open_site(site)
    together = threading.Barrier(8, timeout=5)
    left = [8]
    lock = threading.Lock()

    def answer(seen: Seen) -> Answer:
        with lock:
            first = left[0] > 0
            left[0] -= 1
        if first:
            together.wait()
        return later(None) if first else Answer("page")

    site.default = answer
    waits = {"SCOUR_RETRY_WAITS": [0.4, 30], "RETRY_TIMES": 1}
    result = await crawl([site.url(f"/{n}") for n in range(20)], waits)
    assert len(refused(site)) == 8
    assert_left_alone(site, max(refused(site), key=lambda seen: seen.ended or 0), 0.4)
    assert len(result.responses) == 20
    assert {page.status for page in result.responses} == {200}
    assert result.stats["scour/hold/retry_wait"] == 1
    assert sorted(page.meta.get("retry_times", 0) for page in result.responses) == [*[0] * 19, 1]
    assert result.elapsed < 10
    assert result.package_tracebacks == []


class Window:
    """A server's limit: so many requests in each window; past that 429 with the whole seconds that are left."""

    def __init__(self, seconds: float, most: int) -> None:
        self.seconds, self.most = seconds, most
        self.began = -1e9
        self.count = 0
        self.lock = threading.Lock()
        self.refusals: list[int] = []

    def __call__(self, seen: Seen) -> Answer:
        with self.lock:
            now = time.monotonic()
            if now - self.began >= self.seconds:
                self.began, self.count = now, 0
                self.refusals.append(0)
            self.count += 1
            if self.count <= self.most:
                return Answer("page")
            self.refusals[-1] += 1
            left = self.began + self.seconds - now
            return later(int(left) + 1)


@pytest.mark.parametrize("concurrency", [2, 8])
async def test_a_window_that_counts_down_sees_few_refusals_and_serves_every_page(
    sites: Sites, concurrency: int
) -> None:
    (site,) = sites.named("a.test")
    open_site(site)
    window = site.default = Window(1.0, 4)
    result = await crawl(
        [site.url(f"/{n}") for n in range(10)], {"CONCURRENT_REQUESTS_PER_DOMAIN": concurrency, "RETRY_TIMES": 1}
    )
    assert len(result.responses) == 10
    assert {page.status for page in result.responses} == {200}
    assert len(window.refusals) >= 3
    assert max(window.refusals) <= (2 if concurrency == 2 else concurrency)  # what was in flight, and no more
    assert result.package_tracebacks == []


@pytest.mark.parametrize("value", ["0", "-3", "soon", None])
async def test_a_host_that_refuses_for_ever_without_a_usable_time_is_given_up_and_the_others_go_on(
    sites: Sites, value: str | None
) -> None:
    a, b = sites.named("a.test", "b.test")
    open_site(a)
    open_site(b)
    a.default = later(value)
    urls = [site.url(f"/{n}") for n in range(50) for site in ((a, b) if n < 10 else (b,))]
    # AutoThrottle, which is not told of refusals, is no way around the waits.
    auto = {"AUTOTHROTTLE_ENABLED": True, "AUTOTHROTTLE_START_DELAY": 0.01} if value == "-3" else {}
    result = await crawl(urls, {"SCOUR_RETRY_WAITS": [0.2, 0.4], "RETRY_TIMES": 2, **auto})
    assert result.finish_reason == "finished"
    assert sorted(url for url in result.urls() if url.startswith(b.url(""))) == sorted(
        b.url(f"/{n}") for n in range(50)
    )
    # The waits grow, nothing comes in between, and it ends: a burst, a probe, another probe.
    seen = page_requests(a)
    # What was on its way when the site first said so may arrive late on a busy machine, within the first wait.
    burst = [one for one in seen if one.at < (seen[0].ended or 0) + 0.2 - SLACK]
    assert len(burst) <= 8
    assert len(seen) == len(burst) + 2
    assert seen[-2].at - (burst[-1].ended or 0) >= 0.2 - SLACK
    assert seen[-1].at - (seen[-2].ended or 0) >= 0.4 - SLACK
    # Each of the ten ends exactly once: an answer that says so, or the refusal.
    ends = [failed for failed in result.errors if failed.url.startswith(a.url(""))]
    assert len(ends) == len({failed.url for failed in ends}) == 10
    assert any(isinstance(failed.error, RateLimited) for failed in ends)
    assert result.stats["scour/hosts_given_up"] == 1
    assert result.stats["scour/outcome/rate_limited"] == 10
    assert result.package_tracebacks == []


FAR_DATE = formatdate(time.time() + 3e8, usegmt=True)


@pytest.mark.parametrize("value", ["3600", "1" + "0" * 30, FAR_DATE], ids=["an hour", "no number", "a date"])
async def test_longer_than_the_maximum_is_never_asked_earlier_and_the_run_ends(sites: Sites, value: str) -> None:
    a, b = sites.named("a.test", "b.test")
    open_site(a)
    open_site(b)
    a.page("/r", "later", 429, headers={"Retry-After": value})
    requests = [Request(a.url("/r"), priority=1), *(Request(a.url(f"/{n}")) for n in range(12)), Request(b.url("/"))]
    result = await crawl(requests, {"CONCURRENT_REQUESTS_PER_DOMAIN": 1})
    assert [seen.path for seen in page_requests(a)] == ["/r"]
    assert b.url("/") in result.urls()
    assert [type(failed.error) for failed in result.errors if failed.url != a.url("/r")] == [RateLimited] * 12
    assert result.finish_reason == "finished"
    assert result.stats["scour/hosts_given_up"] == 1
    assert result.stats["scour/outcome/rate_limited"] == 13
    assert result.package_tracebacks == []


async def test_over_the_maximum_the_spider_stops_where_that_is_asked_for(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    open_site(a)
    open_site(b, Answer("page", delay=0.1))
    a.page("/r", "later", 503, headers={"Retry-After": "3600"})
    urls = [a.url("/r"), *(site.url(f"/{n}") for n in range(40) for site in (a, b))]
    settings = {"SCOUR_RETRY_AFTER_OVER_MAX": "spider", "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    result = await crawl(urls, settings)
    assert result.finish_reason == "scour_rate_limited"
    assert [seen.path for seen in page_requests(a)] == ["/r"]
    assert len(page_requests(b)) < 10
    assert any("the crawl stops" in text for text in result.messages())
    assert result.package_tracebacks == []


class Media(Spider):
    """Fetches media of one host beside its pages; keeps what came of each."""

    name = "media"
    page = ""
    media: list[str]

    async def start(self) -> AsyncIterator[Any]:
        self.ends: dict[str, Any] = {}
        yield Request(self.page, self.parse)

    async def parse(self, response: Any) -> None:
        import asyncio

        await asyncio.gather(*map(self.fetch, self.media))

    async def fetch(self, url: str) -> None:
        try:
            self.ends[url] = (await self.crawler.engine.download_async(Request(url))).status
        except Exception as error:
            self.ends[url] = error


async def test_requests_that_wait_in_the_downloader_fail_as_soon_as_their_host_is_given_up(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    a.robots("User-agent: *\nCrawl-delay: 0.2\n")
    a.default = Answer("page")
    a.page("/m1", "later", 429, headers={"Retry-After": "86400"})
    open_site(b)
    media = [a.url("/m1"), *(a.url(f"/m{n}") for n in range(2, 8))]
    result = await crawl(
        Media, {"SCOUR_MAX_REQUESTS_PER_DOMAIN": 100}, spider_args={"page": b.url("/"), "media": media}
    )
    ends = result.spider.ends  # type: ignore[union-attr]
    assert ends.pop(a.url("/m1")) == 429
    assert [type(end) for end in ends.values()] == [RateLimited] * 6
    assert [seen.path for seen in page_requests(a)] == ["/m1"]
    assert result.finish_reason == "finished"
    assert result.elapsed < 5
    assert result.package_tracebacks == []


async def test_a_media_request_that_is_refused_for_rate_holds_the_host_and_is_tried_again(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    open_site(a)
    open_site(b)
    a.sequence("/m1", [later(None), Answer("image")])
    media = [a.url(f"/m{n}") for n in range(1, 12)]
    result = await crawl(
        Media,
        {"SCOUR_RETRY_WAITS": [0.4], "CONCURRENT_REQUESTS_PER_DOMAIN": 1},
        spider_args={"page": b.url("/"), "media": media},
    )
    assert_left_alone(a, refused(a)[0], 0.4)
    assert set(result.spider.ends.values()) == {200}  # type: ignore[union-attr]
    assert len(result.spider.ends) == 11  # type: ignore[union-attr]
    assert result.package_tracebacks == []


async def test_a_crawl_delay_and_a_hold_do_not_reset_each_other(sites: Sites) -> None:
    (site,) = sites.named("a.test")
    site.robots("User-agent: *\nCrawl-delay: 0.25\n")
    site.default = Answer("page")
    site.sequence("/1", [later(None), Answer("page")])
    result = await crawl([site.url(f"/{n}") for n in range(3)], {"SCOUR_RETRY_WAITS": [0.6]})
    assert len(result.responses) == 3
    assert min(site.gaps()) >= 0.25 - SLACK
    assert_left_alone(site, refused(site)[0], 0.6)
    assert result.package_tracebacks == []


@pytest.mark.parametrize("probe", ["breaks", "is dropped", "is refused again"])
async def test_a_probe_that_comes_to_nothing_does_not_stop_the_host(sites: Sites, probe: str) -> None:
    (site,) = sites.named("a.test")
    open_site(site)
    answers: dict[str, list[Answer]] = {
        "breaks": [later(None), closed(), Answer("page")],
        "is dropped": [later(None), Answer("page")],
        "is refused again": [later(None), later(None), Answer("page")],
    }
    site.sequence("/r", answers[probe])
    requests = [
        Request(site.url("/r"), priority=1000),
        *(Request(site.url(f"/{n}")) for n in range(9)),
    ]
    settings: dict[str, Any] = {"SCOUR_RETRY_WAITS": [0.3], "RETRY_TIMES": 3, "CONCURRENT_REQUESTS_PER_DOMAIN": 2}
    if probe == "is dropped":
        settings["DOWNLOADER_MIDDLEWARES"] = {DropOnRetry: 700}
    result = await crawl(requests, settings)
    assert result.finish_reason == "finished"
    assert len(result.responses) == (9 if probe == "is dropped" else 10)
    assert result.package_tracebacks == []


class DropOnRetry:
    """Drops a request that is tried again, after the robots check and before the downloader."""

    def process_request(self, request: Request) -> None:
        from scrapy.exceptions import IgnoreRequest

        if request.meta.get("retry_times"):
            raise IgnoreRequest("dropped by the project")


@pytest.mark.parametrize("failing", [Answer("broken", 500), closed(), hang()])
async def test_backoff_doubles_for_other_failures_and_a_good_answer_forgives(sites: Sites, failing: Answer) -> None:
    (site,) = sites.named("a.test")
    open_site(site)
    site.sequence("/r", [failing, failing, Answer("page"), failing, Answer("page")])
    request = Request(site.url("/r"), meta={"download_timeout": 0.2}, dont_filter=True)
    settings = {"SCOUR_RETRY_BACKOFF": 0.2, "RETRY_TIMES": 3}
    result = await crawl(Twice, settings, spider_args={"request": request})
    waits = gaps(page_requests(site))
    assert len(waits) == 4
    for wait, least in zip(waits, [0.2, 0.4, -1.0, 0.2], strict=True):
        assert wait >= least - SLACK
    assert waits[3] < 0.39  # forgiven: not 0.8, nor 0.4
    assert result.stats["scour/hold/backoff"] == 3
    assert result.package_tracebacks == []


class Twice(Spider):
    name = "twice"
    request: Request

    async def start(self) -> AsyncIterator[Any]:
        yield self.request.replace(callback=self.again)

    def again(self, response: Any) -> Any:
        yield self.request.replace(callback=self.nothing)

    def nothing(self, response: Any) -> None:
        pass


async def test_no_backoff_for_what_is_not_retried_and_none_by_default(sites: Sites) -> None:
    (site,) = sites.named("a.test")
    open_site(site)
    site.page("/gone", "gone", 404)
    site.page("/big", b"x" * 2000)
    site.page("/broken", "broken", 500)
    urls: list[str | Request] = [
        site.url("/gone"),
        Request(site.url("/big"), meta={"download_maxsize": 1000}),
        Request(site.url("/broken"), meta={"dont_retry": True}),
    ]
    result = await crawl(urls, {"SCOUR_RETRY_BACKOFF": 30})
    assert result.elapsed < 5
    assert "scour/hold/backoff" not in result.stats
    default = await crawl([site.url("/broken")])
    assert len(site.requests("/broken")) == 3
    assert "scour/hold/backoff" not in default.stats
    assert default.package_tracebacks == result.package_tracebacks == []


# The adaptive throttle


async def throttled(site: Site, settings: dict[str, Any], paths: list[str]) -> tuple[list[Seen], list[float], Result]:
    """Requests after robots.txt, and the wait before each, with the throttle on."""
    values = {"SCOUR_THROTTLE_ENABLED": True, "SCOUR_THROTTLE_WAIT_AT_LEAST": 0.05, **settings}
    result = await crawl([site.url(path) for path in paths], values)
    assert result.package_tracebacks == []
    return page_requests(site), gaps(site.log), result


@pytest.mark.parametrize(("duration", "requests"), [(0.1, 8), (0.3, 3)])
async def test_the_wait_is_at_least_the_configured_multiple_of_the_last_answers_time(
    sites: Sites, duration: float, requests: int
) -> None:
    site = open_site(sites(), Answer("page", delay=duration))
    between = (MultipleOf(1), MultipleOf(1.5))
    pages, waits, _ = await throttled(
        site, {"SCOUR_THROTTLE_WAIT_BETWEEN": between}, [f"/{n}" for n in range(requests)]
    )
    assert len(pages) == requests
    assert min(waits[1:]) >= duration - SLACK
    assert site.max_in_flight() == 1


def test_the_waits_for_each_duration_lie_within_the_multiples_over_twenty_answers() -> None:
    import random

    from scrapy_scour.policy.pacing import Throttle

    draw = random.Random(5).random
    for duration in (0.1, 0.3, 0.5):
        waits = [Throttle(MultipleOf(1), MultipleOf(2), 0.05, None).wait_s(duration, draw()) for _ in range(20)]
        assert duration <= min(waits) < 1.3 * duration
        assert 1.7 * duration < max(waits) <= 2 * duration


async def test_fixed_waits_and_their_bounds_and_a_larger_crawl_delay(sites: Sites) -> None:
    for settings, robots, least in (
        ({"SCOUR_THROTTLE_WAIT_BETWEEN": [0.2, 0.25]}, "", 0.2),
        ({"SCOUR_THROTTLE_WAIT_AT_LEAST": 0.2}, "", 0.2),
        ({"SCOUR_THROTTLE_WAIT_BETWEEN": [60, 90], "SCOUR_THROTTLE_WAIT_AT_MOST": 0.2}, "", 0.2),
        ({"SCOUR_THROTTLE_WAIT_BETWEEN": [0.05, 0.06]}, "User-agent: *\nCrawl-delay: 0.3\n", 0.3),
        ({"SCOUR_THROTTLE_WAIT_BETWEEN": [0.3, 0.31]}, "User-agent: *\nCrawl-delay: 0.1\n", 0.3),
    ):
        site = open_site(sites())
        site.robots(robots)
        pages, waits, _ = await throttled(site, settings, ["/1", "/2"])
        assert len(pages) == 2
        assert min(waits) >= least - SLACK


async def test_errors_that_come_back_fast_do_not_make_the_crawl_faster(sites: Sites) -> None:
    site = open_site(sites())
    site.page("/slow", "slow", delay=0.4)
    site.page("/broken", "broken", 500)
    site.answer("/closed", closed())
    site.page("/forbidden", "no", 403)
    requests = [
        Request(site.url(path), priority=-n, meta={"dont_retry": True})
        for n, path in enumerate(["/slow", "/broken", "/closed", "/forbidden", "/last"])
    ]
    values = {
        "SCOUR_THROTTLE_ENABLED": True,
        "SCOUR_THROTTLE_WAIT_AT_LEAST": 0.0,
        "SCOUR_THROTTLE_WAIT_BETWEEN": [MultipleOf(1), MultipleOf(1)],
    }
    result = await crawl(requests, values)
    pages = page_requests(site)
    assert [seen.path for seen in pages] == ["/slow", "/broken", "/closed", "/forbidden", "/last"]
    assert min(gaps(pages)) >= 0.4 - SLACK
    assert result.package_tracebacks == []


async def test_each_host_has_a_throttle_of_its_own(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    open_site(a, Answer("page", delay=0.4))
    open_site(b)
    urls = [site.url(f"/{n}") for n in range(2) for site in (a, b)]
    result = await crawl(urls, {"SCOUR_THROTTLE_ENABLED": True, "SCOUR_THROTTLE_WAIT_AT_LEAST": 0.05})
    assert result.package_tracebacks == []
    assert b.requests()[-1].at < a.requests()[2].at  # robots.txt, the first page, the second


SPIDER = """
import scrapy

class One(scrapy.Spider):
    name = "one"
    async def start(self):
        for n in range(3):
            yield scrapy.Request(self.url + str(n))
    def parse(self, response):
        pass
"""


def test_the_throttle_can_be_set_on_the_command_line(sites: Sites, tmp_path: Path) -> None:
    site = open_site(sites(), Answer("page", delay=0.2))
    project = write_project(tmp_path, SPIDER, 'ADDONS = {"scrapy_scour.Addon": 500}\n')
    values = {"SCOUR_THROTTLE_ENABLED": "1", "SCOUR_THROTTLE_WAIT_AT_LEAST": "0.01"}
    run = run_scrapy(
        ["crawl", "one", "-a", f"url={site.url('/')}"], project, {**values, "SCOUR_THROTTLE_WAIT_BETWEEN": "1x,2x"}
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert len(page_requests(site)) == 3
    assert min(gaps(page_requests(site))) >= 0.2 - SLACK
