"""Retries: Scrapy's settings, meta keys, counts and stats, beside the holds, which are the host's."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from scrapy import Request
from twisted.internet.defer import TimeoutError as DeferredTimeoutError

from scrapy_scour import compat
from tests.support.crawl import Result, crawl
from tests.support.site import Answer, Sites, closed, gaps, page_requests


def retry_stats(result: Result) -> dict[str, Any]:
    return {key: value for key, value in result.stats.items() if key.startswith("retry/")}


#: What is asked for and what stock Scrapy makes of it: answers in turn, meta, settings, and how many requests are made.
SITUATIONS: dict[str, tuple[list[Answer], dict[str, Any], dict[str, Any], int]] = {
    "a status that is retried": ([Answer("broken", 500), Answer("page")], {}, {}, 2),
    "until it is given up": ([Answer("broken", 502)], {}, {"RETRY_TIMES": 2}, 3),
    # over the kept connection of robots.txt Twisted sends it once more by itself
    "a connection that breaks": ([closed()], {}, {"RETRY_TIMES": 2}, 4),
    "a status that is not": ([Answer("gone", 404)], {}, {}, 1),
    "forbidden": ([Answer("no", 403)], {}, {}, 1),
    "legal reasons": ([Answer("no", 451)], {}, {}, 1),
    "a code of the project's own": ([Answer("gone", 404)], {}, {"RETRY_HTTP_CODES": ["404"]}, 2),
    "no code at all": ([Answer("broken", 500)], {}, {"RETRY_HTTP_CODES": []}, 1),
    "dont_retry": ([Answer("broken", 500)], {"dont_retry": True}, {}, 1),
    "dont_retry and a broken connection": ([closed()], {"dont_retry": True}, {}, 2),
    "max_retry_times": ([Answer("broken", 500)], {"max_retry_times": 3}, {}, 4),
    "max_retry_times 0": ([Answer("broken", 500)], {"max_retry_times": 0}, {}, 1),
    "max_retry_times None": ([Answer("broken", 500)], {"max_retry_times": None}, {}, 2),
    "RETRY_TIMES 0": ([Answer("broken", 500)], {}, {"RETRY_TIMES": 0}, 1),
    "RETRY_ENABLED False": ([Answer("broken", 500)], {}, {"RETRY_ENABLED": False}, 1),
    "no exceptions": ([closed()], {}, {"RETRY_EXCEPTIONS": []}, 2),
}


@pytest.mark.parametrize("name", SITUATIONS)
async def test_retries_and_their_stats_are_scrapys(sites: Sites, name: str) -> None:
    answers, meta, settings, made = SITUATIONS[name]
    seen = []
    for stock in (True, False):
        site = sites()
        site.robots("")
        site.sequence("/r", answers)
        result = await crawl([Request(site.url("/r"), meta=dict(meta), priority=5)], settings, stock=stock)
        ends = [page.status for page in result.responses]
        ends += [getattr(getattr(failed.error, "response", None), "status", None) for failed in result.errors]
        last = (result.responses[0].request if result.responses else result.errors[0].request).priority
        assert result.package_tracebacks == []
        seen.append((len(page_requests(site)), ends, last, retry_stats(result)))
    stocks, ours = seen
    assert ours == stocks
    assert ours[0] == made


@pytest.mark.parametrize(
    ("meta", "settings", "level"),
    [
        ({}, {}, logging.ERROR),
        ({}, {"RETRY_GIVE_UP_LOG_LEVEL": "INFO"}, logging.INFO),
        ({"give_up_log_level": "DEBUG"}, {"RETRY_GIVE_UP_LOG_LEVEL": "INFO"}, logging.DEBUG),
        ({"give_up_log_level": logging.WARNING}, {}, logging.WARNING),
    ],
)
async def test_the_level_of_the_last_word_can_be_chosen(
    sites: Sites, meta: dict[str, Any], settings: dict[str, Any], level: int
) -> None:
    if not compat.RETRY_HAS_GIVE_UP_LEVEL and (meta or settings):
        pytest.skip("this Scrapy has no such setting")
    site = sites()
    site.robots("")
    site.page("/r", "broken", 500)
    result = await crawl([Request(site.url("/r"), meta=meta)], settings)
    (said,) = [record for record in result.log if "Gave up retrying" in record.getMessage()]
    assert said.levelno == level


@pytest.mark.parametrize(
    ("meta", "settings"),
    [
        ({"dont_retry": True}, {}),
        ({"max_retry_times": 0}, {}),
        ({}, {"RETRY_ENABLED": False}),
        ({}, {"RETRY_HTTP_CODES": [500]}),
    ],
)
async def test_a_request_that_is_not_retried_holds_its_host_all_the_same(
    sites: Sites, meta: dict[str, Any], settings: dict[str, Any]
) -> None:
    site = sites()
    site.robots("")
    site.default = Answer("page")
    site.page("/r", "later", 429)
    requests = [Request(site.url("/r"), meta=meta, priority=1), Request(site.url("/next"))]
    result = await crawl(requests, {**settings, "CONCURRENT_REQUESTS_PER_DOMAIN": 1, "SCOUR_RETRY_WAITS": [0.3]})
    pages = page_requests(site)
    assert [seen.path for seen in pages] == ["/r", "/next"]
    assert gaps(pages)[0] >= 0.28
    assert result.urls() == [site.url("/next")]
    assert [failed.url for failed in result.errors] == [site.url("/r")]
    assert result.package_tracebacks == []


async def test_one_page_that_always_says_later_ends_while_the_others_of_its_host_are_fetched(sites: Sites) -> None:
    site = sites()
    site.robots("")
    site.default = Answer("page")
    site.page("/r", "later", 503)
    urls = [site.url("/r"), *(site.url(f"/{n}") for n in range(30))]
    result = await crawl(urls, {"SCOUR_RETRY_WAITS": [0.1], "RETRY_TIMES": 2, "RETRY_PRIORITY_ADJUST": 1})
    assert len(result.responses) + len(result.errors) == 31
    assert len(site.requests("/r")) == 3
    assert result.finish_reason == "finished"
    assert result.package_tracebacks == []


async def test_a_time_that_is_named_is_waited_for_and_what_comes_after_counts(sites: Sites) -> None:
    site = sites()
    site.robots("")
    site.default = Answer("page")
    site.page("/r", "later", 503, headers={"Retry-After": "1"})
    requests = [Request(site.url("/r"), priority=1), *(Request(site.url(f"/{n}")) for n in range(2))]
    settings = {"RETRY_TIMES": 1, "CONCURRENT_REQUESTS_PER_DOMAIN": 1, "RETRY_PRIORITY_ADJUST": -2}
    result = await crawl(requests, settings)
    # While the others are answered well it is not held against the page; when nothing else is left, it is.
    pages = page_requests(site)
    assert [seen.path if seen.path == "/r" else "other" for seen in pages] == ["/r", "other", "other", "/r", "/r", "/r"]
    assert [wait >= 0.98 for wait in gaps(pages)] == [seen.path == "/r" for seen in pages[:-1]]
    assert len(result.responses) == 2
    assert len(result.errors) == 1
    assert result.finish_reason == "finished"
    assert result.package_tracebacks == []


def test_exceptions_may_be_classes_or_paths() -> None:
    from scrapy.settings import Settings

    paths = Settings({"RETRY_EXCEPTIONS": [OSError, "twisted.internet.defer.TimeoutError"]})
    assert compat.retry_exceptions(paths) == (OSError, DeferredTimeoutError)
