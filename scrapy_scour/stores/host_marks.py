"""Remembers of hosts how they came out, as far as it takes to count them; bounded, whatever the number of hosts.

Past the bound nothing is ever counted that is not so; hosts that come later may be missing from the counts.
"""

from __future__ import annotations

from collections.abc import Callable

#: Hosts that one mark remembers. A name takes about 100 bytes.
MOST_HOSTS = 100_000


class HostMark:
    """Hosts to which something happened at least once. ``full``: later hosts are not added any more."""

    def __init__(self, size: int = MOST_HOSTS) -> None:
        self._size = size
        self._hosts: set[str] = set()
        #: ``contains(host)``: whether it is marked. No method of its own: it is asked for every page.
        self.contains: Callable[[str], bool] = self._hosts.__contains__

    def add(self, host: str) -> bool:
        """Mark the host; True when it was not marked before and is now."""
        if host in self._hosts or self.full or not host:
            return False
        self._hosts.add(host)
        return True

    def discard(self, host: str) -> None:
        self._hosts.discard(host)

    @property
    def full(self) -> bool:
        return len(self._hosts) >= self._size

    def examples(self, most: int) -> list[str]:
        """Some of the hosts, in alphabetical order of those that were looked at."""
        return sorted(list(self._hosts)[:most])

    def __len__(self) -> int:
        return len(self._hosts)


class ClosedHosts:
    """Hosts of which every URL that was asked for was refused by robots.txt.

    A host that got a single request of the crawl (robots.txt aside) or gave a single page is not closed.
    """

    def __init__(self, size: int = MOST_HOSTS) -> None:
        self.closed = HostMark(size)
        self._open = HostMark(size)

    def opened(self, host: str) -> None:
        """The host got a request, or a page of it came from somewhere."""
        if not self._open.contains(host):
            self._open.add(host)
            self.closed.discard(host)

    def refused(self, host: str) -> None:
        """robots.txt refused a URL of the host."""
        # Once open hosts may have been forgotten, a host that is not known as open may still be.
        if not self._open.contains(host) and not self._open.full:
            self.closed.add(host)
