"""``SCOUR_MAX_REQUESTS_PER_DOMAIN``: exactly so many requests reach a host, whatever they are, and no more."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.exceptions import CloseSpider
from scrapy.utils.reactor import is_asyncio_reactor_installed
from twisted.web.client import HTTPConnectionPool

from scrapy_scour.exceptions import RequestLimitReached
from tests.support.crawl import crawl
from tests.support.site import Answer, Seen, Site, Sites, closed


def open_site(site: Site) -> Site:
    site.robots("User-agent: *\nDisallow: /private\n")
    site.default = Answer("page")
    return site


class Phases(Spider):
    """The first requests, and when each of them has ended, the others."""

    name = "phases"
    first: list[Request]
    then: list[Request]

    async def start(self) -> AsyncIterator[Any]:
        self.left = len(self.first)
        for request in self.first:
            yield request.replace(callback=self.ended, errback=self.ended)

    def ended(self, result: Any) -> Any:
        self.left -= 1
        if not self.left:
            for request in self.then:
                yield request.replace(callback=self.nothing)

    def nothing(self, response: Any) -> None:
        pass


def pages_of(site: Site) -> list[Seen]:
    return [seen for seen in site.requests() if seen.path != "/robots.txt"]


async def test_the_server_sees_exactly_the_limit_under_concurrency_and_other_hosts_all_theirs(sites: Sites) -> None:
    a, b = map(open_site, sites.named("a.test", "b.test"))
    together = threading.Barrier(5, timeout=5)

    def answer(seen: Seen) -> Answer:
        together.wait()  # all of them in flight at once
        return Answer("page")

    a.default = answer
    settings = {
        "SCOUR_MAX_REQUESTS_PER_DOMAIN": 5,
        "CONCURRENT_REQUESTS": 32,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    }
    result = await crawl([*(a.url(f"/{n}") for n in range(100)), *(b.url(f"/{n}") for n in range(5))], settings)
    assert len(pages_of(a)) == 5
    assert len(pages_of(b)) == 5
    assert len(result.responses) == 10
    assert len(result.errors) == 95
    assert {type(failed.error) for failed in result.errors} == {RequestLimitReached}
    assert result.stats["scour/outcome/request_limit"] == 95
    assert result.stats["scour/limit/hosts"] == 1  # of which any was refused
    assert result.finish_reason == "finished"
    assert result.package_tracebacks == []


async def test_stock_has_no_limit(sites: Sites) -> None:
    a = open_site(sites())
    await crawl([a.url(f"/{n}") for n in range(20)], stock=True)
    assert len(pages_of(a)) == 20


async def test_retries_and_hops_count_for_the_host_that_got_them_and_refusals_do_not(sites: Sites) -> None:
    a, b = map(open_site, sites.named("a.test", "b.test"))
    a.page("/broken", "broken", 500)
    a.answer("/closed", closed())
    a.redirect("/r1", "/r2")
    a.redirect("/r2", "/r3")
    a.redirect("/r3", b.url("/landed"))
    first = [Request(a.url(path)) for path in ("/private/1", "/private/2", "/broken", "/closed", "/r1")]
    then = [Request(site.url(f"/{n}")) for site, most in ((a, 10), (b, 20)) for n in range(most)]
    settings = {"SCOUR_MAX_REQUESTS_PER_DOMAIN": 12, "RETRY_TIMES": 2, "CONCURRENT_REQUESTS_PER_DOMAIN": 2}
    result = await crawl(Phases, settings, spider_args={"first": first, "then": then})
    assert len(pages_of(a)) == 12
    assert len(a.requests("/broken")) == 3
    assert len(a.requests("/closed")) == 3
    assert len(pages_of(b)) == 12
    assert len(b.requests("/landed")) == 1
    assert result.stats["scour/outcome/robots_disallowed"] == 2
    assert result.stats["scour/outcome/request_limit"] == (10 - 3) + (21 - 12)
    assert result.package_tracebacks == []


async def test_no_request_is_repeated_unseen_where_a_limit_counts_them(sites: Sites) -> None:
    """Twisted would send it again over a new connection when a kept one breaks, as it does without a limit."""
    site = open_site(sites())
    site.answer("/closed", closed())
    said = []
    for settings, made in (({"SCOUR_MAX_REQUESTS_PER_DOMAIN": 5}, 1), ({}, 2)):
        site.log.clear()
        result = await crawl([site.url("/closed")], {**settings, "RETRY_TIMES": 0})
        assert len(pages_of(site)) == made
        said.append(str(result.errors[0].error))
    assert said[0] == said[1]  # why the connection broke, not that it was not repeated


async def test_what_goes_through_a_plain_proxy_is_never_repeated_unseen(sites: Sites) -> None:
    """The pool keeps its connections by the proxy: whose host it would be is not known there."""
    proxy = sites("127.0.0.3")
    proxy.default = Answer("page")
    proxy.answer("http://far.test/closed", closed())
    meta = {"proxy": proxy.url("")}
    result = await crawl([Request("http://far.test/closed", meta=meta)], {"RETRY_TIMES": 0})
    assert proxy.paths() == ["http://far.test/robots.txt", "http://far.test/closed"]
    assert result.stats["scour/outcome/connection"] == 1
    proxy.log.clear()
    await crawl([Request("http://far.test/closed", meta=meta)], {"RETRY_TIMES": 2})
    assert proxy.paths().count("http://far.test/closed") == 3


async def test_what_goes_to_a_service_is_never_repeated_unseen(sites: Sites) -> None:
    """The service may be asked at any time; the site whose page it gets may not."""
    service, site = sites.named("service.test", "a.test")
    site.robots("User-agent: *\nCrawl-delay: 0.2\n")
    service.default = Answer("page")
    service.answer("/get?2", closed())
    requests = [Request(service.url(f"/get?{number}"), meta={"scour_url": site.url(f"/{number}")}) for number in (1, 2)]
    result = await crawl(requests, {"RETRY_TIMES": 0})
    assert [seen.path for seen in service.log] == ["/get?1", "/get?2"]
    assert result.stats["scour/outcome/connection"] == 1


class OwnPool(HTTPConnectionPool):
    """A pool that makes new connections itself."""

    def getConnection(self, key: Any, endpoint: Any) -> Any:
        return (
            super().getConnection(key, endpoint) if self._connections.get(key) else self._newConnection(key, endpoint)
        )


class OwnHandler(HTTP11DownloadHandler):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._pool.__class__ = OwnPool


async def test_a_pool_of_the_projects_own_connects_and_repeats_nothing(sites: Sites) -> None:
    site = open_site(sites())
    site.answer("/closed", closed())
    settings = {"DOWNLOAD_HANDLERS": {"http": OwnHandler}, "RETRY_TIMES": 0}
    for more in ({"SCOUR_MAX_REQUESTS_PER_DOMAIN": 5}, {}):
        site.log.clear()
        result = await crawl([site.url("/1"), site.url("/2"), site.url("/closed")], {**settings, **more})
        assert len(pages_of(site)) == 3
        assert len(result.responses) == 2


async def test_aiohttp_repeats_nothing_unseen_either(sites: Sites) -> None:
    """Its session would, too; a delay and a limit are the site's to see."""
    if not is_asyncio_reactor_installed():
        pytest.skip("needs asyncio")
    pytest.importorskip("aiohttp")
    pytest.importorskip("scrapy.core.downloader.handlers._aiohttp")
    handler = "scrapy.core.downloader.handlers._aiohttp.AiohttpDownloadHandler"
    site = sites()
    site.robots("User-agent: *\nCrawl-delay: 0.2\n")
    site.default = closed()
    settings = {"SCOUR_MAX_REQUESTS_PER_DOMAIN": 3, "DOWNLOAD_HANDLERS": {"http": handler}, "RETRY_TIMES": 0}
    result = await crawl([site.url(f"/{n}") for n in range(5)], settings)
    assert len(pages_of(site)) == 3
    assert min(site.gaps()) >= 0.18
    assert result.package_tracebacks == []


async def test_what_the_cache_answers_does_not_count(sites: Sites, tmp_path: Path) -> None:
    site = open_site(sites())
    settings = {
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": str(tmp_path),
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
    }
    await crawl([site.url(f"/{n}") for n in range(5)], settings)
    assert len(pages_of(site)) == 5
    site.log.clear()
    result = await crawl([site.url(f"/{n}") for n in range(10)], {**settings, "SCOUR_MAX_REQUESTS_PER_DOMAIN": 3})
    assert len(pages_of(site)) == 3
    assert len(result.responses) == 8
    assert result.stats["scour/outcome/request_limit"] == 2
    assert result.package_tracebacks == []


class Media(Spider):
    name = "media"
    urls: list[str]

    async def start(self) -> AsyncIterator[Any]:
        self.ends: list[int | BaseException] = []
        yield Request(self.urls[0], self.parse)

    async def parse(self, response: Any) -> None:
        for url in self.urls[1:]:
            await self.fetch(url)

    async def fetch(self, url: str) -> None:
        try:
            self.ends.append((await self.crawler.engine.download_async(Request(url))).status)
        except RequestLimitReached as error:
            self.ends.append(error)


async def test_media_requests_count_too(sites: Sites) -> None:
    site = open_site(sites())
    result = await crawl(
        Media, {"SCOUR_MAX_REQUESTS_PER_DOMAIN": 3}, spider_args={"urls": [site.url(f"/{n}") for n in range(6)]}
    )
    assert len(pages_of(site)) == 3
    ends = result.spider.ends  # type: ignore[union-attr]
    assert ends[:2] == [200, 200]
    assert [type(end) for end in ends[2:]] == [RequestLimitReached] * 3
    assert result.package_tracebacks == []


class StopAfter(Spider):
    """Stops the crawl by itself after so many pages; 0: never."""

    name = "stop"
    urls: list[str]
    after = 0

    async def start(self) -> AsyncIterator[Any]:
        self.pages = 0
        for url in self.urls:
            yield Request(url, self.parse)

    def parse(self, response: Any) -> None:
        self.pages += 1
        if self.pages == self.after:
            raise CloseSpider("stopped by the test")


@pytest.mark.parametrize("spelling", ["a.test", "A.test."])
async def test_a_resumed_crawl_goes_on_counting(sites: Sites, tmp_path: Path, spelling: str) -> None:
    (site,) = sites.named("a.test")
    open_site(site)
    site.default = Answer("page", delay=0.05)
    urls = [f"http://{spelling}:{site.port}/{n}" for n in range(30)]
    settings = {"SCOUR_MAX_REQUESTS_PER_DOMAIN": 10, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    first = await crawl(StopAfter, settings, jobdir=tmp_path / "job", spider_args={"urls": urls, "after": 4})
    made = len(pages_of(site))
    assert 4 <= made < 10
    assert first.finish_reason == "stopped by the test"
    second = await crawl(StopAfter, settings, jobdir=tmp_path / "job", spider_args={"urls": urls})
    assert len(pages_of(site)) == 10
    assert second.spider.pages == 10 - made  # type: ignore[union-attr]
    assert second.finish_reason == "finished"
    assert first.package_tracebacks == second.package_tracebacks == []
