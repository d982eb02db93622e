"""How fast a robots.txt asks to be crawled, and its sitemaps."""

from __future__ import annotations

import math
import sys
from datetime import time

import pytest

from scrapy_scour.policy.robots import parse
from scrapy_scour.policy.robots_pace import seconds_of

MOST = sys.float_info.max

SECONDS: dict[str, float | None] = {
    "0": 0.0,
    "5": 5.0,
    "0.5": 0.5,
    ".5": 0.5,
    "5.": 5.0,
    "007": 7.0,
    "10.25": 10.25,
    "3600": 3600.0,
    "99999999999": 99999999999.0,
    "9" * 308: float("9" * 308),
    "9" * 309: MOST,
    "9" * 100_000: MOST,
    "0" * 400 + "1": 1.0,
    "0." + "3" * 100_000: float("0." + "3" * 30),
    "": None,
    ".": None,
    "abc": None,
    "-5": None,
    "-0": None,
    "+5": None,
    "inf": None,
    "nan": None,
    "10s": None,
    "5,5": None,
    "5 5": None,
    "1e2": None,
    "1e300": None,
    "1_000": None,
    "0x10": None,
    "1.2.3": None,
    "٣": None,
}


@pytest.mark.parametrize(("value", "seconds"), SECONDS.items(), ids=[value[:12] for value in SECONDS])
def test_a_delay_is_a_plain_decimal_that_is_not_negative_and_not_infinite(value: str, seconds: float | None) -> None:
    assert seconds_of(value.encode()) == seconds
    robots = parse(f"User-agent: *\nCrawl-delay: {value} # comment\nDisallow: /x")
    assert robots.crawl_delay("foo") == seconds
    assert robots.delay("foo") == (seconds or 0.0)
    assert math.isfinite(robots.delay("foo"))
    assert robots.delay_source("foo") == ("" if seconds is None else "robots.txt line 2")


DELAYS: list[tuple[str, dict[str | None, float | None]]] = [
    # a crawl-delay line ends a run of agents too, but only for crawl-delays
    ("User-agent: a\nCrawl-delay: 5\nUser-agent: b\nCrawl-delay: 7\nDisallow: /", {"a": 5.0, "b": 7.0, "c": None}),
    ("User-agent: a\nUser-agent: b\nCrawl-delay: 5\nDisallow: /", {"a": 5.0, "b": 5.0}),
    ("User-agent: *\nDisallow: /x\nCrawl-delay: 10", {"a": 10.0, None: 10.0, "*": 10.0}),
    ("User-agent: a\nUser-agent: b\nDisallow: /\nCrawl-delay: 5", {"a": 5.0, "b": 5.0}),
    ("User-agent: a\nSitemap: /s\nUnknown: x\n\nUser-agent: b\nCrawl-delay: 5", {"a": 5.0, "b": 5.0}),
    ("User-agent: a\nDisallow: /\nUser-agent: b\nCrawl-delay: 5", {"a": None, "b": 5.0}),
    ("User-agent: a\nCrawl-delay: x\nUser-agent: b\nCrawl-delay: 5", {"a": None, "b": 5.0}),
    ("User-agent: a\nCrawl-delay: 2\nUser-agent:\nCrawl-delay: 5", {"a": 5.0}),
    # of several the largest
    ("User-agent: *\nCrawl-delay: 5\nCrawl-delay: 20\nCrawl-delay: 1", {"a": 20.0}),
    (
        "User-agent: a\nCrawl-delay: 5\nUser-agent: *\nCrawl-delay: 50\nUser-agent: A/2\nCrawl-delay: 9",
        {"a": 9.0, "b": 50.0},
    ),
    # nothing is inherited
    ("User-agent: a\nDisallow: /x\nUser-agent: *\nCrawl-delay: 5", {"a": None, "b": 5.0}),
    ("User-agent: a\nCrawl-delay: 5", {"a": 5.0, "b": None, None: None}),
    ("Crawl-delay: 5\nUser-agent: *\nDisallow: /", {"a": None}),
    # keys
    ("User-agent: *\n  CRAWL-DELAY :\t5 ", {"a": 5.0}),
    ("User-agent: *\nCrawl delay: 5", {"a": 5.0}),
    ("User-agent: *\nCrawl-delay 5\nCrawl-delayed: 6\n# Crawl-delay: 7", {"a": None}),
    ("", {"a": None}),
]


@pytest.mark.parametrize(("body", "delays"), DELAYS, ids=range(len(DELAYS)))
def test_a_delay_belongs_to_the_nearest_run_of_agents_above_it(
    body: str, delays: dict[str | None, float | None]
) -> None:
    robots = parse(body)
    assert {token: robots.crawl_delay(token) for token in delays} == delays


def test_a_delay_is_never_a_verdict() -> None:
    robots = parse("User-agent: a\nCrawl-delay: 5\nUser-agent: b\nCrawl-delay: 7\nDisallow: /x")
    assert [robots.allowed("http://a.example/x", token) for token in ("a", "b", "c")] == [False, False, True]


def test_the_larger_of_delay_and_rate_counts_and_is_named() -> None:
    robots = parse(
        "User-agent: a\nCrawl-delay: 2\nRequest-rate: 1/5\nUser-agent: b\nRequest-rate: 10/1m\nCrawl-delay: 8\n"
        "User-agent: *\nDisallow: /x\nRequest-rate: 1/1h 0900-1700\nRequest-rate: 2/3\n"
    )
    assert (robots.delay("a"), robots.delay_source("a"), robots.crawl_delay("a")) == (5.0, "robots.txt line 3", 2.0)
    assert (robots.delay("b"), robots.delay_source("b")) == (8.0, "robots.txt line 6")
    assert (robots.delay("c"), robots.delay_source("c")) == (3600.0, "robots.txt line 9")
    rate = robots.request_rate("c")
    assert rate is not None
    assert (rate.requests, rate.seconds, rate.start_time, rate.end_time) == (1, 3600, time(9), time(17))
    rate_of_b = robots.request_rate("b")
    assert rate_of_b is not None
    assert (rate_of_b.requests, rate_of_b.seconds) == (10, 60)


@pytest.mark.parametrize(
    "value", ["", "5", "1/banana", "0/5", "1/0", "-1/5", "1/5/9", "/", "1/" + "9" * 5000, "x" * 5000]
)
def test_a_rate_that_is_none_asks_nothing(value: str) -> None:
    robots = parse(f"User-agent: *\nRequest-rate: {value}\nDisallow: /x")
    assert robots.request_rate("a") is None
    assert robots.delay("a") == 0.0
    assert robots.delay_source("a") == ""


def test_an_enormous_rate_stays_finite() -> None:
    assert parse(f"User-agent: *\nRequest-rate: 1/{'9' * 400}").delay("a") == MOST


def test_a_visit_time_is_read_for_the_group_that_applies() -> None:
    robots = parse("User-agent: a\nVisit-time: 0600-0845\nDisallow: /\nUser-agent: *\nVisit-time: nonsense\nDisallow:")
    visit = robots.visit_time("a")
    assert visit is not None
    assert (visit.start_time, visit.end_time) == (time(6), time(8, 45))
    assert robots.visit_time("b") is None


def test_sitemaps_belong_to_the_whole_file_in_its_order() -> None:
    robots = parse(
        "Sitemap: https://a.example/1\nUser-agent: *\nDisallow: /\nSITEMAP : /2 # x\n# Sitemap: /3\nSitemap:\n"
    )
    assert robots.sitemaps == ["https://a.example/1", "/2"]
    assert parse("User-agent: *\nDisallow: /").sitemaps == []


def test_what_is_not_there_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Protego is only loaded for files with a line that it is to read."""
    monkeypatch.setitem(sys.modules, "protego", None)  # an import now fails
    robots = parse("User-agent: *\nDisallow: /x\nCrawl-delay: 5")
    assert (robots.delay("a"), robots.request_rate("a"), robots.visit_time("a"), robots.sitemaps) == (
        5.0,
        None,
        None,
        [],
    )
    with pytest.raises(ImportError):
        parse("User-agent: *\nRequest-rate: 1/5").delay("a")
