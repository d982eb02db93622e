"""Of which hosts the requests are that wait in one slot, where they may be of several. No step looks at all of them.

Requests that came while it looked on are counted by host. Of those that an earlier run left, only how many they are is
known, and of which host the next one is; they are taken to be of one host until two were seen.
"""

from __future__ import annotations

#: Hosts that are counted one by one; those of further ones count as left by an earlier run.
MOST_HOSTS = 1000


class SlotHosts:
    """The requests of one slot: ``count`` of ``host``, and ``unknown`` of whom nobody has seen the host."""

    __slots__ = ("_blind", "_counts", "_differ", "_seen", "_unknown")

    def __init__(self, unknown: int = 0, host: str = "", count: int = 0) -> None:
        self._counts: dict[str, int] = {host: count} if count else {}
        self._unknown = unknown
        self._seen: str | None = None  # the host that was seen last
        self._differ = False  # two hosts were seen while some were unknown
        self._blind = False  # the next one cannot be seen

    def came(self, host: str) -> None:
        """A request of the host is queued."""
        if host in self._counts or len(self._counts) < MOST_HOSTS:
            self._counts[host] = self._counts.get(host, 0) + 1
        else:
            self._unknown += 1
            self._differ = True

    def went(self, host: str) -> None:
        """A request of the host was taken out."""
        left = self._counts.get(host, 0) - 1
        if left > 0:
            self._counts[host] = left
        elif left == 0:
            del self._counts[host]
        else:
            self._unknown -= 1
            self._see(host)

    def next_is(self, host: str | None) -> None:
        """The next request is of this host; None when that cannot be seen."""
        self._blind = host is None
        if host is not None:
            self._see(host)

    def _see(self, host: str) -> None:
        if self._unknown > 0 and self._seen is not None and host != self._seen:
            self._differ = True
        self._seen = host

    @property
    def several(self) -> bool:
        """Whether they were seen to be of several hosts, or may be where none can be seen."""
        if self._unknown <= 0:
            return len(self._counts) > 1
        if len(self._counts) > 1 or self._blind:
            return True
        if self._unknown + sum(self._counts.values()) == 1:  # the next one is the last
            return False
        counted = next(iter(self._counts), self._seen)
        return self._differ or self._seen not in (None, counted)
