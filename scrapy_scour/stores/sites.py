"""Remembers what a URL says before its path: nearly every request goes where others went, and is asked often."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from scrapy_scour.policy.urls import Origin, canonical_host, origin_of

#: Sites that are remembered. Past that they are all forgotten and read anew.
MOST_SITES = 50_000

#: What can be told from what stands before the first slash alone: nothing in it has a second meaning.
_PLAIN = re.compile(r"https?://[A-Za-z0-9._-]+(?::[0-9]+)?")
_SHORTEST = len("https://")


class Site(NamedTuple):
    """The canonical ``host`` of a URL, "" without one; whether the URL spells it so; its ``origin``, None for none."""

    host: str
    as_spelled: bool
    origin: Origin | None


class Sites:
    """The sites of URLs, each worked out once."""

    def __init__(self, size: int = MOST_SITES) -> None:
        self._size = size
        self._known: dict[str | tuple[str, str], Site] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, url: str) -> Site:
        """The site of an absolute URL. Raises ValueError for brackets that hold no address, as ``urlsplit`` does."""
        try:
            return self._known[url[: url.index("/", _SHORTEST)]]
        except (KeyError, ValueError):  # not known yet, or no path
            return self._read(url)

    def _read(self, url: str) -> Site:
        parts = urlsplit(url)
        end = url.find("/", _SHORTEST)
        plain = end > 0 and _PLAIN.fullmatch(url, 0, end) is not None
        place = url[:end] if plain else (parts.scheme, parts.netloc)
        found = self._known.get(place)
        if found is None:
            if len(self._known) >= self._size:
                self._known.clear()
            name = parts.hostname or ""
            host = canonical_host(name)
            found = self._known[place] = Site(host, name == host, origin_of(url))
        return found
