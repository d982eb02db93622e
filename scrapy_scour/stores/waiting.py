"""Remembers which hosts have something to wait for, and why: what the crawl's pace line is made of.

Kept up to date by whoever sees the changes, one host at a time; nothing here ever looks at all of them. A change costs
O(log hosts), asking for the counts nothing, asking for the slowest what is left to tidy up after the changes, each of
which leaves at most one thing behind. Decides nothing.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator

#: No end is known: it waits for its turns, not for a time.
NO_END = math.inf
#: Entries that are no longer true and that an order may hold before it is rebuilt, beyond as many as there are notes.
SPARE_ENTRIES = 64


class Note:
    """One host that waits. ``why``: in one word. ``until``: monotonic, ``NO_END`` for none. ``delay_s``: seconds
    between two of its requests."""

    __slots__ = ("delay_s", "host", "until", "why")

    def __init__(self, host: str, why: str, until: float, delay_s: float) -> None:
        self.host = host
        self.why = why
        self.until = until
        self.delay_s = delay_s


class _Order:
    """Some notes by one number of theirs, smallest first.

    The number of a note may have become larger since it was put here: that is seen when the note comes to the front.
    For one that becomes smaller the note is put here once more, and the later entry is dropped when it comes.
    """

    def __init__(self, number: Callable[[Note], float]) -> None:
        self._number = number
        self._heap: list[tuple[float, int, Note]] = []
        self._made = 0

    def __len__(self) -> int:
        return len(self._heap)

    def put(self, note: Note) -> None:
        self._made += 1
        heapq.heappush(self._heap, (self._number(note), self._made, note))

    def first(self, most: int, notes: dict[str, Note]) -> list[Note]:
        """Up to ``most`` of the notes that are true, which ``notes`` has by host."""
        found: dict[str, tuple[float, int, Note]] = {}
        heap = self._heap
        while heap and len(found) < most:
            entry = heap[0]
            note = entry[2]
            number = self._number(note)
            if notes.get(note.host) is note and number > entry[0]:
                heapq.heapreplace(heap, (number, entry[1], note))
                continue
            heapq.heappop(heap)
            if notes.get(note.host) is note and number == entry[0]:
                found[note.host] = entry
        for entry in found.values():
            heapq.heappush(heap, entry)
        return [entry[2] for entry in found.values()]

    def trim(self, notes: dict[str, Note], true: int) -> None:
        """Keep what is no longer true below twice the ``true`` notes that belong here."""
        if len(self._heap) > 2 * true + SPARE_ENTRIES:
            left = {note.host: (number, note) for _, number, note in self._heap if notes.get(note.host) is note}
            self._heap[:] = [(self._number(note), number, note) for number, note in left.values()]
            heapq.heapify(self._heap)


class Waiting:
    """All hosts that wait. ``counts``: how many by reason, only reasons that there are."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._notes: dict[str, Note] = {}
        self._ends: dict[str, _Order] = {}
        self._slowest = _Order(lambda note: -note.delay_s)
        self._latest = _Order(lambda note: -note.until)

    def __len__(self) -> int:
        return len(self._notes)

    def __contains__(self, host: str) -> bool:
        return host in self._notes

    def note(self, host: str, why: str, *, delay_s: float, until: float = NO_END) -> None:
        """The host waits, for this reason from now on."""
        known = self._notes.get(host)
        if known is not None and known.why == why and known.until == until:
            before, known.delay_s = known.delay_s, delay_s
            if delay_s > before:
                self._slowest.put(known)
                self._slowest.trim(self._notes, len(self._notes))
            return
        self.forget(host)
        note = self._notes[host] = Note(host, why, until, delay_s)
        self.counts[why] = self.counts.get(why, 0) + 1
        self._slowest.put(note)
        if until != NO_END:
            self._latest.put(note)
            self._ends.setdefault(why, _Order(lambda note: note.until)).put(note)
        self._trim(why)

    def forget(self, host: str) -> None:
        """The host does not wait any more."""
        note = self._notes.pop(host, None)
        if note is None:
            return
        left = self.counts[note.why] - 1
        if left:
            self.counts[note.why] = left
        else:
            del self.counts[note.why]
            self._ends.pop(note.why, None)
        self._trim(note.why)

    def over(self, now: float) -> Iterator[str]:
        """The hosts whose end has come, each once; what they are now is for the caller to note."""
        for ends in list(self._ends.values()):
            while (first := ends.first(1, self._notes)) and first[0].until <= now:
                self.forget(first[0].host)
                yield first[0].host

    def first_end(self, why: str) -> float:
        """When the first of those that wait for this reason may go on; ``NO_END`` when none has an end."""
        first = self._ends[why].first(1, self._notes) if why in self._ends else ()
        return first[0].until if first else NO_END

    def slowest(self, most: int) -> list[Note]:
        """Up to ``most`` notes with the largest delays, largest first."""
        return self._slowest.first(most, self._notes)

    def latest(self, most: int) -> list[Note]:
        """Up to ``most`` notes with the latest ends, latest first."""
        return self._latest.first(most, self._notes)

    def _trim(self, why: str) -> None:
        self._slowest.trim(self._notes, len(self._notes))
        self._latest.trim(self._notes, len(self._notes))
        if why in self._ends:
            self._ends[why].trim(self._notes, self.counts[why])
