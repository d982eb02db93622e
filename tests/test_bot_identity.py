"""``SCOUR_BOT_USER_AGENT``: who the crawl says it is, and whose rules it obeys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from scrapy import Request, Spider
from scrapy.http import Response

from scrapy_scour import DOWNLOADER_MIDDLEWARES, EXTENSIONS, OTHER_SETTINGS, BotUserAgent
from scrapy_scour.exceptions import RobotsDisallowed, SettingsError
from tests.support.crawl import Result, crawl, run_scrapy, write_project
from tests.support.site import Site

BOT: Final = BotUserAgent("MyCrawler", info_url="https://op.test/bot", version="1.2")
HEADER: Final = "Mozilla/5.0 (compatible; MyCrawler/1.2; +https://op.test/bot)"
RULES: Final = """
User-agent: MyCrawler
Disallow: /mine

User-agent: testbot
Disallow: /testbots

User-agent: Mozilla
Disallow: /

User-agent: *
Disallow: /stars
"""
PATHS: Final = ("/mine", "/testbots", "/stars", "/page")


def prepare(site: Site) -> list[str]:
    site.robots(RULES)
    site.page("/*")
    return [site.url(path) for path in PATHS]


def agents(site: Site) -> set[str | None]:
    return {seen.header("User-Agent") for seen in site.log}


def refused(result: Result) -> list[str]:
    assert all(isinstance(failed.error, RobotsDisallowed) for failed in result.errors)
    return sorted(failed.url for failed in result.errors)


EXPLICIT: Final[dict[str, Any]] = {
    "DOWNLOADER_MIDDLEWARES": DOWNLOADER_MIDDLEWARES,
    "EXTENSIONS": EXTENSIONS,
    **OTHER_SETTINGS,
}


@pytest.mark.parametrize("settings", [{}, EXPLICIT], ids=["add-on", "explicit"])
@pytest.mark.parametrize(
    "value", [BOT, "MyCrawler/1.2 (+https://op.test/bot)", HEADER], ids=["object", "string", "header"]
)
async def test_the_bot_is_what_is_sent_and_whose_rules_are_obeyed(
    site: Site, settings: dict[str, Any], value: Any
) -> None:
    urls = prepare(site)
    result = await crawl(urls, {**settings, "SCOUR_BOT_USER_AGENT": value}, addon=not settings)
    assert agents(site) == {HEADER}  # robots.txt included
    assert refused(result) == [site.url("/mine")]
    assert sorted(result.urls()) == sorted(urls[1:])
    assert result.messages(logger="scrapy_scour") == []


async def test_stock_knows_no_such_setting(site: Site) -> None:
    result = await crawl(prepare(site), {"SCOUR_BOT_USER_AGENT": HEADER}, stock=True)
    assert agents(site) == {"testbot/1.0 (+http://testbot.test/)"}
    assert site.url("/mine") in result.urls()


def spider_with(urls: list[str], **custom: Any) -> type[Spider]:
    class Own(Spider):
        name = "own"
        custom_settings = custom

        async def start(self) -> AsyncIterator[Request]:
            for url in urls:
                yield Request(url, errback=self.kept)

        def kept(self, failure: Any) -> None:
            pass

        def parse(self, response: Response) -> None:
            pass

    return Own


async def test_a_spiders_bot_has_more_weight_than_the_projects_agent(site: Site) -> None:
    result = await crawl(spider_with(prepare(site), SCOUR_BOT_USER_AGENT="MyCrawler"))
    assert agents(site) == {"Mozilla/5.0 (compatible; MyCrawler)"}
    assert "/mine" not in site.paths()
    assert result.stats["scour/outcome/robots_disallowed"] == 1


async def test_a_spiders_agent_has_more_weight_than_the_projects_bot_and_its_rules_count(site: Site) -> None:
    result = await crawl(spider_with(prepare(site), USER_AGENT="testbot/2.0"), {"SCOUR_BOT_USER_AGENT": BOT})
    assert agents(site) == {"testbot/2.0"}
    assert "/testbots" not in site.paths()
    assert "/mine" in site.paths()
    (said,) = result.messages(logger="scrapy_scour")
    assert "USER_AGENT = 'testbot/2.0' stays" in said


async def test_a_request_with_an_agent_of_its_own_goes_by_that_ones_rules(site: Site) -> None:
    urls = prepare(site)
    own = [Request(url + "?own", headers={"User-Agent": "testbot/3"}) for url in urls]
    result = await crawl([*urls, *own], {"SCOUR_BOT_USER_AGENT": BOT})
    assert refused(result) == sorted([site.url("/mine"), site.url("/testbots?own")])
    assert len(site.requests("/robots.txt")) == 1


async def test_a_name_for_robots_txt_stands_for_the_bot(site: Site) -> None:
    settings = {"SCOUR_BOT_USER_AGENT": BOT, "ROBOTSTXT_USER_AGENT": "testbot"}
    result = await crawl(prepare(site), settings)
    assert agents(site) == {HEADER}
    assert refused(result) == [site.url("/testbots")]


async def test_without_it_the_projects_agent_is_obeyed(site: Site) -> None:
    result = await crawl(prepare(site), {"SCOUR_BOT_USER_AGENT": None})
    assert refused(result) == [site.url("/testbots")]


WRONG: Final = [
    "My Crawler",
    "MyCrawler2",
    "My.Crawler",
    "Mozilla/5.0",
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
    "*",
    "MyCrawler (+not-a-url)",
    "MyCrawler (+ftp://op.test/)",
    5,
    ["MyCrawler"],
]


@pytest.mark.parametrize("value", WRONG, ids=repr)
async def test_a_wrong_bot_refuses_the_start(site: Site, value: Any) -> None:
    with pytest.raises(SettingsError, match="SCOUR_BOT_USER_AGENT = "):
        await crawl([site.url("/page")], {"SCOUR_BOT_USER_AGENT": value})
    assert site.log == []


@pytest.mark.parametrize("product", ["", "My Crawler", "MyCrawler/1", "Bot1", "Mozilla", "compatible", "b\xf6t", None])
def test_a_product_is_letters_underscore_and_hyphen(product: Any) -> None:
    with pytest.raises(ValueError, match="product"):
        BotUserAgent(product)


def test_on_the_command_line_it_has_the_last_word_and_a_wrong_one_is_an_error(site: Site, tmp_path: Path) -> None:
    urls = prepare(site)
    spider = f"""
import scrapy


class Own(scrapy.Spider):
    name = "own"
    start_urls = {urls!r}

    def parse(self, response):
        pass
"""
    settings = 'ADDONS = {"scrapy_scour.Addon": 500}\nUSER_AGENT = "testbot/1.0"\n'
    project = write_project(tmp_path, spider, settings)
    ran = run_scrapy(["crawl", "own"], project, {"SCOUR_BOT_USER_AGENT": "MyCrawler/1.2 (+https://op.test/bot)"})
    assert ran.returncode == 0, ran.stderr
    assert agents(site) == {HEADER}
    assert sorted(site.paths()) == sorted(["/robots.txt", "/testbots", "/stars", "/page"])
    before = len(site.log)
    ran = run_scrapy(["crawl", "own"], project, {"SCOUR_BOT_USER_AGENT": "My Crawler"})
    assert ran.returncode != 0
    assert "SCOUR_BOT_USER_AGENT = 'My Crawler'" in ran.stderr
    assert len(site.log) == before
