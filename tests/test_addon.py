"""One line puts everything in its place, the project's own word stands, and a wrong set-up does not start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scrapy import Spider
from scrapy.settings import Settings
from scrapy.utils.misc import load_object
from scrapy.utils.test import get_crawler

import scrapy_scour
from scrapy_scour import addon, setup_check
from scrapy_scour.compat import enabled_components
from scrapy_scour.exceptions import SettingsError
from tests.support.crawl import ADDONS, crawl, run_scrapy, write_project
from tests.support.site import Sites

MIDDLEWARES = "scrapy_scour.downloadermiddlewares."
STOCK = "scrapy.downloadermiddlewares."
EXPLICIT: dict[str, Any] = {
    "DOWNLOADER_MIDDLEWARES": {**scrapy_scour.DOWNLOADER_MIDDLEWARES},
    "EXTENSIONS": {**scrapy_scour.EXTENSIONS},
    **addon.OTHER_SETTINGS,
}


def applied(settings: dict[str, Any]) -> Settings:
    """The settings after the add-on has had its say."""
    own = Settings(settings)
    addon.Addon(get_crawler(Spider)).update_settings(own)
    return own


def order(settings: Settings, name: str = "DOWNLOADER_MIDDLEWARES") -> list[str]:
    return [
        f"{load_object(component).__module__}.{load_object(component).__name__}"
        for component, _ in enabled_components(settings, name)
    ]


def test_every_component_is_in_its_place_and_the_stock_ones_are_out() -> None:
    """The order of the design: scope first, robots after what sets the agent and before the cache, the wire last."""
    names = order(applied({}))
    assert [name for name in names if name.startswith("scrapy_scour")] == [
        f"{MIDDLEWARES}outcome.OutcomeMiddleware",
        f"{MIDDLEWARES}scope.ScopeMiddleware",
        f"{MIDDLEWARES}robotstxt.RobotsTxtMiddleware",
        f"{MIDDLEWARES}retry.RetryMiddleware",
        f"{MIDDLEWARES}redirect.MetaRefreshMiddleware",
        f"{MIDDLEWARES}redirect.RedirectMiddleware",
        f"{MIDDLEWARES}wire.WireMiddleware",
    ]
    at = names.index(f"{MIDDLEWARES}robotstxt.RobotsTxtMiddleware")
    assert at > names.index(f"{STOCK}useragent.UserAgentMiddleware")
    assert at < names.index(f"{STOCK}httpcache.HttpCacheMiddleware")
    assert names[-1] == f"{MIDDLEWARES}wire.WireMiddleware"
    for stock in ("offsite.Offsite", "robotstxt.RobotsTxt", "retry.Retry", "redirect.MetaRefresh", "redirect.Redirect"):
        assert f"{STOCK}{stock}Middleware" not in names


def test_both_ways_in_give_the_same_set_up() -> None:
    """The add-on and the explicit settings differ in nothing."""
    by_addon, by_hand = applied({}), Settings(EXPLICIT)
    for name in ("DOWNLOADER_MIDDLEWARES", "EXTENSIONS"):
        assert order(by_addon, name) == order(by_hand, name)
    for name in addon.OTHER_SETTINGS:
        assert by_addon[name] == by_hand[name]


@pytest.mark.parametrize(
    ("own", "kept"),
    [
        ({"ROBOTSTXT_OBEY": False}, ("ROBOTSTXT_OBEY", False)),
        (
            {"ROBOTSTXT_PARSER": "scrapy.robotstxt.ProtegoRobotParser"},
            ("ROBOTSTXT_PARSER", "scrapy.robotstxt.ProtegoRobotParser"),
        ),
        (
            {"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue"},
            ("SCHEDULER_PRIORITY_QUEUE", "scrapy.pqueues.ScrapyPriorityQueue"),
        ),
    ],
)
def test_a_value_that_the_project_set_stands(own: dict[str, Any], kept: tuple[str, Any]) -> None:
    """The add-on fills in, it never overrides."""
    assert applied(own)[kept[0]] == kept[1]


def test_a_position_that_the_project_set_stands() -> None:
    """Also when it was given as a class, and when it switches one of ours off."""
    scope = load_object(f"{MIDDLEWARES}scope.ScopeMiddleware")
    settings = applied({"DOWNLOADER_MIDDLEWARES": {scope: 60, f"{MIDDLEWARES}retry.RetryMiddleware": None}})
    positions = {
        load_object(component): position
        for component, position in enabled_components(settings, "DOWNLOADER_MIDDLEWARES")
    }
    assert positions[scope] == 60
    assert f"{MIDDLEWARES}retry.RetryMiddleware" not in order(settings)


def test_a_feature_that_the_project_switched_off_stays_off() -> None:
    """Who has taken stock redirects and retries out wants none; robots and scope come in all the same."""
    off = ("retry.Retry", "redirect.Redirect", "redirect.MetaRefresh", "robotstxt.RobotsTxt", "offsite.Offsite")
    names = order(applied({"DOWNLOADER_MIDDLEWARES": {f"{STOCK}{name}Middleware": None for name in off}}))
    ours = [name.rpartition(".")[2] for name in names if name.startswith("scrapy_scour")]
    assert ours == ["OutcomeMiddleware", "ScopeMiddleware", "RobotsTxtMiddleware", "WireMiddleware"]


WRONG: tuple[tuple[str, dict[str, Any], tuple[str, ...]], ...] = (
    (
        "stock redirect beside ours",
        {"DOWNLOADER_MIDDLEWARES": {f"{STOCK}redirect.RedirectMiddleware": 600}},
        (f"{STOCK}redirect.RedirectMiddleware", "600", "must be None"),
    ),
    (
        "stock robots beside ours",
        {"DOWNLOADER_MIDDLEWARES": {f"{STOCK}robotstxt.RobotsTxtMiddleware": 100}},
        (f"{STOCK}robotstxt.RobotsTxtMiddleware", "must be None"),
    ),
    (
        "stock retry beside ours",
        {"DOWNLOADER_MIDDLEWARES": {f"{STOCK}retry.RetryMiddleware": 543}},
        (f"{STOCK}retry.RetryMiddleware", "543", "must be None"),
    ),
    (
        "a subclass of a stock middleware beside ours",
        {"DOWNLOADER_MIDDLEWARES": {"tests.test_addon.OwnOffsite": 70}},
        ("OwnOffsite", "70", "must be None"),
    ),
    (
        "robots after the page cache",
        {"DOWNLOADER_MIDDLEWARES": {f"{MIDDLEWARES}robotstxt.RobotsTxtMiddleware": 950}},
        ("RobotsTxtMiddleware", "950", "must come before", "HttpCacheMiddleware"),
    ),
    (
        "robots at the place of the page cache",
        {
            "DOWNLOADER_MIDDLEWARES": {
                f"{MIDDLEWARES}robotstxt.RobotsTxtMiddleware": 510,
                f"{STOCK}httpcache.HttpCacheMiddleware": 505,
            }
        },
        ("must come before", "HttpCacheMiddleware", "505"),
    ),
    (
        "a middleware behind the wire",
        {"DOWNLOADER_MIDDLEWARES": {"tests.test_addon.Late": 10001}},
        ("tests.test_addon.Late", "10001", "WireMiddleware"),
    ),
    (
        "no wire",
        {"DOWNLOADER_MIDDLEWARES": {f"{MIDDLEWARES}wire.WireMiddleware": None}},
        ("WireMiddleware", "is not enabled"),
    ),
    (
        "no pacing",
        {"EXTENSIONS": {"scrapy_scour.extensions.pacing.PacingExtension": None}},
        ("PacingExtension", "is not enabled"),
    ),
    ("a bad value", {"SCOUR_ROBOTSTXT_TTL": "soon"}, ("SCOUR_ROBOTSTXT_TTL", "'soon'", "seconds")),
    ("an unknown name", {"SCOUR_RETRY_WAIT": 1}, ("SCOUR_RETRY_WAIT", "SCOUR_RETRY_WAITS")),
    (
        "no request at a time",
        {"CONCURRENT_REQUESTS_PER_DOMAIN": 0},
        ("CONCURRENT_REQUESTS_PER_DOMAIN", "= 0", "1 or more"),
    ),
    ("a slot that is none", {"DOWNLOAD_SLOTS": {"a.test": None}}, ("DOWNLOAD_SLOTS['a.test']", "None", "dictionary")),
    (
        "a slot's concurrency as text",
        {"DOWNLOAD_SLOTS": {"a.test": {"concurrency": "2"}}},
        ("DOWNLOAD_SLOTS['a.test']['concurrency']", "'2'", "1 or more"),
    ),
    (
        "a slot that would never send",
        {"DOWNLOAD_SLOTS": {"a.test": {"concurrency": 0}}},
        ("DOWNLOAD_SLOTS['a.test']['concurrency']", "= 0", "1 or more"),
    ),
    (
        "a slot's delay that is no number",
        {"DOWNLOAD_SLOTS": {"a.test": {"delay": float("nan")}}},
        ("DOWNLOAD_SLOTS['a.test']['delay']", "nan", "0 or more"),
    ),
    ("a foreign downloader", {"DOWNLOADER": "tests.test_addon.Late"}, ("DOWNLOADER", "tests.test_addon.Late")),
    (
        "a component that is not there",
        {"DOWNLOADER_MIDDLEWARES": {"tests.test_addon.Missing": 5}},
        ("tests.test_addon", "Missing"),
    ),
)


class OwnOffsite(load_object(f"{STOCK}offsite.OffsiteMiddleware")):  # type: ignore[misc]
    """A project's own variant of a stock middleware."""


class Late:
    """A middleware that changes what was checked."""


@pytest.mark.parametrize(("name", "settings", "words"), WRONG, ids=[name for name, *_ in WRONG])
async def test_a_wrong_set_up_does_not_start(
    sites: Sites, name: str, settings: dict[str, Any], words: tuple[str, ...]
) -> None:
    """The message names setting, value and rule, and the server sees nothing."""
    site = sites()
    site.page("/", b"page")
    with pytest.raises((ValueError, ImportError, AttributeError, NameError)) as refused:
        await crawl([site.url("/")], settings)
    assert all(word in str(refused.value) for word in words), str(refused.value)
    assert site.connections == 0


async def test_a_download_slot_of_the_project_is_no_problem(sites: Sites) -> None:
    """What Scrapy takes for a slot is taken."""
    site = sites()
    site.page("/", b"page")
    slots = {"127.0.0.1": {"concurrency": 2, "delay": 0.01}, "a.test": {"delay": 0}, "b.test": {}}
    result = await crawl([site.url("/")], {"DOWNLOAD_SLOTS": slots})
    assert result.urls() == [site.url("/")]


async def test_a_download_handler_that_cannot_be_loaded_is_an_error_of_its_scheme_only(sites: Sites) -> None:
    """As in stock Scrapy: the crawl starts, and what needs no such handler is fetched."""
    site = sites()
    site.page("/", b"page")
    result = await crawl([site.url("/")], {"DOWNLOAD_HANDLERS": {"https": "tests.test_addon.Missing"}})
    assert result.urls() == [site.url("/")]


async def test_all_that_is_wrong_is_said_at_once(sites: Sites) -> None:
    """Settings, components and scope together."""
    site = sites()
    settings = {
        "SCOUR_ROBOTSTXT_TTL": -1,
        "DOWNLOADER_MIDDLEWARES": {"tests.test_addon.Late": 10001},
        "EXTENSIONS": {"scrapy_scour.extensions.pacing.PacingExtension": None},
    }
    with pytest.raises(SettingsError) as refused:
        await crawl([site.url("/")], settings, domains=["not a domain"])
    for word in ("SCOUR_ROBOTSTXT_TTL", "Late", "PacingExtension", "allowed_domains"):
        assert word in str(refused.value)
    assert site.connections == 0


async def test_the_explicit_settings_obey_and_pace_like_the_add_on(sites: Sites) -> None:
    """The second way in, in a real crawl."""
    site = sites()
    site.robots("User-agent: *\nDisallow: /no\nCrawl-delay: 0.2\n")
    site.page("/a", b"a")
    site.page("/no", b"no")
    result = await crawl([site.url("/a"), site.url("/no")], EXPLICIT, addon=False)
    assert site.paths() == ["/robots.txt", "/a"]
    assert result.stats["robotstxt/forbidden"] == 1
    assert min(site.gaps()) > 0.18


async def test_robots_are_obeyed_when_nobody_said_anything(sites: Sites) -> None:
    """USE-02: ROBOTSTXT_OBEY unset means obey; the middlewares alone, without the other settings, obey as well."""
    only_components = {name: EXPLICIT[name] for name in ("DOWNLOADER_MIDDLEWARES", "EXTENSIONS")}
    for settings, with_addon in (({}, True), (only_components, False)):
        site = sites()
        site.robots("User-agent: *\nDisallow: /\n")
        result = await crawl([site.url("/")], settings, addon=with_addon)
        assert site.paths() == ["/robots.txt"]
        assert "robots.txt line 2 (Disallow: /" in str(result.error(site.url("/")))


async def test_robots_off_is_allowed_and_said(sites: Sites) -> None:
    """A project may crawl its own site as it likes; the log says so."""
    site = sites()
    site.robots("User-agent: *\nDisallow: /\n")
    site.page("/", b"page")
    result = await crawl([site.url("/")], {"ROBOTSTXT_OBEY": False})
    assert site.paths() == ["/"]
    assert any("ROBOTSTXT_OBEY = False" in message for message in result.messages())


@pytest.mark.filterwarnings("ignore::scrapy.exceptions.ScrapyDeprecationWarning")
def test_per_ip_concurrency_keeps_stock_queue() -> None:
    """No queue supports CONCURRENT_REQUESTS_PER_IP with hosts' slots; the slots keep the pace all the same."""
    settings = applied({"CONCURRENT_REQUESTS_PER_IP": 4})
    assert settings["SCHEDULER_PRIORITY_QUEUE"] != addon.OTHER_SETTINGS["SCHEDULER_PRIORITY_QUEUE"]


@pytest.mark.parametrize("where", ["setting", "spider"])
def test_a_refused_crawl_has_an_exit_code(tmp_path: Path, sites: Sites, where: str) -> None:
    """From the command line: not 0, one clear message, nothing sent; also for a bad value of the spider."""
    site = sites()
    domains = "['a b']" if where == "spider" else "[]"
    spider = (
        "import scrapy\nclass S(scrapy.Spider):\n name = 's'\n"
        f" start_urls = [{site.url('/')!r}]\n allowed_domains = {domains}\n"
    )
    bad = "SCOUR_ROBOTSTXT_TTL = 'soon'\n" if where == "setting" else ""
    project = write_project(tmp_path, spider, f"ADDONS = {ADDONS!r}\n{bad}")
    done = run_scrapy(["crawl", "s"], cwd=project)
    assert done.returncode != 0
    assert "scrapy-scour refuses to start" in done.stderr
    assert ("SCOUR_ROBOTSTXT_TTL" if where == "setting" else "allowed_domains") in done.stderr
    assert site.connections == 0


def test_a_set_up_that_breaks_otherwise_has_an_exit_code(tmp_path: Path, sites: Sites) -> None:
    """A value of Scrapy's own that cannot be read is no success either, and nothing is sent."""
    site = sites()
    spider = f"import scrapy\nclass S(scrapy.Spider):\n name = 's'\n start_urls = [{site.url('/')!r}]\n"
    project = write_project(tmp_path, spider, f"ADDONS = {ADDONS!r}\nROBOTSTXT_PARSER = 'nowhere.Parser'\n")
    done = run_scrapy(["crawl", "s"], cwd=project)
    assert done.returncode != 0
    assert "nowhere" in done.stderr
    assert site.connections == 0


def test_every_replaced_stock_middleware_is_switched_off() -> None:
    """The table of what ours replace and the dictionary of positions agree."""
    for ours, stock in setup_check.REPLACED:
        assert isinstance(addon.DOWNLOADER_MIDDLEWARES[ours], int)
        assert addon.DOWNLOADER_MIDDLEWARES[f"{stock.__module__}.{stock.__name__}"] is None
