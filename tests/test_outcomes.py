"""Every request ends as a page or as exactly one outcome: in stats, in the file, in a signal, and in the errback."""

from __future__ import annotations

import gc
import json
import logging
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from scrapy import Request, Spider, signals
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.pipelines.files import FilesPipeline

from scrapy_scour import FailureCategory as Category
from scrapy_scour import failure_category
from scrapy_scour.exceptions import Outcome, SettingsError
from scrapy_scour.job import job_of
from scrapy_scour.signals import request_refused
from scrapy_scour.stores.host_marks import ClosedHosts, HostMark
from scrapy_scour.summary import summary
from tests.support.crawl import Result, crawl, sleep
from tests.support.site import Answer, Site, Sites, hang, unused_port

KEYS: Final = {
    "time",
    "spider",
    "url",
    "method",
    "host",
    "category",
    "reason",
    "status",
    "trail",
    "exception",
    "component",
    "depth",
    "found_on",
}
FREE: Final = {"dont_obey_robotstxt": True}


class Listening:
    """An extension that keeps what the signal says."""

    def __init__(self, crawler: Any) -> None:
        self.heard: list[tuple[Request, Outcome]] = []
        crawler.listening = self
        crawler.signals.connect(self.refused, signal=request_refused)

    @classmethod
    def from_crawler(cls, crawler: Any) -> Listening:
        return cls(crawler)

    def refused(self, request: Request, outcome: Outcome, spider: Spider) -> None:
        assert spider is not None
        self.heard.append((request, outcome))


LISTENING: Final = {"EXTENSIONS": {Listening: 0}}


def heard(result: Result) -> list[tuple[Request, Outcome]]:
    kept: list[tuple[Request, Outcome]] = result.crawler.listening.heard  # type: ignore[union-attr]
    return kept


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def counted(result: Result) -> dict[str, int]:
    """The outcome stats, by category."""
    prefix = "scour/outcome/"
    return {key[len(prefix) :]: n for key, n in result.stats.items() if key.startswith(prefix)}


async def test_one_url_of_every_category_has_exactly_one_outcome(sites: Sites, tmp_path: Path) -> None:
    site, other, closed, slow, limited, rate, heavy = sites.named(*(f"{name}.test" for name in "abcdefg"))
    for one in (site, other, closed, slow, limited, rate, heavy):
        one.robots("")
        one.page("/p*")
    site.robots("User-agent: *\nDisallow: /private\n")
    closed.robots("", status=503)
    slow.robots("User-agent: *\nCrawl-delay: 99\n")
    site.redirect("/ftp", "ftp://a.test/x")
    site.redirect("/loop", "/pool")
    site.redirect("/pool", "/loop")
    for hop in range(4):
        site.redirect(f"/hop{hop}", f"/hop{hop + 1}")
    site.redirect("/away", "http://elsewhere.test/x")
    for status in (401, 403, 404, 500):
        other.page(f"/{status}", status=status)
    rate.page("/429", status=429, headers={"Retry-After": "99999"})
    other.answer("/hang", hang())
    heavy.page("/big", b"x" * 3000)
    other.page("/pdf", headers={"Content-Type": "application/pdf"})

    requests: dict[Category, Request] = {
        Category.ROBOTS_DISALLOWED: Request(site.url("/private")),
        Category.ROBOTS_UNREACHABLE: Request(closed.url("/p")),
        Category.OUT_OF_SCOPE: Request(site.url("/away")),
        Category.REDIRECT_REFUSED: Request(site.url("/ftp")),
        Category.REDIRECT_LOOP: Request(site.url("/loop")),
        Category.TOO_MANY_REDIRECTS: Request(site.url("/hop0")),
        Category.REQUEST_LIMIT: Request(limited.url("/p-last"), priority=-1000),
        Category.CRAWL_DELAY_TOO_LONG: Request(slow.url("/p")),
        Category.RATE_LIMITED: Request(rate.url("/429")),
        Category.ACCESS_BLOCKED: Request(other.url("/403")),
        Category.AUTHENTICATION: Request(other.url("/401")),
        Category.NOT_FOUND: Request(other.url("/404")),
        Category.SERVER_ERROR: Request(other.url("/500")),
        Category.TIMEOUT: Request(other.url("/hang"), meta={"download_timeout": 0.3}),
        Category.DNS: Request("http://nowhere.test/x", meta=FREE),
        Category.CONNECTION: Request(f"http://a.test:{unused_port()}/x", meta=FREE),
        Category.TLS: Request(other.url("/p").replace("http:", "https:"), meta=FREE),
        Category.BODY_TOO_LARGE: Request(heavy.url("/big"), meta={"download_maxsize": 2000}),
        Category.INVALID_RESPONSE: Request(other.url("/pdf")),
        Category.DUPLICATE: Request(other.url("/p1")),
        Category.OTHER: Request("gopher://a.test/x"),
    }
    assert set(requests) == set(Category)
    pages = [Request(limited.url(f"/p{n}")) for n in range(12)] + [Request(other.url("/p1"))]
    ended_at = {Category.REDIRECT_LOOP: site.url("/pool"), Category.TOO_MANY_REDIRECTS: site.url("/hop2")}
    urls = {category: ended_at.get(category, request.url) for category, request in requests.items()}
    file = tmp_path / "outcomes.jsonl"

    result = await crawl(
        [*pages, *requests.values()],
        {
            **LISTENING,
            "SCOUR_OUTCOMES_FILE": file,
            "SCOUR_CONTENT_TYPES": ["text/html"],
            "SCOUR_CRAWL_DELAY_MAX": 5,
            "SCOUR_MAX_REQUESTS_PER_DOMAIN": 12,
            "RETRY_TIMES": 0,
            "REDIRECT_MAX_TIMES": 2,
        },
        domains=["a.test", "b.test", "c.test", "d.test", "e.test", "f.test", "g.test", "nowhere.test"],
    )

    expected = {str(category): 1 for category in Category}
    assert counted(result) == expected
    assert result.stats["scour/outcomes"] == len(Category)
    assert result.stats["scour/pages"] == len(pages) == len(result.responses)
    written = lines(file)
    assert {line["category"]: line["url"] for line in written} == {str(c): url for c, url in urls.items()}
    assert len(written) == len(Category)
    assert all(set(line) == KEYS for line in written)
    assert {outcome.category: outcome.url for _, outcome in heard(result)} == urls
    assert len(heard(result)) == len(Category)
    # A duplicate never gets to an errback, as in stock; every other one does, with its category.
    assert {failure_category(failed.failure): failed.url for failed in result.errors} == {
        category: url for category, url in urls.items() if category is not Category.DUPLICATE
    }
    assert len(result.errors) == len(Category) - 1
    assert limited.paths().count("/robots.txt") == 1
    assert len(limited.log) == 13
    assert result.stats["scour/limit/hosts"] == 1
    assert result.stats["scour/robotstxt/hosts_unreachable"] == 1
    assert result.stats["scour/hosts_given_up"] == 1
    assert "scour/robotstxt/hosts_closed" not in result.stats  # a.test was asked for other pages
    assert result.package_tracebacks == []


# How requests end that no downloader middleware sees ending


class Foreign:
    """A project's middleware that drops one path, breaks on another and drops a third one's answer."""

    @classmethod
    def from_crawler(cls, crawler: Any) -> Foreign:
        return cls()

    def process_request(self, request: Request) -> None:
        if request.url.endswith("/dropped"):
            raise IgnoreRequest("not on a Monday")
        if request.url.endswith("/told"):
            raise IgnoreRequest(f"{request} is not for us")

    def process_response(self, request: Request, response: Response) -> Response:
        if request.url.endswith("/broken"):
            raise ValueError(f"cannot read {request.url}")
        if request.url.endswith("/unwanted"):
            raise IgnoreRequest
        return response


def keep_out(request: Request) -> None:
    if request.url.endswith("/kept-out"):
        raise IgnoreRequest


class Gatekeeper:
    """A project's extension that keeps requests from the scheduler."""

    @classmethod
    def from_crawler(cls, crawler: Any) -> Gatekeeper:
        crawler.signals.connect(keep_out, signal=signals.request_scheduled)
        return cls()


async def test_what_other_components_drop_or_break_ends_once_and_names_them(site: Site, tmp_path: Path) -> None:
    site.page("/*")
    site.redirect("/moved", "/ok")
    file = tmp_path / "outcomes.jsonl"
    paths = ["/ok", "/dropped", "/broken", "/unwanted", "/kept-out"]
    result = await crawl(
        [*(Request(site.url(path)) for path in paths), Request(site.url("/moved"), priority=-1)],
        {
            "DOWNLOADER_MIDDLEWARES": {Foreign: 400},
            "EXTENSIONS": {Gatekeeper: 0},
            "SCOUR_OUTCOMES_FILE": str(file),
        },
    )
    by_path = {line["url"].rpartition("/")[2]: line for line in lines(file)}
    assert len(lines(file)) == len(by_path) == 5
    assert {path: line["category"] for path, line in by_path.items()} == {
        "dropped": "other",
        "broken": "other",
        "unwanted": "other",
        "kept-out": "other",
        "ok": "duplicate",
    }
    assert by_path["dropped"]["reason"] == "IgnoreRequest: not on a Monday"
    assert by_path["broken"]["exception"] == "builtins.ValueError"
    for path in ("dropped", "broken", "unwanted"):
        assert by_path[path]["component"] == f"{__name__}.Foreign"
    assert by_path["ok"]["trail"] == [site.url("/moved")]
    assert result.urls() == [site.url("/ok")]
    assert counted(result) == {"other": 4, "duplicate": 1}
    assert result.package_tracebacks == []


async def test_a_body_that_grows_too_large_when_unpacked_is_too_large(site: Site) -> None:
    site.answer("/bomb", Answer(b"0" * 200_000, encoding="gzip"))
    result = await crawl([site.url("/bomb")], {"DOWNLOAD_MAXSIZE": 10_000})
    assert counted(result) == {"body_too_large": 1}
    assert failure_category(result.error(site.url("/bomb"))) is Category.BODY_TOO_LARGE


async def test_retries_redirects_and_waits_are_no_ends(site: Site) -> None:
    site.robots("User-agent: *\nCrawl-delay: 0.2\n")
    site.sequence("/flaky", [Answer("no", status=500), Answer("yes")])
    site.page("/broken", status=500)
    site.redirect("/moved", "/page")
    site.page("/page")
    result = await crawl([site.url(path) for path in ("/flaky", "/broken", "/moved")])
    assert counted(result) == {"server_error": 1}
    assert result.stats["scour/pages"] == 2
    assert result.stats["scour/requeued"] > 0
    assert len(site.requests("/broken")) == 2


@pytest.mark.parametrize("stock", [False, True], ids=["ours", "stock"])
async def test_what_stock_loses_without_a_word_has_an_outcome(site: Site, stock: bool) -> None:
    site.redirect("/loop", "/loop")
    result = await crawl([Request(site.url("/loop"))], stock=stock)
    assert len(site.requests("/loop")) == 1
    assert result.responses == []
    assert counted(result) == ({} if stock else {"redirect_loop": 1})
    assert [failure_category(failed.failure) for failed in result.errors] == ([] if stock else [Category.REDIRECT_LOOP])


async def test_robots_txt_requests_are_no_requests_of_the_spider(site: Site) -> None:
    site.robots("", status=404)
    site.page("/page")
    result = await crawl([site.url("/page")])
    assert len(site.requests("/robots.txt")) == 1
    assert "scour/outcomes" not in result.stats
    assert result.stats["scour/pages"] == 1


async def test_a_redirect_that_is_not_followed_is_a_page_only_to_those_who_asked_for_it(site: Site) -> None:
    site.page("/nowhere", status=301)
    site.page("/same", status=304)
    site.redirect("/asked", "/page")
    requests = [Request(site.url(path)) for path in ("/nowhere", "/same")]
    requests.append(Request(site.url("/asked"), meta={"dont_redirect": True, "handle_httpstatus_list": [302]}))
    result = await crawl(requests)
    assert counted(result) == {"redirect_refused": 2}
    assert result.urls() == [site.url("/asked")]
    assert result.stats["scour/pages"] == 1
    assert [failure_category(failed.error) for failed in result.errors] == [Category.REDIRECT_REFUSED] * 2


class Media(FilesPipeline):
    """Gets the files of an item; nothing is stored."""

    def get_media_requests(self, item: Any, info: Any) -> Iterator[Request]:
        for url in item["file_urls"]:
            yield Request(url)

    def media_downloaded(self, response: Any, request: Any, info: Any, *, item: Any = None) -> dict[str, str]:
        return {"url": request.url, "path": "", "checksum": "", "status": "downloaded"}


async def test_media_requests_end_in_the_same_categories(sites: Sites, tmp_path: Path) -> None:
    site, elsewhere = sites.named("a.test", "b.test")
    site.robots("User-agent: *\nDisallow: /no\n")
    site.page("/page")
    site.page("/good.png")
    site.redirect("/away.png", elsewhere.url("/x.png"))
    site.page("/gone.png", status=404)
    start, media = site.url("/page"), [site.url(f"/{name}.png") for name in ("good", "no", "away", "gone")]

    class WithFiles(Spider):
        name = "files"
        allowed_domains = ("a.test",)

        async def start(self) -> AsyncIterator[Any]:
            yield Request(start)

        def parse(self, response: Response) -> Any:
            yield {"file_urls": media}

    file = tmp_path / "outcomes.jsonl"
    result = await crawl(
        WithFiles,
        {
            "ITEM_PIPELINES": {Media: 1},
            "FILES_STORE": str(tmp_path),
            "MEDIA_ALLOW_REDIRECTS": True,
            "SCOUR_OUTCOMES_FILE": str(file),
        },
    )
    assert sorted((line["category"], line["url"]) for line in lines(file)) == [
        ("not_found", media[3]),
        ("out_of_scope", media[2]),
        ("robots_disallowed", media[1]),
    ]
    assert counted(result) == {"not_found": 1, "out_of_scope": 1, "robots_disallowed": 1}
    assert elsewhere.log == []


async def test_a_link_out_of_scope_is_recorded_with_where_it_was_found(sites: Sites, tmp_path: Path) -> None:
    site, elsewhere = sites.named("a.test", "b.test")
    site.page("/page", f'<a href="{elsewhere.url("/x")}">x</a> <a href="/page">again</a>')
    file = tmp_path / "outcomes.jsonl"
    result = await crawl(
        [Request(site.url("/page"))], {"SCOUR_OUTCOMES_FILE": str(file)}, follow=True, domains=["a.test"]
    )
    scope, again = sorted(lines(file), key=lambda line: line["category"], reverse=True)
    assert (scope["category"], scope["url"], scope["host"]) == ("out_of_scope", elsewhere.url("/x"), "b.test")
    assert (scope["depth"], scope["found_on"]) == (1, site.url("/page"))
    assert scope["component"] == "scrapy_scour.downloadermiddlewares.scope.ScopeMiddleware"
    assert (again["category"], again["url"]) == ("duplicate", site.url("/page"))
    assert elsewhere.log == []
    assert result.errors == []


async def test_userinfo_is_shown_nowhere(site: Site, tmp_path: Path) -> None:
    site.robots("User-agent: *\nDisallow: /no\n")
    site.redirect("/moved", site.url("/no").replace("//", "//user:secret@"))
    file = tmp_path / "outcomes.jsonl"
    start = [site.url(path).replace("//", "//user:secret@") for path in ("/no", "/told")]
    result = await crawl(
        [*start, site.url("/moved"), start[0].replace("/no", "/404")],
        {"SCOUR_OUTCOMES_FILE": str(file), "DOWNLOADER_MIDDLEWARES": {Foreign: 400}},
    )
    told = [line["reason"] for line in lines(file) if line["url"] == site.url("/told")]
    assert told == [f"IgnoreRequest: <GET {site.url('/told')}> is not for us"]
    assert len(lines(file)) == result.stats["scour/outcomes"] == 4
    assert "secret" not in file.read_text()
    assert "/told" in summary_of(result)
    assert "secret" not in summary_of(result)


# The file


async def test_the_file_is_added_to(site: Site, tmp_path: Path) -> None:
    site.page("/404", status=404)
    file = tmp_path / "outcomes.jsonl"
    for _ in range(2):
        await crawl([site.url("/404")], {"SCOUR_OUTCOMES_FILE": str(file)})
    assert [line["status"] for line in lines(file)] == [404, 404]


@pytest.mark.parametrize(("where", "said"), [("", "it is a folder"), ("none/here.jsonl", "there is no folder")])
async def test_a_file_that_cannot_be_written_refuses_the_start(
    site: Site, tmp_path: Path, where: str, said: str
) -> None:
    with pytest.raises(SettingsError, match=f"SCOUR_OUTCOMES_FILE = .*{said}"):
        await crawl([site.url("/page")], {"SCOUR_OUTCOMES_FILE": str(tmp_path / where)})
    assert site.log == []


async def test_a_full_disk_costs_the_file_and_not_the_crawl(site: Site) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    site.page("/page")
    result = await crawl([site.url("/1"), site.url("/2"), site.url("/page")], {"SCOUR_OUTCOMES_FILE": str(full)})
    assert counted(result) == {"not_found": 2}
    assert site.url("/page") in result.urls()
    assert (
        len([text for text in result.messages(logging.ERROR, "scrapy_scour") if "can no longer be written" in text])
        == 1
    )
    assert result.package_tracebacks == []


# The end of the crawl


async def test_what_waits_in_memory_when_the_crawl_is_stopped_is_recorded(site: Site, tmp_path: Path) -> None:
    site.robots("User-agent: *\nCrawl-delay: 0.3\n")
    site.page("/p*")
    file = tmp_path / "outcomes.jsonl"
    requests = [Request(site.url(f"/p{n}")) for n in range(6)]
    result = await crawl(requests, {"SCOUR_OUTCOMES_FILE": str(file), "CLOSESPIDER_PAGECOUNT": 2})
    got = set(result.urls())
    assert got
    left = {line["url"]: line for line in lines(file)}
    assert got | set(left) == {request.url for request in requests}
    assert not got & set(left)
    assert len(left) == len(lines(file)) >= 3
    assert all("closespider_pagecount" in line["reason"] and line["category"] == "other" for line in left.values())
    assert result.stats["scour/outcomes"] == len(left)


async def test_what_a_job_directory_keeps_has_not_ended(site: Site, tmp_path: Path) -> None:
    site.robots("User-agent: *\nCrawl-delay: 0.2\n")
    site.page("/p*")
    start = [site.url(f"/p{n}") for n in range(4)]
    spider = follower(start)
    first = await crawl(spider, {"CLOSESPIDER_PAGECOUNT": 2}, jobdir=tmp_path)  # robots.txt counts
    assert "scour/outcomes" not in first.stats
    second = await crawl(spider, jobdir=tmp_path)
    assert first.stats["scour/pages"] + second.stats["scour/pages"] == 4
    assert counted(second) == {"duplicate": 4}  # the spider's start requests, asked for again
    assert sorted(site.paths()) == sorted(["/robots.txt"] * 2 + [f"/p{n}" for n in range(4)])


def follower(urls: list[str]) -> type[Spider]:
    """A spider whose requests can be kept on disk."""

    class Follower(Spider):
        name = "follower"

        async def start(self) -> AsyncIterator[Request]:
            for url in urls:
                yield Request(url)

        def parse(self, response: Response) -> None:
            pass

    return Follower


async def test_a_site_closed_by_robots_can_be_told_from_a_small_complete_one(sites: Sites) -> None:
    closed, partly, small = sites.named("a.test", "b.test", "c.test")
    closed.robots("User-agent: *\nDisallow: /\n")
    partly.robots("User-agent: *\nDisallow: /no\n")
    partly.redirect("/moved", small.url("/page"))
    small.page("/page")
    result = await crawl(
        [closed.url("/"), closed.url("/x"), partly.url("/no"), partly.url("/moved"), small.url("/page")]
    )
    assert result.stats["scour/robotstxt/hosts_closed"] == 1
    assert result.stats["scour/outcome/robots_disallowed"] == 3
    said = summary_of(result)
    assert "1 host closed by robots.txt: every URL that was asked for is refused (a.test)." in said
    assert "3 refused by robots.txt:" in said
    assert small.url("/page") not in said


async def test_the_summary_is_one_record_that_names_the_slowest_pace(site: Site) -> None:
    site.robots("User-agent: *\nDisallow: /no\nCrawl-delay: 0.2\n")
    site.page("/page")
    refused = [Request(site.url(f"/no{n}")) for n in range(5)]
    said = summary_of(await crawl([site.url("/page"), *refused]))
    first, *_, last = said.splitlines()
    assert first == "1 page, 5 requests without a page."
    assert "  5 refused by robots.txt, such as:" in said
    assert said.count("/no") == 2 * 3 + 1  # three examples, each with the rule, and how to look one up
    assert last == f"  The slowest pace: 127.0.0.1, 0.2 s between requests, as {site.url('')} robots.txt line 3 asks."


async def test_a_pace_beyond_all_measure_is_said_in_words(site: Site) -> None:
    result = await crawl([site.url("/page")])
    assert result.crawler is not None
    job = job_of(result.crawler)
    clock = job.pace.clock("a.test", job.now())
    for seconds, words in (
        (sys.float_info.max, "more than 100 years"),
        (2e7, "231 days 12 h"),
        (86_400.5, "86400.5 s"),
    ):
        job.outcomes.slowest = (seconds, clock)
        assert summary(job.count, job.outcomes).endswith(f"The slowest pace: a.test, {words} between requests.")


async def test_a_fresh_install_obeys_and_says_which_rule_line_and_group_refused_and_how_to_look(site: Site) -> None:
    site.robots("User-agent: other\nAllow: /\n\nUser-agent: *\nDisallow: /\n")
    result = await crawl([site.url("/page")])  # the add-on and nothing else: ROBOTSTXT_OBEY is not set
    assert site.paths() == ["/robots.txt"]
    said = summary_of(result)
    assert f"    {site.url('/page')} (Forbidden by robots.txt: robots.txt line 5 (Disallow: / (group *))" in said
    assert f"(to see the rules that apply: scrapy robots {site.url('/page')})" in said


@pytest.mark.parametrize("path", ["/no$(touch$IFS.x)", "/no`id`", "/no';id;'", '/no";id;"', "/no&x=$HOME", "/no!x"])
async def test_the_command_that_the_summary_suggests_is_one_url_to_a_shell(site: Site, path: str) -> None:
    site.robots("User-agent: *\nDisallow: /\n")
    request = Request(site.url(path))
    said = summary_of(await crawl([request]))
    (line,) = [one for one in said.splitlines() if "scrapy robots" in one]
    suggested = line.strip().removeprefix("(to see the rules that apply: scrapy robots").removesuffix(")")
    shell = subprocess.run(["sh", "-c", f"printf %s {suggested}"], capture_output=True, text=True, check=True)
    assert shell.stdout == request.url


def summary_of(result: Result) -> str:
    (said,) = [text for text in result.messages(logging.INFO, "scrapy_scour") if "without a page" in text]
    return said


async def test_a_crawl_that_got_everything_says_so_in_one_line(site: Site) -> None:
    site.page("/page")
    assert summary_of(await crawl([site.url("/page")])) == "1 page, 0 requests without a page."


async def test_memory_does_not_grow_with_refused_links(site: Site, tmp_path: Path, caplog: Any) -> None:
    site.robots("User-agent: *\nDisallow: /no\n")
    few, many = 300, 1500
    held: dict[int, int] = {}
    base = site.url("/no?")

    class Links(Spider):
        name = "links"
        allowed_domains = ("127.0.0.1",)

        async def start(self) -> AsyncIterator[Request]:
            for number in range(many + 1):
                if number in (few, many):
                    while self.crawler.engine.downloader.active or not self.crawler.engine.scraper.slot.is_idle():
                        await sleep(0.01)
                    gc.collect()
                    held[number] = sys.getallocatedblocks()
                yield Request(f"{base}{number}", dont_filter=True)
                yield Request(f"http://host{number % 7}.example/{number}")

        def parse(self, response: Response) -> None:
            raise AssertionError("no page was to be got")

    for name in ("scrapy", "scrapy_scour"):
        caplog.set_level(logging.WARNING, name)
    file = tmp_path / "outcomes.jsonl"
    result = await crawl(
        Links, {"SCOUR_OUTCOMES_FILE": str(file), "CONCURRENT_REQUESTS": 200, "CONCURRENT_REQUESTS_PER_DOMAIN": 200}
    )
    assert counted(result) == {"robots_disallowed": many + 1, "out_of_scope": many + 1}
    assert Counter(line["category"] for line in lines(file)) == counted(result)
    per_link = (held[many] - held[few]) / (2 * (many - few))
    assert per_link < 0.3, f"{per_link:.2f} blocks of memory are kept of each refused link"


def test_marks_of_hosts_are_bounded_and_never_count_a_host_falsely() -> None:
    mark = HostMark(2)
    assert [mark.add(host) for host in ("a", "a", "b", "c", "")] == [True, False, True, False, False]
    assert len(mark) == 2
    assert mark.full
    hosts = ClosedHosts(2)
    for host in ("a", "b"):
        hosts.opened(host)
    hosts.opened("c")  # one too many to remember
    hosts.refused("c")
    hosts.refused("a")
    assert len(hosts.closed) == 0
    hosts = ClosedHosts(2)
    hosts.refused("a")
    hosts.opened("a")
    hosts.refused("a")
    hosts.refused("b")
    assert hosts.closed.examples(5) == ["b"]
