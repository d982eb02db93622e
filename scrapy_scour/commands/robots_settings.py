"""The settings of a run of ``scrapy robots``: those of the project, without what a crawl does besides fetching."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings, Settings

    from scrapy_scour.commands.robots_plan import Plan

_BY_COMMAND = "cmdline"
_ADDON = "scrapy_scour.Addon"

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
    "SCHEDULER": "scrapy.core.scheduler.Scheduler",
    "SCOUR_ROBOTSTXT_WAITS": [],
    "SPIDER_LOADER_WARN_ONLY": True,
    "SPIDER_MIDDLEWARES": {},
    "SPIDER_MIDDLEWARES_BASE": {},
    "STATS_CLASS": "scrapy.statscollectors.MemoryStatsCollector",
    "TELNETCONSOLE_ENABLED": False,
}
_FILES_OF_A_CRAWL = ("SCOUR_OUTCOMES_FILE", "SCOUR_REPORT_FILE")


def prepare(settings: Settings, asked: Plan) -> None:
    """Turn the project's settings into those of a run that only asks."""
    for name, value in {"LOG_LEVEL": "CRITICAL", "LOG_FILE": None}.items():
        if (settings.getpriority(name) or 0) < 40:  # not said on this command line
            settings.set(name, value, _BY_COMMAND)
    for name, value in _LEFT_OUT.items():
        settings.set(name, value, _BY_COMMAND)
    for name in _FILES_OF_A_CRAWL:
        if name in settings:
            settings.set(name, None, _BY_COMMAND)
    if asked.spider is None:
        settings.set("SPIDER_MODULES", [], _BY_COMMAND)
    if asked.agent is not None:
        settings.set("ROBOTSTXT_USER_AGENT", None, _BY_COMMAND)  # it speaks of the project's own agent
    _keep_ours(settings)


def _keep_ours(settings: BaseSettings) -> None:
    """Leave out the project's extensions, and add the add-on where the project does not have this package."""
    ours = {
        component: position
        for component, position in settings.getdict("EXTENSIONS").items()
        if _path(component).startswith("scrapy_scour.")
    }
    settings.set("EXTENSIONS", ours, _BY_COMMAND)
    addons = settings.getdict("ADDONS")
    has_addon = any(_path(addon).startswith("scrapy_scour.") and addons[addon] is not None for addon in addons)
    has_parts = any(
        _path(component).startswith("scrapy_scour.") and position is not None
        for component, position in settings.getdict("DOWNLOADER_MIDDLEWARES").items()
    )
    if not has_addon and not has_parts:
        others = {addon: position for addon, position in addons.items() if not _path(addon).startswith("scrapy_scour.")}
        settings.set("ADDONS", {**others, _ADDON: 500}, _BY_COMMAND)


def _path(component: Any) -> str:
    return component if isinstance(component, str) else f"{getattr(component, '__module__', '')}."
