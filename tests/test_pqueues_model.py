"""The scheduler queue against a model: random hosts, delays, limits, holds, probes, priorities, late changes.

The world here is Scrapy's own downloader and its slots, and the queue, under a clock that only the test moves. The
model knows what was asked of it and what happened, and says from that alone which slots may be asked; it shares no code
with the queue. Hypothesis looks for short histories that break it; longer ones are drawn by weight, from fixed seeds.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import hypothesis.strategies as st
import pytest
import scrapy.core.downloader as downloader_module
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from scrapy import Request, Spider
from scrapy.core.downloader import Downloader
from scrapy.pqueues import ScrapyPriorityQueue
from scrapy.squeues import FifoMemoryQueue, LifoMemoryQueue
from scrapy.utils.test import get_crawler
from twisted.internet.defer import Deferred

from scrapy_scour import compat
from scrapy_scour.job import job_of
from scrapy_scour.pqueues import SHORTEST_WAIT_S, PolitePriorityQueue

#: Where requests go: host, and the slot that the user named for it ("" for none). Two hosts share a slot, and one host
#: is asked through two slots.
PLACES = (
    ("a.test", ""),
    ("b.test", ""),
    ("c.test", ""),
    ("d.test", "shared"),
    ("e.test", "shared"),
    ("a.test", "second"),
)
HOSTS = ("a.test", "b.test", "c.test", "d.test", "e.test")
SLOTS = ("a.test", "b.test", "c.test", "shared", "second")
SECONDS = (0.1, 0.25, 1.0, 3.0, 10.0)
ROUNDING_S = 1e-6
TOLERANCE_S = SHORTEST_WAIT_S + ROUNDING_S


class Timer:
    """A call that the world owes, as ``call_later`` gives it."""

    def __init__(self, at: float, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.at, self.function, self.args, self.active = at, function, args, True

    def cancel(self) -> None:
        self.active = False


class HostFacts:
    """What the model knows of a host; the names are those of the host's clock, seconds and times."""

    def __init__(self) -> None:
        self.asked = self.throttle = 0.0
        self.held_until = self.given_up_until = self.last_end = -math.inf
        self.probing = False
        self.elsewhere = 0


class QueueModel(RuleBasedStateMachine):
    """See the module."""

    @initialize(
        limits=st.tuples(*[st.sampled_from((1, 2, 3)) for _ in SLOTS]),
        delays=st.tuples(*[st.sampled_from((0.0, 0.0, 0.5, 2.0)) for _ in SLOTS]),
        default_delay=st.sampled_from((0.0, 0.0, 1.0)),
        named=st.sets(st.sampled_from(SLOTS)),
        total=st.sampled_from((1, 3, 8)),
        start_queues=st.booleans(),
        lifo=st.booleans(),
        throttled=st.sampled_from((False, False, True)),
    )
    def build(
        self,
        limits: tuple[int, ...],
        delays: tuple[float, ...],
        default_delay: float,
        named: set[str],
        total: int,
        start_queues: bool,
        lifo: bool,
        throttled: bool,
    ) -> None:
        self.patches = ExitStack()
        self.now = 1000.0
        self.timers: list[Timer] = []
        self.woken = False
        clock = "monotonic" if hasattr(downloader_module, "monotonic") else "time"
        for target, name, value in (
            (downloader_module, clock, lambda: self.now),
            (downloader_module, "call_later", self.call_later),
            (downloader_module, "_schedule_coro", lambda coro: coro.close()),
            (compat, "slot_now", lambda: self.now),
            (compat, "later", self.call_later),
            (compat, "wake_engine", self.wake),
        ):
            self.patches.enter_context(patch.object(target, name, value))
        self.total = total
        self.throttled = throttled
        slots = {slot: {"concurrency": limits[i], "delay": delays[i]} for i, slot in enumerate(SLOTS) if slot in named}
        jitter = "DOWNLOAD_DELAY_JITTER" if compat.SLOT_HAS_JITTER else "RANDOMIZE_DOWNLOAD_DELAY"
        values = {
            "DOWNLOAD_SLOTS": slots,
            "DOWNLOAD_DELAY": default_delay,
            "CONCURRENT_REQUESTS": total,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 2,
            jitter: 0,
            "TELNETCONSOLE_ENABLED": False,
            "SCOUR_THROTTLE_ENABLED": throttled,
        }
        self.limits = {slot: slots.get(slot, {}).get("concurrency", 2) for slot in SLOTS}
        self.delays = {slot: slots.get(slot, {}).get("delay", default_delay) for slot in SLOTS}
        self.default_delays = dict(self.delays)
        self.crawler = get_crawler(Spider, values)
        self.crawler.spider = Spider(name="model")
        self.downloader = Downloader(self.crawler)
        self.crawler.engine = SimpleNamespace(downloader=self.downloader, paused=False, _slot=None)  # type: ignore[assignment]
        self.job = job_of(self.crawler)
        self.job.now = lambda: self.now  # type: ignore[method-assign]
        self.next_throttle = 0.0
        self.job.on_dispatched.append(self.dispatched)
        self.job.on_ended.append(self.transfer_ended)
        memory = LifoMemoryQueue if lifo else FifoMemoryQueue
        self.queue_classes = (memory, FifoMemoryQueue if start_queues else None)
        self.queues = [
            PolitePriorityQueue.from_crawler(
                self.crawler, downstream_queue_cls=memory, key="", start_queue_cls=self.queue_classes[1]
            )
            for _ in range(2)
        ]
        # What the model knows
        self.reference: list[dict[str, ScrapyPriorityQueue]] = [{}, {}]
        self.turns: list[dict[str, int]] = [{}, {}]
        self.turn = 0
        self.facts = {host: HostFacts() for host in HOSTS}
        self.pushed = 0
        self.pending: set[str] = set()
        self.in_middlewares: list[Request] = []
        self.in_slot: list[Request] = []
        self.transfers: list[Request] = []
        self.answered: list[Request] = []
        self.last_sent: dict[str, float] = {}

    def teardown(self) -> None:
        if not hasattr(self, "queues"):
            return
        try:
            self.drain()
        finally:
            for queue in self.queues:
                queue.close()
            self.downloader.close()
            self.patches.close()

    # The world

    def call_later(self, seconds: float, function: Callable[..., Any], *args: Any) -> Timer:
        assert seconds >= 0.0
        timer = Timer(self.now + seconds, function, args)
        self.timers.append(timer)
        return timer

    def wake(self, crawler: Any) -> None:
        self.woken = True

    def slot_of(self, request: Request) -> str:
        slot: str = request.meta["place"][1] or request.meta["place"][0]
        return slot

    def host_of(self, request: Request) -> str:
        host: str = request.meta["place"][0]
        return host

    def under_way(self) -> Iterator[Request]:
        yield from self.in_middlewares
        yield from self.in_slot
        yield from self.transfers
        yield from self.answered

    def put(self, queue: int, request: Request) -> None:
        slot = self.slot_of(request)
        references = self.reference[queue]
        if slot not in references:
            references[slot] = ScrapyPriorityQueue(
                self.crawler, self.queue_classes[0], "", start_queue_cls=self.queue_classes[1]
            )
            self.turn += 1
            self.turns[queue][slot] = self.turn
        references[slot].push(request)
        self.pending.add(request.url)
        self.queues[queue].push(request)
        self.woken = True  # the engine asks after everything that it schedules

    def one_at_a_time(self, host: str) -> bool:
        facts = self.facts[host]
        return facts.asked > 0.0 or facts.probing or self.throttled

    def next_request(self, queue: int, slot: str) -> Request:
        """What stock would hand out next of the slot, left there."""
        reference = self.reference[queue][slot]
        priorities = [p for queues in (reference.queues, reference._start_queues) for p, q in queues.items() if q]
        queues = reference.queues if reference.queues.get(min(priorities)) else reference._start_queues
        request: Request = queues[min(priorities)].peek()  # type: ignore[attr-defined]
        return request

    def askable_at(self, queue: int, slot: str) -> float | None:
        """When the slot's next request may be handed out by what is known now; None: not before something ends."""
        host = self.host_of(self.next_request(queue, slot))
        if self.facts[host].given_up_until > self.now:
            return self.now
        if self.loads(slot) >= self.limits[slot]:
            return None
        if self.one_at_a_time(host) and any(self.host_of(request) == host for request in self.under_way()):
            return None
        if self.one_at_a_time(host) and self.facts[host].elsewhere:
            return None
        if self.delay_of(slot) and any(self.slot_of(one) == slot for one in (*self.in_middlewares, *self.in_slot)):
            return None
        return self.time_of(queue, slot)

    def delay_of(self, slot: str) -> float:
        return self.delays[slot] if slot in self.downloader.slots else self.default_delays[slot]

    def time_of(self, queue: int, slot: str) -> float:
        """From when on the time alone would allow the slot's next request."""
        host = self.host_of(self.next_request(queue, slot))
        facts = self.facts[host]
        delay = self.delay_of(slot)
        at = facts.held_until
        if facts.asked > 0.0 or self.throttled:
            at = max(at, facts.last_end + max(facts.asked, facts.throttle, delay))
        if delay:
            at = max(at, self.last_sent.get(slot, -math.inf) + delay)
        return at

    def loads(self, slot: str) -> int:
        """Requests of the slot that are under way and whose transfer has not ended."""
        ahead = (*self.in_middlewares, *self.in_slot, *self.transfers)
        return sum(self.slot_of(request) == slot for request in ahead)

    # What happens

    @rule(
        place=st.sampled_from(PLACES),
        priority=st.sampled_from((0, 0, 0, 5, -3)),
        start=st.booleans(),
        queue=st.sampled_from((0, 0, 1)),
        number=st.integers(1, 4),
    )
    def push(self, place: tuple[str, str], priority: int, start: bool, queue: int, number: int) -> None:
        for _ in range(number):
            self.pushed += 1
            meta: dict[str, Any] = {"place": place, "queue": queue}
            if place[1]:
                meta["download_slot"] = place[1]
            if start:
                meta["is_start_request"] = True
            self.put(queue, Request(f"http://{place[0]}/{self.pushed}", priority=priority, meta=meta))

    @rule()
    def engine_asks(self) -> None:
        """The engine takes what it can, as ``_start_scheduled_requests`` does."""
        self.woken = False
        while len(self.downloader.active) < self.total and self.scheduler_gives():
            pass

    def scheduler_gives(self) -> bool:
        for number, queue in enumerate(self.queues):
            askable = {slot: self.askable_at(number, slot) for slot in self.reference[number]}
            peeked = queue.peek()
            request = queue.pop()
            assert request is peeked
            if request is not None:
                self.check_handed_out(number, request, askable)
                self.downloader.active.add(request)
                self.in_middlewares.append(request)
                return True
            self.check_nothing(number, askable)
        return False

    def check_handed_out(self, number: int, request: Request, askable: dict[str, float | None]) -> None:
        slot = self.slot_of(request)
        expected = self.reference[number][slot].pop()
        assert request is expected, "not the order that stock has within a slot"
        assert request.url in self.pending, "handed out twice"
        self.pending.discard(request.url)
        at = askable[slot]
        assert at is not None, "over its limit, or beside a request that has to be alone"
        assert at <= self.now + ROUNDING_S, f"{at - self.now} s early"
        chosen = (self.loads(slot), self.turns[number][slot])
        for other, when in askable.items():
            if when is not None and when <= self.now - TOLERANCE_S:
                assert chosen <= (self.loads(other), self.turns[number][other]), f"{other} was to be asked first"
        self.turn += 1
        self.turns[number][slot] = self.turn
        if not len(self.reference[number][slot]):
            del self.reference[number][slot]
            del self.turns[number][slot]

    def check_nothing(self, number: int, askable: dict[str, float | None]) -> None:
        """Nothing was handed out: nothing could be, and the timer stands at the earliest time."""
        times = [at for at in askable.values() if at is not None]
        assert all(at > self.now - TOLERANCE_S for at in times), f"withheld: {askable} at {self.now}"
        timer = self.queues[number]._timer
        at = timer.at if timer is not None and timer.active else math.inf  # type: ignore[attr-defined]
        if times:
            assert at <= max(min(times), self.now) + 2 * TOLERANCE_S, f"timer at {at}, {askable} at {self.now}"
        # A slot that is now kept back by something else too may still have its time in the heap, and nothing earlier.
        known = [self.time_of(number, slot) for slot in askable]
        earliest = min((one for one in known if one > self.now - TOLERANCE_S), default=math.inf)
        assert at >= earliest - ROUNDING_S, f"timer at {at}, {askable} at {self.now}, times {known}"

    def dispatched(self, request: Request, clock: Any) -> None:
        slot, host = self.slot_of(request), self.host_of(request)
        facts = self.facts[host]
        self.in_slot.remove(request)
        assert sum(self.slot_of(one) == slot for one in self.transfers) < self.limits[slot]
        if self.one_at_a_time(host):
            assert not any(self.host_of(one) == host for one in self.transfers)
            assert not facts.elsewhere
        delay = self.delays[slot]
        assert self.now >= facts.held_until - ROUNDING_S
        if facts.asked > 0.0 or self.throttled:
            assert self.now >= facts.last_end + max(facts.asked, facts.throttle, delay) - ROUNDING_S
        if delay:
            assert self.now >= self.last_sent.get(slot, -math.inf) + delay - ROUNDING_S
        self.last_sent[slot] = self.now
        self.transfers.append(request)
        self.downloader.slots[slot].transferring.add(request)

    def transfer_ended(self, request: Request, clock: Any, duration_s: float, answer: Any) -> None:
        if self.throttled and clock is not None:
            clock.throttle_s = self.next_throttle
            self.facts[self.host_of(request)].throttle = self.next_throttle

    @precondition(lambda self: self.in_middlewares)
    @rule(data=st.data())
    def reaches_downloader(self, data: st.DataObject) -> None:
        self.reach(data.draw(st.sampled_from(range(len(self.in_middlewares)))))

    def reach(self, number: int) -> None:
        request = self.in_middlewares.pop(number)
        _, slot = self.downloader._get_slot(request)
        slot.active.add(request)
        self.in_slot.append(request)
        slot.queue.append((request, Deferred()))
        self.downloader._process_queue(slot)

    @precondition(lambda self: self.transfers)
    @rule(data=st.data(), throttle=st.sampled_from(SECONDS))
    def answer_ends(self, data: st.DataObject, throttle: float) -> None:
        self.end(data.draw(st.sampled_from(range(len(self.transfers)))), throttle)

    def end(self, number: int, throttle: float) -> None:
        request = self.transfers.pop(number)
        self.answered.append(request)
        self.next_throttle = throttle
        self.facts[self.host_of(request)].last_end = self.now
        slot = self.downloader.slots[self.slot_of(request)]
        slot.transferring.remove(request)
        self.downloader._process_queue(slot)
        slot.active.remove(request)

    @precondition(lambda self: self.answered)
    @rule(data=st.data(), well=st.booleans())
    def leaves(self, data: st.DataObject, well: bool) -> None:
        self.leave(self.answered.pop(data.draw(st.sampled_from(range(len(self.answered))))), well)

    def leave(self, request: Request, well: bool) -> None:
        clock = self.job.clock_of(request)
        if well and clock is not None:
            self.facts[self.host_of(request)].probing = False
            clock.answered_well()
        self.downloader.active.remove(request)
        self.woken = True  # the engine asks after every request that ends

    @precondition(lambda self: self.in_middlewares)
    @rule(data=st.data(), back=st.booleans())
    def dropped_or_sent_back(self, data: st.DataObject, back: bool) -> None:
        """A middleware answers, refuses, or sends the request back to wait in the scheduler."""
        request = self.in_middlewares.pop(data.draw(st.sampled_from(range(len(self.in_middlewares)))))
        assert self.job.may_go_back(request)
        self.leave(request, False)
        if back:
            self.put(request.meta["queue"], request.replace(dont_filter=True))

    @rule(host=st.sampled_from(HOSTS), seconds=st.sampled_from(SECONDS), probe=st.booleans())
    def hold(self, host: str, seconds: float, probe: bool) -> None:
        facts = self.facts[host]
        facts.held_until = max(facts.held_until, self.now + seconds)
        facts.probing = facts.probing or probe
        self.job.pace.clock(host, self.now).hold(self.now + seconds, "test", probe=probe)

    @rule(host=st.sampled_from(HOSTS), seconds=st.sampled_from((0.0, *SECONDS)))
    def site_asks(self, host: str, seconds: float) -> None:
        self.facts[host].asked = seconds
        self.job.pace.clock(host, self.now).ask("robots.txt", seconds)

    @rule(host=st.sampled_from(HOSTS), seconds=st.sampled_from(SECONDS))
    def given_up(self, host: str, seconds: float) -> None:
        facts = self.facts[host]
        facts.given_up_until = max(facts.given_up_until, self.now + seconds)
        self.job.pace.clock(host, self.now).give_up(self.now + seconds, "test")

    @rule(host=st.sampled_from(HOSTS), begins=st.booleans())
    def asked_past_the_downloader(self, host: str, begins: bool) -> None:
        """Something that shares the host's clock, but not the downloader, asks it or has its answer."""
        facts, clock = self.facts[host], self.job.pace.clock(host, self.now)
        if begins:
            facts.elsewhere += 1
            clock.began()
        elif facts.elsewhere:
            facts.elsewhere -= 1
            facts.last_end = self.now
            clock.ended(self.now)
            waiting, clock.waiting = clock.waiting, None
            for slot in waiting or ():
                self.job.look_again(slot)

    @rule(slot=st.sampled_from(SLOTS), seconds=st.sampled_from((0.0, *SECONDS)))
    def autothrottle(self, slot: str, seconds: float) -> None:
        if slot in self.downloader.slots:
            if seconds and not self.delay_of(slot) and slot in self.last_sent:
                self.last_sent[slot] = self.now  # when the last one was written was not noted without a delay
            self.delays[slot] = seconds
            self.downloader.slots[slot].delay = seconds

    @rule()
    def idle_slots_collected(self) -> None:
        self.downloader._slot_gc()
        for slot in SLOTS:
            if slot not in self.downloader.slots:
                self.delays[slot] = self.default_delays[slot]
                self.last_sent.pop(slot, None)

    @rule(seconds=st.sampled_from((0.01, *SECONDS, 100.0)))
    def time_passes(self, seconds: float) -> None:
        self.advance(self.now + seconds)

    def advance(self, until: float) -> None:
        while True:
            due = [timer for timer in self.timers if timer.active and timer.at <= until]
            if not due:
                break
            timer = min(due, key=lambda one: one.at)
            timer.active = False
            self.now = max(self.now, timer.at)
            timer.function(*timer.args)
        self.timers = [timer for timer in self.timers if timer.active]
        self.now = until

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "queues"):
            return
        for queue, reference in zip(self.queues, self.reference, strict=True):
            assert len(queue) == sum(map(len, reference.values()))
            assert set(queue.pqueues) == set(reference)
        assert len(self.job.under_way) == len(list(self.under_way()))

    @invariant()
    def woken_in_time(self) -> None:
        """Whenever something may be asked, the engine has been told, or a timer is about to tell it."""
        if not hasattr(self, "queues") or self.woken or len(self.downloader.active) >= self.total:
            return
        for number, reference in enumerate(self.reference):
            for slot in reference:
                at = self.askable_at(number, slot)
                if at is not None and at <= self.now - 2 * TOLERANCE_S:
                    raise AssertionError(f"{slot} may be asked since {self.now - at} s, and nobody told the engine")

    def drain(self) -> None:
        """From here on everything runs its course: every request is handed out, and nothing is left behind."""
        for _ in range(40 * (self.pushed + 1)):
            if not self.pending and not list(self.under_way()):
                break
            if self.woken:
                self.engine_asks()
            self.woken_in_time()
            for host in HOSTS:
                while self.facts[host].elsewhere:
                    self.asked_past_the_downloader(host=host, begins=False)
            while self.in_middlewares:
                self.reach(0)
            while self.transfers:
                self.end(0, 0.1)
            while self.answered:
                self.leave(self.answered.pop(0), True)
            if not self.woken:
                ahead = [timer.at for timer in self.timers if timer.active]
                assert ahead or not self.pending, "requests wait and nothing will ever wake the engine"
                if ahead:
                    self.advance(max(min(ahead), self.now))
        assert not self.pending, f"never handed out: {self.pending}"
        assert not list(self.under_way())
        assert len(self.job.under_way) == 0
        assert not self.job.under_way.loads
        assert not self.job.under_way.hosts
        self.engine_asks()
        for queue in self.queues:
            assert len(queue) == 0
            assert not queue.pqueues
            assert not queue._ready
            assert not queue._waiting
            assert not queue._watchers
            assert queue._timer is None or not queue._timer.active  # type: ignore[attr-defined]


QueueModel.TestCase.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.deadline(240)
class TestQueueModel(QueueModel.TestCase):  # type: ignore[name-defined, misc]
    """Never early, never over a limit, nothing lost or twice, stock's order within a host, everything handed out."""


class Dice:
    """Draws for the rules from a seed, with the interface that Hypothesis' ``data()`` has for them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def draw(self, choice: Any) -> Any:
        return self.random.choice(list(choice.elements))

    def yes(self, share: float) -> bool:
        return self.random.random() < share


def a_history(seed: int, steps: int = 40) -> None:
    """Many requests for few hosts, and every so often something that changes what may be asked."""
    dice = Dice(seed)
    pick = dice.random.choice
    model = QueueModel()
    rules: dict[str, tuple[float, Callable[[], dict[str, Any]], Callable[[], Any]]] = {
        "push": (
            4,
            lambda: {
                "place": pick(PLACES),
                "priority": pick((0, 0, 0, 5, -3)),
                "start": dice.yes(0.5),
                "queue": pick((0, 0, 1)),
                "number": pick((1, 2, 3, 4)),
            },
            lambda: True,
        ),
        "engine_asks": (4, dict, lambda: True),
        "reaches_downloader": (2.4, lambda: {"data": dice}, lambda: model.in_middlewares),
        "answer_ends": (2.4, lambda: {"data": dice, "throttle": pick(SECONDS)}, lambda: model.transfers),
        "leaves": (2.2, lambda: {"data": dice, "well": dice.yes(0.7)}, lambda: model.answered),
        "dropped_or_sent_back": (0.8, lambda: {"data": dice, "back": dice.yes(0.6)}, lambda: model.in_middlewares),
        "hold": (0.6, lambda: {"host": pick(HOSTS), "seconds": pick(SECONDS), "probe": dice.yes(0.5)}, lambda: True),
        "site_asks": (1.2, lambda: {"host": pick(HOSTS), "seconds": pick((0.0, 0.0, *SECONDS))}, lambda: True),
        "given_up": (0.2, lambda: {"host": pick(HOSTS), "seconds": pick(SECONDS)}, lambda: True),
        "autothrottle": (1.2, lambda: {"slot": pick(SLOTS), "seconds": pick((0.0, 0.0, *SECONDS))}, lambda: True),
        "asked_past_the_downloader": (1, lambda: {"host": pick(HOSTS), "begins": dice.yes(0.5)}, lambda: True),
        "idle_slots_collected": (0.2, dict, lambda: True),
        "time_passes": (2, lambda: {"seconds": pick((0.01, *SECONDS, 100.0))}, lambda: True),
    }
    weights = [weight for weight, _, _ in rules.values()]
    model.build(
        limits=tuple(pick((1, 2, 3)) for _ in SLOTS),
        delays=tuple(pick((0.0, 0.0, 0.5, 2.0)) for _ in SLOTS),
        default_delay=pick((0.0, 0.0, 1.0)),
        named={slot for slot in SLOTS if dice.yes(0.5)},
        total=pick((1, 3, 8)),
        start_queues=dice.yes(0.5),
        lifo=dice.yes(0.5),
        throttled=dice.yes(0.3),
    )
    try:
        for name in dice.random.choices(list(rules), weights, k=steps):
            _, arguments, possible = rules[name]
            if possible():
                getattr(model, name)(**arguments())
                model.counts_agree()
                model.woken_in_time()
    finally:
        model.teardown()


@pytest.mark.deadline(120)
@pytest.mark.parametrize("hundred", range(5))
def test_long_histories_keep_to_the_model_and_end(hundred: int) -> None:
    """Never early, never over a limit, nothing lost or twice, everything handed out, in long histories too."""
    for seed in range(hundred * 100, hundred * 100 + 100):
        a_history(seed)
