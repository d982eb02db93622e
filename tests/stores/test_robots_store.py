"""One reading of robots.txt per origin at a time, shared by all who wait; failures are never kept."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from scrapy_scour import compat
from scrapy_scour.policy.access import Means
from scrapy_scour.policy.robots import parse
from scrapy_scour.policy.urls import Origin
from scrapy_scour.stores.robots import Failed, Fetched, Known, RobotsStore
from tests.support.crawl import sleep

A = Origin("http", "a.example", 80)
B = Origin("http", "b.example", 80)
RULES = Fetched(Means.RULES, parser="rules", status=200)
OTHER_RULES = Fetched(Means.RULES, parser="other rules", status=200)
NO_RULES = Fetched(Means.NO_RULES, status=404)
NOT_OBTAINED = Fetched(Means.NOT_OBTAINED, status=503, problem="status 503")
WAITS = (5.0, 30.0)
TTL = 100.0


class World:
    """A fake clock, and answers that come when the test says so (``slow``) or at once."""

    def __init__(self, **options: Any) -> None:
        self.now = 1000.0
        self.answers: list[Fetched | BaseException] = []
        self.asked: list[tuple[Origin, Any]] = []
        self.slow = False
        self.gates: list[asyncio.Future[None] | Any] = []
        self.spawned: list[Deferred[Any]] = []
        values: dict[str, Any] = {"ttl_s": TTL, "size": 10, "waits_s": WAITS, "retry_after_max_s": 60.0, **options}
        values.setdefault("spawn", self.spawn)
        self.store = RobotsStore(self.fetch, now=lambda: self.now, **values)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        running = compat.schedule(coroutine)
        self.spawned.append(running)
        running.addErrback(lambda failure: None)

    async def fetch(self, origin: Origin, asker: Any) -> Fetched:
        self.asked.append((origin, asker))
        while self.slow:
            await sleep(0.002)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def get(self, origin: Origin = A, asker: Any = None) -> Known | Failed:
        return await self.store.get(origin, asker)

    async def failed(self, origin: Origin = A) -> Failed:
        answer = await self.get(origin)
        assert isinstance(answer, Failed)
        return answer

    async def known(self, origin: Origin = A) -> Known:
        answer = await self.get(origin)
        assert isinstance(answer, Known)
        return answer


def world(*answers: Fetched | BaseException, **options: Any) -> World:
    made = World(**options)
    made.answers = list(answers)
    return made


async def settled(waiting: list[Deferred[Any]]) -> list[Any]:
    """The results in order, failures included, once all are there."""
    results: dict[int, Any] = {}
    for number, one in enumerate(waiting):
        one.addBoth(lambda result, number=number: results.update({number: result}))
    for _ in range(1000):
        if len(results) == len(waiting):
            return [results[number] for number in range(len(waiting))]
        await sleep(0.002)
    raise AssertionError(f"{len(waiting) - len(results)} of {len(waiting)} never got an answer")


async def test_one_fetch_serves_all_who_wait_and_each_origin_has_its_own() -> None:
    w = world(RULES)
    w.slow = True
    waiting = [compat.schedule(w.get(A, number)) for number in range(200)]
    waiting.append(compat.schedule(w.get(Origin("https", "a.example", 443))))
    waiting.append(compat.schedule(w.get(Origin("http", "a.example", 8080))))
    await sleep(0.02)
    w.slow = False
    results = await settled(waiting)
    assert Counter(origin for origin, _ in w.asked) == {
        A: 1,
        Origin("https", "a.example", 443): 1,
        Origin("http", "a.example", 8080): 1,
    }
    assert w.asked[0] == (A, 0)
    assert {id(result) for result in results[:200]} == {id(results[0])}
    assert all(isinstance(result, Known) for result in results)
    assert len(w.store) == 3


async def test_a_failure_is_shared_by_those_who_waited_for_it() -> None:
    w = world(NOT_OBTAINED)
    w.slow = True
    waiting = [compat.schedule(w.get()) for _ in range(50)]
    await sleep(0.02)
    w.slow = False
    results = await settled(waiting)
    assert len(w.asked) == 1
    assert {id(result) for result in results} == {id(results[0])}
    assert isinstance(results[0], Failed)


async def test_one_that_gives_up_answers_for_itself_only() -> None:
    """Also when it is the one that caused the fetch."""
    w = world(RULES)
    w.slow = True
    waiting = [compat.schedule(w.get()) for _ in range(5)]
    await sleep(0.02)
    waiting[0].cancel()
    waiting[3].cancel()
    await sleep(0.01)
    w.slow = False
    results = await settled(waiting)
    assert len(w.asked) == 1
    assert sum(isinstance(result, Known) for result in results) == 3
    assert isinstance(await w.get(), Known)
    assert len(w.asked) == 1


async def test_all_who_wait_may_give_up_and_the_file_is_still_kept() -> None:
    w = world(RULES)
    w.slow = True
    waiting = [compat.schedule(w.get()) for _ in range(3)]
    await sleep(0.02)
    for one in waiting:
        one.cancel()
    w.slow = False
    await settled(waiting)
    await settled(w.spawned)
    assert w.store.fresh(A) is not None
    assert len(w.asked) == 1


@pytest.mark.parametrize("fetched", [RULES, NO_RULES], ids=["rules", "no rules"])
async def test_a_success_is_kept_for_its_time_and_then_read_again(fetched: Fetched) -> None:
    """RFC 9309 2.4."""
    w = world(fetched, OTHER_RULES)
    assert (await w.known()).fetched is fetched
    w.now += TTL - 0.001
    assert (await w.known()).fetched is fetched
    assert len(w.asked) == 1
    w.now += 0.001
    assert w.store.fresh(A) is None
    assert (await w.known()).fetched is OTHER_RULES
    assert len(w.asked) == 2


async def test_a_time_of_zero_is_the_life_of_the_job() -> None:
    w = world(RULES, OTHER_RULES, ttl_s=0.0)
    await w.known()
    w.now += 1e9
    assert (await w.known()).fetched is RULES


async def test_the_old_copy_stays_in_use_while_the_file_cannot_be_read() -> None:
    """RFC 9309 2.3.1.4; it is tried again behind growing waits, and the first success replaces it."""
    w = world(RULES, NOT_OBTAINED, NOT_OBTAINED, NOT_OBTAINED, OTHER_RULES)
    await w.known()
    w.now += TTL
    for wait in (*WAITS, 60.0):
        before = len(w.asked)
        old = await w.known()
        assert (old.fetched, old.stale) == (RULES, True)
        assert len(w.asked) == before + 1
        w.now += wait - 0.001
        assert (await w.known()).fetched is RULES
        assert len(w.asked) == before + 1
        w.now += 0.001
    new = await w.known()
    assert (new.fetched, new.stale) == (OTHER_RULES, False)
    w.now += TTL - 0.001
    assert (await w.known()) is new


async def test_a_failure_is_never_kept_only_when_it_may_be_tried_again() -> None:
    """The waits grow, and when those of the setting are used up pages are refused at once."""
    w = world(NOT_OBTAINED)
    expected = [(1, 5.0, False), (2, 30.0, False), (3, 60.0, True), (4, 120.0, True), (5, 240.0, True)]
    for times, wait, final in expected:
        failed = await w.failed()
        assert (failed.times, failed.not_before - w.now, failed.final) == (times, wait, final)
        assert len(w.asked) == times
        w.now += wait - 0.001
        assert await w.failed() is failed
        w.now += 0.001
    assert len(w.store) == 0
    assert w.store.fresh(A) is None
    for _ in range(40):
        w.now = (await w.failed()).not_before
    assert (await w.failed()).not_before - w.now == 86_400.0


async def test_a_success_after_failures_forgets_them() -> None:
    w = world(NOT_OBTAINED, NOT_OBTAINED, RULES, NOT_OBTAINED)
    for _ in range(2):
        w.now = (await w.failed()).not_before
    assert (await w.known()).fetched is RULES
    w.now += TTL
    assert (await w.known()).stale
    w.now += 5.0
    assert (await w.known()).stale
    assert len(w.asked) == 5


RETRY_AFTER = ((3.0, 5.0, False), (20.0, 20.0, False), (60.0, 60.0, False), (60.5, 60.5, True), (1e12, 1e12, True))


@pytest.mark.parametrize(("asked", "wait", "final"), RETRY_AFTER)
async def test_retry_after_only_makes_a_wait_longer_and_above_the_maximum_is_final(
    asked: float, wait: float, final: bool
) -> None:
    w = world(Fetched(Means.NOT_OBTAINED, status=429, retry_after_s=asked))
    failed = await w.failed()
    assert (failed.not_before - w.now, failed.final) == (wait, final)


async def test_a_fetch_that_raises_permits_nothing_and_leaves_nobody_waiting() -> None:
    w = world(ZeroDivisionError("odd"), RULES)
    failed = await w.failed()
    assert failed.fetched.means is Means.NOT_OBTAINED
    assert "ZeroDivisionError: odd" in failed.fetched.problem
    w.now = failed.not_before
    assert (await w.known()).fetched is RULES


@pytest.mark.parametrize("ending", [asyncio.CancelledError(), GeneratorExit()], ids=repr)
async def test_a_fetch_that_is_torn_down_leaves_nobody_waiting(ending: BaseException) -> None:
    w = world(ending, RULES)
    w.slow = True
    waiting = [compat.schedule(w.get()) for _ in range(3)]
    await sleep(0.02)
    w.slow = False
    results = await settled(waiting)
    assert [type(result) for result in results] == [Failed] * 3
    w.now = results[0].not_before
    assert (await w.known()).fetched is RULES


async def test_a_fetch_that_cannot_be_started_is_an_error_now_and_no_wait_for_ever() -> None:
    def no_loop(coroutine: Coroutine[Any, Any, None]) -> None:
        raise RuntimeError("no loop")

    w = world(RULES, spawn=no_loop)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no loop"):
            await w.get()
    assert w.asked == []


async def test_the_least_recently_used_origin_goes_and_is_read_again_before_it_is_used() -> None:
    w = world(RULES, size=2)
    await w.known(A)
    await w.known(B)
    assert w.store.fresh(A) is not None  # in use: B is the older one now
    third = Origin("http", "c.example", 80)
    await w.known(third)
    assert w.store.fresh(B) is None
    assert w.store.fresh(A) is not None
    w.answers = [NOT_OBTAINED]
    assert isinstance(await w.get(B), Failed), "an evicted origin is read again, never open"
    assert len(w.store) == 2


async def test_failures_are_bounded_too() -> None:
    w = world(NOT_OBTAINED, size=50)
    for number in range(500):
        await w.failed(Origin("http", f"h{number}.example", 80))
    assert len(w.store._failed) == 50
    assert not w.store._waiting


BODY = b"User-agent: *\nDisallow: /private/\nDisallow: /search\nAllow: /search/help\nCrawl-delay: 1\n"


def run_at_once(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits")


async def test_a_hundred_thousand_origins_pass_through_a_store_of_ten_thousand() -> None:
    """Less than 1.5 KB for each origin that is kept (a file of 90 octets, not asked yet), nothing for the others."""
    size, total = 10_000, 100_000
    fetches = 0

    async def fetch(origin: Origin, asker: Any) -> Fetched:
        nonlocal fetches
        fetches += 1
        body = BODY + b"# %d" % fetches
        return Fetched(Means.RULES, parser=parse(body), status=200, trail=(origin.robots_url,), size=len(body))

    def origin(number: int) -> Origin:
        return Origin("http", f"host{number}.example", 80)

    store = RobotsStore(
        fetch, spawn=run_at_once, now=lambda: 0.0, ttl_s=0.0, size=size, waits_s=WAITS, retry_after_max_s=60.0
    )
    for number in range(total - size):
        await store.get(origin(number), None)
    assert len(store) == size
    await sleep(0.0)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(total - size, total):  # each takes the place of one whose memory was not traced
            await store.get(origin(number), None)
        await sleep(0.0)  # the loop lets go of the answers
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(store), fetches) == (size, total)
    print(kept / size)
    assert 100 * size < kept < 1500 * size, f"{kept / size:.0f} octets an origin"
    assert store.fresh(origin(0)) is None
    assert isinstance(await store.get(origin(0), None), Known)
    assert fetches == total + 1
    assert (len(store), len(store._waiting), len(store._failed)) == (size, 0, 0)
