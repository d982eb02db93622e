"""Closes what a download handler may leave open of the core's promises: size and timeout.

A limit on the size of a body says nothing about an answer that has none (HEAD), and the timeout covers the reading of
the body, however slowly it comes. Handlers of Scrapy that keep both by themselves cost nothing here.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import StopDownload

from scrapy_scour import compat

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from typing_extensions import Self

#: meta key: the size limit of a HEAD request while it is under way without one.
_MAXSIZE = "scour_download_maxsize"
_NONE = "none"


class BodyTimeout(StopDownload, compat.DOWNLOAD_TIMEOUT_ERROR):  # type: ignore[valid-type, misc]
    """The answer took longer than ``DOWNLOAD_TIMEOUT`` (meta ``download_timeout``) with its body: a timeout."""

    def __init__(self) -> None:
        super().__init__(fail=True)

    def __str__(self) -> str:
        return "the answer with its body took longer than download_timeout"


class DownloadExtension:
    """See the module."""

    def __init__(self, crawler: Crawler) -> None:
        self._began: dict[Any, float] = {}
        timed = compat.handlers_time_bodies(crawler.settings)
        if not (timed and compat.handlers_know_head(crawler.settings)):
            crawler.signals.connect(self.request_reached_downloader, signal=signals.request_reached_downloader)
            crawler.signals.connect(self.request_left_downloader, signal=signals.request_left_downloader)
        if not timed:
            crawler.signals.connect(self.data_received, signal=signals.headers_received)
            crawler.signals.connect(self.data_received, signal=signals.bytes_received)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def request_reached_downloader(self, request: Request, spider: Spider) -> None:
        """A HEAD answer declares the length of a body that does not come (RFC 9110 9.3.2): no limit applies to it."""
        if request.method == "HEAD" and _MAXSIZE not in request.meta:
            request.meta[_MAXSIZE] = request.meta.get("download_maxsize", _NONE)
            request.meta["download_maxsize"] = 0

    def request_left_downloader(self, request: Request, spider: Spider) -> None:
        """Give the request back as it was, so that no other one inherits the missing limit."""
        self._began.pop(request, None)
        if _MAXSIZE in request.meta:
            limit = request.meta.pop(_MAXSIZE)
            if limit == _NONE:
                request.meta.pop("download_maxsize", None)
            else:
                request.meta["download_maxsize"] = limit

    def data_received(self, request: Request, spider: Spider) -> None:
        """Headers or a part of the body have come: is it too late?

        The clock runs from the request's headers on the way (the handler's own timeout covers what comes before the
        answer), so a body may take ``download_timeout`` seconds at most.
        """
        now = time.monotonic()
        began = self._began.setdefault(request, now - request.meta.get("download_latency", 0.0))
        timeout = request.meta.get("download_timeout")
        if timeout and now - began > timeout:
            raise BodyTimeout
