"""How robots.txt is obtained, seen from the servers: every kind of answer, its size, its time, its way.

Each promise has a twin that shows what stock Scrapy does, so that the witness is known to be able to say otherwise.
"""

from __future__ import annotations

import gzip
import importlib.util
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from scrapy import Request, Spider, signals
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.extensions.httpcache import DummyPolicy
from scrapy.http import Response
from scrapy.utils.reactor import is_asyncio_reactor_installed

from scrapy_scour import compat
from scrapy_scour.exceptions import PolicyCheckFailed, RobotsDisallowed, RobotsUnreachable
from tests.support.crawl import Result, clean, crawl, sleep
from tests.support.site import (
    Answer,
    Seen,
    Site,
    Sites,
    closed,
    dribble,
    hang,
    raw,
    redirect,
    reset,
    truncated,
    unused_port,
)

WAITS: dict[str, Any] = {"SCOUR_ROBOTSTXT_WAITS": [0.2, 0.4], "RETRY_TIMES": 2}
ONE_TRY: dict[str, Any] = {"SCOUR_ROBOTSTXT_WAITS": [0.1], "RETRY_TIMES": 0}
QUICK: dict[str, Any] = {**ONE_TRY, "SCOUR_ROBOTSTXT_TIMEOUT": 0.4}
LIMIT = 512_000
NO_X = "User-agent: *\nDisallow: /x\n"


def pages(site: Site) -> list[str]:
    """What the server was asked for beside robots.txt files."""
    return [path for path in site.paths() if "robots" not in path]


def robots(site: Site) -> list[Seen]:
    return site.requests("/robots.txt")


def unreachable(result: Result, count: int) -> None:
    """Assert that all of *count* requests ended as robots_unreachable and nothing else came."""
    clean(result)
    assert result.responses == []
    assert [type(failed.error) for failed in result.errors] == [RobotsUnreachable] * count
    assert result.stats["scour/outcome/robots_unreachable"] == count
    assert result.stats["scour/robotstxt/hosts_unreachable"] == 1


# --- What the answer means ----------------------------------------------------------------------------------

NOT_OBTAINED: dict[str, Answer] = {
    "500": Answer("User-agent: *\nAllow: /\n", status=500),
    "502": Answer(status=502),
    "503": Answer("<html>busy</html>", status=503),
    "504": Answer(status=504),
    "520": Answer(status=520),
    "407": Answer(status=407),
    "429": Answer(status=429),
    "304": Answer(status=304),
    "300": redirect("/elsewhere", 300),
    "no Location": Answer(status=301),
    "empty Location": redirect("", 302),
    "to itself": redirect("/robots.txt", 301),
    "to ftp": redirect("ftp://127.0.0.1/robots.txt"),
    "to nowhere": redirect("http://"),
    "reset": reset(),
    "closed": closed(),
    "no HTTP": raw(b"SSH-2.0-OpenSSH\r\n"),
    "broken off": truncated("User-agent: *\nDisallow: /x\n", missing=20),
    "broken chunks": Answer("User-agent: *\n", chunked=True, end="reset"),
    "unknown coding": Answer(NO_X, headers={"Content-Encoding": "zstd-or-so"}),
    "no gzip": Answer(NO_X, headers={"Content-Encoding": "gzip"}),
}


@pytest.mark.parametrize("case", NOT_OBTAINED)
async def test_what_could_not_be_told_is_no_yes(site: Site, case: str) -> None:
    """RFC 9309 2.3.1.4: 5xx, 429, the proxy's 407, a redirect to nowhere, a broken answer: no page is sent."""
    site.answer("/robots.txt", NOT_OBTAINED[case])
    site.default = Answer("page")
    result = await crawl([site.url("/a"), site.url("/b")], ONE_TRY)
    unreachable(result, 2)
    assert set(site.paths()) == {"/robots.txt"}
    assert len(robots(site)) == 1


@pytest.mark.parametrize("case", ["503", "reset", "closed", "429", "to itself", "no gzip", "hangs"])
async def test_stock_takes_no_answer_for_a_yes(site: Site, case: str) -> None:
    site.answer("/robots.txt", NOT_OBTAINED.get(case, hang()))
    site.default = Answer("page")
    await crawl([site.url("/a"), site.url("/b")], {"RETRY_TIMES": 0, "DOWNLOAD_TIMEOUT": 0.5}, stock=True)
    assert sorted(pages(site)) == ["/a", "/b"]


async def test_a_robots_txt_that_hangs_has_its_own_timeout_and_holds_up_nobody_else(sites: Sites) -> None:
    """The other host's pages are all there before the silent one is given up."""
    silent, healthy = sites(), sites("127.0.0.2")
    silent.answer("/robots.txt", hang())
    healthy.default = Answer("page")
    own = [healthy.url(f"/{n}") for n in range(10)]
    result = await crawl([silent.url("/a"), *own, silent.url("/b")], {**QUICK, "DOWNLOAD_TIMEOUT": 180})
    assert pages(silent) == []
    assert sorted(result.urls()) == sorted(own)
    (asked,) = robots(silent)
    assert asked.aborted
    assert (asked.ended or 0) - asked.at < 2.0
    assert all(one.at < (asked.ended or 0) for one in healthy.requests())
    assert {type(failed.error) for failed in result.errors} == {RobotsUnreachable}
    assert result.stats["scour/outcome/robots_unreachable"] == 2
    assert any("Timeout" in key for key in result.stats if key.startswith("robotstxt/exception_count/"))
    clean(result)


@pytest.mark.parametrize("case", ["refused port", "no such name", "no TLS", "TLS to plain"])
async def test_a_site_that_cannot_be_reached_is_not_open(sites: Sites, case: str) -> None:
    site = sites(tls=case == "no TLS")
    url = {
        "refused port": f"http://127.0.0.1:{unused_port()}/a",
        "no such name": "http://nowhere.invalid/a",
        "no TLS": f"http://127.0.0.1:{site.port}/a",
        "TLS to plain": f"https://127.0.0.1:{site.port}/a",
    }[case]
    result = await crawl(url, ONE_TRY)
    unreachable(result, 1)
    assert not [path for path in site.paths() if path == "/a"]


NO_RULES = (400, 401, 403, 404, 410, 451, 499)


@pytest.mark.parametrize("status", NO_RULES)
async def test_4xx_is_a_site_without_rules_whatever_its_body_says(site: Site, status: int) -> None:
    """RFC 9309 2.3.1.3: the status decides before the body is looked at."""
    site.robots("User-agent: *\nDisallow: /\n", status=status)
    site.default = Answer("page")
    result = await crawl(site.url("/a"), ONE_TRY)
    assert site.paths() == ["/robots.txt", "/a"]
    assert result.stats["scour/robotstxt/no_rules"] == 1
    assert result.stats[f"robotstxt/response_status_count/{status}"] == 1
    assert any(f"no robots.txt (status {status}" in text for text in result.messages(20))
    clean(result)


async def test_stock_reads_the_rules_of_an_error_page(site: Site) -> None:
    site.robots("User-agent: *\nDisallow: /\n", status=404)
    await crawl(site.url("/a"), stock=True)
    assert site.paths() == ["/robots.txt"]


TWO_HUNDREDS: dict[str, tuple[Answer, list[str]]] = {
    "rules": (Answer(NO_X), ["/y"]),
    "203": (Answer(NO_X, status=203), ["/y"]),
    "no length": (Answer(NO_X, unframed=True), ["/y"]),
    "gzip": (Answer(NO_X, encoding="gzip"), ["/y"]),
    "deflate": (Answer(NO_X, encoding="deflate"), ["/y"]),
    "gzip in gzip": (
        Answer(gzip.compress(gzip.compress(NO_X.encode())), headers={"Content-Encoding": "gzip, gzip"}),
        ["/y"],
    ),
    "two gzip members": (
        Answer(
            gzip.compress(b"User-agent: *\n") + gzip.compress(b"Disallow: /x\n"), headers={"Content-Encoding": "gzip"}
        ),
        ["/y"],
    ),
    "html": (Answer("<!doctype html><p>Disallow: /x</p>"), ["/x", "/y"]),
    "204": (Answer(status=204), ["/x", "/y"]),
    "empty": (Answer(""), ["/x", "/y"]),
}


@pytest.mark.parametrize("case", TWO_HUNDREDS)
async def test_2xx_are_the_rules(site: Site, case: str) -> None:
    """RFC 9309 2.3.1.1; an HTML page has none."""
    answer, allowed = TWO_HUNDREDS[case]
    site.answer("/robots.txt", answer)
    site.default = Answer("page")
    result = await crawl([site.url("/x"), site.url("/y")], ONE_TRY)
    assert sorted(pages(site)) == allowed
    assert result.stats["scour/robotstxt/rules"] == 1
    assert result.stats.get("scour/outcome/robots_disallowed", 0) == 2 - len(allowed)
    clean(result)


# --- Redirects ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hops", "fetched"), [(1, ["/y"]), (2, ["/y"]), (5, ["/y"]), (6, [])])
async def test_five_hops_are_obeyed_and_six_are_not_obtained(site: Site, hops: int, fetched: list[str]) -> None:
    """RFC 9309 2.3.1.2."""
    for number in range(hops):
        site.redirect(f"/robots-{number}" if number else "/robots.txt", f"/robots-{number + 1}", 301)
    site.page(f"/robots-{hops}", NO_X)
    site.default = Answer("page")
    result = await crawl([site.url("/x"), site.url("/y")], ONE_TRY)
    assert pages(site) == fetched
    assert len([path for path in site.paths() if "robots" in path]) == min(hops, 5) + 1
    assert result.stats["robotstxt/request_count"] == 1
    assert result.stats["robotstxt/response_count"] == min(hops, 5) + 1
    clean(result)


async def test_a_redirect_is_followed_to_a_host_out_of_scope_and_rules_the_first_one(sites: Sites) -> None:
    """RFC 9309 2.3.1.2, across authorities; the other host's own pages are none of its business."""
    here, there = sites.named("a.test", "b.test")
    here.redirect("/robots.txt", there.url("/r/robots.txt"))
    there.page("/r/robots.txt", "User-agent: *\nDisallow: /x\n")
    there.robots("User-agent: *\nDisallow: /y\n")
    here.default = there.default = Answer("page")
    result = await crawl([here.url("/x"), here.url("/y")], ONE_TRY, domains=["a.test"])
    assert pages(here) == ["/y"]
    assert there.paths() == ["/r/robots.txt"]
    assert isinstance(result.error(here.url("/x")), RobotsDisallowed)
    clean(result)


async def test_a_redirect_to_https_gives_rules_for_http(sites: Sites) -> None:
    """RFC 9309 2.3.1.2: the rules are those of the first authority."""
    plain, secure = sites(name="a.test"), sites(name="a.test", tls=True)
    plain.redirect("/robots.txt", secure.url("/robots.txt"), 301)
    secure.robots(NO_X)
    plain.default = Answer("page")
    result = await crawl([plain.url("/x"), plain.url("/y")], ONE_TRY)
    assert pages(plain) == ["/y"]
    assert secure.paths() == ["/robots.txt"]
    clean(result)


async def test_stock_opens_a_site_whose_robots_txt_is_out_of_scope(sites: Sites) -> None:
    here, there = sites.named("a.test", "b.test")
    here.redirect("/robots.txt", there.url("/r/robots.txt"))
    there.page("/r/robots.txt", "User-agent: *\nDisallow: /\n")
    here.default = Answer("page")
    await crawl(here.url("/x"), stock=True, domains=["a.test"])
    assert (pages(here), there.paths()) == (["/x"], [])


async def test_a_loop_over_two_hosts_ends_after_a_few_requests(sites: Sites) -> None:
    here, there = sites(), sites("127.0.0.2")
    here.redirect("/robots.txt", there.url("/robots.txt"), 301)
    there.redirect("/robots.txt", here.url("/robots.txt"), 301)
    here.default = Answer("page")
    result = await crawl(here.url("/a"), ONE_TRY)
    unreachable(result, 1)
    assert (here.paths(), there.paths()) == (["/robots.txt"], ["/robots.txt"])


async def test_a_redirect_to_a_missing_file_is_a_site_without_rules(sites: Sites) -> None:
    here, there = sites.named("api.a.test", "a.test")
    here.redirect("/robots.txt", there.url("/404"))
    here.default = Answer("page")
    result = await crawl(here.url("/data.json"), ONE_TRY)
    assert pages(here) == ["/data.json"]
    assert any("status 404" in text and there.url("/404") in text for text in result.messages(20))
    clean(result)


async def test_secrets_of_the_project_do_not_go_to_the_host_of_a_hop(sites: Sites) -> None:
    """Nor cookies, nor a user in the Location; the agent does."""
    here, there = sites.named("a.test", "b.test")
    here.redirect("/robots.txt", there.url("/r/robots.txt").replace("://", "://user:word@"))
    there.page("/r/robots.txt", NO_X, headers={"Set-Cookie": "c=1"})
    here.default = Answer("page")
    secrets = {"X-Api-Key": "k3y", "Authorization": "Bearer t0ken", "Cookie": "session=1", "Accept-Language": "de"}
    result = await crawl(here.url("/x"), {**ONE_TRY, "DEFAULT_REQUEST_HEADERS": secrets})
    assert pages(here) == []
    (hop,) = there.requests()
    names = {name.lower() for name, _ in hop.headers}
    assert names <= {"host", "user-agent", "accept", "accept-encoding", "accept-language", "connection"}
    assert (hop.header("User-Agent") or "").startswith("testbot/1.0")
    assert robots(here)[0].header("X-Api-Key") == "k3y"
    clean(result)


# --- Trying again -------------------------------------------------------------------------------------------


async def test_a_blip_costs_a_few_tries_and_no_page(site: Site) -> None:
    """503, 503, then the file: pages wait in the queue meanwhile, and the rules apply to all of them."""
    site.sequence("/robots.txt", [Answer(status=503), Answer(status=503), NO_X])
    site.default = Answer("page")
    result = await crawl([site.url(f"/{n}") for n in range(50)] + [site.url("/x")], WAITS)
    assert len(robots(site)) == 3
    assert len(result.responses) == 50
    assert sorted(pages(site)) == sorted(f"/{n}" for n in range(50))
    first, second, third = (one.at for one in robots(site))
    assert second - first >= 0.19
    assert third - second >= 0.39
    assert site.requests("/0")[0].at > third
    assert [type(failed.error) for failed in result.errors] == [RobotsDisallowed]
    assert result.stats["scour/hold/robots_unreachable"] == 2
    assert result.stats["scour/robotstxt/not_obtained"] == 2
    clean(result)


async def test_a_dead_host_costs_a_few_tries_however_many_urls_it_has(sites: Sites) -> None:
    """Each of them ends as robots_unreachable; another host is not slowed down."""
    dead, alive = sites(), sites("127.0.0.2")
    dead.answer("/robots.txt", Answer(status=503))
    alive.default = Answer("page")
    urls = [dead.url(f"/{n}") for n in range(50)]
    result = await crawl([*urls, *(alive.url(f"/{n}") for n in range(10))], WAITS)
    assert dead.paths() == ["/robots.txt"] * 3
    assert len(result.responses) == 10
    assert max(one.at for one in alive.requests()) < robots(dead)[1].at
    assert sorted(failed.url for failed in result.errors) == sorted(urls)
    assert result.stats["scour/outcome/robots_unreachable"] == 50
    assert len([text for text in result.messages() if "could not be read" in text]) == 1
    clean(result)


async def test_a_request_that_may_not_be_retried_is_refused_at_the_first_failure(site: Site) -> None:
    site.answer("/robots.txt", Answer(status=503))
    result = await crawl(
        [Request(site.url("/a"), meta={"dont_retry": True}), Request(site.url("/b"), meta={"max_retry_times": 0})],
        WAITS,
    )
    unreachable(result, 2)
    assert len(robots(site)) == 1


async def test_retry_after_on_robots_txt_is_waited_for(site: Site) -> None:
    """RFC 9110 10.2.3: 429 with two seconds, once; no page before the file is read."""
    site.sequence("/robots.txt", [Answer(status=429, headers={"Retry-After": "2"}), NO_X])
    site.default = Answer("page")
    result = await crawl([site.url("/x"), site.url("/y")], WAITS)
    first, second = robots(site)
    assert second.at - first.at >= 1.98
    assert pages(site) == ["/y"]
    clean(result)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_retry_after_above_the_maximum_refuses_at_once(site: Site, status: int) -> None:
    site.answer("/robots.txt", Answer(status=status, headers={"Retry-After": "3600"}))
    result = await crawl([site.url(f"/{n}") for n in range(20)], {**WAITS, "SCOUR_RETRY_AFTER_MAX": 1})
    unreachable(result, 20)
    assert len(robots(site)) == 1
    assert result.elapsed < 5


class Steps(Spider):
    """Asks for one URL after the other, some time apart, whatever comes of them."""

    name = "steps"
    urls: list[str]
    apart = 0.25

    async def start(self) -> Any:
        for url in self.urls:
            yield Request(url, errback=lambda failure: None)
            await sleep(self.apart)

    def parse(self, response: Response) -> None:
        pass


def after(said: Seen, *opened: Site) -> list[float]:
    """When the sites were asked after an answer, seconds from its end."""
    assert said.ended is not None
    return [seen.at - said.ended for site in opened for seen in site.requests() if seen.at > said.ended]


async def test_a_time_named_with_robots_txt_holds_the_host_although_its_rules_are_known(site: Site) -> None:
    """RFC 9110 10.2.3: the old copy stays in use, but nothing is asked before that time."""
    site.sequence("/robots.txt", [NO_X, Answer(status=429, headers={"Retry-After": "1"}), NO_X])
    site.default = Answer("page", delay=0.05)
    settings = {"SCOUR_ROBOTSTXT_TTL": 0.3, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    result = await crawl([site.url(f"/{n}") for n in range(12)], settings)
    assert min(after(robots(site)[1], site)) >= 0.98
    assert len(result.responses) == 12
    clean(result)


async def test_a_time_over_the_maximum_gives_the_host_up_although_its_rules_are_known(site: Site) -> None:
    site.sequence("/robots.txt", [NO_X, Answer(status=503, headers={"Retry-After": "3600"})])
    site.default = Answer("page", delay=0.05)
    settings = {"SCOUR_ROBOTSTXT_TTL": 0.3, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    result = await crawl([site.url(f"/{n}") for n in range(20)], settings)
    assert after(robots(site)[1], site) == []
    assert result.stats["scour/outcome/rate_limited"] == 20 - len(result.responses) > 0
    clean(result)


async def test_a_time_named_by_the_host_of_a_hop_holds_that_host(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    a.redirect("/robots.txt", b.url("/r.txt"))
    b.answer("/r.txt", Answer(status=429, headers={"Retry-After": "1"}))
    b.robots("")
    b.default = Answer("page")
    await crawl(Steps, ONE_TRY, spider_args={"urls": [a.url("/1"), b.url("/1")]})
    assert min(after(b.requests("/r.txt")[0], b)) >= 0.98
    assert len(b.requests("/1")) == 1


async def test_a_time_named_with_the_last_try_holds_the_other_ports_of_the_host_too(sites: Sites) -> None:
    one, other = sites(), sites()
    one.answer("/robots.txt", Answer(status=429, headers={"Retry-After": "1"}))
    other.robots("")
    other.default = Answer("page")
    await crawl(Steps, ONE_TRY, spider_args={"urls": [one.url("/1"), other.url("/1")]})
    assert min(after(robots(one)[0], one, other)) >= 0.98
    assert len(other.requests("/1")) == 1


async def test_a_time_that_was_named_outlives_its_place_among_the_failures(sites: Sites) -> None:
    one, other = sites(), sites("127.0.0.2")
    one.answer("/robots.txt", Answer(status=429, headers={"Retry-After": "3600"}))
    other.page("/robots.txt", status=503)
    urls = [one.url("/1"), other.url("/1"), one.url("/2")]
    result = await crawl(Steps, {**ONE_TRY, "SCOUR_ROBOTSTXT_CACHE_SIZE": 1}, spider_args={"urls": urls})
    assert one.paths() == ["/robots.txt"]
    assert result.package_tracebacks == []


async def test_a_file_that_is_kept_for_less_than_its_hosts_delay_lets_its_pages_go(site: Site) -> None:
    """Not robots.txt again and again, and no page."""
    site.robots("User-agent: *\nCrawl-delay: 0.3\n")
    site.default = Answer("page")
    result = await crawl([site.url(f"/{n}") for n in range(2)], {"SCOUR_ROBOTSTXT_TTL": 0.2})
    assert len(pages(site)) == 2
    assert len(robots(site)) <= 3
    assert min(site.gaps()) >= 0.28
    clean(result)


async def test_more_hosts_with_a_delay_than_files_are_kept_of_get_their_pages(sites: Sites) -> None:
    """Each has to wait between its robots.txt and its page, by when another's has taken its place."""
    opened = [sites(f"127.0.0.{n}") for n in range(1, 7)]
    for site in opened:
        site.robots(f"User-agent: *\nCrawl-delay: 0.3\n{NO_X}")
        site.default = Answer("page")
    urls = [site.url(f"/{n}") for n in range(2) for site in opened]
    result = await crawl(urls, {"SCOUR_ROBOTSTXT_CACHE_SIZE": 2})
    assert len(result.responses) == 12
    assert max(len(robots(site)) for site in opened) <= 3
    assert min(min(site.gaps()) for site in opened) >= 0.28
    clean(result)


async def test_what_was_let_pass_once_opens_nothing_else(site: Site) -> None:
    """Neither in another run nor for another URL: what stands in meta is asked of nobody else's requests."""
    site.robots(NO_X)
    meta = {"scour_let_pass": ["another run", site.url("/x"), "testbot", 1e12, 0]}
    await crawl(Request(site.url("/x"), meta=meta), ONE_TRY)
    assert pages(site) == []


async def test_an_old_copy_stays_in_use_and_a_new_one_is_obeyed(site: Site) -> None:
    """RFC 9309 2.4 and 2.3.1.4, with a TTL of a moment: rules, then 503, then other rules."""
    site.sequence("/robots.txt", [NO_X, Answer(status=503), "User-agent: *\nDisallow: /y\n"])
    site.default = Answer("page")

    class Slow(Spider):
        name = "slow"

        async def start(self) -> Any:
            for moment in ("one", "two", "three"):
                for path in ("x", "y"):
                    yield Request(site.url(f"/{path}/{moment}"), errback=lambda failure: None)
                await sleep(0.45)

        def parse(self, response: Response) -> None:
            pass

    result = await crawl(Slow, {**WAITS, "SCOUR_ROBOTSTXT_TTL": 0.3, "SCOUR_ROBOTSTXT_WAITS": [0.1]})
    assert pages(site) == ["/y/one", "/y/two", "/x/three"]
    assert len(robots(site)) == 3
    assert any("stay in use" in text for text in result.messages())
    assert result.package_tracebacks == []


async def test_each_scheme_and_port_has_its_own_file(sites: Sites) -> None:
    """RFC 9309 2.3; without userinfo in what is asked."""
    http, https, port = sites(name="a.test"), sites(name="a.test", tls=True), sites(name="a.test")
    for site, path in ((http, "/h"), (https, "/s"), (port, "/p")):
        site.robots(f"User-agent: *\nDisallow: {path}\n")
        site.default = Answer("page")
    asked = [site.url(path) for site in (http, https, port) for path in ("/h", "/s", "/p")]
    # The handler refuses a user in the page's own URL; its robots.txt has been read by then.
    asked.insert(0, http.url("/user").replace("://", "://user:word@"))
    result = await crawl(asked, ONE_TRY)
    assert [sorted(pages(site)) for site in (http, https, port)] == [["/p", "/s"], ["/h", "/p"], ["/h", "/s"]]
    for site in (http, https, port):
        (one,) = robots(site)
        assert one.host == f"a.test:{site.port}"
        assert one.header("Authorization") is None
    clean(result)


# --- Size and time ------------------------------------------------------------------------------------------

FILLER = b"# " + b"x" * 97 + b"\n"


def long_file(last: bytes, size: int = LIMIT) -> bytes:
    """A file whose line *last* is cut by the limit after half of it, and that goes on for as long again."""
    first = b"User-agent: *\nDisallow: /x\nDisallow: /private\n"
    rest = size - len(first) - len(last) // 2
    return first + (FILLER * (rest // len(FILLER) + 1))[: rest - 1] + b"\n" + last + b"\n" + FILLER * (size // 50)


LARGE: dict[str, Callable[[bytes], Answer]] = {
    "declared": lambda body: Answer(body),
    "streamed": lambda body: Answer(body, chunked=True),
    "without a length": lambda body: Answer(body, unframed=True),
    "compressed": lambda body: Answer(body, encoding="gzip"),
}


@pytest.mark.parametrize("framing", LARGE)
async def test_a_file_that_is_too_long_is_cut_and_used(site: Site, framing: str) -> None:
    """RFC 9309 2.5: its rules apply, and an Allow that is cut in the middle opens nothing."""
    site.answer("/robots.txt", LARGE[framing](long_file(b"Allow: /private/open-only-this")))
    site.default = Answer("page")
    urls = [site.url(path) for path in ("/x", "/y", "/private/other", "/private/open-only-this")]
    result = await crawl(urls, {**ONE_TRY, "SCOUR_ROBOTSTXT_MAXSIZE": LIMIT, "DOWNLOAD_MAXSIZE": 1000})
    assert pages(site) == ["/y"]
    assert result.stats["scour/robotstxt/truncated"] == 1
    assert result.stats["scour/outcome/robots_disallowed"] == 3
    await sleep(0.05)
    site.settle()
    if framing != "compressed":
        assert robots(site)[0].aborted
        assert robots(site)[0].sent < 2 * LIMIT
    clean(result)


async def test_stock_opens_a_site_whose_file_is_too_long(site: Site) -> None:
    site.answer("/robots.txt", Answer(long_file(b"Allow: /z")))
    site.default = Answer("page")
    await crawl(site.url("/x"), {"DOWNLOAD_MAXSIZE": LIMIT, "RETRY_TIMES": 0}, stock=True)
    assert pages(site) == ["/x"]


async def test_a_file_of_exactly_the_limit_is_whole(site: Site) -> None:
    body = long_file(b"Allow: /private/open")[: LIMIT - 23] + b"\nAllow: /private/open\n"
    body = body[:LIMIT]
    site.answer("/robots.txt", Answer(body))
    site.default = Answer("page")
    settings = {**ONE_TRY, "SCOUR_ROBOTSTXT_MAXSIZE": len(body)}
    assert len(body) >= 511_998
    result = await crawl(
        [site.url("/private/open"), site.url("/private/no")], {**settings, "SCOUR_ROBOTSTXT_MAXSIZE": LIMIT}
    )
    assert pages(site) == ["/private/open"]
    assert "scour/robotstxt/truncated" not in result.stats
    clean(result)


async def test_a_hop_to_a_huge_file_reads_no_more_of_it(sites: Sites) -> None:
    here, there = sites(), sites("127.0.0.2")
    here.redirect("/robots.txt", there.url("/huge"))
    there.answer("/huge", Answer(b"User-agent: *\nDisallow: /x\n" + FILLER * 200_000, chunked=True))
    here.default = Answer("page")
    result = await crawl([here.url("/x"), here.url("/y")], {**ONE_TRY, "SCOUR_ROBOTSTXT_MAXSIZE": LIMIT})
    assert pages(here) == ["/y"]
    there.settle()
    assert there.requests("/huge")[0].aborted
    assert there.requests("/huge")[0].sent < 5_000_000
    clean(result)


async def test_a_small_answer_that_unpacks_to_a_huge_one_is_cut_in_flat_memory(site: Site) -> None:
    """200 MB in 200 KB; neither we nor Scrapy's decompression unpack more than the limit."""
    packer = gzip.compress(b"User-agent: *\nDisallow: /x\n")
    filler = gzip.compress(b"#" + b"x" * 10_000_000 + b"\n")
    site.answer("/robots.txt", Answer(packer + filler * 20, headers={"Content-Encoding": "gzip"}))
    site.default = Answer("page")
    tracemalloc.start()
    try:
        result = await crawl([site.url("/x"), site.url("/y")], {**ONE_TRY, "SCOUR_ROBOTSTXT_MAXSIZE": LIMIT})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert pages(site) == ["/y"]
    assert result.stats["scour/robotstxt/truncated"] == 1
    assert peak < 20_000_000
    clean(result)


HANDLERS = "scrapy.core.downloader.handlers"


@pytest.mark.parametrize(
    "handler", ["http11.HTTP11DownloadHandler", "_aiohttp.AiohttpDownloadHandler", "_httpx.HttpxDownloadHandler"]
)
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunks"])
async def test_the_timeout_covers_a_body_that_dribbles(site: Site, handler: str, chunked: bool) -> None:
    """Whatever the handler's own timeout covers: ours runs from the dispatch."""
    module, needs = handler.partition(".")[0], {"_aiohttp": "aiohttp", "_httpx": "httpx2"}
    if importlib.util.find_spec(f"{HANDLERS}.{module}") is None:
        pytest.skip("this Scrapy has no such handler")
    if module in needs and importlib.util.find_spec(needs[module]) is None:
        pytest.skip(f"{needs[module]} is not installed")
    if module in needs and not is_asyncio_reactor_installed():
        pytest.skip("this handler needs the asyncio reactor")
    site.answer("/robots.txt", dribble(NO_X * 20, piece=2, pause=0.1, chunked=chunked))
    site.default = Answer("page")
    result = await crawl(site.url("/y"), {**QUICK, "DOWNLOAD_HANDLERS": {"http": f"{HANDLERS}.{handler}"}})
    unreachable(result, 1)
    (asked,) = robots(site)
    site.settle()
    assert asked.aborted
    assert (asked.ended or 0) - asked.at < 2.0


class NoTimeout:
    """Stands for a handler whose timeout does not cover the body: takes it away from the handler."""

    def process_request(self, request: Request) -> None:
        if request.url.endswith("/robots.txt"):
            request.meta["download_timeout"] = 60


def between(position: int, middleware: type) -> dict[str, Any]:
    return {"DOWNLOADER_MIDDLEWARES": {middleware: position}}


@pytest.mark.parametrize("case", ["dribble", "silence", "no answer"])
async def test_a_handler_without_a_timeout_keeps_nobody_waiting(site: Site, case: str) -> None:
    answer = {"dribble": dribble(NO_X * 20, piece=2, pause=0.1), "silence": Answer("U", declared=9, end="hang")}
    site.answer("/robots.txt", answer.get(case, hang()))
    site.default = Answer("page")
    result = await crawl(site.url("/y"), {**QUICK, **between(5000, NoTimeout)})
    unreachable(result, 1)
    assert result.elapsed < 5
    assert any("SCOUR_ROBOTSTXT_TIMEOUT" in str(failed.error) for failed in result.errors)


class AnswersAndTakesAway:
    """A cache that answers by itself what it has made to last for ever."""

    def process_request(self, request: Request) -> Response | None:
        if not request.url.endswith("/robots.txt"):
            return None
        request.meta["download_timeout"] = 60
        return Response(request.url, body=OPEN)


@pytest.mark.parametrize("case", ["dribble", "silence"])
async def test_nor_does_one_where_it_is_fetched_past_the_middlewares(site: Site, case: str) -> None:
    answers = {"dribble": dribble(NO_X * 20, piece=2, pause=0.1), "silence": Answer("U", declared=9, end="hang")}
    site.answer("/robots.txt", answers[case])
    site.default = Answer("page")
    result = await crawl(site.url("/y"), {**QUICK, **between(5000, AnswersAndTakesAway)})
    unreachable(result, 1)
    assert result.elapsed < 5
    assert any("SCOUR_ROBOTSTXT_TIMEOUT" in str(failed.error) for failed in result.errors)


class StopsEverything:
    """An extension that wants no bodies at all."""

    def __init__(self, crawler: Any) -> None:
        crawler.signals.connect(self.headers_received, signal=signals.headers_received)

    @classmethod
    def from_crawler(cls, crawler: Any) -> StopsEverything:
        return cls(crawler)

    def headers_received(self, headers: Any, body_length: int, request: Request, spider: Spider) -> None:
        raise StopDownload(fail=False)


async def test_a_file_that_another_component_stopped_is_not_the_rules(site: Site) -> None:
    site.robots("User-agent: *\nDisallow: /\n")
    site.default = Answer("page")
    result = await crawl(site.url("/y"), {**ONE_TRY, "EXTENSIONS": {StopsEverything: 0}})
    unreachable(result, 1)


# --- One fetch for all --------------------------------------------------------------------------------------

QUEUES = {
    "ours": "scrapy_scour.pqueues.PolitePriorityQueue",
    "stock": "scrapy.pqueues.ScrapyPriorityQueue",
    "downloader aware": "scrapy.pqueues.DownloaderAwarePriorityQueue",
}
MANY = {"CONCURRENT_REQUESTS": 200, "CONCURRENT_REQUESTS_PER_DOMAIN": 200}


@pytest.mark.parametrize("queue", QUEUES)
async def test_two_hundred_first_requests_cause_one_fetch_and_each_is_judged(site: Site, queue: str) -> None:
    site.robots(NO_X, delay=0.3)
    site.default = Answer("page")
    urls = [site.url(f"/{'x' if n % 2 else 'y'}/{n}") for n in range(200)]
    result = await crawl(urls, {**ONE_TRY, **MANY, "SCHEDULER_PRIORITY_QUEUE": QUEUES[queue]})
    assert len(robots(site)) == 1
    assert sorted(pages(site)) == sorted(f"/y/{n}" for n in range(0, 200, 2))
    assert result.stats["scour/outcome/robots_disallowed"] == 100
    clean(result)


async def test_stock_judges_the_first_requests_and_lets_the_rest_through(site: Site) -> None:
    site.robots(NO_X, delay=0.3)
    site.default = Answer("page")
    await crawl([site.url(f"/x/{n}") for n in range(40)], MANY, stock=True)
    assert len(robots(site)) == 1
    assert len(pages(site)) > 20


@pytest.mark.parametrize("queue", ["stock", "downloader aware"])
async def test_pages_wait_for_a_second_try_with_any_queue(site: Site, queue: str) -> None:
    site.sequence("/robots.txt", [Answer(status=503), Answer(status=503), NO_X])
    site.default = Answer("page")
    urls = [site.url(f"/{n}") for n in range(30)] + [site.url("/x")]
    result = await crawl(urls, {**WAITS, "SCHEDULER_PRIORITY_QUEUE": QUEUES[queue]})
    assert (len(robots(site)), len(result.responses)) == (3, 30)
    assert "/x" not in pages(site)
    clean(result)


class Direct(Spider):
    """Asks past the scheduler, as the media pipelines do."""

    name = "direct"
    urls: tuple[str, ...] = ()
    results: list[Any]

    async def start(self) -> Any:
        yield Request("data:,", callback=self.begin)

    async def begin(self, response: Response) -> None:
        self.results = []
        waiting = [compat.schedule(self.one(url)) for url in self.urls]
        for _ in range(500):
            if len(self.results) == len(waiting):
                return
            await sleep(0.01)

    async def one(self, url: str) -> None:
        try:
            self.results.append((await self.crawler.engine.download_async(Request(url))).url)
        except Exception as error:
            self.results.append(type(error))


async def test_requests_past_the_scheduler_share_the_fetch_wait_and_are_judged(site: Site) -> None:
    """``engine.download_async`` has no queue to go back to: they wait where they are."""
    site.sequence("/robots.txt", [Answer(status=503), NO_X])
    site.default = Answer("page")
    urls = tuple(site.url(f"/{'x' if n % 2 else 'y'}/{n}") for n in range(40))
    result = await crawl(type("D", (Direct,), {"urls": urls}), WAITS)
    assert isinstance(result.spider, Direct)
    assert sorted(map(str, result.spider.results)) == sorted([str(RobotsDisallowed)] * 20 + list(urls[::2]))
    assert (len(robots(site)), len(pages(site))) == (2, 20)
    assert result.package_tracebacks == []


# --- Never from a cache -------------------------------------------------------------------------------------


class CacheAll(DummyPolicy):
    """A cache policy that would keep and serve anything."""

    def should_cache_request(self, request: Request) -> bool:
        return True


@pytest.mark.parametrize("stock", [False, True], ids=["ours", "stock"])
async def test_rules_that_change_between_two_runs_are_obeyed_at_once(site: Site, tmp_path: Any, stock: bool) -> None:
    """Also for a page that lies in the cache; stock serves both from there."""
    cache = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(tmp_path), "HTTPCACHE_POLICY": CacheAll}
    site.robots("")
    site.default = Answer("page")
    first = await crawl(site.url("/x"), cache, stock=stock)
    assert len(first.responses) == 1
    site.robots(NO_X)
    second = await crawl([site.url("/x"), site.url("/y")], cache, stock=stock)
    assert len(robots(site)) == (1 if stock else 2)
    assert (site.url("/x") in second.urls()) is stock
    third = await crawl(site.url("/y"), cache, stock=stock)
    assert third.page(site.url("/y")).flags == ["cached"]
    assert third.package_tracebacks == []


OPEN = b"User-agent: *\nAllow: /\n"


class RudeCache:
    """Answers every robots.txt request with a copy of its own, whatever ``dont_cache`` says."""

    def process_request(self, request: Request) -> Response | None:
        return Response(request.url, body=OPEN) if "robots.txt" in request.url else None


class RudeReplacement:
    """Replaces every robots.txt answer with a copy of its own."""

    def process_response(self, request: Request, response: Response) -> Response:
        return response.replace(body=OPEN, status=200) if "robots.txt" in request.url else response


class RudeRescue:
    """Answers with a copy of its own when the site does not."""

    def process_exception(self, request: Request, exception: Exception) -> Response | None:
        return Response(request.url, body=OPEN) if "robots.txt" in request.url else None


@pytest.mark.parametrize("position", [5, 520, 740, 760, 900, 9000])
async def test_an_answer_that_a_middleware_gives_itself_is_not_current(site: Site, position: int) -> None:
    site.robots(NO_X)
    site.default = Answer("page")
    result = await crawl([site.url("/x"), site.url("/y")], {**ONE_TRY, **between(position, RudeCache)})
    assert site.paths() == ["/robots.txt", "/y"]
    assert result.stats["scour/robotstxt/answered_by_middleware"] == 1
    assert any("answered the request" in text for text in result.messages())
    clean(result)


@pytest.mark.parametrize("middleware", [RudeCache, RudeReplacement])
async def test_stock_believes_a_middleware(site: Site, middleware: type) -> None:
    site.robots(NO_X)
    site.default = Answer("page")
    await crawl(site.url("/x"), between(900, middleware), stock=True)
    assert pages(site) == ["/x"]


@pytest.mark.parametrize("position", [5, 700, 900, 9000])
async def test_a_middleware_that_replaces_the_answer_changes_nothing(site: Site, position: int) -> None:
    site.robots(NO_X)
    site.default = Answer("page")
    result = await crawl([site.url("/x"), site.url("/y")], {**ONE_TRY, **between(position, RudeReplacement)})
    assert site.paths() == ["/robots.txt", "/y"]
    clean(result)


@pytest.mark.parametrize("position", [5, 900])
async def test_a_middleware_that_answers_for_a_site_that_did_not_opens_nothing(site: Site, position: int) -> None:
    site.answer("/robots.txt", reset())
    site.default = Answer("page")
    unreachable(await crawl(site.url("/x"), {**ONE_TRY, **between(position, RudeRescue)}), 1)
    assert pages(site) == []


async def test_a_past_fetch_that_fails_opens_nothing_either(site: Site) -> None:
    site.answer("/robots.txt", Answer(status=503))
    site.default = Answer("page")
    unreachable(await crawl(site.url("/x"), {**ONE_TRY, **between(900, RudeCache)}), 1)
    assert pages(site) == []


async def test_what_a_cache_adds_to_revalidate_its_copy_is_not_sent(site: Site) -> None:
    """A 304 would be about the copy of the cache."""

    class Revalidates:
        def process_request(self, request: Request) -> None:
            if "robots.txt" in request.url:
                request.headers["If-None-Match"] = '"1"'
                request.headers["If-Modified-Since"] = "Thu, 01 Jan 2026 00:00:00 GMT"

    site.route("/robots.txt", lambda seen: Answer(status=304) if seen.header("If-None-Match") else Answer(NO_X))
    site.default = Answer("page")
    await crawl([site.url("/x"), site.url("/y")], {**ONE_TRY, **between(900, Revalidates)})
    assert pages(site) == ["/y"]


# --- Middlewares that misbehave -----------------------------------------------------------------------------


class Raises:
    def process_request(self, request: Request) -> None:
        if "robots.txt" in request.url:
            raise ValueError("not this one")


class RaisesLater:
    def process_response(self, request: Request, response: Response) -> Response:
        if "robots.txt" in request.url:
            raise IgnoreRequest("not this one")
        return response


class RetriesForEver:
    def process_response(self, request: Request, response: Response) -> Request | Response:
        return request.copy() if "robots.txt" in request.url else response


class InsteadOfIt:
    """Puts a request of its own in the place of ours, so that ours would wait for itself."""

    def process_request(self, request: Request) -> Request | None:
        if "robots.txt" in request.url and "scour_robotstxt" in request.meta:
            return Request(request.url, meta={"mine": True})
        return None


class ByAService:
    """Sends everything through a service by URL, the requests for the service's own robots.txt too."""

    def process_request(self, request: Request) -> Request | None:
        if "/fetch?url=" in request.url:
            return None
        host = request.url.split("/")[2]
        return Request(f"http://{host}/fetch?url={request.url}", dont_filter=True, callback=request.callback)


@pytest.mark.parametrize("middleware", [Raises, RaisesLater, RetriesForEver, ByAService])
@pytest.mark.parametrize("position", [505, 900])
async def test_a_middleware_that_breaks_the_fetch_opens_nothing_and_keeps_nobody_waiting(
    site: Site, middleware: type, position: int
) -> None:
    site.robots("")
    site.default = Answer("page")
    result = await crawl([site.url("/a"), site.url("/b")], {**QUICK, **between(position, middleware)})
    assert pages(site) == []
    assert result.responses == []
    assert result.stats["scour/outcome/robots_unreachable"] >= 1
    assert len(robots(site)) <= 11
    assert result.elapsed < 6
    assert result.package_tracebacks == []


class RenamesLate:
    """Has the last look ask once more."""

    def process_request(self, request: Request) -> None:
        request.headers["User-Agent"] = "otherbot/1.0"


@pytest.mark.parametrize("renamed", [False, True], ids=["", "renamed"])
@pytest.mark.parametrize("position", [505, 900])
async def test_a_request_that_takes_the_place_of_ours_does_not_wait_for_itself(
    site: Site, position: int, renamed: bool
) -> None:
    site.robots(NO_X)
    site.default = Answer("page")
    middlewares = {InsteadOfIt: position, **({RenamesLate: 9000} if renamed else {})}
    result = await crawl([site.url("/x"), site.url("/y")], {**ONE_TRY, "DOWNLOADER_MIDDLEWARES": middlewares})
    assert "/x" not in pages(site)
    assert result.elapsed < 5
    assert len(result.responses) + len(result.errors) == 2
    clean(result)


@pytest.mark.parametrize("broken", ["parse", "verdict", "_decides", "delay"])
async def test_a_fault_of_the_parser_permits_nothing(site: Site, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """Nothing is sent, each request has its outcome, and the fault is in the log."""

    def fails(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("a fault of ours")

    if broken == "parse":
        monkeypatch.setattr("scrapy_scour.job.parse", fails)
    else:
        monkeypatch.setattr(f"scrapy_scour.policy.robots.Robots.{broken}", fails)
    site.robots(NO_X)
    site.default = Answer("page")
    result = await crawl([site.url("/x"), site.url("/x2")], {**ONE_TRY})
    assert pages(site) == []
    assert result.responses == []
    expected = RobotsUnreachable if broken == "parse" else (PolicyCheckFailed, RobotsDisallowed)
    assert len(result.errors) == 2
    assert all(isinstance(failed.error, expected) for failed in result.errors)
    assert result.stats["scour/outcomes"] == 2
    assert any("a fault of ours" in str(record.exc_info[1]) for record in result.tracebacks if record.exc_info)


# --- The way out --------------------------------------------------------------------------------------------


@pytest.fixture
def proxy(sites: Sites) -> Site:
    """A proxy that answers for any host: its own log tells what went through it."""
    site = sites("127.0.0.3")
    site.route("http*", lambda seen: Answer(NO_X if seen.path.endswith("/robots.txt") else "page"))
    return site


class SetsProxy:
    address = ""

    def process_request(self, request: Request) -> None:
        request.meta["proxy"] = self.address


@pytest.mark.parametrize("way", ["environment", "meta", "middleware"])
async def test_it_goes_out_through_the_proxy_of_the_page(
    proxy: Site, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """With the proxy's credentials, which the site never sees."""
    address = f"http://user:word@127.0.0.3:{proxy.port}"
    urls = ["http://far.test/x", "http://far.test/y"]
    settings: dict[str, Any] = dict(ONE_TRY)
    meta: dict[str, Any] = {}
    if way == "environment":
        monkeypatch.setenv("http_proxy", address)
    elif way == "meta":
        meta = {"proxy": address}
    else:
        settings |= between(740, type("Sets", (SetsProxy,), {"address": address}))
    result = await crawl([Request(url, meta=meta) for url in urls], settings)
    assert proxy.paths() == ["http://far.test/robots.txt", "http://far.test/y"]
    for seen in proxy.requests():
        assert seen.header("Proxy-Authorization") == "Basic dXNlcjp3b3Jk"
    clean(result)


async def test_a_direct_request_does_not_give_the_proxys_word_to_the_site(site: Site) -> None:
    site.robots(NO_X)
    site.default = Answer("page")
    headers = {"Proxy-Authorization": "Basic dXNlcjp3b3Jk"}
    await crawl(Request(site.url("/y"), headers=headers), ONE_TRY)
    assert [seen.header("Proxy-Authorization") for seen in site.requests()] == [None, None]


async def test_cookies_retries_redirects_scope_and_limits_do_not_touch_it(sites: Sites) -> None:
    here, there = sites.named("a.test", "b.test")
    here.redirect("/robots.txt", there.url("/robots.txt"), headers={"Set-Cookie": "r=1"})
    there.sequence("/robots.txt", [Answer(NO_X)])
    here.default = Answer("page")
    settings = {
        **ONE_TRY,
        "REDIRECT_MAX_TIMES": 1,
        "REDIRECT_ENABLED": True,
        "RETRY_HTTP_CODES": [200],
        "SCOUR_MAX_REQUESTS_PER_DOMAIN": 1,
        "SCOUR_SCOPE_EXCLUDE": ["robots"],
    }
    request = Request(here.url("/y"), cookies={"own": "1"})
    result = await crawl(request, settings, domains=["a.test"])
    assert here.paths() == ["/robots.txt", "/y"]
    assert here.requests()[0].header("Cookie") is None
    assert here.requests()[1].header("Cookie") == "own=1"
    assert len(result.responses) == 1
    clean(result)


async def test_a_robots_request_does_not_spend_the_limit_but_a_page_does(site: Site) -> None:
    site.robots("")
    site.default = Answer("page")
    result = await crawl([site.url("/1"), site.url("/2")], {**ONE_TRY, "SCOUR_MAX_REQUESTS_PER_DOMAIN": 1})
    assert (len(robots(site)), len(pages(site))) == (1, 1)
    assert result.stats["scour/outcome/request_limit"] == 1


# --- Closing ------------------------------------------------------------------------------------------------


class Closes(Spider):
    """Asks for its pages and is closed shortly after."""

    name = "closes"
    urls: tuple[str, ...] = ()
    after = 0.3
    arrived: list[str]

    async def start(self) -> Any:
        self.arrived = []
        for url in self.urls:
            yield Request(url)
        if self.after:
            compat.later(self.after, compat.close_spider, self.crawler, "enough")

    def parse(self, response: Response) -> None:
        self.arrived.append(response.url)


PATIENT = {**WAITS, "SCOUR_ROBOTSTXT_WAITS": [3.0], "SCOUR_ROBOTSTXT_TIMEOUT": 1}
IMPATIENT = {"SCOUR_ROBOTSTXT_WAITS": [], "RETRY_TIMES": 0, "SCOUR_ROBOTSTXT_TIMEOUT": 1}


@pytest.mark.parametrize(
    ("answer", "settings"), [(Answer(status=503), PATIENT), (hang(), IMPATIENT)], ids=["between tries", "in a try"]
)
async def test_a_crawl_that_waits_for_robots_txt_ends_soon_and_loses_nothing(
    site: Site, tmp_path: Any, answer: Answer, settings: dict[str, Any]
) -> None:
    """Closed while its pages wait for a second try, or in the last; the next run fetches them all."""
    site.sequence("/robots.txt", [answer, NO_X])
    site.default = Answer("page")
    urls = tuple(site.url(f"/{n}") for n in range(30))
    first = await crawl(type("First", (Closes,), {"urls": urls}), settings, jobdir=tmp_path)
    assert first.finish_reason == "enough"
    assert first.elapsed < 2.9
    assert pages(site) == []
    assert "scour/outcomes" not in first.stats
    second = await crawl(type("Second", (Closes,), {"after": 0}), settings, jobdir=tmp_path)
    assert sorted(pages(site)) == sorted(f"/{n}" for n in range(30))
    assert (second.finish_reason, len(robots(site))) == ("finished", 2)
    assert first.package_tracebacks == second.package_tracebacks == []


@pytest.mark.parametrize("queue", ["stock", "downloader aware"])
async def test_a_crawl_with_another_queue_that_waits_for_robots_txt_ends_soon_with_an_outcome_each(
    site: Site, queue: str
) -> None:
    """What cannot go back to the scheduler is refused, and says so."""
    site.answer("/robots.txt", Answer(status=503))
    site.default = Answer("page")
    urls = tuple(site.url(f"/{n}") for n in range(4))
    settings = {**WAITS, "SCOUR_ROBOTSTXT_WAITS": [60], "SCHEDULER_PRIORITY_QUEUE": QUEUES[queue]}
    result = await crawl(type("First", (Closes,), {"urls": urls}), settings)
    assert (result.finish_reason, pages(site), len(robots(site))) == ("enough", [], 1)
    assert result.stats["scour/outcome/robots_unreachable"] == 4
    assert result.elapsed < 5
    assert result.package_tracebacks == []


async def test_a_robots_request_that_waits_for_another_hosts_turn_does_not_hold_up_the_end(
    sites: Sites, tmp_path: Any
) -> None:
    """A redirect of robots.txt leads to a host that asked to be left alone."""
    here, there = sites(), sites("127.0.0.2")
    there.robots("")
    there.answer("/later", Answer(status=503, headers={"Retry-After": "30"}))
    here.redirect("/robots.txt", there.url("/r/robots.txt"))
    here.default = Answer("page")

    class First(Closes):
        async def start(self) -> Any:
            self.arrived = []
            yield Request(there.url("/later"), meta={"dont_retry": True, "handle_httpstatus_all": True})
            await sleep(0.3)
            yield Request(here.url("/a"))
            compat.later(0.4, compat.close_spider, self.crawler, "enough")

    result = await crawl(First, WAITS, jobdir=tmp_path)
    assert result.finish_reason == "enough"
    assert (here.paths(), there.paths()) == (["/robots.txt"], ["/robots.txt", "/later"])
    assert result.elapsed < 6
    assert "scour/outcome/robots_unreachable" not in result.stats
    assert result.stats["scheduler/enqueued"] > result.stats["scheduler/dequeued"]
    assert result.package_tracebacks == []
