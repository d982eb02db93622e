"""Redirects by status in real crawls: where they lead, by which method, and how a chain that leads nowhere ends."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scrapy import Request, Spider
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse, Response
from scrapy.settings import default_settings
from scrapy.spiders import SitemapSpider
from scrapy.utils.test import get_crawler

from scrapy_scour.downloadermiddlewares.redirect import MetaRefreshMiddleware, RedirectMiddleware
from scrapy_scour.exceptions import Outcome, RedirectLoop, RedirectRefused, RobotsDisallowed, TooManyRedirects
from tests.support.crawl import ADDONS, Requests, Result, crawl
from tests.support.site import Answer, Seen, Sites, max_in_flight, pages, redirect, starts

#: Newer versions name the size of the random variation, older ones only whether there is one.
NO_JITTER: Final[dict[str, Any]] = (
    {"DOWNLOAD_DELAY_JITTER": 0}
    if hasattr(default_settings, "DOWNLOAD_DELAY_JITTER")
    else {"RANDOMIZE_DOWNLOAD_DELAY": False}
)


def loop_of(result: Result, url: str) -> RedirectLoop:
    error = result.error(url)
    assert isinstance(error, RedirectLoop), error
    assert not isinstance(error, IgnoreRequest)  # an error, not a drop: it is in the log when nobody handles it
    return error


# Methods (RFC 9110 15.4.2 to 15.4.9)

METHODS: Final[list[tuple[int, str, str, bytes]]] = [
    (301, "GET", "GET", b""), (302, "GET", "GET", b""), (303, "GET", "GET", b""),
    (307, "GET", "GET", b""), (308, "GET", "GET", b""),
    (301, "HEAD", "HEAD", b""), (302, "HEAD", "HEAD", b""), (303, "HEAD", "HEAD", b""),
    (307, "HEAD", "HEAD", b""), (308, "HEAD", "HEAD", b""),
    (301, "POST", "GET", b""), (302, "POST", "GET", b""), (303, "POST", "GET", b""),
    (307, "POST", "POST", b"q=1"), (308, "POST", "POST", b"q=1"),
    (301, "PUT", "GET", b""), (302, "DELETE", "GET", b""), (303, "PUT", "GET", b""),
    (307, "PUT", "PUT", b"q=1"), (308, "DELETE", "DELETE", b"q=1"),
]  # fmt: skip


async def test_the_method_and_the_body_follow_the_status(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    requests = []
    for status, method, _, _ in METHODS:
        path = f"/{status}{method}"
        a.redirect(path, f"/to{path[1:]}", status)
        body = b"" if method in ("GET", "HEAD") else b"q=1"
        headers = {"Content-Type": "text/x", "Content-Language": "eo"} if body else {}
        requests.append(Request(a.url(path), method=method, body=body, headers=headers))
    a.page("/to*", "page")
    result = await crawl(requests)
    assert len(result.responses) == len(METHODS)
    for status, method, after, body in METHODS:
        (seen,) = a.requests(f"/to{status}{method}")
        assert (seen.method, seen.body) == (after, body), (status, method)
        assert seen.header("Content-Type") == ("text/x" if body else None), (status, method)
        assert seen.header("Content-Length") == (str(len(body)) if body else None), (status, method)
        assert seen.header("Content-Language") == ("eo" if body else None), (status, method)
    page = next(page for page in result.responses if page.url == a.url("/to307POST"))
    assert page.meta["redirect_urls"] == [a.url("/307POST")]
    assert page.meta["redirect_reasons"] == [307]
    assert page.meta["redirect_times"] == 1


# Locations (RFC 9110 10.2.2, RFC 3986 5)

#: Location as sent, from /dir/n; the path that the same site must see, None where nothing must be asked.
LOCATIONS: Final[list[tuple[bytes, str | None]]] = [
    (b"x1", "/dir/x1"),
    (b"../x2", "/x2"),
    (b"?x3", "/dir/n?x3"),
    (b"/x4#part", "/x4"),
    (b"{site}", "/"),
    (b"{site}?x5", "/?x5"),
    (b"//{netloc}/x6", "/x6"),
    (b"///{netloc}/x7", "/x7"),
    (b"http:/{netloc}/x7b", "/{netloc}/x7b"),
    (b"\\x8\\y", "/x8/y"),
    (b"\\\\{netloc}\\x9", "/x9"),
    (b"  /x10 y  ", "/x10%20y"),
    (b"/x11\xd8\xa7", "/x11%D8%A7"),
    (b"/x12\xff", "/x12%FF"),
    (b"/x13?q=\xc3\xa4 b", "/x13?q=%C3%A4%20b"),
    (b"/x14%2Fy%41", "/x14%2Fy%41"),
    (b"HTTP://{upper}/x15", "/x15"),
    (b"http://u:p@{netloc}/x16", "/x16"),
    (b"/x17/./y/../z", "/x17/z"),
    (b"/x18;p=1?a=2&b", "/x18;p=1?a=2&b"),
    (b"http%3A//{netloc}/x19", "/dir/http%3A//{netloc}/x19"),
    (b"", None),
    (b"   ", None),
    (b"mailto:x@a.test", None),
    (b"javascript:alert(1)", None),
    (b"ftp://a.test/x", None),
    (b"file:///etc/passwd", None),
    (b"data:text/html,x", None),
    (b"http://", None),
    (b"http:///", None),
    (b"http://a.test:99999/", None),
    (b"http://[::1/", None),
    (b"http://a .test/", None),
    (b"http://a.test%00.b.test/", None),
    (b"//", None),
]


async def test_the_server_sees_what_an_odd_location_means_or_nothing(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    a.page("/*", "page")
    names = {b"{site}": a.url("").encode(), b"{netloc}": a.netloc.encode(), b"{upper}": a.netloc.upper().encode()}
    expected = []
    for number, (location, path) in enumerate(LOCATIONS):
        for name, value in names.items():
            location = location.replace(name, value)
        a.redirect(f"/dir/n?{number}", location)
        # The query of the redirecting URL is not part of what a bare query replaces.
        expected.append(None if path is None else path.replace("{netloc}", a.netloc))
    result = await crawl([a.url(f"/dir/n?{number}") for number in range(len(LOCATIONS))])
    arrived = {page.meta["redirect_urls"][0]: page for page in result.responses}
    for number, path in enumerate(expected):
        source = a.url(f"/dir/n?{number}")
        if path is None:
            error = result.error(source)
            assert isinstance(error, RedirectRefused), LOCATIONS[number]
            assert error.trail == (source,)
        else:
            assert arrived[source].status == 200, LOCATIONS[number]
            assert arrived[source].url.partition("#")[0] == a.url(path), LOCATIONS[number]
    known = {path for path in expected if path} | {f"/dir/n?{number}" for number in range(len(LOCATIONS))}
    assert set(pages(a)) == known, set(pages(a)) ^ known
    assert result.package_tracebacks == []
    assert result.stats["scour/outcome/redirect_refused"] == expected.count(None)


async def test_two_locations_are_one_only_if_they_agree(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    a.redirect("/two", "/x", headers=[("Location", "/y")])
    a.redirect("/same", "/z", headers=[("Location", "/z")])
    a.page("/*", "page")
    result = await crawl([a.url("/two"), a.url("/same")])
    assert sorted(pages(a)) == ["/same", "/two", "/z"]
    error = result.error(a.url("/two"))
    assert isinstance(error, RedirectRefused)
    assert "several Locations" in error.reason


async def test_stock_asks_for_something_else(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    a.redirect("/spaces", "\\x8\\y")
    a.page("/*", "page")
    await crawl([a.url("/spaces")], stock=True)
    assert "/x8/y" not in a.paths()


async def test_a_3xx_without_a_location_is_a_response(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    a.page("/302", "read me", 302)
    a.page("/300", "choose", 300, headers={"Location": "/x"})
    a.page("/304", "", 304)
    meta = {"handle_httpstatus_list": [302, 300, 304]}
    result = await crawl([Request(a.url(path), meta=meta) for path in ("/302", "/300", "/304")])
    assert sorted(page.status for page in result.responses) == [300, 302, 304]
    assert "/x" not in a.paths()


# Handed back

HANDED_BACK: Final[list[tuple[str, dict[str, Any], dict[str, Any]]]] = [
    ("REDIRECT_MAX_TIMES = 0", {"REDIRECT_MAX_TIMES": 0}, {}),
    ("REDIRECT_ENABLED = False", {"REDIRECT_ENABLED": False, "METAREFRESH_ENABLED": False}, {}),
    ("dont_redirect", {}, {"dont_redirect": True}),
]


@pytest.mark.parametrize(("name", "values", "meta"), HANDED_BACK, ids=[case[0] for case in HANDED_BACK])
async def test_a_redirect_that_is_not_wanted_is_handed_back(
    sites: Sites, name: str, values: dict[str, Any], meta: dict[str, Any]
) -> None:
    a, b = sites.named("a.test", "b.test")
    a.redirect("/3xx", b.url("/"), 302)
    a.page("/refresh", f'<meta http-equiv="refresh" content="0;url={b.url("/")}">')
    requests = [Request(a.url(path), meta=meta) for path in ("/3xx", "/refresh")]
    result = await crawl(requests, {**values, "HTTPERROR_ALLOW_ALL": True})
    assert sorted(page.status for page in result.responses) == [200, 302]
    assert b.connections == 0
    assert result.errors == []
    assert result.stats.get("scour/outcomes", 0) == 0


async def test_statuses_that_the_spider_handles_are_handed_back(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    a.redirect("/1", "/x", 301)
    a.redirect("/2", "/y", 302)
    metas: list[dict[str, Any]] = [{"handle_httpstatus_list": [301]}, {"handle_httpstatus_all": True}]
    result = await crawl([Request(a.url("/1"), meta=metas[0]), Request(a.url("/2"), meta=metas[1])])
    assert sorted(page.status for page in result.responses) == [301, 302]
    assert sorted(pages(a)) == ["/1", "/2"]


# Circles


async def test_a_loop_ends_as_an_error_that_names_the_trail(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    a.redirect("/loop", "/loop2")
    a.redirect("/loop2", "/loop")
    a.redirect("/self", "/self")
    a.redirect("/spelled", f"http://A.TEST.:{a.port}/spelled#x")
    for filtered in (False, True):
        a.log.clear()
        result = await crawl([Request(a.url(path), dont_filter=filtered) for path in ("/loop", "/self")])
        assert sorted(pages(a)) == ["/loop", "/loop2", "/self"]
        error = loop_of(result, a.url("/loop2"))
        assert error.trail == (a.url("/loop"), a.url("/loop2"), a.url("/loop"))
        assert f"{a.url('/loop')} -> {a.url('/loop2')} -> {a.url('/loop')}" in str(error)
        assert loop_of(result, a.url("/self")).trail == (a.url("/self"), a.url("/self"))
        assert result.stats["scour/outcome/redirect_loop"] == 2
        assert result.responses == []


async def test_stock_loses_a_loop_without_a_word(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    a.redirect("/loop", "/loop2")
    a.redirect("/loop2", "/loop")
    result = await crawl([Request(a.url("/loop"))], stock=True)
    assert (result.responses, result.errors) == ([], [])


@pytest.mark.parametrize("secure", [False, True], ids=["http", "http and https"])
async def test_a_loop_over_two_hosts_ends_too(sites: Sites, secure: bool) -> None:
    a = sites("127.0.3.1", name="a.test")
    b = sites("127.0.3.2", name="b.test", tls=secure)
    a.redirect("/", b.url("/"))
    b.redirect("/", a.url("/"))
    result = await crawl([a.url("/")])
    assert (pages(a), pages(b)) == (["/"], ["/"])
    assert loop_of(result, b.url("/")).trail == (a.url("/"), b.url("/"), a.url("/"))


async def test_a_loop_without_an_errback_is_one_clear_error_in_the_log(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    a.redirect("/self", "/self")

    class Plain(Spider):
        name = "plain"
        start_urls = [a.url("/self")]  # noqa: RUF012

    result = await crawl(Plain)
    (said,) = [record for record in result.log if record.levelno >= 40]
    line = logging.Formatter().format(said)
    assert "redirects in a circle: " in line
    assert a.url("/self") in line
    assert "scrapy_scour/" not in line  # nothing that looks like a crash of ours
    assert result.package_tracebacks == []
    assert result.stats["scour/outcome/redirect_loop"] == 1


async def test_a_loop_ends_although_each_hop_went_through_a_queue_on_disk(sites: Sites, tmp_path: Path) -> None:
    (a,) = sites.named("a.test")
    a.redirect("/a", "/b")
    a.redirect("/b", "/c", headers={"Set-Cookie": "n=1"})
    a.redirect("/c", "/b")

    class OnDisk(Requests):
        """Its callbacks are methods and its meta is plain, so that requests go to disk."""

        async def start(self) -> AsyncIterator[Any]:
            yield Request(a.url("/a"), callback=self.parse, errback=self.record_failure)

    arguments = {"start": [], "result": (had := Result())}
    result = await crawl(OnDisk, jobdir=tmp_path, spider_args=arguments)
    assert result.stats["scheduler/enqueued/disk"] >= 4
    assert "scheduler/unserializable" not in result.stats
    assert pages(a) == ["/a", "/b", "/c", "/b"]  # /b once more: a cookie had come in since
    assert [type(failed.error) for failed in had.errors] == [RedirectLoop]
    error = had.errors[0].error
    assert isinstance(error, RedirectLoop)
    assert error.trail == tuple(a.url(path) for path in ("/a", "/b", "/c", "/b", "/c"))


# Cookie walls


def wall(seen: Seen) -> Answer:
    """Sets a cookie and sends to the same URL; whoever has the cookie gets the page."""
    if "seen=1" in (seen.header("Cookie") or ""):
        return Answer("behind the wall")
    return redirect(seen.path, headers={"Set-Cookie": "seen=1; Path=/"})


async def test_a_page_that_sets_a_cookie_and_sends_to_itself_is_had_once(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    a.route("/self", wall)
    requests = [Request(a.url("/self")), Request(a.url("/self"))]
    result = await crawl(requests)
    assert [page.body for page in result.responses] == [b"behind the wall"]
    assert pages(a) == ["/self", "/self"]
    assert result.errors == []
    assert result.stats["scour/outcome/duplicate"] == 1  # the second request, not the hop

    a.log.clear()
    stock = await crawl(requests[:1], stock=True)
    assert (stock.responses, stock.errors) == ([], [])


async def test_a_detour_that_comes_back_with_a_cookie_is_followed(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    a.route("/a", lambda seen: "page" if "c=1" in (seen.header("Cookie") or "") else redirect("/a?c=1"))
    a.redirect("/a?c=1", "/a", headers={"Set-Cookie": "c=1"})
    result = await crawl([Request(a.url("/a"))])
    assert result.urls() == [a.url("/a")]
    assert pages(a) == ["/a", "/a?c=1", "/a"]


async def test_only_members_of_the_chain_pass_the_duplicate_filter(sites: Sites) -> None:
    """What comes behind a cookie wall is filtered as ever."""
    (a,) = sites.named("a.test")
    a.page("/landed", "page")
    a.route("/wall", lambda seen: redirect("/landed") if seen.header("Cookie") else wall(seen))

    class InOrder(Requests):
        def parse(self, response: Response, **kwargs: Any) -> Any:
            yield from super().parse(response)
            yield self.recorded(Request(a.url("/wall")))

    had = Result()
    result = await crawl(InOrder, spider_args={"start": [Request(a.url("/landed"))], "result": had})
    assert had.urls() == [a.url("/landed")]
    assert pages(a) == ["/landed", "/wall", "/wall"]
    assert result.stats["scour/outcome/duplicate"] == 1


@pytest.mark.parametrize(
    "cookie",
    ["c=1; Domain=elsewhere.test", "c=gone; Max-Age=0", "c=gone; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "c", "=", ""],
)
async def test_a_cookie_that_nobody_keeps_does_not_prolong_a_loop(sites: Sites, cookie: str) -> None:
    (a,) = sites.named("a.test")
    a.redirect("/self", "/self", headers={"Set-Cookie": cookie})
    result = await crawl([Request(a.url("/self"))])
    loop_of(result, a.url("/self"))
    assert len(pages(a)) <= 2


@pytest.mark.parametrize(
    ("values", "meta"), [({"COOKIES_ENABLED": False}, {}), ({}, {"dont_merge_cookies": True})], ids=["setting", "meta"]
)
async def test_a_cookie_wall_is_a_loop_for_who_takes_no_cookies(
    sites: Sites, values: dict[str, Any], meta: dict[str, Any]
) -> None:
    (a,) = sites.named("a.test")
    a.route("/self", wall)
    result = await crawl([Request(a.url("/self"), meta=meta)], values)
    loop_of(result, a.url("/self"))
    assert pages(a) == ["/self"]


async def test_a_wall_that_never_opens_ends_at_the_limit(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    count = iter(range(1000))
    a.route("/self", lambda seen: redirect("/self", headers={"Set-Cookie": f"n={next(count)}"}))
    result = await crawl([Request(a.url("/self"))], {"REDIRECT_MAX_TIMES": 4})
    assert isinstance(result.error(a.url("/self")), TooManyRedirects)
    assert len(pages(a)) == 5


# Chains without end


async def test_a_chain_that_grows_without_end_stops_at_the_limit(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    a.route("/d*", lambda seen: redirect(f"{seen.path}&u=1"))
    result = await crawl([a.url("/d?u=1")], {"REDIRECT_MAX_TIMES": 12})
    assert len(pages(a)) == 13
    (failed,) = result.errors
    assert isinstance(failed.error, TooManyRedirects)
    assert not isinstance(failed.error, IgnoreRequest)
    assert "more than 12 redirects" in str(failed.error)
    assert "more ..." in str(failed.error)  # a long trail is shortened
    assert len(failed.error.trail) == 14
    assert result.stats["scour/outcome/too_many_redirects"] == 1


async def test_the_limit_itself_is_allowed_and_refreshes_count_with_it(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    a.redirect("/1", "/2")
    a.page("/2", '<meta http-equiv="refresh" content="0;url=/3">')
    a.redirect("/3", "/4", 307)
    a.page("/4", "page")
    result = await crawl([a.url("/1")], {"REDIRECT_MAX_TIMES": 3})
    assert result.urls() == [a.url("/4")]
    assert result.responses[0].meta["redirect_reasons"] == [302, "meta refresh", 307]
    own = Request(a.url("/1"), meta={"redirect_ttl": 2})  # a request's own limit, as in stock
    for start, most in ((a.url("/1"), 2), (own, 3)):
        short = await crawl([start], {"REDIRECT_MAX_TIMES": most})
        assert isinstance(short.error(a.url("/3")), TooManyRedirects)


async def test_meta_that_a_callback_copies_makes_no_loop_of_its_own_links(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    a.redirect("/start", "/landed")
    a.page("/landed", "page")
    a.redirect("/link", "/start2")
    a.redirect("/start2", "/landed?2")
    a.page("/landed?2", "page")
    a.redirect("/back", "/landed")

    class Copies(Requests):
        def parse(self, response: Response, **kwargs: Any) -> Any:
            yield from super().parse(response)
            if response.url.endswith("/landed") and len(self.result.responses) == 1:
                yield self.recorded(Request(a.url("/link"), meta=response.meta))
                yield self.recorded(Request(a.url("/back"), meta=response.meta, dont_filter=True))

    had = Result()
    await crawl(Copies, spider_args={"start": [Request(a.url("/start"))], "result": had})
    assert had.errors == []
    assert sorted(had.urls()) == [a.url("/landed"), a.url("/landed"), a.url("/landed?2")]


# Each hop is a request like any other


async def test_robots_txt_of_every_host_is_read_before_the_hop_and_obeyed(sites: Sites) -> None:
    a, b, c = sites.named("a.test", "b.test", "c.test")
    a.redirect("/go", b.url("/mid"))
    b.robots("User-agent: *\nDisallow: /mid")
    b.redirect("/mid", c.url("/end"))
    a.robots("User-agent: *\nDisallow: /private")
    a.redirect("/ok", "/private")
    a.page("/private", "page")
    result = await crawl([a.url("/go"), a.url("/ok")])
    assert b.paths() == ["/robots.txt"]
    assert c.connections == 0
    assert sorted(a.paths()) == ["/go", "/ok", "/robots.txt"]
    refused = result.error(b.url("/mid"))
    assert isinstance(refused, RobotsDisallowed)
    assert refused.trail[0] == a.url("/go")
    assert isinstance(result.error(a.url("/private")), RobotsDisallowed)

    b.robots("")
    c.robots("User-agent: *\nCrawl-delay: 0.3")
    c.page("/end", "page")
    open_way = await crawl([a.url("/go")])
    assert open_way.urls() == [c.url("/end")]
    assert c.paths() == ["/robots.txt", "/end"]
    assert c.gaps()[0] >= 0.28
    assert len(b.requests("/robots.txt")) == 2  # once for each crawl


async def test_a_landing_page_that_was_had_before_is_recorded_as_duplicate(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    a.page("/landed", "page")
    for number in range(3):
        a.redirect(f"/{number}", "/landed")
    result = await crawl([Request(a.url(f"/{number}")) for number in range(3)])
    assert result.urls() == [a.url("/landed")]
    assert len(a.requests("/landed")) == 1
    assert result.stats["scour/outcome/duplicate"] == 2
    assert result.stats["scour/pages"] + result.stats["scour/outcomes"] == 3


async def test_twenty_hosts_that_lead_to_one_do_not_hurry_it(sites: Sites) -> None:
    """The target counts in its own download slot, not in the first host's."""
    hub, *others = sites.named("hub.test", *(f"h{number}.test" for number in range(6)))
    hub.page("/*", "page", delay=0.02)
    for number, site in enumerate(others):
        site.redirect("/x", hub.url(f"/{number}"))
    values = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1, "DOWNLOAD_DELAY": 0.2, **NO_JITTER}
    result = await crawl([site.url("/x") for site in others], values)
    assert len(result.responses) == 6
    assert max_in_flight(hub.log) == 1
    assert min(starts(hub.log)) >= 0.18
    assert {page.meta["download_slot"] for page in result.responses} == {"hub.test"}

    hub.log.clear()
    await crawl([site.url("/x") for site in others], values, stock=True)
    assert min(starts(hub.requests())) < 0.1


async def test_a_download_slot_that_the_user_set_is_kept(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    a.redirect("/own", "/landed")
    a.page("/landed", "page")
    a.redirect("/out", b.url("/x"))
    b.page("/x", "page")
    result = await crawl([Request(a.url(path), meta={"download_slot": "mine"}) for path in ("/own", "/out")])
    assert [page.meta["download_slot"] for page in result.responses] == ["mine", "mine"]


async def test_apex_and_www_are_one_page_and_one_hop(sites: Sites) -> None:
    apex, www = sites.named("a.test", "www.a.test")
    apex.redirect("/", www.url("/"), 301)
    www.page("/", "page")
    result = await crawl([apex.url("/")], domains=["a.test"])
    assert result.urls() == [www.url("/")]
    assert result.stats["scour/pages"] == 1
    assert result.stats["scour/redirect/hops"] == 1


async def test_sitemaps_that_lead_back_to_themselves_end(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    a.robots(f"Sitemap: {a.url('/robots.txt')}\nSitemap: {a.url('/sitemap.xml')}")
    entry = f"<sitemap><loc>{a.url('/s1.xml')}</loc></sitemap>"
    schema = "http://www.sitemaps.org/schemas/sitemap/0.9"
    index = f"<sitemapindex xmlns='{schema}'>{entry}</sitemapindex>"
    a.page("/sitemap.xml", index, headers={"Content-Type": "application/xml"})
    a.redirect("/s1.xml", "/sitemap.xml", 301)

    class Maps(SitemapSpider):
        name = "maps"
        sitemap_urls = [a.url("/robots.txt")]  # noqa: RUF012

    result = await crawl(Maps)
    assert a.paths().count("/sitemap.xml") == 1
    assert a.paths().count("/s1.xml") == 1
    assert result.finish_reason == "finished"


# Nothing that a site says breaks the chain

CRAWLER = get_crawler(settings_dict={"ADDONS": ADDONS})
REDIRECT = RedirectMiddleware.from_crawler(CRAWLER)
REFRESH = MetaRefreshMiddleware.from_crawler(CRAWLER)


def end_of(middleware: RedirectMiddleware | MetaRefreshMiddleware, request: Request, response: Response) -> Any:
    try:
        return middleware.process_response(request, response)
    except Outcome as outcome:
        return outcome


@given(
    status=st.sampled_from([301, 302, 303, 307, 308]),
    location=st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")),
    cookies=st.lists(st.binary(max_size=20), max_size=3),
    body=st.text(max_size=60),
)
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_no_answer_makes_a_middleware_raise_anything_but_an_outcome(
    status: int, location: bytes, cookies: list[bytes], body: str
) -> None:
    headers: dict[str, Any] = {"Location": location, "Set-Cookie": cookies}
    request = Request("http://a.test/dir/n?q")
    html = f'<base href="{body}"><meta http-equiv="refresh" content="0;url={body}">'
    refreshing = HtmlResponse(request.url, body=html.encode("utf-8", "surrogatepass"), encoding="utf-8")
    for after in (
        end_of(REDIRECT, request, Response(request.url, status=status, headers=headers)),
        end_of(REFRESH, request, refreshing),
    ):
        assert isinstance(after, (Request, Response)) or (isinstance(after, Outcome) and after.url == request.url)
