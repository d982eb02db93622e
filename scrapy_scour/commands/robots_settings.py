"""The settings of a run of ``scrapy robots``: those of the project, without what a crawl does besides fetching."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.downloadermiddlewares.httpcache import HttpCacheMiddleware
from scrapy.utils.misc import load_object

from scrapy_scour import compat
from scrapy_scour.exceptions import SettingsError
from scrapy_scour.settings import PREFIX, collect, refusal
from scrapy_scour.setup_check import REPLACED

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings, Settings

    from scrapy_scour.commands.robots_plan import Plan

_BY_COMMAND = "cmdline"
_ADDON = "scrapy_scour.Addon"
_WIRE = "scrapy_scour.downloadermiddlewares.wire.WireMiddleware"
#: A position behind all of ours.
_LAST = 100_000
#: What the add-on refuses to start with, or would have to stand before.
_IN_THE_WAY = (HttpCacheMiddleware, *(stock for _, stock in REPLACED))

#: What a crawl does besides fetching, and a question does not. A project's feeds, log and job directory stay untouched.
_LEFT_OUT: dict[str, Any] = {
    "CLOSESPIDER_TIMEOUT": 0,
    "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",
    "EXTENSIONS_BASE": {},
    "FEEDS": {},
    "HTTPCACHE_ENABLED": False,
    "ITEM_PIPELINES": {},
    "ITEM_PIPELINES_BASE": {},
    "JOBDIR": None,
    "LOG_STDOUT": False,
    "SCHEDULER": "scrapy.core.scheduler.Scheduler",
    "SCOUR_OUTCOMES_FILE": None,
    "SCOUR_REPORT_FILE": None,
    "SCOUR_ROBOTSTXT_WAITS": [],
    "SPIDER_LOADER_WARN_ONLY": True,
    "SPIDER_MIDDLEWARES": {},
    "SPIDER_MIDDLEWARES_BASE": {},
    "STATS_CLASS": "scrapy.statscollectors.MemoryStatsCollector",
    "TELNETCONSOLE_ENABLED": False,
}


def prepare(settings: Settings, asked: Plan) -> None:
    """Turn the project's settings into those of a process that only asks."""
    for name, value in {"LOG_LEVEL": "CRITICAL", "LOG_FILE": None}.items():
        if (settings.getpriority(name) or 0) < 40:  # not said on this command line
            settings.set(name, value, _BY_COMMAND)
    for name, value in _LEFT_OUT.items():
        if not name.startswith(PREFIX):
            settings.set(name, value, _BY_COMMAND)
    if asked.spider is None:
        settings.set("SPIDER_MODULES", [], _BY_COMMAND)
    if asked.agent is not None:
        settings.set("ROBOTSTXT_USER_AGENT", None, _BY_COMMAND)  # it speaks of the project's own agent


def leave_out(settings: BaseSettings) -> None:
    """Turn the settings of a crawl, those of its spider included, into those of one that only asks.

    Raises SettingsError where what is left out would stop the crawl from starting.
    """
    hidden = tuple(f"{name} = " for name in _LEFT_OUT if name.startswith(PREFIX))
    problems = [problem for problem in collect(settings)[1] if problem.startswith(hidden)]
    if problems:
        raise SettingsError(refusal(problems))
    for name, value in _LEFT_OUT.items():
        settings.set(name, value, _BY_COMMAND)
    ours = {
        component: position
        for component, position in settings.getdict("EXTENSIONS").items()
        if _path(component).startswith("scrapy_scour.")
    }
    settings.set("EXTENSIONS", ours, _BY_COMMAND)
    if not _has_ours(settings):
        _add_ours(settings)


def _has_ours(settings: BaseSettings) -> bool:
    addons = settings.getdict("ADDONS")
    return any(_path(addon).startswith("scrapy_scour.") and addons[addon] is not None for addon in addons) or any(
        _path(component).startswith("scrapy_scour.") and position is not None
        for component, position in settings.getdict("DOWNLOADER_MIDDLEWARES").items()
    )


def _add_ours(settings: BaseSettings) -> None:
    """Have the add-on in a project that goes without, and out of its way what it cannot stand beside."""
    others = {
        addon: position
        for addon, position in settings.getdict("ADDONS").items()
        if not _path(addon).startswith("scrapy_scour.")
    }
    settings.set("ADDONS", {**others, _ADDON: 500}, _BY_COMMAND)
    own = settings.getdict("DOWNLOADER_MIDDLEWARES")
    last = _LAST
    for component, position in compat.enabled_components(settings, "DOWNLOADER_MIDDLEWARES"):
        last = max(last, position + 1)
        cls = load_object(component)
        if not isinstance(cls, type) or not issubclass(cls, _IN_THE_WAY):
            continue
        own.pop(component, None)
        if cls not in _IN_THE_WAY:
            own[component] = None
    settings.set("DOWNLOADER_MIDDLEWARES", {**own, _WIRE: last}, _BY_COMMAND)


def _path(component: Any) -> str:
    return component if isinstance(component, str) else f"{getattr(component, '__module__', '')}."
