"""Where things sit: the only module that knows positions.

``ADDONS = {"scrapy_scour.Addon": 500}`` puts every component in its place; ``DOWNLOADER_MIDDLEWARES`` and
``EXTENSIONS`` here are the same as plain dictionaries, to be spread into a project's own settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.utils.misc import load_object

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

_OURS = "scrapy_scour.downloadermiddlewares."
_STOCK = "scrapy.downloadermiddlewares."

#: Our middlewares in their places, and the stock ones that they replace out.
DOWNLOADER_MIDDLEWARES: dict[str, int | None] = {
    f"{_OURS}outcome.OutcomeMiddleware": 10,
    f"{_OURS}scope.ScopeMiddleware": 50,
    f"{_OURS}robotstxt.RobotsTxtMiddleware": 510,
    f"{_OURS}retry.RetryMiddleware": 550,
    f"{_OURS}redirect.MetaRefreshMiddleware": 580,
    f"{_OURS}redirect.RedirectMiddleware": 600,
    f"{_OURS}wire.WireMiddleware": 10000,
    f"{_STOCK}offsite.OffsiteMiddleware": None,
    f"{_STOCK}robotstxt.RobotsTxtMiddleware": None,
    f"{_STOCK}retry.RetryMiddleware": None,
    f"{_STOCK}redirect.MetaRefreshMiddleware": None,
    f"{_STOCK}redirect.RedirectMiddleware": None,
}

#: Our extensions. Before Scrapy's own, so that what they save is there when the spider's state is written.
EXTENSIONS: dict[str, int | None] = {
    "scrapy_scour.extensions.pacing.PacingExtension": -100,
    "scrapy_scour.extensions.content.ContentTypeExtension": -100,
    "scrapy_scour.extensions.download.DownloadExtension": -100,
    "scrapy_scour.extensions.paceline.PaceLineExtension": -100,
    "scrapy_scour.extensions.report.ReportExtension": -100,
}

#: The other settings that the add-on makes, for a project that sets everything itself.
OTHER_SETTINGS: dict[str, Any] = {
    "ROBOTSTXT_OBEY": True,
    "ROBOTSTXT_PARSER": "scrapy_scour.robotstxt.RFC9309RobotParser",
    "SCHEDULER_PRIORITY_QUEUE": "scrapy_scour.pqueues.PolitePriorityQueue",
}

# A project that switched one of these off wants it off: ours stays out as well. Robots and scope are why the add-on is
# there; they come in whatever was done to the stock ones.
_FEATURES = {
    f"{_STOCK}retry.RetryMiddleware": f"{_OURS}retry.RetryMiddleware",
    f"{_STOCK}redirect.MetaRefreshMiddleware": f"{_OURS}redirect.MetaRefreshMiddleware",
    f"{_STOCK}redirect.RedirectMiddleware": f"{_OURS}redirect.RedirectMiddleware",
}


class Addon:
    """The add-on. Never overrides a value or a position that the project set itself."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def update_settings(self, settings: BaseSettings) -> None:
        """Put the components in their places."""
        _place(settings, "DOWNLOADER_MIDDLEWARES", DOWNLOADER_MIDDLEWARES)
        _place(settings, "EXTENSIONS", EXTENSIONS)
        wanted = dict(OTHER_SETTINGS)
        if settings.getint("CONCURRENT_REQUESTS_PER_IP"):
            del wanted["SCHEDULER_PRIORITY_QUEUE"]  # no such queue supports it; the slots keep the pace
        for name, value in wanted.items():
            settings.set(name, value, priority="addon")


def _place(settings: BaseSettings, name: str, ours: dict[str, int | None]) -> None:
    own = settings.getdict(name)
    said = {load_object(component): position for component, position in own.items()}
    for path, position in ours.items():
        component = load_object(path)
        if component in said:
            continue  # the project has said where, or that it should not be
        if any(said.get(load_object(stock), 0) is None for stock, feature in _FEATURES.items() if feature == path):
            continue
        own[path] = position
    settings.set(name, own, priority=settings.getpriority(name) or 0)
