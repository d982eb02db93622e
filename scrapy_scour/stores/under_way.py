"""Remembers which requests are between the scheduler and the end of their download.

Counted by download slot and by host, so that the scheduler queue can tell what may be asked now without looking at
any request. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Hashable


class SlotLoad:
    """One download slot: ``count`` requests in or on their way to the downloader, ``unsent`` of them not dispatched."""

    __slots__ = ("count", "unsent")

    def __init__(self) -> None:
        self.count = 0
        self.unsent = 0


class UnderWay:
    """What is under way. ``request in under_way``: the scheduler queue handed it out and it has not ended.

    ``loads``: by slot, only slots with anything under way. ``hosts``: number by host, likewise. Requests that did not
    come from the queue (media, robots.txt) count too: they occupy the slot just the same.
    """

    def __init__(self) -> None:
        self.loads: dict[str, SlotLoad] = {}
        self.hosts: dict[str, int] = {}
        self._places: dict[Hashable, tuple[str, str, bool]] = {}
        self._unsent: set[Hashable] = set()

    def __contains__(self, request: Hashable) -> bool:
        place = self._places.get(request)
        return place is not None and place[2]

    def __len__(self) -> int:
        return len(self._places)

    def enter(self, request: Hashable, slot: str, host: str, *, from_queue: bool) -> None:
        """Count a request in; one that is in already is not counted twice."""
        if request in self._places:
            return
        self._places[request] = (slot, host, from_queue)
        self._unsent.add(request)
        load = self.loads.get(slot)
        if load is None:
            load = self.loads[slot] = SlotLoad()
        load.count += 1
        load.unsent += 1
        self.hosts[host] = self.hosts.get(host, 0) + 1

    def slot_of(self, request: Hashable) -> str | None:
        """The slot under which the request is counted, None when it is not."""
        place = self._places.get(request)
        return None if place is None else place[0]

    def sent(self, request: Hashable) -> None:
        """Note that the request goes to the network now."""
        if request in self._unsent:
            self._unsent.discard(request)
            self.loads[self._places[request][0]].unsent -= 1

    def leave(self, request: Hashable) -> tuple[str, str] | None:
        """Count a request out; its slot and host, None when it was not in."""
        place = self._places.pop(request, None)
        if place is None:
            return None
        slot, host, _ = place
        load = self.loads[slot]
        load.count -= 1
        if request in self._unsent:
            self._unsent.discard(request)
            load.unsent -= 1
        if not load.count:
            del self.loads[slot]
        left = self.hosts[host] - 1
        if left:
            self.hosts[host] = left
        else:
            del self.hosts[host]
        return slot, host
