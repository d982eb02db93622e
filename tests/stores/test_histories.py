"""Histories count exactly and keep bounded memory, whatever the crawl."""

from __future__ import annotations

import random
import statistics

import hypothesis.strategies as st
import pytest
from hypothesis import given

from scrapy_scour.stores.histories import (
    FEWEST_MOMENTS_OF_ONE,
    MOST_MOMENTS_OF_ONE,
    MOST_SHORT,
    MOST_SPANS,
    Histories,
)


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=MOST_MOMENTS_OF_ONE - 1))
def test_gaps_of_a_short_crawl_are_all_there(gaps: list[float]) -> None:
    histories = Histories()
    histories.sent("a.test", 0.0, None, 0.0, "")
    for at, gap in enumerate(gaps):
        histories.sent("a.test", at + 1.0, gap, 0.0, "")
    history = histories.of("a.test")
    assert history.requests == len(gaps) + 1
    assert history.smallest_s == min(gaps)
    assert history.median_s == pytest.approx(statistics.median(gaps))


def test_a_long_crawl_keeps_moments_spread_over_it_and_exact_counts() -> None:
    histories, dice = Histories(), random.Random(1)
    gaps = [dice.uniform(1.0, 2.0) for _ in range(50_000)]
    for at, gap in enumerate(gaps):
        histories.sent("a.test", float(at), gap, 0.0, "")
    history = histories.of("a.test")
    assert (history.requests, history.smallest_s) == (50_000, min(gaps))
    assert history.times is not None
    assert MOST_MOMENTS_OF_ONE // 2 <= len(history.times) <= MOST_MOMENTS_OF_ONE
    steps = [b - a for a, b in zip(history.times, history.times[1:], strict=False)]
    assert max(steps) <= 4 * min(steps)
    assert history.median_s == pytest.approx(1.5, abs=0.15)


def test_all_hosts_together_keep_no_more_moments_than_the_bound() -> None:
    histories = Histories(most_moments=5_000)
    for n in range(200):
        for at in range(100):
            histories.sent(f"h{n}.test", float(at), 1.0, 0.0, "")
    kept = [len(history.times or ()) for history in histories.hosts]
    assert sum(kept) <= 5_000
    assert min(kept) >= FEWEST_MOMENTS_OF_ONE // 2
    assert all(history.requests == 100 for history in histories.hosts)


def test_past_the_most_hosts_those_with_the_least_to_tell_are_summed_and_nothing_is_lost() -> None:
    histories = Histories(most_hosts=100)
    histories.sent("held.test", 0.0, None, 0.0, "")
    histories.hold("held.test", "retry_after")
    for n in range(1_000):
        host = f"h{n}.test"
        histories.sent(host, float(n), None, 1.0 if n % 2 else 0.0, "")
        histories.of(host).pages += 2
        histories.refused(host, "not_found")
    assert len(histories) <= 100
    sums = histories.rest.copy().add(histories.hosts)
    assert (sums.hosts, sums.requests, sums.pages, sums.holds) == (1_001, 1_001, 2_000, 1)
    assert sums.refused == {"not_found": 1_000}
    assert sums.asked == 500
    assert "held.test" in {history.host for history in histories.hosts}
    assert histories.rest.hosts == 1_001 - len(histories)


def test_a_gap_below_the_delay_that_was_asked_then_is_too_short() -> None:
    histories = Histories()
    for at, gap, asked in ((1.0, None, 2.0), (2.0, 1.99, 2.0), (3.0, 1.9, 2.0), (4.0, 0.5, 0.0), (5.0, 3.0, 4.0)):
        histories.sent("a.test", at, gap, asked, "line 1")
    history = histories.of("a.test")
    assert (history.too_short, history.shorts) == (2, [(3.0, 1.9), (5.0, 3.0)])
    for _ in range(100):
        histories.sent("a.test", 6.0, 0.0, 4.0, "line 1")
    assert history.too_short == 102
    assert history.shorts is not None
    assert len(history.shorts) == MOST_SHORT


def test_holds_are_counted_as_told_and_their_times_are_never_counted_twice() -> None:
    histories = Histories()
    for why in ("retry_after", "retry_after", "backoff"):
        histories.hold("a.test", why)
    histories.held("a.test", 0.0, 2.0)
    histories.held("a.test", 1.0, 2.0)
    histories.held("a.test", 1.0, 5.0)
    histories.held("a.test", 7.0, 8.0)
    history = histories.of("a.test")
    assert history.held == {"retry_after": 2, "backoff": 1}
    assert history.held_s == history.held_within(100.0) == 6.0
    assert history.held_within(7.25) == 5.25  # no longer than the crawl
    assert history.spans == [(0.0, 5.0), (7.0, 8.0)]
    for n in range(100):
        histories.held("a.test", 10.0 + n, 10.5 + n)
    assert (history.holds, len(history.spans), history.held_s) == (3, MOST_SPANS, 56.0)


def test_a_host_that_is_given_up_is_left_alone_no_longer() -> None:
    """Its requests fail from then on: nothing waits for the end of the hold that came with it."""
    histories = Histories()
    histories.held("a.test", 0.0, 2.0)
    histories.held("a.test", 5.0, 9.0)
    for at in (6.0, 7.0):  # told again with every change of the clock
        histories.given_up("a.test", at, "it went on")
    assert histories.of("a.test").held_within(20.0) == 3.0
    assert histories.of("a.test").spans == [(0.0, 2.0), (5.0, 6.0)]
    histories.held("b.test", 1.0, 9_000.0)
    histories.given_up("b.test", 1.0, "it asked for too long")
    assert (histories.of("b.test").held_within(20.0), histories.of("b.test").spans) == (0.0, [])
    histories.held("c.test", 1.0, 9_000.0)
    histories.given_up("c.test", 1.0002, "it asked for too long")  # one step of the crawl, some lines later
    assert (histories.of("c.test").held_within(20.0), histories.of("c.test").spans) == (0.0, [])
