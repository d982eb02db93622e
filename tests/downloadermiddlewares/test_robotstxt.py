"""What robots.txt refuses is not asked for, under the agent that is sent, wherever the request comes from."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider, signals
from scrapy.exceptions import ScrapyDeprecationWarning
from scrapy.http import Response
from scrapy.robotstxt import ProtegoRobotParser
from scrapy.spiders import SitemapSpider
from scrapy.utils.reactor import is_asyncio_reactor_installed

from scrapy_scour import compat
from scrapy_scour.exceptions import CrawlDelayTooLong, PolicyCheckFailed, RobotsDisallowed
from tests.support.crawl import clean, crawl, sleep
from tests.support.site import Answer, Site, Sites, gaps, pages

ACME = "User-agent: acmebot\nDisallow: /x\n\nUser-agent: *\nDisallow: /s\n"
"""Refuses /x to acmebot and /s to everybody else."""
TOKEN_WARNING = "No product token"


@pytest.fixture
def site(sites: Sites) -> Site:
    opened = sites()
    opened.robots(ACME)
    opened.default = Answer("page")
    return opened


#: Paths with dots, and whether what is sent after they have been resolved is refused: nothing under /s is allowed.
DOTS = [("/a/../s/1", True), ("/a/%2E%2e/s/1", True), ("/./s/1", True), ("/s/1/..", True), ("/s/../a", True),
        ("/a/../b", False), ("/a?/../s/1", False), ("/..s/1", False)]  # fmt: skip


async def test_a_handler_that_resolves_dots_sends_no_path_that_is_refused(site: Site) -> None:
    """RFC 3986 5.2.4. What is written as an allowed path must not leave as a refused one."""
    if not is_asyncio_reactor_installed():
        pytest.skip("needs asyncio")
    pytest.importorskip("aiohttp")
    pytest.importorskip("scrapy.core.downloader.handlers._aiohttp")
    handler = "scrapy.core.downloader.handlers._aiohttp.AiohttpDownloadHandler"
    result = await crawl([site.url(path) for path, _ in DOTS], {"DOWNLOAD_HANDLERS": {"http": handler}})
    assert not any(seen.startswith("/s") for seen in pages(site))
    assert len(pages(site)) == len(result.responses) == 3
    for path, refused in DOTS:
        if refused:
            assert isinstance(result.error(site.url(path)), RobotsDisallowed)
    clean(result)


async def test_a_service_may_resolve_the_dots_of_the_url_that_it_is_given(site: Site) -> None:
    for path, refused in DOTS:
        request = Request(site.url("/render"), meta={"scour_url": site.url(path)}, dont_filter=True)
        result = await crawl([request])
        assert len(result.responses) == (not refused)


async def test_a_path_that_is_sent_as_written_is_judged_as_written(site: Site) -> None:
    await crawl([site.url("/a/../s/1"), site.url("/s/../a")])
    assert pages(site) == ["/a/../s/1"]


# --- The refusal --------------------------------------------------------------------------------------------


async def test_the_delay_in_a_file_that_refuses_counts_for_other_ports_of_the_host(sites: Sites) -> None:
    one, other = sites(), sites()
    one.robots("User-agent: *\nDisallow: /\nCrawl-delay: 0.4\n")
    other.robots("")
    other.default = Answer("page")

    class Two(Spider):
        name = "two"

        async def start(self) -> Any:
            yield Request(one.url("/1"))
            await sleep(0.1)
            yield Request(other.url("/1"))

    await crawl(Two)
    assert min(gaps([*one.log, *other.log])) >= 0.38
    assert pages(other) == ["/1"]


async def test_a_refusal_names_rule_line_group_and_url(site: Site) -> None:
    site.redirect("/to-s", "/s/1")
    result = await crawl([site.url("/s?q=1"), site.url("/to-s")])
    error = result.error(site.url("/s?q=1"))
    assert isinstance(error, RobotsDisallowed)
    assert (error.url, error.trail, error.category.value) == (site.url("/s?q=1"), (), "robots_disallowed")
    assert all(part in error.reason for part in ("robots.txt line 5", "Disallow: /s", "group *", "testbot"))
    behind = result.error(site.url("/s/1"))
    assert isinstance(behind, RobotsDisallowed)
    assert behind.trail == (site.url("/to-s"),)
    assert pages(site) == ["/to-s"]
    assert result.stats["robotstxt/forbidden"] == 2
    assert result.stats["robotstxt/request_count"] == 1
    assert len([text for text in result.messages(logging.DEBUG) if "Forbidden by robots.txt" in text]) >= 2
    clean(result)


async def test_every_response_brings_the_delay_that_each_host_of_its_chain_asked(sites: Sites) -> None:
    """``scour_crawl_delays``: plain numbers, 0 when nothing is asked."""
    here, there = sites(), sites("127.0.0.2")
    here.robots("User-agent: *\nCrawl-delay: 0.2\n")
    here.redirect("/to", there.url("/landing"))
    there.default = Answer("page")
    result = await crawl([here.url("/to")])
    assert result.page(there.url("/landing")).meta["scour_crawl_delays"] == {"127.0.0.1": 0.2, "127.0.0.2": 0}
    assert type(result.page(there.url("/landing")).meta["scour_agent"]) is str


@pytest.mark.parametrize("over", ["skip", "clamp"])
async def test_a_delay_above_the_maximum_skips_the_host_or_is_clamped(site: Site, over: str) -> None:
    site.robots("User-agent: *\nCrawl-delay: 3600\n")
    settings = {"SCOUR_CRAWL_DELAY_MAX": 0.2, "SCOUR_CRAWL_DELAY_OVER_MAX": over}
    result = await crawl([site.url("/a"), site.url("/b")], settings)
    if over == "skip":
        assert pages(site) == []
        assert [type(failed.error) for failed in result.errors] == [CrawlDelayTooLong] * 2
    else:
        assert sorted(pages(site)) == ["/a", "/b"]
        assert min(site.gaps()) >= 0.18
    clean(result)


async def test_without_obedience_robots_txt_is_not_read_and_that_is_said(site: Site) -> None:
    result = await crawl(site.url("/s"), {"ROBOTSTXT_OBEY": False})
    assert site.paths() == ["/s"]
    assert any("ROBOTSTXT_OBEY = False" in text for text in result.messages())


async def test_a_page_in_the_cache_that_is_refused_now_is_not_served(site: Site, tmp_path: Path) -> None:
    """The check comes before the cache."""
    cache = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(tmp_path)}
    site.robots("")
    assert len((await crawl(site.url("/x"), cache)).responses) == 1
    site.robots("User-agent: *\nDisallow: /x\n")
    result = await crawl(site.url("/x"), cache)
    assert result.responses == []
    assert isinstance(result.error(site.url("/x")), RobotsDisallowed)


# --- Which agent --------------------------------------------------------------------------------------------


class Rotates:
    """Sends another name with every request, also with those of ours."""

    name = "acmebot/2.0"

    def process_request(self, request: Request) -> None:
        request.headers["User-Agent"] = self.name


def rotating(position: int, name: str = "acmebot/2.0") -> dict[str, Any]:
    return {"DOWNLOADER_MIDDLEWARES": {type("Rotates", (Rotates,), {"name": name}): position}}


@pytest.mark.parametrize("position", [450, 505, 520, 700, 9000])
async def test_the_rules_are_those_for_the_agent_that_is_sent(site: Site, position: int) -> None:
    """A middleware may set it before the check or after it: no new fetch, and a refusal is a refusal."""
    result = await crawl([site.url("/x"), site.url("/y")], rotating(position))
    assert pages(site) == ["/y"]
    assert len(site.requests("/robots.txt")) == 1
    assert site.requests("/y")[0].header("User-Agent") == "acmebot/2.0"
    error = result.error(site.url("/x"))
    assert isinstance(error, RobotsDisallowed)
    assert "acmebot" in error.reason
    changed = result.stats.get("scour/robotstxt/agent_changed", 0)
    assert changed == (2 if position > 510 else 0)
    clean(result)


async def test_stock_asks_for_a_page_under_a_name_that_is_refused(site: Site) -> None:
    await crawl(site.url("/x"), rotating(450), stock=True)
    assert pages(site) == ["/x"]
    assert site.requests("/x")[0].header("User-Agent") == "acmebot/2.0"


WAYS: dict[str, dict[str, Any]] = {
    "USER_AGENT": {"settings": {"USER_AGENT": "AcmeBot/1.0 (+http://acme.test)"}},
    "request": {"headers": {"User-Agent": "AcmeBot/1.0"}},
    "spider": {"custom_settings": {"USER_AGENT": "AcmeBot/1.0"}},
    "default headers": {"settings": {"DEFAULT_REQUEST_HEADERS": {"User-Agent": "AcmeBot/1.0"}}},
    "ROBOTSTXT_USER_AGENT": {"settings": {"ROBOTSTXT_USER_AGENT": "acmebot"}},
    "with default headers": {
        "settings": {"ROBOTSTXT_USER_AGENT": "acmebot", "DEFAULT_REQUEST_HEADERS": {"User-Agent": "Other/1.0"}}
    },
    "SCOUR_BOT_USER_AGENT": {"settings": {"SCOUR_BOT_USER_AGENT": "acmebot/1.0", "USER_AGENT": None}},
}


class Asks(Spider):
    name = "asks"
    urls: tuple[str, ...] = ()
    headers: dict[str, str] = {}  # noqa: RUF012

    async def start(self) -> Any:
        for url in self.urls:
            yield Request(url, headers=self.headers)

    def parse(self, response: Response) -> None:
        pass


@pytest.mark.parametrize("way", WAYS)
async def test_the_name_can_be_set_in_every_way_that_scrapy_has(site: Site, way: str) -> None:
    given = WAYS[way]
    attributes = {
        "urls": (site.url("/x"), site.url("/s")),
        "headers": given.get("headers", {}),
        "custom_settings": given.get("custom_settings"),
    }
    settings = dict(given.get("settings", {}))
    if way == "SCOUR_BOT_USER_AGENT":
        del settings["USER_AGENT"]
        attributes["custom_settings"] = {"SCOUR_BOT_USER_AGENT": settings.pop("SCOUR_BOT_USER_AGENT")}
    result = await crawl(type("A", (Asks,), attributes), settings)
    assert pages(site) == ["/s"]
    assert result.stats["robotstxt/forbidden"] == 1
    assert result.package_tracebacks == []


@pytest.mark.filterwarnings(f"ignore::{ScrapyDeprecationWarning.__module__}.{ScrapyDeprecationWarning.__name__}")
async def test_the_name_of_the_spiders_attribute_is_the_jobs_own(site: Site) -> None:
    """``ROBOTSTXT_USER_AGENT`` stands for it."""
    attributes = {"urls": (site.url("/x"), site.url("/s")), "user_agent": "Other/1.0"}
    await crawl(type("A", (Asks,), attributes), {"ROBOTSTXT_USER_AGENT": "acmebot"})
    assert pages(site) == ["/s"]
    assert site.requests("/s")[0].header("User-Agent") == "Other/1.0"


async def test_robotstxt_user_agent_names_only_what_is_sent_under_the_jobs_own_agent(site: Site) -> None:
    """A request with a header of its own is judged by that."""
    own = {"User-Agent": "OtherBot/3"}
    result = await crawl(
        [
            Request(site.url("/x/own"), headers=own),
            Request(site.url("/s/own"), headers=own),
            Request(site.url("/x/job")),
            Request(site.url("/s/job")),
        ],
        {"ROBOTSTXT_USER_AGENT": "acmebot"},
    )
    assert sorted(pages(site)) == ["/s/job", "/x/own"]
    clean(result)


TOKENS: tuple[tuple[str, str, str, list[str]], ...] = (
    ("AGENT-01 substring", "User-agent: bot\nDisallow: /\n", "mybot", ["/a"]),
    ("AGENT-01 whole", "User-agent: bot\nDisallow: /\n", "bot", []),
    ("AGENT-01 version", "User-agent: bot\nDisallow: /\n", "bot/1.0", []),
    ("AGENT-02 prefix", "User-agent: my\nAllow: /\n\nUser-agent: *\nDisallow: /a\n", "mybot", []),
    ("AGENT-02 google", "User-agent: google\nDisallow: /\n", "googlebot", ["/a"]),
    ("AGENT-03 a", "User-agent: MyBot\nDisallow: /a\n", "MyBot/1.0", []),
    ("AGENT-03 b own", "User-agent: MyBot/2.1\nDisallow: /a\n\nUser-agent: *\nDisallow: /b\n", "mybot", []),
    ("AGENT-03 b star", "User-agent: MyBot/2.1\nDisallow: /b\n\nUser-agent: *\nDisallow: /a\n", "mybot", ["/a"]),
    (
        "AGENT-04 Mozilla",
        "User-agent: Mozilla\nDisallow: /\n\nUser-agent: MyBot\nDisallow: /p\n",
        "Mozilla/5.0 (compatible; MyBot/1.0; +https://op.example)",
        ["/a"],
    ),
    ("AGENT-05 own empty", "User-agent: MyBot\nDisallow:\n\nUser-agent: *\nDisallow: /\n", "MyBot/1.0", ["/a"]),
    ("AGENT-05 other", "User-agent: MyBot\nDisallow:\n\nUser-agent: *\nDisallow: /\n", "other", []),
)


@pytest.mark.parametrize(("rules", "agent", "fetched"), [row[1:] for row in TOKENS], ids=[row[0] for row in TOKENS])
async def test_the_product_token_is_compared_whole(site: Site, rules: str, agent: str, fetched: list[str]) -> None:
    """RFC 9309 2.2.1, in a crawl."""
    site.robots(rules)
    result = await crawl(site.url("/a"), {"USER_AGENT": agent})
    assert pages(site) == fetched
    clean(result)


BROWSER = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0 Safari/537.36"


@pytest.mark.parametrize("way", ["setting", "header", "rotated"])
async def test_an_agent_that_names_nobody_is_said_once_and_the_star_applies(site: Site, way: str) -> None:
    settings = {"setting": {"USER_AGENT": BROWSER}, "rotated": rotating(450, BROWSER)}.get(way, {})
    headers = {"User-Agent": BROWSER} if way == "header" else {}
    result = await crawl([Request(site.url(path), headers=headers) for path in ("/x", "/s", "/y", "/z")], settings)
    assert sorted(pages(site)) == ["/x", "/y", "/z"]
    assert len([text for text in result.messages() if TOKEN_WARNING in text]) == 1
    clean(result)


async def test_an_agent_with_a_name_is_not_warned_of(site: Site) -> None:
    result = await crawl(site.url("/y"))
    assert not [text for text in result.messages() if TOKEN_WARNING in text]


HONEYPOT = "User-agent: *\nDisallow: /\nCrawl-delay: 0.3\n\nUser-agent: acmebot\nDisallow: /x\n"


async def test_ignoring_the_wildcard_obeys_only_rules_for_our_name(site: Site) -> None:
    """``*`` does not refuse a name that has no group; the group of our name does."""
    site.robots("User-agent: *\nDisallow: /\n")
    settings = {"SCOUR_ROBOTSTXT_IGNORE_WILDCARD": True}
    result = await crawl([site.url("/a")], settings)
    assert pages(site) == ["/a"]
    site.robots(HONEYPOT)
    result = await crawl([site.url("/x"), site.url("/b")], {**settings, "USER_AGENT": "acmebot/1.0"})
    assert pages(site) == ["/a", "/b"]
    assert result.stats["robotstxt/forbidden"] == 1
    clean(result)


async def test_ignoring_the_wildcard_still_keeps_its_delay(site: Site) -> None:
    site.robots(HONEYPOT)
    result = await crawl([site.url("/a"), site.url("/b")], {"SCOUR_ROBOTSTXT_IGNORE_WILDCARD": True})
    assert sorted(pages(site)) == ["/a", "/b"]
    assert min(site.gaps()) >= 0.28
    clean(result)


# --- Exemptions and special requests ------------------------------------------------------------------------


async def test_an_exemption_holds_for_that_request_on_that_host_only(sites: Sites) -> None:
    here, there = sites(), sites("127.0.0.2")
    for one in (here, there):
        one.robots("User-agent: *\nDisallow: /x\n")
        one.default = Answer("page")
    here.redirect("/x/same", "/x/landing")
    here.redirect("/x/away", there.url("/x/landing"))
    exempt = {"dont_obey_robotstxt": True}
    result = await crawl(
        [
            Request(here.url("/x/same"), meta=exempt),
            Request(here.url("/x/away"), meta=exempt),
            Request(here.url("/x/other")),
        ]
    )
    assert sorted(pages(here)) == ["/x/away", "/x/landing", "/x/same"]
    assert pages(there) == []
    assert isinstance(result.error(there.url("/x/landing")), RobotsDisallowed)
    clean(result)


async def test_a_spider_may_ask_for_robots_txt_itself(site: Site) -> None:
    """It is always allowed (RFC 9309 2.2.2), and is a page like any other."""
    site.robots("User-agent: *\nDisallow: /\n")
    result = await crawl([site.url("/robots.txt"), site.url("/robots.txt?x"), site.url("/robots.txt/")])
    assert result.urls() == [site.url("/robots.txt")]
    assert result.stats["robotstxt/forbidden"] == 2
    assert set(site.paths()) == {"/robots.txt"}
    clean(result)


async def test_a_sitemap_spider_that_starts_from_robots_txt_works(site: Site) -> None:
    site.robots(f"User-agent: *\nDisallow: /x\nSitemap: {site.url('/sitemap.xml')}\n")
    entries = "".join(f"<url><loc>{site.url(path)}</loc></url>" for path in ("/x", "/y"))
    xml = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'
    site.page("/sitemap.xml", xml, headers={"Content-Type": "application/xml"})
    arrived: list[str] = []

    class Maps(SitemapSpider):
        name = "maps"
        sitemap_urls = (site.url("/robots.txt"),)

        def parse(self, response: Response) -> None:
            arrived.append(response.url)

    result = await crawl(Maps)
    assert arrived == [site.url("/y")]
    assert "/x" not in site.paths()
    assert len(site.requests("/robots.txt")) <= 2
    assert result.package_tracebacks == []


async def test_the_site_behind_a_service_is_judged_however_it_is_written(sites: Sites, site: Site) -> None:
    """``scour_url`` is the user's own text: what cannot be judged by it is not sent."""
    service = sites("127.0.0.2")
    service.default = Answer("page")
    written = [
        site.url("/s"),
        site.url("/s").replace("http", "HTTP"),
        f" {site.url('/s')}",
        site.url("/s").replace("/s", "/\ts"),
        site.url("/s#part"),
        site.url("/%73"),
        "nonsense",
        "file:///etc/passwd",
        site.url("/y").replace("http", "HTTP"),
    ]
    result = await crawl([Request(service.url(f"/r?{n}"), meta={"scour_url": url}) for n, url in enumerate(written)])
    assert service.paths() == ["/r?8"]
    assert site.paths() == ["/robots.txt"]
    assert result.stats["scour/outcomes"] == len(written) - 1
    assert result.package_tracebacks == []


async def test_data_urls_need_no_robots_txt() -> None:
    result = await crawl("data:text/plain,hello")
    assert [page.body for page in result.responses] == [b"hello"]
    clean(result)


BAD_META: tuple[dict[str, Any], ...] = (
    {"scour_crawl_delays": 5},
    {"scour_crawl_delays": {"127.0.0.1": "soon", 7: None}},
    {"scour_robotstxt_tries": "many"},
    {"scour_robotstxt": 1},
    {"scour_robotstxt": ["odd"]},
    {"scour_agent": 5},
    {"redirect_urls": 5},
    {"max_retry_times": "many"},
)


async def test_meta_of_another_shape_changes_nothing(site: Site) -> None:
    """Neither a refusal lost nor a page."""
    requests = []
    for number, meta in enumerate(BAD_META):
        requests += [Request(site.url(f"/{path}/{number}"), meta=dict(meta)) for path in ("s", "y")]
    result = await crawl(requests)
    assert sorted(pages(site)) == [f"/y/{number}" for number in range(len(BAD_META))]
    assert {type(failed.error) for failed in result.errors} == {RobotsDisallowed}
    clean(result)


async def test_no_meta_of_a_project_makes_a_page_pass_for_a_request_of_ours(site: Site) -> None:
    """While robots.txt is read: its requests are not judged, so nothing else may look like one."""
    site.robots(ACME, delay=0.3)
    claims: tuple[Any, ...] = (1, 1.0, True, "1", 2)
    requests = [Request(site.url(f"/s/{n}"), meta={"scour_robotstxt": claim}) for n, claim in enumerate(claims)]
    result = await crawl([site.url("/y"), *requests])
    assert pages(site) == ["/y"]
    assert [type(failed.error) for failed in result.errors] == [RobotsDisallowed] * len(claims)
    clean(result)


async def test_meta_of_another_shape_while_robots_txt_fails(site: Site) -> None:
    site.sequence("/robots.txt", [Answer(status=503), ACME])
    requests = [Request(site.url(f"/y/{n}"), meta=dict(meta)) for n, meta in enumerate(BAD_META)]
    result = await crawl(requests, {"SCOUR_ROBOTSTXT_WAITS": [0.1]})
    assert len(pages(site)) == len(BAD_META)
    clean(result)


async def test_tries_are_not_carried_over_to_what_a_page_leads_to(site: Site) -> None:
    site.sequence("/robots.txt", [Answer(status=503), ACME])
    result = await crawl(site.url("/y"), {"SCOUR_ROBOTSTXT_WAITS": [0.1]})
    assert "scour_robotstxt_tries" not in result.page(site.url("/y")).meta


# --- Parsers and signals of the project ---------------------------------------------------------------------


class Counting(ProtegoRobotParser):
    """Protego, as a project may choose it."""

    made = 0

    @classmethod
    def from_crawler(cls, crawler: Any, robotstxt_body: bytes) -> Any:
        cls.made += 1
        return super().from_crawler(crawler, robotstxt_body)


async def test_a_parser_of_the_projects_own_judges_and_paces(site: Site) -> None:
    """Its crawl delay counts where Scrapy's parsers have one."""
    site.robots("User-agent: testbot\nDisallow: /x\nCrawl-delay: 0.3\n\nUser-agent: acmebot\nDisallow: /y\n")
    Counting.made = 0
    result = await crawl(
        [site.url("/x"), site.url("/y"), site.url("/z"), Request(site.url("/y/2"), headers={"User-Agent": "acmebot"})],
        {"ROBOTSTXT_PARSER": Counting},
    )
    assert sorted(pages(site)) == ["/y", "/z"]
    assert Counting.made == 1
    if hasattr(ProtegoRobotParser, "crawl_delay"):
        assert min(site.gaps()) >= 0.28
        assert result.page(site.url("/z")).meta["scour_crawl_delays"] == {"127.0.0.1": 0.3}
    clean(result)


class Broken(ProtegoRobotParser):
    def allowed(self, url: Any, user_agent: Any) -> bool:
        raise LookupError("odd file")


class OddDelay(ProtegoRobotParser):
    def crawl_delay(self, user_agent: Any) -> Any:
        return "a while"


@pytest.mark.parametrize("parser", [Broken, OddDelay])
async def test_a_parser_of_the_projects_own_that_fails_permits_nothing(site: Site, parser: type) -> None:
    result = await crawl([site.url("/y"), site.url("/z")], {"ROBOTSTXT_PARSER": parser})
    assert pages(site) == []
    assert [type(failed.error) for failed in result.errors] == [PolicyCheckFailed] * 2
    assert result.stats["scour/outcome/other"] == 2


@pytest.mark.skipif(compat.ROBOTS_PARSED is None, reason="this Scrapy has no such signal")
async def test_the_signal_for_a_parsed_robots_txt_is_sent_once_for_each(site: Site) -> None:
    """With the parser and the request that asked, as Scrapy sends it; not for a site without rules."""
    heard: list[Any] = []

    class Hears(Asks):
        urls = (site.url("/y"), site.url("/z"), f"http://127.0.0.2:{site.port}/a")

        @classmethod
        def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Any:
            spider = super().from_crawler(crawler, *args, **kwargs)
            crawler.signals.connect(spider.hear, signal=compat.ROBOTS_PARSED)
            return spider

        def hear(self, robotparser: Any, request: Request) -> None:
            heard.append((robotparser.allowed(site.url("/s"), "testbot"), request.url))

    assert signals.robots_parsed is compat.ROBOTS_PARSED
    await crawl(Hears, {"SCOUR_ROBOTSTXT_WAITS": [], "RETRY_TIMES": 0})
    assert heard == [(False, site.url("/y"))]
