"""Answers of ``scrapy robots --file``: what a crawl would ask, of rules that are here already."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.crawler import Crawler
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.log import configure_logging

from scrapy_scour.commands.robots_input import lines_now
from scrapy_scour.commands.robots_plan import STDIN, BadInput, Plan
from scrapy_scour.commands.robots_spider import asking_spider, spider_class
from scrapy_scour.commands.robots_text import printable
from scrapy_scour.job import Job
from scrapy_scour.policy.access import Means
from scrapy_scour.stores.robots import Fetched, Known

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import Settings

    from scrapy_scour.commands.robots_answer import Answer, Explainer
    from scrapy_scour.commands.robots_output import Desk


def run_offline(desk: Desk, asked: Plan, file: str, settings: Settings) -> None:
    """Answer everything from the rules in ``file``. Raises BadInput, SettingsError, OutputGone."""
    if not logging.root.handlers:
        configure_logging(settings)
    job = offline_job(settings, spider_class(settings, asked.spider), asked.arguments)
    known = known_from_file(job, file)
    desk.open(job)
    for part in asked.urls:
        urls: Iterable[str] = lines_now(sys.stdin.fileno()) if part == STDIN else (part,)
        for url in urls:
            desk.write(answer_offline(desk.explainer, url, known))
    desk.done()


def offline_job(settings: Settings, model: type[Spider] | None = None, arguments: dict[str, str] | None = None) -> Job:
    """What a crawl with these settings would ask, without a crawl. Raises SettingsError or BadInput."""
    crawler = Crawler(asking_spider(model, arguments or {}, settings), settings)
    crawler.stats = MemoryStatsCollector(crawler)
    crawler.spider = crawler.spidercls.from_crawler(crawler)
    crawler.addons.load_settings(crawler.settings)
    return Job(crawler)


def known_from_file(job: Job, file: str) -> Known:
    """The rules in a file (``-``: standard input), read as if they had just been fetched. Raises BadInput."""
    limit = job.settings.robotstxt_maxsize
    try:
        if file == STDIN:
            body = sys.stdin.buffer.read(limit + 1)
        else:
            with Path(file).open("rb") as opened:
                body = opened.read(limit + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"--file {printable(file)}: {why}") from error
    return known_from_octets(job, body)


def known_from_octets(job: Job, body: bytes) -> Known:
    """The rules in these octets."""
    limit = job.settings.robotstxt_maxsize
    cut = len(body) > limit
    body = body[:limit]
    parser = job.robots_parser()(body, cut)
    return Known(Fetched(Means.RULES, parser=parser, size=len(body), truncated=cut), job.now())


def answer_offline(explainer: Explainer, url: str, known: Known) -> Answer:
    """The answer for one URL from rules that are here already."""
    request = explainer.question(url)
    if request is None:
        return explainer.broken(url)
    return explainer.out_of_scope(url, request) or explainer.answer(url, request, known)
