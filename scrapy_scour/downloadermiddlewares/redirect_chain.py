"""What a request's meta says of the redirects that led to it, read with suspicion.

Meta comes from anywhere: a queue on disk, a user's settings by hand, a callback that copies that of its page. Whether a
chain is too long or turns in a circle, ``redirect`` decides with ``policy.redirects``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_scour.exceptions import RedirectRefused
from scrapy_scour.policy.redirects import trail_key
from scrapy_scour.policy.urls import without_userinfo

if TYPE_CHECKING:
    from scrapy import Request

#: meta key: the chain up to and with this request, ``[[method, url, new cookies until then], ...]``; plain, so that it
#: survives a disk queue.
TRAIL = "scour_trail"
#: meta key: this hop passes the duplicate filter because the chain came by here before; the next hop does not for that.
CAME_BY = "scour_came_by"

#: Scrapy's own meta keys of a chain: key, type, and the type in words.
_OWN_META: tuple[tuple[str, tuple[type, ...], str], ...] = (
    ("redirect_times", (int,), "a whole number"),
    ("redirect_ttl", (int,), "a whole number"),
    ("redirect_urls", (list, tuple), "a list"),
    ("redirect_reasons", (list, tuple), "a list"),
)


def check_meta(request: Request) -> None:
    """Raise RedirectRefused for meta that cannot be read: how long the chain is would not be known."""
    if any(not isinstance(url, str) for url in _listed(request.meta.get("redirect_urls"))):
        raise RedirectRefused(
            f"meta['redirect_urls'] = {request.meta['redirect_urls']!r} must hold URLs",
            url=without_userinfo(request.url),
        )
    for key, types, rule in _OWN_META:
        if key in request.meta and not isinstance(request.meta[key], types):
            raise RedirectRefused(
                f"meta[{key!r}] = {request.meta[key]!r} must be {rule}", url=without_userinfo(request.url)
            )


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def trail_of(request: Request) -> list[Any]:
    """The chain up to and with this request; one that leads elsewhere came with copied meta and is not its own."""
    here = [request.method, trail_key(request.url)]
    trail = request.meta.get(TRAIL)
    if isinstance(trail, (list, tuple)) and all(_is_entry(entry) for entry in trail):
        entries = [[*entry] for entry in trail]
        if entries and entries[-1][:2] == here:
            return entries
    return [[*here, 0]]


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, (list, tuple)) and [type(part) for part in entry] == [str, str, int]


def wants_status(status: int, statuses: Any) -> bool:
    """Whether a ``handle_httpstatus_list`` names the status; what is no collection names none."""
    try:
        return status in (statuses or ())
    except TypeError:
        return False
