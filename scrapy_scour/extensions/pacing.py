"""Keeps the pace of every host: crawl delays, the adaptive throttle, holds.

The only writer of download slots (through ``compat``). What a site asked travels in
``response.meta["scour_crawl_delays"]`` and is noted here; the waiting itself is done by the slots and the scheduler
queue, which ask the host's clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import signals

from scrapy_scour.job import job_of

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from typing_extensions import Self


class PacingExtension:
    """See the module."""

    def __init__(self, crawler: Crawler) -> None:
        self.job = job_of(crawler)
        crawler.signals.connect(self.spider_opened, signal=signals.spider_opened)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def spider_opened(self, spider: Spider) -> None:
        self.job.install_gate()
