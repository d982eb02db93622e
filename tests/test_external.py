"""External fetchers go by the crawl's policy and the host's clock; services asked by URL go by the real site's."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final
from urllib.parse import quote

import pytest
from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.threads import deferToThread

from scrapy_scour import FailureCategory as Category
from scrapy_scour import PoliteFetcher, failure_category
from scrapy_scour.exceptions import (
    CrawlDelayTooLong,
    Outcome,
    OutOfScope,
    PolicyCheckFailed,
    RateLimited,
    RequestLimitReached,
    RobotsDisallowed,
    RobotsUnreachable,
)
from scrapy_scour.permission import Permission
from tests.support.crawl import Result, crawl, sleep
from tests.support.site import Answer, Seen, Site, Sites, gaps

#: Less than a clock may be off, seconds.
SLACK: Final = 0.02


def get(url: str) -> str:
    """Fetch a page by other means than Scrapy's."""
    from urllib.request import urlopen

    with urlopen(url, timeout=10) as answer:
        body: bytes = answer.read()
        return body.decode()


async def provider(url: str) -> str:
    """A client of a rendering service, as far as the site can tell. The names of tests lead to loopback."""
    from tests.support import resolver

    for name, address in resolver.NAMES.items():
        url = url.replace(f"//{name}:", f"//{address}:")
    page: str = await maybe_deferred_to_future(deferToThread(get, url))
    return page


class Calls:
    """A provider that fetches nothing and notes what it was asked."""

    def __init__(self, takes: float = 0.0, raises: BaseException | None = None, gives: Any = "rendered") -> None:
        self.urls: list[str] = []
        self.times: list[tuple[float, float]] = []
        self.takes = takes
        self.raises = raises
        self.gives = gives

    async def __call__(self, url: str) -> Any:
        began = time.monotonic()
        self.urls.append(url)
        await sleep(self.takes)
        self.times.append((began, time.monotonic()))
        if self.raises is not None:
            raise self.raises
        return self.gives


async def run(
    body: Callable[[PoliteFetcher], Awaitable[Any]],
    site: Site,
    settings: dict[str, Any] | None = None,
    also: tuple[str, ...] = (),
    domains: tuple[str, ...] | None = None,
) -> tuple[Any, Result]:
    """Run *body* in a callback of a crawl; what it returns, and what came of the crawl."""
    given: list[Any] = []
    first = site.url("/start")
    site.page("/start")

    class External(Spider):
        name = "external"

        async def start(self) -> AsyncIterator[Any]:
            yield Request(first)

        async def parse(self, response: Response) -> AsyncIterator[Request]:
            for url in also:
                yield Request(url, callback=self.done)
            given.append(await body(PoliteFetcher(self.crawler)))

        def done(self, response: Response) -> None:
            pass

    if domains is not None:
        External.allowed_domains = list(domains)  # type: ignore[attr-defined]
    result = await crawl(External, settings)
    assert len(given) == 1, [record.getMessage() for record in result.tracebacks]
    return given[0], result


async def raised(fetching: Awaitable[Any]) -> BaseException:
    """What was raised. (``pytest.raises`` fails with no ordinary exception, and a callback would swallow that.)"""
    try:
        await fetching
    except BaseException as error:
        return error
    raise AssertionError("it was let through")


async def refusal(fetching: Awaitable[Any]) -> Outcome:
    error = await raised(fetching)
    assert isinstance(error, Outcome), error
    return error


async def test_what_is_allowed_is_fetched_and_its_result_comes_back(site: Site) -> None:
    site.robots("User-agent: *\nDisallow: /no\n")
    calls = Calls(gives={"html": "<p>"})
    got, result = await run(lambda fetcher: fetcher.fetch(site.url("/a b"), calls), site)
    assert got is calls.gives
    assert calls.urls == [site.url("/a%20b")]  # as it was judged
    assert site.paths() == ["/robots.txt", "/start"]
    assert result.stats["scour/external/fetches"] == 1
    assert "scour/outcomes" not in result.stats
    assert result.tracebacks == []


async def test_every_refusal_is_raised_and_recorded_and_the_provider_not_called(sites: Sites) -> None:
    site, closed, slow, limited = sites.named("a.test", "b.test", "c.test", "d.test")
    site.robots("User-agent: *\nDisallow: /no\n\nUser-agent: renderer\nDisallow: /render\n")
    closed.robots("", status=503)
    slow.robots("User-agent: *\nCrawl-delay: 99\n")
    calls = Calls()
    rows: list[tuple[str, dict[str, Any], type[Outcome], Category]] = [
        (site.url("/no"), {}, RobotsDisallowed, Category.ROBOTS_DISALLOWED),
        (site.url("/render"), {"user_agent": "renderer/2"}, RobotsDisallowed, Category.ROBOTS_DISALLOWED),
        (closed.url("/x"), {}, RobotsUnreachable, Category.ROBOTS_UNREACHABLE),
        (slow.url("/x"), {}, CrawlDelayTooLong, Category.CRAWL_DELAY_TOO_LONG),
        ("http://elsewhere.test/x", {}, OutOfScope, Category.OUT_OF_SCOPE),
        ("ftp://a.test/x", {}, PolicyCheckFailed, Category.OTHER),
        ("/relative", {}, PolicyCheckFailed, Category.OTHER),
        ("http:///x", {}, PolicyCheckFailed, Category.OTHER),
        ("", {}, PolicyCheckFailed, Category.OTHER),
    ]

    async def body(fetcher: PoliteFetcher) -> list[Outcome]:
        refusals = [await refusal(fetcher.fetch(url, calls, **options)) for url, options, _, _ in rows]
        for n in range(2):
            await fetcher.fetch(limited.url(f"/{n}"), calls)
        refusals.append(await refusal(fetcher.fetch(limited.url("/2"), calls)))
        fetcher.hold(limited.url("/"), 9999)
        refusals.append(await refusal(fetcher.fetch(limited.url("/3"), calls)))
        await fetcher.fetch(site.url("/render"), calls)  # our own agent may
        return refusals

    settings = {"SCOUR_CRAWL_DELAY_MAX": 5, "SCOUR_MAX_REQUESTS_PER_DOMAIN": 2, "RETRY_TIMES": 0}
    refusals, result = await run(body, site, settings, domains=("a.test", "b.test", "c.test", "d.test"))
    expected = [row[2:] for row in rows]
    expected += [(RequestLimitReached, Category.REQUEST_LIMIT), (RateLimited, Category.RATE_LIMITED)]
    assert [(type(error), error.category) for error in refusals] == expected
    assert [error.url for error in refusals[:5]] == [row[0] for row in rows[:5]]
    assert calls.urls == [limited.url("/0"), limited.url("/1"), site.url("/render")]
    counted = {str(category): [c for _, c in expected].count(category) for _, category in expected}
    assert {key: n for key, n in result.stats.items() if key.startswith("scour/outcome/")} == {
        f"scour/outcome/{category}": n for category, n in counted.items()
    }
    assert result.stats["scour/outcomes"] == len(expected)
    assert result.stats["scour/external/fetches"] == 3
    assert result.package_tracebacks == []


async def test_a_check_that_breaks_is_a_refusal(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls()

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("a fault of ours")

    async def body(fetcher: PoliteFetcher) -> Outcome:
        monkeypatch.setattr(Permission, "origin_of", broken)
        try:
            return await refusal(fetcher.fetch(site.url("/x"), calls))
        finally:
            monkeypatch.undo()

    error, result = await run(body, site)
    assert isinstance(error, PolicyCheckFailed)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert calls.urls == []
    assert result.stats["scour/outcome/other"] == 1


async def test_provider_and_ordinary_requests_share_the_hosts_clock(site: Site) -> None:
    site.robots("User-agent: *\nCrawl-delay: 0.2\n")
    site.route("/*", lambda seen: Answer("page", delay=0.1))
    urls = [site.url(f"/p{n}") for n in range(2)]

    async def body(fetcher: PoliteFetcher) -> list[str]:
        return [await fetcher.fetch(site.url(f"/x{n}"), provider) for n in range(2)]

    pages, result = await run(body, site, also=tuple(urls))
    assert pages == ["page", "page"]
    assert {seen.path for seen in site.log} >= {"/p0", "/p1", "/x0", "/x1"}
    assert min(gaps(site.log)) >= 0.2 - SLACK
    assert site.max_in_flight() == 1
    assert result.tracebacks == []


async def test_providers_called_at_once_take_turns(site: Site) -> None:
    site.robots("User-agent: *\nCrawl-delay: 0.2\n")
    calls = Calls(takes=0.1)

    async def body(fetcher: PoliteFetcher) -> None:
        await together(*(fetcher.fetch(site.url(f"/{n}"), calls) for n in range(3)))

    await run(body, site)
    seen = [Seen(began, "GET", "/", ended=ended) for began, ended in calls.times]
    assert len(seen) == 3
    assert min(gaps(seen)) >= 0.2 - SLACK


async def together(*waiting: Awaitable[Any]) -> list[Any]:
    from scrapy_scour import compat

    return [await maybe_deferred_to_future(one) for one in [compat.schedule(as_coroutine(one)) for one in waiting]]


async def as_coroutine(one: Awaitable[Any]) -> Any:
    return await one


async def test_the_users_delay_and_concurrency_hold_for_providers_too(site: Site) -> None:
    calls = Calls(takes=0.1)

    async def body(fetcher: PoliteFetcher) -> None:
        await together(*(fetcher.fetch(site.url(f"/{n}"), calls) for n in range(4)))

    await run(body, site, {"CONCURRENT_REQUESTS_PER_DOMAIN": 2})
    moments = sorted([(began, 1) for began, _ in calls.times] + [(ended, -1) for _, ended in calls.times])
    running = most = 0
    for _, step in moments:
        running += step
        most = max(most, running)
    assert most == 2

    calls = Calls()
    await run(body_of(site, lambda: calls), site, {"DOWNLOAD_DELAY": 0.3})
    began = sorted(start for start, _ in calls.times)
    # Scrapy's own delay, with Scrapy's own jitter.
    assert min(later - earlier for earlier, later in itertools.pairwise(began)) >= 0.15 - SLACK


def body_of(site: Site, calls: Callable[[], Calls]) -> Callable[[PoliteFetcher], Awaitable[Any]]:
    async def body(fetcher: PoliteFetcher) -> None:
        for n in range(3):
            await fetcher.fetch(site.url(f"/{n}"), calls())

    return body


@pytest.mark.parametrize("error", [ValueError("no"), TimeoutError(), asyncio.CancelledError()], ids=repr)
async def test_what_the_provider_raises_comes_through_and_the_host_is_free_again(
    site: Site, error: BaseException
) -> None:
    site.robots("User-agent: *\nCrawl-delay: 0.2\n")
    broken, calls = Calls(raises=error), Calls()

    async def body(fetcher: PoliteFetcher) -> BaseException:
        caught = await raised(fetcher.fetch(site.url("/x"), broken))
        await fetcher.fetch(site.url("/y"), calls)
        return caught

    caught, result = await run(body, site)
    assert caught is error or (type(caught) is type(error) and isinstance(error, asyncio.CancelledError))
    assert len(broken.urls) == len(calls.urls) == 1
    assert calls.times[0][0] - broken.times[0][1] >= 0.2 - SLACK
    assert result.stats[f"scour/outcome/{failure_category(error)}"] == 1 == result.stats["scour/outcomes"]


async def test_a_hold_that_a_provider_learned_of_is_kept_by_all(site: Site) -> None:
    held_at: list[float] = []

    async def body(fetcher: PoliteFetcher) -> None:
        async def limited(url: str) -> str:
            fetcher.hold(url, 0.4)
            held_at.append(time.monotonic())
            return ""

        await fetcher.fetch(site.url("/x"), limited)
        for wrong in (-1, float("nan"), float("inf"), True):
            with pytest.raises(ValueError, match="seconds must be"):
                fetcher.hold(site.url("/"), wrong)
        with pytest.raises(ValueError, match="url must be"):
            fetcher.hold("nowhere", 1)
        await fetcher.fetch(site.url("/y"), provider)

    site.page("/*")
    _, result = await run(body, site, also=(site.url("/p"),))
    after = [seen.at for seen in site.log if seen.path in ("/y", "/p") and seen.at > held_at[0]]
    assert after
    assert min(after) - held_at[0] >= 0.4 - SLACK
    assert result.stats["scour/hold/retry_after"] == 1


async def test_a_response_that_says_later_holds_the_host(site: Site) -> None:
    calls = Calls(gives=Response(site.url("/x"), status=429, headers={"Retry-After": "1"}))
    times: list[float] = []

    async def body(fetcher: PoliteFetcher) -> Any:
        got = await fetcher.fetch(site.url("/x"), calls)
        times.append(time.monotonic())
        await fetcher.fetch(site.url("/y"), provider)
        return got

    site.page("/y")
    got, _ = await run(body, site)
    assert got is calls.gives
    assert site.requests("/y")[0].at - calls.times[0][1] >= 1.0 - SLACK


async def test_a_crawl_that_closes_does_not_wait_for_a_far_turn(site: Site) -> None:
    calls = Calls()

    async def body(fetcher: PoliteFetcher) -> Outcome:
        fetcher.hold(site.url("/"), 50)
        return await refusal(fetcher.fetch(site.url("/x"), calls))

    error, result = await run(body, site, {"CLOSESPIDER_TIMEOUT": 1})
    assert isinstance(error, PolicyCheckFailed)
    assert "closing" in error.reason
    assert calls.urls == []
    assert result.elapsed < 10


async def test_giving_up_waiting_is_no_download(site: Site) -> None:
    site.robots("User-agent: *\nCrawl-delay: 0.3\n")
    calls = Calls()

    async def body(fetcher: PoliteFetcher) -> None:
        from scrapy_scour import compat

        await fetcher.fetch(site.url("/first"), calls)
        waiting = compat.schedule(fetcher.fetch(site.url("/second"), calls))
        waiting.addErrback(lambda _: None)
        await sleep(0.1)
        waiting.cancel()
        await fetcher.fetch(site.url("/third"), calls)

    await run(body, site)
    assert calls.urls == [site.url("/first"), site.url("/third")]
    assert site.paths() == ["/robots.txt", "/start"]


# Rendering services that are asked by URL


def through(service: Site, url: str, **meta: Any) -> Request:
    return Request(service.url(f"/render?url={quote(url, safe='')}"), meta={"scour_url": url, **meta})


async def test_robots_scope_and_limit_follow_the_real_site_and_the_service_is_exempt(sites: Sites) -> None:
    site, service = sites.named("a.test", "render.test")
    site.robots("User-agent: *\nDisallow: /no\n")
    service.robots("User-agent: *\nDisallow: /\nCrawl-delay: 50\n")
    service.page("/render*", "rendered")
    wanted = [through(service, site.url(path)) for path in ("/1", "/2")]
    refused = [through(service, site.url("/no")), through(service, "http://elsewhere.test/x")]
    last = through(service, site.url("/3")).replace(priority=-1)
    result = await crawl([*wanted, *refused, last], {"SCOUR_MAX_REQUESTS_PER_DOMAIN": 2}, domains=["a.test"])
    assert site.paths() == ["/robots.txt"]
    assert sorted(service.paths()) == sorted(request.url.replace(service.url(""), "") for request in wanted)
    assert sorted(result.urls()) == sorted(request.url for request in wanted)
    assert isinstance(result.error(refused[0].url), RobotsDisallowed)
    assert isinstance(result.error(last.url), RequestLimitReached)
    kept = {key: n for key, n in result.stats.items() if key.startswith("scour/outcome/")}
    assert kept == {
        "scour/outcome/robots_disallowed": 1,
        "scour/outcome/out_of_scope": 1,
        "scour/outcome/request_limit": 1,
    }


async def test_the_real_sites_pace_is_kept_and_that_of_another_is_not(sites: Sites) -> None:
    slow, fast, service = sites.named("a.test", "b.test", "render.test")
    slow.robots("User-agent: *\nCrawl-delay: 0.3\n")
    service.page("/render*", "rendered")
    slow.page("/direct")
    requests = [through(service, slow.url(f"/{n}")) for n in range(3)]
    requests += [through(service, fast.url(f"/{n}")) for n in range(20)]
    result = await crawl([*requests, Request(slow.url("/direct"))])
    assert len(result.responses) == 24
    of_slow = [seen for seen in service.log if "a.test" in seen.path] + slow.requests("/direct")
    assert len(of_slow) == 4
    assert min(gaps(of_slow)) >= 0.3 - SLACK
    of_fast = [seen.at for seen in service.log if "b.test" in seen.path]
    assert max(of_fast) - min(of_fast) < 0.9  # three waits of the slow one


async def test_stock_asks_the_service_for_its_robots_txt(sites: Sites) -> None:
    site, service = sites.named("a.test", "render.test")
    site.robots("User-agent: *\nDisallow: /no\n")
    service.page("/render*", "rendered")
    result = await crawl([through(service, site.url("/no"))], stock=True)
    assert site.log == []
    assert service.paths()[0] == "/robots.txt"
    assert len(result.responses) == 1


async def test_a_redirect_of_the_service_is_handed_back(sites: Sites) -> None:
    site, service, other = sites.named("a.test", "render.test", "b.test")
    service.redirect("/render*", other.url("/x"))
    result = await crawl([through(service, site.url("/1"), handle_httpstatus_list=[302])])
    assert [page.status for page in result.responses] == [302]
    assert other.log == []


@pytest.mark.parametrize("real", ["", "nonsense", "ftp://a.test/x", "http:///x", 5, ["http://a.test/"], None])
async def test_a_real_url_that_names_no_site_refuses_the_request(sites: Sites, real: Any) -> None:
    (service,) = sites.named("render.test")
    url = service.url("/render")
    result = await crawl([Request(url, meta={"scour_url": real})])
    assert service.log == []
    assert result.stats["scour/outcome/other"] == 1 == result.stats["scour/outcomes"]
    assert result.package_tracebacks == []
