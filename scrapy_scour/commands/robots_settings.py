"""The settings of a run of ``scrapy robots``: those of the project, without what a crawl does besides fetching."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

from scrapy.downloadermiddlewares.httpcache import HttpCacheMiddleware
from scrapy.settings import SETTINGS_PRIORITIES
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
#: The same, unless the command line says something else.
_LOG: dict[str, Any] = {"LOG_LEVEL": "CRITICAL", "LOG_FILE": None}


def prepare(settings: Settings, asked: Plan) -> None:
    """Turn the project's settings into those of a process that only asks."""
    for name, value in _LOG.items():
        if (settings.getpriority(name) or 0) < SETTINGS_PRIORITIES[_BY_COMMAND]:  # not said on this command line
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

    Add-ons come after that and may set anything, at any priority: the last of them is one that does it again. Raises
    SettingsError where what is left out would stop the crawl from starting.
    """
    add_ours = not _has_ours(settings)
    log = {name: settings[name] for name in _LOG}

    class LeaveOutAgain:
        def update_settings(self, settings: BaseSettings) -> None:
            _leave_out(settings)
            for name, value in log.items():
                _force(settings, name, value)
            if add_ours:
                _clear_the_way(settings, ours_are_in=True)

    _leave_out(settings)
    addons = dict(settings.getdict("ADDONS"))
    if add_ours:
        addons = {addon: position for addon, position in addons.items() if not _path(addon).startswith("scrapy_scour.")}
        addons[_ADDON] = 500
        _clear_the_way(settings, ours_are_in=False)
    last = max((position for position in addons.values() if isinstance(position, Real)), default=0) + 1
    _force(settings, "ADDONS", {**addons, LeaveOutAgain: last})


def _leave_out(settings: BaseSettings) -> None:
    hidden = tuple(f"{name} = " for name in _LEFT_OUT if name.startswith(PREFIX))
    problems = [problem for problem in collect(settings)[1] if problem.startswith(hidden)]
    if problems:
        raise SettingsError(refusal(problems))
    for name, value in _LEFT_OUT.items():
        _force(settings, name, value)
    ours = {
        component: position
        for component, position in settings.getdict("EXTENSIONS").items()
        if _path(component).startswith("scrapy_scour.")
    }
    _force(settings, "EXTENSIONS", ours)


def _force(settings: BaseSettings, name: str, value: Any) -> None:
    """Set what holds whoever set something else, and with which priority."""
    settings.set(name, value, max(settings.getpriority(name) or 0, SETTINGS_PRIORITIES[_BY_COMMAND]))


def _has_ours(settings: BaseSettings) -> bool:
    addons = settings.getdict("ADDONS")
    return any(_path(addon).startswith("scrapy_scour.") and addons[addon] is not None for addon in addons) or any(
        _path(component).startswith("scrapy_scour.") and position is not None
        for component, position in settings.getdict("DOWNLOADER_MIDDLEWARES").items()
    )


def _clear_the_way(settings: BaseSettings, *, ours_are_in: bool) -> None:
    """Put out of the add-on's way, in a project that goes without, what it cannot stand beside.

    ``ours_are_in``: after the add-on. Before it a stock middleware that is switched off would keep out ours, too.
    """
    own = settings.getdict("DOWNLOADER_MIDDLEWARES")
    last = _LAST
    for component, position in compat.enabled_components(settings, "DOWNLOADER_MIDDLEWARES"):
        if _path(component).startswith("scrapy_scour."):
            continue
        last = max(last, position + 1)
        cls = load_object(component)
        if not isinstance(cls, type) or not issubclass(cls, _IN_THE_WAY):
            continue
        own.pop(component, None)
        if ours_are_in or cls not in _IN_THE_WAY:
            own[component] = None
    _force(settings, "DOWNLOADER_MIDDLEWARES", {**own, _WIRE: last})


def _path(component: Any) -> str:
    return component if isinstance(component, str) else f"{getattr(component, '__module__', '')}."
