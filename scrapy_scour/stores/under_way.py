"""Remembers which requests are between the scheduler and the end of their download.

Counted by download slot and by host, so that the scheduler queue can tell what may be asked now without looking at
any request. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy_scour.stores.pace import HostClock

_ON_ITS_WAY, _SENT, _ANSWERED = 0, 1, 2


class SlotLoad:
    """One download slot: ``count`` requests whose transfer has not ended, ``unsent`` of them not even dispatched."""

    __slots__ = ("count", "unsent")

    def __init__(self) -> None:
        self.count = 0
        self.unsent = 0


class Place:
    """Where one request is: its slot, its host, whether the scheduler queue handed it out, how far it has come.

    ``began_at``: when it went to the network, monotonic seconds, None before and after its transfer. ``by_url``:
    ``host`` is what its URL says, as long as nobody names another site for it. ``clock``: that host's clock, once
    somebody has looked it up.
    """

    __slots__ = ("began_at", "by_url", "clock", "from_queue", "host", "load", "slot", "stage")

    def __init__(self, slot: str, load: SlotLoad, host: str, from_queue: bool) -> None:
        self.slot = slot
        self.load = load
        self.host = host
        self.from_queue = from_queue
        self.stage = _ON_ITS_WAY
        self.began_at: float | None = None
        self.by_url = False
        self.clock: HostClock | None = None


class UnderWay:
    """What is under way. ``request in under_way``: the scheduler queue handed it out, and it is in the downloader.

    ``loads``: by slot, until the transfer has ended; only slots with anything under way. ``hosts``: number by host,
    until the request has left the downloader, its answer looked at by every middleware. Requests that did not come from
    the queue (media, robots.txt) count too: they occupy the slot just the same. ``places``: by request, to be looked at
    only.
    """

    def __init__(self) -> None:
        self.loads: dict[str, SlotLoad] = {}
        self.hosts: dict[str, int] = {}
        self.places: dict[Any, Place] = {}

    def __contains__(self, request: Hashable) -> bool:
        place = self.places.get(request)
        return place is not None and place.from_queue

    def __len__(self) -> int:
        return len(self.places)

    def enter(self, request: Hashable, slot: str, host: str, *, from_queue: bool) -> Place:
        """Count a request in; one that is in already is not counted twice."""
        place = self.places.get(request)
        if place is None:
            load = self.loads.get(slot)
            if load is None:
                load = self.loads[slot] = SlotLoad()
            place = self.places[request] = Place(slot, load, host, from_queue)
            load.count += 1
            load.unsent += 1
            self.hosts[host] = self.hosts.get(host, 0) + 1
        return place

    def unsent(self) -> dict[str, dict[str, int]]:
        """By host and slot: how many have not gone to the network yet. Looks at everything that is under way."""
        found: dict[str, dict[str, int]] = {}
        for place in self.places.values():
            if place.stage == _ON_ITS_WAY:
                slots = found.setdefault(place.host, {})
                slots[place.slot] = slots.get(place.slot, 0) + 1
        return found

    def handed_out(self) -> list[Any]:
        """What the scheduler queue handed out and has not gone to the network yet. Looks at all that is under way."""
        return [request for request, place in self.places.items() if place.from_queue and place.stage == _ON_ITS_WAY]

    def sent(self, request: Hashable, now: float) -> str | None:
        """Note that the request goes to the network now; the slot under which it is counted, None when it is not."""
        place = self.places.get(request)
        if place is None:
            return None
        place.began_at = now
        if place.stage == _ON_ITS_WAY:
            place.stage = _SENT
            place.load.unsent -= 1
        return place.slot

    def answered(self, request: Hashable) -> Place | None:
        """Note that its transfer has ended, whatever came of it; None when it is not counted."""
        place = self.places.get(request)
        if place is not None and place.stage != _ANSWERED:
            load = place.load
            load.count -= 1
            if place.stage == _ON_ITS_WAY:
                load.unsent -= 1
            place.stage = _ANSWERED
            if not load.count:
                del self.loads[place.slot]
        return place

    def leave(self, request: Hashable) -> tuple[str, str, bool] | None:
        """Count a request out; its slot, its host, whether its transfer had ended before; None when it was not in."""
        place = self.places.get(request)
        if place is None:
            return None
        answered = place.stage == _ANSWERED
        if not answered:
            self.answered(request)
        del self.places[request]
        left = self.hosts[place.host] - 1
        if left:
            self.hosts[place.host] = left
        else:
            del self.hosts[place.host]
        return place.slot, place.host, answered
