"""What is read of Scrapy past its own methods says what they say."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy.http import Headers
from scrapy.statscollectors import DummyStatsCollector, MemoryStatsCollector, StatsCollector
from scrapy.utils.test import get_crawler
from twisted.web.client import HTTPConnectionPool

from scrapy_scour import compat, stats

NAMES = ["User-Agent", "user-agent", "USER-AGENT", "Retry-After", "retry-After", "Proxy-Authorization"]


@given(
    st.booleans(),
    st.dictionaries(st.sampled_from(NAMES) | st.sampled_from(NAMES).map(str.encode), st.lists(st.text("ab"))),
    st.sampled_from([b"User-Agent", b"Retry-After", b"Proxy-Authorization"]),
)
def test_the_values_of_a_header_are_those_of_getlist(
    plain: bool, values: dict[str | bytes, list[str]], name: bytes
) -> None:
    """Also where ``Headers`` is not the dict of lists that it is now."""
    headers = Headers(values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compat, "_HEADERS_ARE_LISTS", plain and compat._HEADERS_ARE_LISTS)
        assert compat.values_of(headers, name) == headers.getlist(name)


class Hears(MemoryStatsCollector):
    """A collector that wants to be told of each count."""

    def inc_value(self, key: str, count: int = 1, start: int = 0, **spider: Any) -> None:
        super().inc_value(key, 10 * count, start, **spider)


class Turns(MemoryStatsCollector):
    """A collector that gives another method in the place of its own."""

    def __getattribute__(self, name: str) -> Any:
        if name == "inc_value":
            return lambda key, count=1, **_: MemoryStatsCollector.inc_value(self, key, 10 * count)
        return super().__getattribute__(name)


class Small:
    """A collector that is none of Scrapy's and has no attributes."""

    __slots__ = ("held",)

    def __init__(self, crawler: Any) -> None:
        self.held: dict[str, int] = {}

    def inc_value(self, key: str, count: int = 1, **_: Any) -> None:
        self.held[key] = self.held.get(key, 0) + 10 * count

    def get_value(self, key: str, default: Any = None) -> Any:
        return self.held.get(key, default)


@pytest.mark.parametrize(
    ("collector", "counted"),
    [(MemoryStatsCollector, 3), (Hears, 30), (Turns, 30), (Small, 30), (DummyStatsCollector, 0)],
)
def test_a_count_is_what_the_collector_makes_of_it(collector: Any, counted: int) -> None:
    one = collector(get_crawler())
    counter = stats.Counter(one)
    for _ in range(3):
        counter.add(stats.PAGES)
    assert counter.get(stats.PAGES) == one.get_value(stats.PAGES.name, 0) == counted


def test_counts_go_on_when_the_stats_are_replaced_or_somebody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = MemoryStatsCollector(get_crawler())
    counter = stats.Counter(collector)
    counter.add(stats.PAGES)
    collector.set_stats({})
    counter.add(stats.PAGES)
    assert collector.get_stats() == {stats.PAGES.name: 1}
    heard: list[str] = []
    monkeypatch.setattr(StatsCollector, "inc_value", lambda self, key, count=1, **_: heard.append(key))
    stats.Counter(MemoryStatsCollector(get_crawler())).add(stats.PAGES)
    assert heard == [stats.PAGES.name]


def test_a_pool_of_which_it_cannot_be_told_what_is_a_repeat_repeats_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose connections somebody else makes, and a Twisted that shows no code."""

    def watched(pool: Any) -> Any:
        compat._Handlers({"http": SimpleNamespace(_pool=pool)}, None, {})  # type: ignore[arg-type]
        return pool

    assert watched(HTTPConnectionPool(None)).retryAutomatically
    taken: Any = HTTPConnectionPool(None)
    taken._newConnection = connect = lambda key, endpoint: None
    assert not watched(taken).retryAutomatically
    assert taken._newConnection is connect
    monkeypatch.setattr(compat, "_GET_CONNECTION_CODE", None)
    hidden: Any = HTTPConnectionPool(None)
    hidden.getConnection = partial(hidden.getConnection)
    assert not watched(hidden).retryAutomatically
