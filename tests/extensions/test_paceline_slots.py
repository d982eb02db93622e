"""What the pace line says of a slot that the user named: its time, unless it is seen to be of several hosts."""

from __future__ import annotations

from pathlib import Path

import pytest
from scrapy import Request
from scrapy.squeues import PickleFifoDiskQueue, PickleLifoDiskQueue

from scrapy_scour.pqueues import PolitePriorityQueue
from tests.extensions.test_paceline import World


def takes(world: World, host: str) -> None:
    """Take one request, as the engine does, and let it end."""
    request = world.queue.pop()
    assert request is not None
    assert request.url.split("/")[2] == host
    world.job.under_way.sent(request, 0.0)
    world.job.left(request)


def test_when_the_other_hosts_of_a_slot_have_gone_the_rest_has_a_time_again() -> None:
    world = World()
    world.asks("slow.test", 0.0, 2, slot="s")
    world.asks("other.test", 2.0, 8, slot="s")
    takes(world, "slow.test")
    takes(world, "slow.test")
    assert world.queue.pop() is None
    assert world.line().endswith(" other.test, 2 s between requests, as the site asks, 8 queued, about 16 s to go.")


@pytest.mark.parametrize("kind", [PickleFifoDiskQueue, PickleLifoDiskQueue])
def test_a_resumed_slot_has_a_time_until_two_hosts_were_seen_in_it(tmp_path: Path, kind: type) -> None:
    def resumed(state: object = None) -> World:
        world = World()
        world.queue.close()
        world.queue = PolitePriorityQueue.from_crawler(
            world.job.crawler, downstream_queue_cls=kind, key=str(tmp_path), startprios=state
        )
        return world

    first = resumed()
    first.asks("a.test", 3.0, 5, slot="mine")
    world = resumed(first.queue.close())
    world.asks("a.test", 3.0)
    assert world.queue.pop() is None
    assert world.line().endswith(" a.test, 3 s between requests, as the site asks, 5 queued, about 15 s to go.")
    world.queue.push(Request("http://b.test/", meta={"download_slot": "mine"}, priority=-1))
    assert world.line().endswith(" a.test, 3 s between requests, as the site asks, 6 queued with those of other hosts.")
    for _ in range(5):
        world.asks("a.test", 0.0)
        takes(world, "a.test")
    world.asks("b.test", 3.0)
    assert world.queue.pop() is None
    assert world.line().endswith(" b.test, 3 s between requests, as the site asks, 1 queued, about 3 s to go.")
