"""A request that passes the robots check at once ends up as it would have by the long way."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scrapy import Request, Spider
from scrapy.core.downloader import Downloader
from scrapy.robotstxt import ProtegoRobotParser
from scrapy.utils.test import get_crawler

from scrapy_scour import compat
from scrapy_scour.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy_scour.policy.access import Means
from scrapy_scour.policy.robots import parse
from scrapy_scour.policy.urls import Origin
from scrapy_scour.robotstxt import RFC9309RobotParser
from scrapy_scour.stores.robots import Fetched, Known

FILES: dict[str, bytes | None] = {
    "no file": None,
    "empty": b"",
    "all refused": b"User-agent: *\nDisallow: /\n",
    "paths": b"User-agent: *\nDisallow: /x\nAllow: /x/y\nDisallow: /*.gif$\n",
    "agents": b"User-agent: acme\nDisallow: /a\n\nUser-agent: *\nCrawl-delay: 3\nDisallow: /x\n",
    "delay": b"User-agent: acme\nCrawl-delay: 2\n\nUser-agent: *\nDisallow: /x\n",
    "long delay": b"User-agent: *\nCrawl-delay: 500\n",
}
URLS = [
    "http://a.test/a",
    "http://a.test/x",
    "http://a.test/x/y",
    "http://a.test/%78",
    "http://a.test/b/../x",
    "http://a.test/i.gif?q=1",
    "http://a.test",
    "http://A.test/x",
    "https://a.test/x",
    "http://a.test:8080/a",
    "http://127.1/x",
    "http://b.test/a",
    "http://a.test/robots.txt",
    "data:,a",
]


class Resolves:
    """A download handler that may send a path otherwise than it is written."""

    lazy = True


#: What a request may bring along, each by itself.
METAS: list[dict[str, Any]] = [
    {},
    {"depth": 1, "download_timeout": 9.0},
    {"dont_obey_robotstxt": True},
    {"dont_obey_robotstxt": False},
    {"scour_crawl_delays": {"c.test": 1.0}},
    {"scour_crawl_delays": "odd"},
    {"scour_robotstxt_tries": 2},
    {"scour_agent": "acme"},
    {"scour_let_pass": ["odd"]},
    {"scour_waiting": False},
    {"scour_robotstxt": 7},
    {"download_slot": "slow"},
    {"download_slot": "a.test"},
    {"scour_url": "http://b.test/x"},
    {"scour_url": "nowhere"},
    {"later": {"download_slot": "slow"}},  # set by a middleware in between
]
AGENTS = [None, "acme/1", "other", "???"]
CRAWLS: list[dict[str, Any]] = [
    {},
    {"ROBOTSTXT_OBEY": False},
    {"ROBOTSTXT_USER_AGENT": "other"},
    {"ROBOTSTXT_PARSER": "scrapy.robotstxt.ProtegoRobotParser"},
    {"SCOUR_ROBOTSTXT_IGNORE_WILDCARD": True},
    {"SCOUR_THROTTLE_ENABLED": True},
    {"DOWNLOAD_DELAY": 100.0},
    {"DOWNLOAD_SLOTS": {"slow": {"delay": 100.0}}},
    {"DOWNLOAD_HANDLERS": {"http": f"{__name__}.Resolves"}},
]
#: What happens to the host and its rules meanwhile.
EVENTS = ["", "asks", "held", "given up", "busy", "forgotten", "just sent", "stale", "out of date"]


class World:
    """The middleware over known rules. ``at_once``: how many requests passed at once."""

    def __init__(self, file: str, crawl: dict[str, Any], *, long_way: bool = False) -> None:
        crawler = get_crawler(Spider, {"TELNETCONSOLE_ENABLED": False, "USER_AGENT": "acme/2", **crawl})
        crawler.spider = Spider(name="world")
        crawler.engine = SimpleNamespace(downloader=Downloader(crawler), paused=False, _slot=None)  # type: ignore[assignment]
        self.middleware = RobotsTxtMiddleware(crawler)
        self.job = job = self.middleware.job
        job.install_gate()
        job.now = lambda: 1e7  # type: ignore[method-assign]
        job.robots._now = job.now
        job.permission._run = "run"
        self.at_once = 0
        shortcut = self.middleware._passes_at_once

        def counted(request: Request) -> bool:
            passes = not long_way and shortcut(request)
            self.at_once += passes
            return passes

        self.middleware._passes_at_once = counted  # type: ignore[method-assign]
        body, protego = FILES[file], "ROBOTSTXT_PARSER" in crawl
        for scheme, host, port in (
            ("http", "a.test", 80),
            ("https", "a.test", 443),
            ("http", "a.test", 8080),
            ("http", "127.0.0.1", 80),
            ("http", "b.test", 80),
        ):
            parser: Any = None
            if body is not None:
                parser = ProtegoRobotParser(body, None) if protego else RFC9309RobotParser(parse(body))
            fetched = Fetched(Means.NO_RULES if body is None else Means.RULES, parser=parser)
            job.robots._known[Origin(scheme, host, port)] = Known(fetched, 1e7)

    def happens(self, event: str) -> None:
        clock = self.job.pace.clock("a.test", 1e7)
        if event == "asks":
            clock.ask("earlier", 2.0)
            clock.last_end = 1e7 - 1.0
        elif event == "held":
            clock.hold(1e7 + 5.0, "retry_after")
        elif event == "given up":
            clock.give_up(1e7 + 5.0, "for a reason")
        elif event == "busy":
            clock.ask("earlier", 2.0)
            clock.began()
        elif event == "forgotten":
            self.job.pace._clocks.clear()
        elif event == "just sent":
            for slot in ("a.test", "slow"):
                meta = {"download_slot": slot}
                self.job.downloader._get_slot(Request("http://a.test/", meta=meta))[1].lastseen = compat.slot_now()
        for known in self.job.robots._known.values():
            known.stale = event == "stale"
            if event == "out of date":
                known.at -= 1e6

    def ends(self, url: str, meta: dict[str, Any], agent: str | None, from_queue: bool | None) -> Any:
        """What comes of one request, as plain values."""
        request = Request(url, meta=dict(meta), headers={"User-Agent": agent} if agent else {})
        job = self.job
        if from_queue is not None:
            if from_queue:
                slot, host = job.place_of(request)
                job.under_way.enter(request, slot, host, from_queue=True)
            job.entered(request)
        request.meta.update(request.meta.pop("later", {}))
        coroutine = self.middleware.process_request(request)
        try:
            coroutine.send(None)
            said: Any = "asks for robots.txt"
            coroutine.close()
        except StopIteration as ended:
            back = ended.value
            said = None if back is None else (back.url, dict(back.meta), back.dont_filter)
        except Exception as refusal:
            said = (type(refusal), str(refusal))
        if from_queue is not None:
            job.left(request)
        clock = job.pace.known("a.test")
        return (
            said,
            dict(request.meta),
            request.dont_filter,
            clock and (clock.pages, clock.asked_s),
            dict(job.crawler.stats._stats),  # type: ignore[union-attr]
            list(job.permission._told),
        )


def same(file: str, crawl: dict[str, Any], event: str, meta: dict[str, Any], agent: str | None, queue: Any) -> None:
    """Both ways, after pages without anything special, which pass at once."""
    short, long = World(file, crawl), World(file, crawl, long_way=True)
    for world in (short, long):
        for n in range(2):
            for name in AGENTS:
                world.ends(f"http://a.test/{n}", {}, name, True)
        world.happens(event)
    for url in URLS:
        assert short.ends(url, meta, agent, queue) == long.ends(url, meta, agent, queue), url


@pytest.mark.parametrize("file", FILES)
def test_what_passes_at_once_would_have_passed_the_long_way_and_be_the_same(file: str) -> None:
    """Refusals, what has to wait, what is noted on the request, counted and said: all of it, request after request."""
    for crawl in CRAWLS:
        same(file, crawl, "", {}, "acme/1", True)
    for meta in METAS:
        same(file, {"DOWNLOAD_SLOTS": {"slow": {"delay": 100.0}}}, "just sent", meta, None, True)
    for agent in AGENTS:
        same(file, {"ROBOTSTXT_USER_AGENT": "other"}, "", {}, agent, True)
    for event in EVENTS:
        for queue in (True, False, None):
            same(file, {"DOWNLOAD_DELAY": 100.0} if event == "just sent" else {}, event, {}, None, queue)


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(st.tuples(*map(st.sampled_from, (sorted(FILES), CRAWLS, EVENTS, METAS, AGENTS, [True, False, None]))))
def test_so_it_is_with_any_of_these_together(case: Any) -> None:
    same(*case)


@pytest.mark.parametrize("file", ["no file", "empty", "paths"])
def test_a_page_of_a_host_without_a_pace_passes_at_once_after_the_first(file: str) -> None:
    world = World(file, {})
    for n in range(3):
        said, meta, _, counted, *_ = world.ends(f"http://a.test/{n}", {}, "acme/1", True)
        assert said is None
        assert meta == {"scour_crawl_delays": {"a.test": 0}, "scour_agent": "acme"}
        assert counted == (n + 1, 0.0)
    assert world.at_once == 2


def test_a_parser_that_breaks_refuses_what_it_would_have_let_pass_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World("paths", {})
    assert world.ends("http://a.test/1", {}, "acme/1", True)[0] is None

    def breaks(*_: Any, **__: Any) -> None:
        raise RecursionError("broken")

    monkeypatch.setattr("scrapy_scour.policy.robots.Robots.verdict", breaks)
    (refusal, said), *_ = world.ends("http://a.test/2", {}, "acme/1", True)
    assert refusal.__name__ == "PolicyCheckFailed"
    assert "RecursionError: broken" in said
