"""The job's boundary in real crawls: what is outside it is neither queued nor contacted, and the crawl says so."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider, signals
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.http import Response
from scrapy.pipelines.files import FilesPipeline
from scrapy.utils.defer import deferred_from_coro
from twisted.python.failure import Failure

from scrapy_scour.exceptions import OutOfScope, SettingsError
from tests.support.crawl import Requests, Result, crawl, run_scrapy, write_project
from tests.support.site import Site, Sites

PROJECT = 'ADDONS = {"scrapy_scour.Addon": 500}\n'


def refresh(url: str, head: str = "", seconds: str = "0") -> str:
    return f'<html><head>{head}<meta http-equiv="refresh" content="{seconds};url={url}"></head><body>x</body></html>'


def touched(site: Site) -> bool:
    """Whether anything at all came to the site, be it only a connection."""
    return bool(site.connections or site.log)


# Hops


def lay_ways_out(a: Site, b: Site) -> list[str]:
    """Pages of ``a`` that lead to ``b``, each in another way."""
    for status in (301, 302, 303, 307, 308):
        a.redirect(f"/{status}", b.url(f"/from-{status}"), status)
    a.redirect("/slashes", f"///{b.netloc}/from-slashes")
    a.page("/refresh", refresh(b.url("/from-refresh")))
    a.page("/later", refresh(b.url("/from-later"), seconds="60"))
    based = f'<base href="//{b.netloc}/">'
    a.page("/base", refresh("from-base", head=based))
    a.page("/turned", f"<head>{based}<meta content='0;url=from-turned' http-equiv=refresh></head>")
    return ["301", "302", "303", "307", "308", "slashes", "refresh", "later", "base", "turned"]


async def test_nothing_at_all_is_sent_to_the_host_of_a_hop_out_of_scope(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    ways = lay_ways_out(a, b)
    a.redirect("/unknown", "http://b.example/")  # the test's resolver fails a crawl that as much as asks for it
    a.page("/noscript", f"<noscript>{refresh(b.url('/x'))}</noscript>")
    # Both as start() yields them, past the duplicate filter, and as links are.
    starts = [Request(a.url(f"/{way}"), dont_filter=filtered) for way in ways for filtered in (True, False)]
    result = await crawl([*starts, a.url("/unknown"), a.url("/noscript")], domains=["a.test"])
    assert not touched(b)
    assert isinstance(result.error(a.url("/unknown")), OutOfScope)
    assert result.urls() == [a.url("/noscript")]
    for way in ways:
        refusals = [failed.error for failed in result.errors if failed.url == a.url(f"/{way}")]
        assert len(refusals) == 2
        for refusal in refusals:
            assert isinstance(refusal, OutOfScope)
            assert refusal.url == a.url(f"/{way}")
            assert refusal.trail == (a.url(f"/{way}"), b.url(f"/from-{way}"))
            assert "redirect 1 " in refusal.reason
            assert "'b.test' is not in allowed_domains" in refusal.reason
    assert result.stats["scour/outcome/out_of_scope"] == 2 * len(ways) + 1
    assert "scour/redirect/hops" not in result.stats
    assert result.finish_reason == "finished"  # one start request had a page
    assert result.tracebacks == []


async def test_stock_follows_a_start_request_out_of_its_domains(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    lay_ways_out(a, b)
    b.page("/from-*", "landed")
    b.robots("User-agent: *\nDisallow: /")
    result = await crawl([a.url("/302"), a.url("/base")], domains=["a.test"], stock=True)
    assert set(b.paths()) == {"/from-302", "/from-base"}
    assert len(result.responses) == 2


async def test_the_refusal_tells_the_way_and_how_many_hops_it_took(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    a.redirect("/1", "/2")
    a.page("/2", refresh("/3"))
    a.redirect("/3", b.url("/4"), 307)
    result = await crawl([a.url("/1")], domains=["a.test"])
    refusal = result.error(a.url("/3"))
    assert isinstance(refusal, OutOfScope)
    assert refusal.trail == (a.url("/1"), a.url("/2"), a.url("/3"), b.url("/4"))
    assert "redirect 3 " in refusal.reason
    assert not touched(b)
    assert result.stats["scour/redirect/hops"] == 2


async def test_a_seed_that_moved_opens_nothing_behind_it(sites: Sites) -> None:
    """The seed leads to a sister site whose links lead to a third one: neither is asked for anything."""
    a, sister, third = sites.named("a.test", "www.a-group.test", "linked.test")
    a.redirect("/", sister.url("/"), 301)
    a.page("/2", "page")
    sister.page("/", f"<a href='{third.url('/')}'>out</a> <a href='{a.url('/2')}'>back</a>")
    stock = await crawl([a.url("/")], domains=["a.test"], follow=True, stock=True)
    assert sister.url("/") in stock.urls()
    before = len(a.log), len(sister.log)
    result = await crawl([a.url("/")], domains=["a.test"], follow=True)
    assert (len(a.log), len(sister.log)) == (before[0] + 2, before[1])  # robots.txt and the seed
    assert not touched(third)
    assert isinstance(result.error(a.url("/")), OutOfScope)


async def test_public_suffixes_are_never_one_site(sites: Sites) -> None:
    a, b = sites.named("shop.co.test", "other.co.test")
    a.redirect("/", b.url("/"))
    result = await crawl([a.url("/")], domains=["shop.co.test"])
    assert not touched(b)
    assert result.finish_reason == "scour_out_of_scope"


async def test_a_start_url_outside_the_domains_is_fetched_and_may_redirect_on_its_own_host(sites: Sites) -> None:
    a, out, c = sites.named("a.test", "out.test", "c.test")
    out.redirect("/own", "/landed")
    out.page("/landed", f"<a href='{out.url('/link')}'>link</a><a href='{a.url('/in')}'>in</a>")
    out.redirect("/away", c.url("/"))
    out.redirect("/port", f"http://out.test:{out.port + 1}/")
    a.page("/in", "in scope")
    result = await crawl([out.url(p) for p in ("/own", "/away", "/port")], domains=["a.test"], follow=True)
    assert result.urls() == [out.url("/landed"), a.url("/in")]
    assert "/link" not in out.paths()  # what the page links to is judged like any link
    assert not touched(c)
    assert isinstance(result.error(out.url("/away")), OutOfScope)
    assert isinstance(result.error(out.url("/port")), OutOfScope)


async def test_allow_offsite_covers_hops_on_the_same_host_only(sites: Sites) -> None:
    out, c = sites.named("out.test", "c.test")
    out.redirect("/own", "/secret/1")
    out.page("/secret/1", "page")
    out.redirect("/away", c.url("/"))
    (a,) = sites.named("a.test")
    out.redirect("/in", a.url("/1"))
    a.redirect("/1", "/secret/1")
    requests = [Request(out.url(path), meta={"allow_offsite": True}) for path in ("/own", "/away", "/in")]
    plain = [Request(out.url("/plain"))]
    settings = {"SCOUR_SCOPE_EXCLUDE": ["/secret"]}
    result = await crawl([*requests, *plain], settings, domains=["a.test"])
    assert result.urls() == [out.url("/secret/1")]
    assert "/plain" not in out.paths()
    assert not touched(c)
    assert isinstance(result.error(out.url("/away")), OutOfScope)
    assert isinstance(result.error(a.url("/1")), OutOfScope)
    assert "/secret/1" not in a.paths()
    assert result.stats["scour/outcome/out_of_scope"] == 3


async def test_a_hop_back_into_the_domains_is_taken(sites: Sites) -> None:
    a, out = sites.named("a.test", "out.test")
    out.redirect("/", a.url("/in"))
    a.page("/in", "in")
    result = await crawl([out.url("/")], domains=["a.test"])
    assert result.urls() == [a.url("/in")]


async def test_a_redirect_from_the_page_cache_is_judged_by_the_scope_of_today(sites: Sites, tmp_path: Path) -> None:
    a, b = sites.named("a.test", "b.test")
    a.redirect("/", b.url("/x"))
    b.page("/x", "page")
    cache = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(tmp_path)}
    assert (await crawl([a.url("/")], cache)).urls() == [b.url("/x")]
    asked = len(b.log)
    result = await crawl([a.url("/")], cache, domains=["a.test"])
    assert result.stats["httpcache/hit"] >= 1
    assert isinstance(result.error(a.url("/")), OutOfScope)
    assert len(b.log) == asked


async def test_a_hop_is_judged_again_when_it_leaves_the_queue_of_an_interrupted_crawl(
    sites: Sites, tmp_path: Path
) -> None:
    """The job goes on with a narrower boundary: what waits on disk is held to it."""
    (a,) = sites.named("a.test")
    a.redirect("/1", "/old/2")
    a.page("/old/2", "page")

    class Stopped(Requests):
        @classmethod
        def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Stopped:
            spider: Stopped = super().from_crawler(crawler, *args, **kwargs)  # type: ignore[assignment]
            crawler.signals.connect(spider.downloaded, signal=signals.response_downloaded)
            return spider

        def downloaded(self, response: Response) -> None:
            if response.status == 302:
                assert self.crawler.engine is not None
                deferred_from_coro(self.crawler.engine.close_spider_async(reason="stopped"))

        async def start(self) -> AsyncIterator[Any]:
            for one in self.start_with:
                yield Request(str(one), callback=self.parse, errback=self.record_failure)

    arguments: dict[str, Any] = {"start": [a.url("/1")], "result": Result()}
    first = await crawl(Stopped, jobdir=tmp_path, spider_args=arguments)
    assert first.finish_reason == "stopped"
    assert a.requests("/old/2") == []
    arguments = {"start": [], "result": (had := Result())}
    second = await crawl(Stopped, {"SCOUR_SCOPE_EXCLUDE": ["/old/"]}, jobdir=tmp_path, spider_args=arguments)
    assert a.requests("/old/2") == []
    (failed,) = had.errors
    assert isinstance(failed.error, OutOfScope)
    assert failed.error.trail == (a.url("/1"), a.url("/old/2"))
    assert second.finish_reason == "scour_out_of_scope"  # the seed of the first run had left the scope, too
    assert second.messages(40, "scrapy_scour")[0].startswith(f"seed redirected to {a.url('/old/2')}, out of scope")


# Patterns


class Media(Spider):
    """One page; then files by a media request and by download_async, some of them out of scope."""

    name = "media"
    allowed_domains = ["a.test"]  # noqa: RUF012
    scope_exclude = [r"/private"]  # noqa: RUF012

    def __init__(self, a: Site, b: Site, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.a, self.b = a, b
        self.ends: dict[str, Any] = {}

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.a.url("/page"), dont_filter=True)

    async def end_of(self, url: str) -> Any:
        assert self.crawler.engine is not None
        try:
            return (await self.crawler.engine.download_async(Request(url, callback=lambda r: None))).url
        except OutOfScope as refusal:
            return refusal

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        for url in (self.a.url("/ok"), self.a.url("/private/1"), self.a.url("/to-b"), self.b.url("/direct")):
            self.ends[url] = await self.end_of(url)
        yield {"file_urls": [self.a.url("/file"), self.a.url("/private/file"), self.b.url("/file"), self.a.url("/f-b")]}


async def test_media_and_download_async_keep_to_the_same_boundary(sites: Sites, tmp_path: Path) -> None:
    a, b = sites.named("a.test", "b.test")
    a.page("/*", "page")
    a.redirect("/to-b", b.url("/hop"))
    a.redirect("/f-b", b.url("/file-hop"))
    settings = {
        "ITEM_PIPELINES": {FilesPipeline: 1},
        "FILES_STORE": str(tmp_path),
        "MEDIA_ALLOW_REDIRECTS": True,
    }
    result = await crawl(Media, settings, spider_args={"a": a, "b": b})
    assert not touched(b)
    assert sorted(set(a.paths()) - {"/robots.txt"}) == ["/f-b", "/file", "/ok", "/page", "/to-b"]
    assert isinstance(result.spider, Media)
    ends = result.spider.ends
    assert ends[a.url("/ok")] == a.url("/ok")
    assert all(isinstance(ends[url], OutOfScope) for url in ends if url != a.url("/ok")), ends
    assert ends[a.url("/to-b")].trail == (a.url("/to-b"), b.url("/hop"))
    assert len(ends) == 4
    assert [file["url"] for file in result.items[0]["files"]] == [a.url("/file")]
    assert result.stats["scour/outcome/out_of_scope"] == 6
    assert result.package_tracebacks == []


async def test_patterns_judge_start_requests_links_and_hops(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    a.page("/shop/1", "<a href='/shop/2'>a</a><a href='/news'>b</a><a href='/shop/cart'>c</a>")
    a.page("/shop/2", "two")
    a.redirect("/shop/hop-in", "/shop/3")
    a.page("/shop/3", "three")
    a.redirect("/shop/hop-news", "/news")
    a.redirect("/shop/hop-cart", "/shop/%63art")
    starts = [a.url(path) for path in ("/shop/1", "/start", "/shop/hop-in", "/shop/hop-news", "/shop/hop-cart")]
    settings = {"SCOUR_SCOPE_INCLUDE": [r"/shop/"], "SCOUR_SCOPE_EXCLUDE": [r"/cart"]}
    result = await crawl(starts, settings, follow=True)
    seen = set(a.paths())
    assert seen == {
        "/robots.txt", "/shop/1", "/shop/2", "/shop/hop-in", "/shop/3", "/shop/hop-news", "/shop/hop-cart",
    }  # fmt: skip
    news, cart = result.error(a.url("/shop/hop-news")), result.error(a.url("/shop/hop-cart"))
    assert "scope: included patterns" in str(news)
    assert "scope: excluded pattern '/cart'" in str(cart)
    assert result.stats["scour/outcome/out_of_scope"] == 5
    assert result.stats["offsite/filtered"] == 3  # what the spider asked for, as in stock


# Private addresses


async def test_a_public_name_may_not_send_the_crawl_to_a_private_address(sites: Sites) -> None:
    inside = sites("127.0.0.2")
    (a,) = sites.named("a.test")
    inside.page("/*", "inside")
    spellings = [inside.netloc, f"localhost:{inside.port}", f"2130706434:{inside.port}", f"0x7f.2:{inside.port}",
                 f"[::ffff:7f00:2]:{inside.port}", f"u:p@127.2:{inside.port}"]  # fmt: skip
    for number, netloc in enumerate(spellings):
        a.redirect(f"/{number}", f"http://{netloc}/")
    a.page("/refresh", refresh(inside.url("/")))
    starts = [a.url(f"/{number}") for number in range(len(spellings))] + [a.url("/refresh")]
    result = await crawl(starts)
    assert not touched(inside)
    assert [type(failed.error) for failed in result.errors] == [OutOfScope] * len(starts)
    assert all("private address" in str(failed.error) for failed in result.errors)

    stock = await crawl(starts[:1], stock=True)
    assert stock.urls() == [inside.url("/")]


@pytest.mark.parametrize(
    ("domains", "settings"),
    [(["a.test", "127.0.0.2"], {}), (None, {"SCOUR_REDIRECT_PRIVATE_ADDRESSES": True})],
    ids=["named in allowed_domains", "allowed by setting"],
)
async def test_a_private_address_that_the_job_allows_is_visited(
    sites: Sites, domains: list[str] | None, settings: dict[str, Any]
) -> None:
    inside = sites("127.0.0.2")
    inside.page("/x", "inside")
    (a,) = sites.named("a.test")
    a.redirect("/", inside.url("/x"))
    result = await crawl([a.url("/")], settings, domains=domains)
    assert result.urls() == [inside.url("/x")]


async def test_a_private_site_may_redirect_to_itself_and_its_like(sites: Sites) -> None:
    one, two = sites("127.0.0.2"), sites("127.0.0.3")
    one.redirect("/", two.url("/x"))
    two.page("/x", "x")
    result = await crawl([one.url("/")])
    assert result.urls() == [two.url("/x")]


# A crawl with nothing left to do


async def test_a_crawl_whose_seeds_all_left_the_scope_says_so_and_where_they_went(sites: Sites) -> None:
    a, www, _ = sites.named("a.test", "www.elsewhere.test", "b.test")
    a.redirect("/", "/moved", 301)
    a.redirect("/moved", www.url("/"), 301)
    a.redirect("/2", www.url("/2"), 301)
    starts: list[Request | str] = [a.url("/"), Request(a.url("/2")), Request(a.url("/2")), Request("http://b.test/")]
    result = await crawl(starts, domains=["a.test"])
    assert result.finish_reason == "scour_out_of_scope"
    errors = result.messages(40, "scrapy_scour")
    assert len(errors) == 1
    assert errors[0].startswith(("seed redirected to http://www.elsewhere.test", "seed http://b.test/ is out of scope"))
    assert "3 start requests" in errors[0]
    assert result.stats["scour/scope/starts_out_of_scope"] == 3
    assert not touched(www)

    single = await crawl([a.url("/")], domains=["a.test"])
    assert single.messages(40, "scrapy_scour")[0].startswith(f"seed redirected to {www.url('/')}, out of scope: ")

    stock = await crawl([a.url("/")], domains=["a.test"], stock=True)
    assert stock.finish_reason == "finished"


async def test_a_seed_refused_by_a_pattern_counts_too(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    result = await crawl([a.url("/old")], {"SCOUR_SCOPE_EXCLUDE": ["/old"]})
    assert result.finish_reason == "scour_out_of_scope"
    assert result.messages(40, "scrapy_scour")[0].startswith(f"seed {a.url('/old')} is out of scope: ")
    assert not touched(a)


class Copies(Requests):
    """Gives its own requests the meta of what led to them, as many spiders do."""

    def parse(self, response: Response, **kwargs: Any) -> Any:
        yield from super().parse(response)
        if response.url.endswith("/page"):
            for path in ("/out-1", "/out-2"):
                yield self.recorded(Request(response.urljoin(path), meta=response.meta))


@pytest.mark.parametrize(
    ("starts", "why"),
    [
        (["/page", "/out-1"], "one had a page"),
        (["/404", "/out-1"], "one was answered"),
        (["/refused", "/out-1"], "robots.txt refused one"),
        (["/loop", "/out-1"], "one ran in a circle"),
        ([], "there was none"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_any_other_end_of_a_start_request_is_an_ordinary_crawl(sites: Sites, starts: list[str], why: str) -> None:
    a, b = sites.named("a.test", "b.test")
    a.robots("User-agent: *\nDisallow: /refused")
    a.page("/page", "page")
    a.redirect("/loop", "/loop")
    a.redirect("/out-1", b.url("/"))
    a.redirect("/out-2", b.url("/"))
    arguments = {"start": [a.url(path) for path in starts], "result": Result(), "domains": ["a.test"]}
    result = await crawl(Copies, spider_args=arguments)
    assert result.finish_reason == "finished"
    assert result.stats.get("scour/scope/starts_out_of_scope", 0) == starts.count("/out-1")
    assert not touched(b)


class Fallback(Requests):
    """Tries another address with the same meta where one was refused."""

    def record_failure(self, failure: Failure) -> Any:
        super().record_failure(failure)
        request: Request = failure.request  # type: ignore[attr-defined]
        if request.url.endswith("/out"):
            yield Request(f"{request.url}-2", meta=request.meta, errback=self.record_failure)


async def test_a_second_try_of_a_lost_seed_is_not_another_seed(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    a.redirect("/out", b.url("/"))
    a.redirect("/out-2", b.url("/"))
    arguments = {"start": [a.url("/out"), a.url("/404")], "result": Result(), "domains": ["a.test"]}
    result = await crawl(Fallback, spider_args=arguments)
    assert "/out-2" in a.paths()
    assert result.stats["scour/scope/starts_out_of_scope"] == 1
    assert result.finish_reason == "finished"


class Patient(Requests):
    """Keeps itself open once, as spiders do that are fed from outside."""

    kept = 0

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Patient:
        spider: Patient = super().from_crawler(crawler, *args, **kwargs)  # type: ignore[assignment]
        crawler.signals.connect(spider.idle, signal=signals.spider_idle)
        return spider

    def idle(self) -> None:
        if not self.kept:
            self.kept = 1
            assert self.crawler.engine is not None
            self.crawler.engine.crawl(self.recorded(Request(self.start_with[0].replace("/out", "/late"))))  # type: ignore[union-attr]
            raise DontCloseSpider


async def test_a_page_from_any_other_source_keeps_the_crawl_an_ordinary_one(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    a.redirect("/out", b.url("/"))
    a.page("/late", "late")
    arguments = {"start": [a.url("/out")], "result": Result(), "domains": ["a.test"]}
    result = await crawl(Patient, spider_args=arguments)
    assert "/late" in a.paths()
    assert result.finish_reason == "finished"


async def test_seeds_of_an_interrupted_crawl_are_counted_when_it_goes_on(sites: Sites, tmp_path: Path) -> None:
    a, b = sites.named("a.test", "b.test")
    a.redirect("/out", b.url("/"))
    a.page("/page", "page")
    first = await crawl([Request(a.url("/page"))], domains=["a.test"], jobdir=tmp_path)
    assert first.urls() == [a.url("/page")]
    again = await crawl([Request(a.url("/page")), Request(a.url("/out"))], domains=["a.test"], jobdir=tmp_path)
    assert again.responses == []
    assert again.stats["scour/scope/starts_out_of_scope"] == 1
    assert again.finish_reason == "finished"  # a start request had its page in the first run
    alone = await crawl([Request(a.url("/out"))], domains=["a.test"], jobdir=tmp_path / "other")
    assert alone.finish_reason == "scour_out_of_scope"


# allowed_domains


async def test_values_that_can_be_understood_are_corrected_and_said(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    a.page("/", f"<a href='{b.url('/x')}'>b</a><a href='{a.url('/2')}'>2</a>")
    a.page("/2", "2")
    for wrong in (f"http://A.test:{a.port}/shop/", "*.a.test", "A.TEST.", f"a.test:{a.port}"):
        result = await crawl([a.url("/")], domains=[wrong], follow=True)
        assert result.urls() == [a.url("/"), a.url("/2")], wrong
        warnings = [text for text in result.messages(30, "scrapy_scour") if "allowed_domains" in text]
        assert len(warnings) == 1
        assert "'a.test'" in warnings[0]
    assert not touched(b)
    stock = await crawl([a.url("/")], domains=[f"http://a.test:{a.port}/"], follow=True, stock=True)
    assert a.url("/2") not in stock.urls()


WRONG: list[tuple[str, Any, str]] = [
    ("allowed_domains", ["a.test", "b test"], "must be a domain name"),
    ("allowed_domains", "a.test", "must be a list of domain names"),
    ("allowed_domains", [None], "must be a domain name"),
    ("allowed_domains", 5, "must be a list"),
    ("scope_include", ["("], "must be a regular expression"),
    ("scope_exclude", 5, "must be a regular expression"),
    ("scope_exclude", [""], "must be a regular expression"),
    ("scope_include", b"x", "must be a regular expression"),
]


@pytest.mark.parametrize(("attribute", "value", "rule"), WRONG)
async def test_a_boundary_that_cannot_be_understood_refuses_the_crawl(
    site: Site, attribute: str, value: Any, rule: str
) -> None:
    class Wrong(Spider):
        name = "wrong"
        start_urls = [site.url("/")]  # noqa: RUF012

    setattr(Wrong, attribute, value)
    with pytest.raises(SettingsError, match=rule):
        await crawl(Wrong)
    assert not touched(site)


def test_the_command_fails_with_one_clear_message_and_the_site_sees_nothing(site: Site, tmp_path: Path) -> None:
    spider = f"""
import scrapy

class Wrong(scrapy.Spider):
    name = "wrong"
    start_urls = ["{site.url("/")}"]
    allowed_domains = ["a.test", "b test"]
    scope_exclude = ["("]
"""
    project = write_project(tmp_path, spider, PROJECT)
    done: subprocess.CompletedProcess[str] = run_scrapy(["crawl", "wrong"], project)
    assert done.returncode != 0
    assert "'b test' must be a domain name" in done.stderr
    assert "'(' must be a regular expression" in done.stderr
    assert not touched(site)


class Changing(Requests):
    """Sets its domains anew after each page."""

    changes: tuple[Any, ...] = ()
    allowed_domains = ["a.test"]  # noqa: RUF012

    def parse(self, response: Response, **kwargs: Any) -> Any:
        list(super().parse(response))
        step = len(self.result.responses) - 1
        if step < len(self.changes):
            change = self.changes[step]
            if change == "delete":
                self.__dict__.pop("allowed_domains", None)
                type(self).allowed_domains = None  # type: ignore[assignment]
            else:
                self.allowed_domains = change
            yield self.recorded(Request(response.urljoin(f"/{step + 2}")))
        for url in response.css("a::attr(href)").getall():
            yield self.recorded(Request(url))


async def test_domains_added_while_the_crawl_runs_take_effect(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    a.page("/1", "1")
    a.page("/2", f"<a href='{b.url('/in')}'>b</a>")
    b.page("/in", "in")

    class Adding(Changing):
        changes = (["a.test", "http://b.test/"],)

    result = await crawl(Adding, spider_args={"start": [a.url("/1")], "result": (had := Result())})
    assert had.urls() == [a.url("/1"), a.url("/2"), b.url("/in")]
    assert any("'http://b.test/' was read as 'b.test'" in text for text in result.messages())


async def test_a_boundary_never_disappears_while_the_crawl_runs(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    steps = ([], None, "a.test", [], "delete", [None], ["b test"])
    for number in range(1, len(steps) + 2):
        a.page(f"/{number}", f"<a href='{b.url(f'/{number}')}'>b</a>")

    class Emptying(Changing):
        changes = steps

    result = await crawl(Emptying, spider_args={"start": [a.url("/1")], "result": (had := Result())})
    assert had.urls() == [a.url(f"/{number}") for number in range(1, len(steps) + 2)]
    assert not touched(b)
    assert any("The scope stays as it was" in text for text in result.messages(40, "scrapy_scour"))
    assert result.package_tracebacks == []


async def test_a_boundary_that_is_set_late_and_cannot_be_read_lets_nothing_in(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    for number in (1, 2):
        a.page(f"/{number}", f"<a href='{b.url(f'/{number}')}'>b</a>")

    class Late(Changing):
        allowed_domains: list[str] = []  # noqa: RUF012
        changes = ("a.test",)  # one value in place of a list

    result = await crawl(Late, spider_args={"start": [a.url("/1")], "result": Result()})
    assert not touched(b)
    assert [path for path in a.paths() if path != "/robots.txt"] == ["/1"]
    (said,) = result.messages(40, "scrapy_scour")
    assert said.startswith("Nothing is in scope until this can be read: allowed_domains: 'a.test' must be a list")


# A handler that follows redirects by itself


class Following(HTTP11DownloadHandler):
    """Takes redirects inside, as other HTTP clients do, and gives the last answer with its own URL."""

    async def download_request(self, request: Request, *args: Any) -> Response:  # type: ignore[override]
        response = await self._fetch(request, *args)
        while response.status == 302 and not request.url.endswith("/robots.txt"):
            target = response.headers["Location"]
            assert target is not None
            request = request.replace(url=response.urljoin(target.decode()))
            response = await self._fetch(request, *args)
        return response

    async def _fetch(self, request: Request, *args: Any) -> Response:
        return await super().download_request(request, *args)


async def test_hops_inside_a_download_handler_are_refused_afterwards_or_flagged(sites: Sites) -> None:
    a, b, sub = sites.named("a.test", "b.test", "www.a.test")
    for path, target in {
        "/out": b.url("/x"), "/private": "/secret/1", "/sub": sub.url("/x"), "/own": "/landed",
    }.items():  # fmt: skip
        a.redirect(path, target)
    a.page("/secret/1", "secret")
    a.page("/landed", "page")
    a.page("/odd", "page")
    b.page("/x", "out of scope")
    sub.page("/x", "in scope")
    starts = [a.url(path) for path in ("/out", "/private", "/sub", "/own", "/odd")]
    settings = {"DOWNLOAD_HANDLERS": {"http": Following}, "SCOUR_SCOPE_EXCLUDE": ["/secret"]}
    result = await crawl(starts, settings, domains=["a.test"])
    assert sorted(result.urls()) == sorted([sub.url("/x"), a.url("/landed"), a.url("/odd")])
    assert "scour_hops_not_judged" in result.page(sub.url("/x")).flags
    assert "scour_hops_not_judged" in result.page(a.url("/landed")).flags
    assert "scour_hops_not_judged" not in result.page(a.url("/odd")).flags
    out, private = result.error(a.url("/out")), result.error(a.url("/private"))
    assert isinstance(out, OutOfScope)
    assert out.trail == (a.url("/out"), b.url("/x"))
    assert isinstance(private, OutOfScope)
    told = [text for text in result.messages(30, "scrapy_scour") if "follows redirects by itself" in text]
    assert len(told) == 1

    stock = await crawl([a.url("/out")], {"DOWNLOAD_HANDLERS": {"http": Following}}, domains=["a.test"], stock=True)
    assert stock.responses[0].body == b"out of scope"


# Hostile and broken input


async def test_urls_and_meta_of_any_shape_end_in_an_outcome(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    a.page("/*", "page")
    a.redirect("/hop", "/landed")
    a.page("/refresh", refresh("/landed"))
    odd: list[dict[str, Any]] = [
        {"redirect_urls": 5}, {"redirect_times": "x"}, {"redirect_ttl": None}, {"redirect_reasons": 1.5},
        {"redirect_urls": [5]}, {"download_slot": 5}, {"download_slot": ["a"]},
        {"scour_trail": "x"}, {"scour_trail": [["GET"]]}, {"scour_off_host": 5}, {"scour_came_by": "x"},
        {"handle_httpstatus_list": 5}, {"handle_httpstatus_list": None}, {"scour_start": "x"},
    ]  # fmt: skip
    requests = [Request(a.url(path), meta=meta, dont_filter=True) for meta in odd for path in ("/hop", "/refresh")]
    requests += [Request(f"http://b.test\\@{a.netloc}/"), Request(f"http://{b.netloc}\\.a.test/")]
    result = await crawl(requests, domains=["a.test"])
    assert len(result.responses) + result.stats["scour/outcomes"] == len(requests)
    assert len(result.responses) == 14
    assert result.stats["scour/outcome/redirect_refused"] == 10  # how long these chains are is not known
    assert result.stats["scour/outcome/other"] == 4  # a slot that has no name
    assert not touched(b)
    assert result.package_tracebacks == []


async def test_a_password_in_a_url_stays_out_of_what_is_said(sites: Sites) -> None:
    (b,) = sites.named("b.test")
    result = await crawl([Request(f"http://u:hunter2@{b.netloc}/")], domains=["a.test"])
    said = [text for text in result.messages(0, "scrapy_scour") if "b.test" in text]
    assert said
    assert not [text for text in said if "hunter2" in text]
    assert not touched(b)
