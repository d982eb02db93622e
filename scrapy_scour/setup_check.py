"""Whether the components of a crawl are set up so that its promises hold.

Looks at the enabled components and their positions, and says everything that is wrong; ``job`` refuses to start then.
Positions are ``addon``'s affair; here is only what must not be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scrapy.downloadermiddlewares import httpcache, offsite, redirect, retry, robotstxt
from scrapy.pqueues import DownloaderAwarePriorityQueue, ScrapyPriorityQueue
from scrapy.utils.misc import load_object

from scrapy_scour import compat

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_OURS = "scrapy_scour.downloadermiddlewares."
_PACING = "scrapy_scour.extensions.pacing.PacingExtension"
_ROBOTS = f"{_OURS}robotstxt.RobotsTxtMiddleware"
_WIRE = f"{_OURS}wire.WireMiddleware"
_QUEUES = "scrapy_scour.pqueues"

#: Ours, the stock class that it replaces.
REPLACED: tuple[tuple[str, type], ...] = (
    (f"{_OURS}scope.ScopeMiddleware", offsite.OffsiteMiddleware),
    (_ROBOTS, robotstxt.RobotsTxtMiddleware),
    (f"{_OURS}retry.RetryMiddleware", retry.RetryMiddleware),
    (f"{_OURS}redirect.MetaRefreshMiddleware", redirect.MetaRefreshMiddleware),
    (f"{_OURS}redirect.RedirectMiddleware", redirect.RedirectMiddleware),
)


def problems(settings: BaseSettings) -> list[str]:
    """One sentence, naming setting, value and rule, for everything that is wrong with the components."""
    found: list[str] = _slots_problems(settings) + _queue_problems(settings)
    if not compat.supports_slots(load_object(settings["DOWNLOADER"])):
        found.append(
            f"DOWNLOADER = {settings['DOWNLOADER']!r}: must be Scrapy's Downloader or a subclass,"
            " whose slots keep the pace"
        )
    middlewares = _loaded(settings, "DOWNLOADER_MIDDLEWARES", found)
    extensions = _loaded(settings, "EXTENSIONS", found)
    names = [name for name, _, _ in middlewares]
    for ours, stock in REPLACED:
        if ours not in names:
            continue
        found += [
            f"DOWNLOADER_MIDDLEWARES[{name!r}] = {position}: must be None, since {ours.rpartition('.')[2]} of"
            " scrapy-scour takes its place"
            for name, cls, position in middlewares
            if name != ours and isinstance(cls, type) and issubclass(cls, stock)
        ]
    if _ROBOTS in names:
        found += _robots_problems(settings, middlewares, [name for name, _, _ in extensions])
    if _WIRE in names and names[-1] != _WIRE:
        later = [f"{name!r} = {position}" for name, _, position in middlewares[names.index(_WIRE) + 1 :]]
        found.append(
            f"DOWNLOADER_MIDDLEWARES: {', '.join(later)} must come before WireMiddleware"
            f" ({middlewares[names.index(_WIRE)][2]}), which has the last look at what is sent"
        )
    return found


def _slots_problems(settings: BaseSettings) -> list[str]:
    """What a download slot would break on, or wait for without an end, with its first request."""
    try:
        slots = settings.getdict("DOWNLOAD_SLOTS")
    except (TypeError, ValueError):
        return [f"DOWNLOAD_SLOTS = {settings['DOWNLOAD_SLOTS']!r}: must be a dictionary"]
    found = []
    limit = settings["CONCURRENT_REQUESTS_PER_DOMAIN"]
    if str(limit).strip() in ("0", "0.0", "False"):
        found.append(f"CONCURRENT_REQUESTS_PER_DOMAIN = {limit!r}: must be 1 or more, or no request would ever be sent")
    for slot, values in slots.items():
        if not isinstance(values, Mapping):
            found.append(f"DOWNLOAD_SLOTS[{slot!r}] = {values!r}: must be a dictionary")
            continue
        for key, least in (("concurrency", 1), ("delay", 0)):
            value = values.get(key, least)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < math.inf:
                found.append(f"DOWNLOAD_SLOTS[{slot!r}][{key!r}] = {value!r}: must be a number, {least} or more")
    return found


def _queue_problems(settings: BaseSettings) -> list[str]:
    """What the scheduler would find out too late: its stop then writes over the spider's state."""
    name = settings["SCHEDULER_PRIORITY_QUEUE"]
    try:
        kinds = getattr(load_object(name), "__mro__", ())
    except Exception as error:
        return [f"SCHEDULER_PRIORITY_QUEUE = {name!r}: cannot be loaded ({error})"]
    ours = any(kind.__module__ == _QUEUES for kind in kinds)
    found = []
    if ours and settings.getint("CONCURRENT_REQUESTS_PER_IP"):
        found.append(
            f"CONCURRENT_REQUESTS_PER_IP = {settings['CONCURRENT_REQUESTS_PER_IP']!r}: must be 0 with"
            f" SCHEDULER_PRIORITY_QUEUE = {name!r}, which keeps its limits per host"
        )
    state = compat.stored_queues(settings)
    by_host, by_priority = ours or DownloaderAwarePriorityQueue in kinds, ScrapyPriorityQueue in kinds
    # What any other kind of queue keeps is not known.
    if state and (by_priority if isinstance(state, dict) else by_host):
        found.append(
            f"JOBDIR = {settings['JOBDIR']!r}: its requests are kept by {'host' if by_priority else 'priority only'},"
            f" which SCHEDULER_PRIORITY_QUEUE = {name!r} cannot resume; use the queue that the job was started with, or"
            " a new JOBDIR"
        )
    return found


def _robots_problems(
    settings: BaseSettings, middlewares: list[tuple[str, Any, int]], extensions: list[str]
) -> list[str]:
    found = []
    names = [name for name, _, _ in middlewares]
    at = names.index(_ROBOTS)
    found += [
        f"DOWNLOADER_MIDDLEWARES[{_ROBOTS!r}] = {middlewares[at][2]}: must come before {name!r} = {position},"
        " or pages from the cache would be served against the rules of today"
        for name, cls, position in middlewares[:at]
        if isinstance(cls, type) and issubclass(cls, httpcache.HttpCacheMiddleware)
    ]
    if _WIRE not in names:
        found.append(
            f"DOWNLOADER_MIDDLEWARES[{_WIRE!r}] is not enabled: RobotsTxtMiddleware needs it,"
            " to see the agent that is sent"
        )
    if _PACING not in extensions:
        found.append(
            f"EXTENSIONS[{_PACING!r}] is not enabled: RobotsTxtMiddleware needs it, to keep what sites ask for"
        )
    return found


def _loaded(settings: BaseSettings, name: str, found: list[str]) -> list[tuple[str, Any, int]]:
    """Import path, object and position of every enabled component, in order."""
    components = []
    for component, position in compat.enabled_components(settings, name):
        try:
            loaded = load_object(component)
        except Exception as error:
            found.append(f"{name}[{component!r}] = {position}: cannot be loaded ({error})")
            continue
        path = f"{getattr(loaded, '__module__', '')}.{getattr(loaded, '__qualname__', '')}"
        components.append((path, loaded, position))
    return components
