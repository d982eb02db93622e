"""The last look: what goes out is what was judged, and what comes in is told apart from what a middleware made."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy import Request
from scrapy.core.downloader import Downloader
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.http import Response

from scrapy_scour.exceptions import OutOfScope, PolicyCheckFailed, RobotsDisallowed, RobotsUnreachable
from scrapy_scour.job import Job, job_of
from tests.support.crawl import clean, crawl
from tests.support.site import Answer, Site, Sites, pages

ACME = "User-agent: acmebot\nDisallow: /x\nCrawl-delay: 0.3\n\nUser-agent: *\nDisallow: /s\n"
ROBOTS = "scrapy_scour.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"


@pytest.fixture
def site(sites: Sites) -> Site:
    opened = sites()
    opened.robots(ACME)
    opened.default = Answer("page")
    return opened


class Renames:
    """Changes the agent of every request after the robots check."""

    def process_request(self, request: Request) -> None:
        request.headers["User-Agent"] = "acmebot/1.0"


class RenamesAndForgets(Renames):
    """Also makes the first page's rules unknown again, as in a crawl with more origins than are remembered."""

    def __init__(self, crawler: Any) -> None:
        self.crawler = crawler
        self.done = False

    @classmethod
    def from_crawler(cls, crawler: Any) -> RenamesAndForgets:
        return cls(crawler)

    def process_request(self, request: Request) -> None:
        super().process_request(request)
        if not self.done and not request.url.endswith("/robots.txt"):
            self.done = True
            job_of(self.crawler).robots._known.clear()


async def test_an_agent_that_changes_after_the_check_is_judged_and_paced_without_a_new_fetch(site: Site) -> None:
    """Its Crawl-delay counts from the first page on."""
    urls = [site.url(path) for path in ("/x", "/y", "/z")]
    result = await crawl(urls, {"DOWNLOADER_MIDDLEWARES": {Renames: 9000}})
    assert sorted(pages(site)) == ["/y", "/z"]
    assert {seen.header("User-Agent") for seen in site.requests() if seen.path != "/robots.txt"} == {"acmebot/1.0"}
    assert len(site.requests("/robots.txt")) == 1
    assert isinstance(result.error(site.url("/x")), RobotsDisallowed)
    assert min(site.gaps()) >= 0.28
    assert result.page(site.url("/y")).meta["scour_crawl_delays"] == {"127.0.0.1": 0.3}
    clean(result)


async def test_what_the_first_agent_may_not_do_is_not_done_under_the_second(site: Site) -> None:
    """Both are judged: a name put on afterwards opens nothing."""
    result = await crawl(site.url("/s"), {"DOWNLOADER_MIDDLEWARES": {Renames: 9000}})
    assert pages(site) == []
    clean(result)


async def test_of_several_agents_only_the_one_that_was_judged_is_sent(site: Site) -> None:
    request = Request(site.url("/x"), headers={"User-Agent": ["acmebot/1.0", "testbot/1.0"]})
    await crawl([request])
    (seen,) = site.requests("/x")
    assert [value for name, value in seen.headers if name == "User-Agent"] == ["testbot/1.0"]


async def test_robots_txt_is_read_under_the_agent_that_asked_whatever_a_middleware_puts_on_it(site: Site) -> None:
    await crawl(site.url("/y"), {"DOWNLOADER_MIDDLEWARES": {Renames: 9000}})
    (asked,) = site.requests("/robots.txt")
    assert (asked.header("User-Agent") or "").startswith("testbot/1.0")


@pytest.mark.parametrize("recovers", [True, False])
async def test_a_second_look_that_finds_no_rules_waits_like_the_first(site: Site, recovers: bool) -> None:
    """A blip between the two looks costs no page; a site that stays away gets none."""
    site.sequence("/robots.txt", [ACME, Answer(status=503), ACME if recovers else Answer(status=503)])
    settings = {
        "DOWNLOADER_MIDDLEWARES": {RenamesAndForgets: 9000},
        "SCOUR_ROBOTSTXT_WAITS": [0.1],
        "RETRY_TIMES": 1,
    }
    result = await crawl(site.url("/y"), settings)
    assert len(site.requests("/robots.txt")) == 3
    assert pages(site) == (["/y"] if recovers else [])
    assert [type(failed.error) for failed in result.errors] == ([] if recovers else [RobotsUnreachable])
    clean(result)


async def test_without_the_robots_middleware_the_last_look_still_asks(site: Site) -> None:
    """A project that takes the check out of its place does not take it out."""
    site.sequence("/robots.txt", [Answer(status=503), ACME])
    settings = {"DOWNLOADER_MIDDLEWARES": {ROBOTS: None}, "SCOUR_ROBOTSTXT_WAITS": [0.1]}
    result = await crawl([site.url("/s"), site.url("/y")], settings)
    assert pages(site) == ["/y"]
    assert isinstance(result.error(site.url("/s")), RobotsDisallowed)
    clean(result)


async def test_without_the_host_clocks_nothing_is_sent(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even robots.txt."""
    monkeypatch.setattr(Job, "install_gate", lambda self: None)
    settings = {
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
        "SCOUR_ROBOTSTXT_WAITS": [0.1],
        "RETRY_TIMES": 0,
    }
    result = await crawl([site.url("/y"), Request(site.url("/z"), meta={"dont_obey_robotstxt": True})], settings)
    assert site.paths() == []
    assert isinstance(result.error(site.url("/y")), RobotsUnreachable)
    assert isinstance(result.error(site.url("/z")), PolicyCheckFailed)


async def test_a_request_that_is_judged_twice_counts_once(site: Site) -> None:
    settings = {"DOWNLOADER_MIDDLEWARES": {Renames: 9000}, "SCOUR_MAX_REQUESTS_PER_DOMAIN": 2}
    result = await crawl([site.url(f"/{n}") for n in range(4)], settings)
    assert len(pages(site)) == 2
    assert result.stats["scour/outcome/request_limit"] == 2
    clean(result)


async def test_a_refused_request_does_not_count(site: Site) -> None:
    settings = {"DOWNLOADER_MIDDLEWARES": {Renames: 9000}, "SCOUR_MAX_REQUESTS_PER_DOMAIN": 1}
    await crawl([site.url("/x"), site.url("/y")], settings)
    assert pages(site) == ["/y"]


@pytest.mark.parametrize("stock", [False, True], ids=["ours", "stock"])
async def test_headers_that_the_project_adds_do_not_go_to_a_host_that_a_redirect_chose(
    sites: Sites, stock: bool
) -> None:
    here, there = sites(), sites("127.0.0.2")
    here.redirect("/y", there.url("/z"))
    here.default = there.default = Answer(status=404)
    secrets = {"X-Api-Key": "k3y", "Accept-Language": "de"}
    await crawl(here.url("/y"), {"DEFAULT_REQUEST_HEADERS": secrets}, stock=stock)
    assert here.requests("/y")[0].header("X-Api-Key") == "k3y"
    assert there.requests("/z")[0].header("X-Api-Key") == ("k3y" if stock else None)
    assert there.requests("/z")[0].header("Accept-Language") == "de"
    if not stock:
        assert there.requests("/robots.txt")[0].header("X-Api-Key") is None


class Follows(HTTP11DownloadHandler):
    """A handler that follows redirects by itself, as some clients do."""

    elsewhere = ""

    async def download_request(self, request: Request) -> Response:
        response = await super().download_request(request)
        return response.replace(url=self.elsewhere) if request.url.endswith("/hop") else response


OUTSIDE = "http://outside.test/landing"


class Browser:
    """Answers by itself, as a browser in a downloader middleware does."""

    def process_request(self, request: Request) -> Response | None:
        return Response(OUTSIDE) if request.url.endswith("/hop") else None


class Hopping(Downloader):
    """A project's downloader that follows redirects by itself."""

    async def _download(self, slot: Any, request: Request) -> Response:
        response = await super()._download(slot, request)
        return response.replace(url=OUTSIDE) if request.url.endswith("/hop") else response


@pytest.mark.parametrize("settings", [{"DOWNLOADER_MIDDLEWARES": {Browser: 5000}}, {"DOWNLOADER": Hopping}], ids=str)
async def test_whoever_answers_for_another_url_out_of_scope_gives_no_page(site: Site, settings: dict[str, Any]) -> None:
    result = await crawl([Request(site.url("/hop"))], settings, domains=["127.0.0.1"])
    assert result.urls() == []
    assert [type(failed.error) for failed in result.errors] == [OutOfScope]


@pytest.mark.parametrize("inside", [True, False])
async def test_a_handler_that_follows_by_itself_is_told_apart(site: Site, inside: bool) -> None:
    """The hop was taken before it could be judged; out of scope, its page is dropped, and it is said."""
    elsewhere = site.url("/landing") if inside else f"http://127.0.0.2:{site.port}/landing"
    handler = type("Handler", (Follows,), {"elsewhere": elsewhere})
    result = await crawl(
        [Request(site.url("/hop")), Request(site.url("/y"))],
        {"DOWNLOAD_HANDLERS": {"http": handler}, "SCOUR_ROBOTSTXT_WAITS": [0.1]},
        domains=["127.0.0.1"],
    )
    assert any("follows redirects by itself" in text for text in result.messages())
    if inside:
        assert result.page(elsewhere).flags == ["scour_hops_not_judged"]
    else:
        assert elsewhere not in result.urls()
        assert [type(failed.error) for failed in result.errors] == [OutOfScope]
    assert result.page(site.url("/y")).flags == []
    assert result.package_tracebacks == []
