"""Remembers which hosts have something to wait for, and why: what the crawl's pace line is made of.

Kept up to date by whoever sees the changes, one host at a time; nothing here ever looks at all of them. A change costs
O(log hosts) at most, asking for the counts nothing, asking for the slowest a fixed number of looks. Decides nothing.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator

#: No end is known: it waits for its turns, not for a time.
NO_END = math.inf
#: Entries that are no longer true and that a heap may hold before it is rebuilt, beyond as many as there are notes.
SPARE_ENTRIES = 64
#: Entries that one question for the slowest looks at, for each one that it wants.
LOOKS = 8


class Note:
    """One slot that waits. ``host``: whose clock decides. ``why``: in one word. ``until``: monotonic, ``NO_END`` for
    none. ``delay_s``: seconds between two of its requests."""

    __slots__ = ("delay_s", "entry", "host", "slot", "until", "why")

    def __init__(self, slot: str, host: str, why: str, until: float, delay_s: float) -> None:
        self.slot = slot
        self.host = host
        self.why = why
        self.until = until
        self.delay_s = delay_s
        self.entry: tuple[float, int, Note] | None = None


class Waiting:
    """All slots that wait. ``counts``: how many by reason, only reasons that there are."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._notes: dict[str, Note] = {}
        self._ends: dict[str, list[tuple[float, int, Note]]] = {}
        # By delay, largest first. An entry may say more than is true by now, never less: that is seen at the top.
        self._delays: list[tuple[float, int, Note]] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._notes)

    def __contains__(self, slot: str) -> bool:
        return slot in self._notes

    def note(self, slot: str, host: str, why: str, *, delay_s: float, until: float = NO_END) -> None:
        """The slot waits, for this reason from now on."""
        known = self._notes.get(slot)
        if known is not None and known.why == why and known.until == until and known.host == host:
            known.delay_s = delay_s
            if known.entry is not None and delay_s > -known.entry[0]:
                self._place(known)
            return
        self.forget(slot)
        note = self._notes[slot] = Note(slot, host, why, until, delay_s)
        self.counts[why] = self.counts.get(why, 0) + 1
        self._place(note)
        if until != NO_END:
            self._number += 1
            ends = self._ends.setdefault(why, [])
            heapq.heappush(ends, (until, self._number, note))
            if len(ends) > 2 * self.counts[why] + SPARE_ENTRIES:
                ends[:] = [entry for entry in ends if self._is_current(entry[2])]
                heapq.heapify(ends)

    def forget(self, slot: str) -> None:
        """The slot does not wait any more."""
        note = self._notes.pop(slot, None)
        if note is None:
            return
        note.entry = None
        left = self.counts[note.why] - 1
        if left:
            self.counts[note.why] = left
        else:
            del self.counts[note.why]
            self._ends.pop(note.why, None)

    def over(self, now: float) -> Iterator[str]:
        """The slots whose end has come, each once; what they are now is for the caller to note."""
        for ends in list(self._ends.values()):
            while ends and (ends[0][0] <= now or not self._is_current(ends[0][2])):
                note = heapq.heappop(ends)[2]
                if self._is_current(note):
                    self.forget(note.slot)
                    yield note.slot

    def first_end(self, why: str) -> float:
        """When the first of those that wait for this reason may go on; ``NO_END`` when none has an end."""
        ends = self._ends.get(why, [])
        while ends and not self._is_current(ends[0][2]):
            heapq.heappop(ends)
        return ends[0][0] if ends else NO_END

    def slowest(self, number: int) -> list[Note]:
        """Up to ``number`` notes with the largest delays, largest first.

        Looks at no more than ``LOOKS`` entries for each. Where delays change with every answer and very many slots were
        slower for a while, they are the largest of those seen; the next question sees further.
        """
        seen: list[Note] = []
        exact = 0
        heap = self._delays
        for _ in range(number * LOOKS):
            if not heap or exact == number:
                break
            entry = heapq.heappop(heap)
            note = entry[2]
            if note.entry is entry:
                seen.append(note)
                exact += note.delay_s == -entry[0]
        for note in seen:
            assert note.entry is not None
            note.entry = (-note.delay_s, note.entry[1], note)
            heapq.heappush(heap, note.entry)
        return sorted(seen, key=lambda note: -note.delay_s)[:number]

    def _place(self, note: Note) -> None:
        self._number += 1
        note.entry = (-note.delay_s, self._number, note)
        heapq.heappush(self._delays, note.entry)
        if len(self._delays) > 2 * len(self._notes) + SPARE_ENTRIES:
            self._delays[:] = [entry for entry in self._delays if entry[2].entry is entry]
            heapq.heapify(self._delays)

    def _is_current(self, note: Note) -> bool:
        return self._notes.get(note.slot) is note
