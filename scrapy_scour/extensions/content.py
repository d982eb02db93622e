"""Refuses answers of other media types on their headers, before the body is read (``SCOUR_CONTENT_TYPES``)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import NotConfigured

from scrapy_scour import compat
from scrapy_scour.content import ContentCheck
from scrapy_scour.job import job_of

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Headers
    from typing_extensions import Self


class ContentTypeExtension:
    """Ends the transfer where the headers say that it is of no use; the request ends as ContentTypeRefused.

    Where the download handler does not say what status the headers belong to, the answer is left to the check that
    ``OutcomeMiddleware`` makes when all of it is there: no 429 or 404 is ever cut off for its type.
    """

    def __init__(self, crawler: Crawler) -> None:
        self.job = job_of(crawler)
        if not self.job.settings.content_types:
            raise NotConfigured
        self._check = ContentCheck(self.job)
        crawler.signals.connect(self.headers_received, signal=signals.headers_received)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def headers_received(self, headers: Headers, body_length: int | None, request: Request, spider: Spider) -> None:
        empty = body_length == 0
        if self._check.refusal(request, headers, 200, empty=empty) is None:  # the common case, told at little cost
            return
        status = compat.status_of_headers()
        refusal = None if status is None else self._check.refusal(request, headers, status, empty=empty)
        if refusal is not None:
            clock = self.job.clock_of(request)
            if clock is not None:
                # An answer that is not to our liking is no refusal for rate.
                clock.answered_well(self.job.began_at(request, math.inf))
            raise refusal
