"""Answers of ``scrapy robots`` from the sites themselves, in a crawler of the project that fetches nothing else."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from scrapy.crawler import AsyncCrawlerProcess, Crawler, CrawlerProcess
from scrapy.utils.misc import load_object
from twisted.internet.defer import Deferred

from scrapy_scour import compat
from scrapy_scour.commands.robots_input import chunks_of_lines
from scrapy_scour.commands.robots_output import Desk, OutputGone
from scrapy_scour.commands.robots_plan import STDIN, BadInput, Plan, in_words
from scrapy_scour.commands.robots_spider import asking_spider, loaded
from scrapy_scour.exceptions import SettingsError
from scrapy_scour.job import Job, job_of
from scrapy_scour.policy.urls import Origin
from scrapy_scour.stores.robots import Failed, Known

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.settings import BaseSettings, Settings
    from twisted.python.failure import Failure

    from scrapy_scour.commands.robots_answer import Explainer

#: Origins whose robots.txt are fetched at once.
_AT_ONCE = 16
#: Origins remembered as not answering: each is tried once.
_MOST_FAILED = 10_000
#: How soon an interruption ends what is waited for, seconds.
_LOOK_EVERY_S = 0.2
#: What the scheduler loads as it opens.
_QUEUES = (
    "SCHEDULER_PRIORITY_QUEUE",
    "SCHEDULER_MEMORY_QUEUE",
    "SCHEDULER_DISK_QUEUE",
    "SCHEDULER_START_MEMORY_QUEUE",
    "SCHEDULER_START_DISK_QUEUE",
)
_ASYNCIO_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"


def run_online(desk: Desk, asked: Plan, settings: Settings) -> None:
    """Answer everything as the sites say. Raises BadInput, SettingsError, OutputGone."""
    failed: list[BaseException] = []

    async def ask(crawler: Crawler) -> None:
        job = job_of(crawler)
        end_of_watch = _end_when_closing(job)
        try:
            await _ask_all(desk, asked, job)
        except Exception as error:
            if not compat.is_closing(crawler):
                failed.append(error)
        finally:
            end_of_watch()

    def note(failure: Failure) -> None:
        if failure.value is not None:
            failed.append(failure.value)

    with loaded(asked.spider) as load:
        process = _process(settings)
        model = load(process.spider_loader)
    crawler = process.create_crawler(asking_spider(model, asked.arguments, process.settings, ask))
    running: Any = process.crawl(crawler)
    # Looked at in any case, so that nobody logs it as an error that nobody looked at.
    (running if isinstance(running, Deferred) else Deferred.fromFuture(running)).addErrback(note)
    process.start()
    for error in failed:
        if isinstance(error, (BadInput, SettingsError, OutputGone)):
            raise error
        raise BadInput(f"the project's crawler failed: {_why(error, crawler.settings)}") from error


def _why(error: BaseException, settings: BaseSettings) -> str:
    """What made the crawler fail: a queue that cannot be loaded has Scrapy fail as it cleans up, of something else."""
    for name in _QUEUES:
        with suppress(Exception):
            if settings[name] is not None:  # the start queues need not be there
                load_object(settings[name])
            continue
        return f"{name} = {settings[name]!r} cannot be loaded"
    while isinstance(error, RuntimeError) and error.__context__ is not None:
        error = error.__context__
    return in_words(error)


def _process(settings: Settings) -> CrawlerProcess | AsyncCrawlerProcess:
    """The process that Scrapy's command line would make for a command."""
    on_asyncio = settings["TWISTED_REACTOR"] == _ASYNCIO_REACTOR and not settings.getbool("FORCE_CRAWLER_PROCESS")
    if on_asyncio or not settings.getbool("TWISTED_REACTOR_ENABLED", True):
        return AsyncCrawlerProcess(settings)
    return CrawlerProcess(settings)


def _end_when_closing(job: Job) -> Callable[[], None]:
    """Wait for no site any longer than until the run is interrupted. Gives what ends that watch."""

    def look() -> None:
        if compat.is_closing(job.crawler):
            job.fetcher.give_up("the run was interrupted")
        else:
            timers[:] = [compat.later(_LOOK_EVERY_S, look)]

    timers: list[Any] = [compat.later(_LOOK_EVERY_S, look)]
    return lambda: timers[0].cancel() if not compat.is_closing(job.crawler) else None


async def _ask_all(desk: Desk, asked: Plan, job: Job) -> None:
    desk.open(job)
    source = _Source(job, desk.explainer)
    async for urls in _few_by_few(asked.urls):
        questions = [(url, desk.explainer.question(url)) for url in urls]
        for at, (url, request) in enumerate(questions):
            if request is None:
                desk.write(desk.explainer.broken(url))
                continue
            answer = desk.explainer.out_of_scope(url, request)
            if answer is None:
                source.begin(questions, at)
                found = await source.robots_for(request)
                if compat.is_closing(job.crawler):
                    return
                answer = desk.explainer.answer(url, request, found)
            desk.write(answer)
    desk.done()


async def _few_by_few(urls: tuple[str, ...]) -> AsyncIterator[list[str]]:
    given: list[str] = []
    for url in urls:
        if url != STDIN:
            given.append(url)
            continue
        yield given
        given = []
        async for chunk in chunks_of_lines(sys.stdin.fileno()):
            yield chunk
    yield given


class _Source:
    """The robots.txt of each origin, from the store of the crawl; the next ones are fetched while one is waited for."""

    def __init__(self, job: Job, explainer: Explainer) -> None:
        self._job = job
        self._explainer = explainer
        self._failed: OrderedDict[Origin, Failed] = OrderedDict()
        self._under_way: set[Origin] = set()
        self._begun = 0
        self._questions: list[tuple[str, Request | None]] = []
        self._at_once = min(_AT_ONCE, job.settings.robotstxt_cache_size)

    def begin(self, questions: list[tuple[str, Request | None]], at: int) -> None:
        """Begin to fetch what the questions from ``at`` on will need, as far as that may be done at once."""
        if questions is not self._questions:
            self._questions, self._begun = questions, 0
        self._begun = max(self._begun, at)
        while self._begun < len(questions) and len(self._under_way) < self._at_once:
            url, request = questions[self._begun]
            self._begun += 1
            if request is None or self._explainer.out_of_scope(url, request) is not None:
                continue
            origin = self._job.permission.origin_of(request)
            if origin not in self._failed and origin not in self._under_way and self._job.robots.fresh(origin) is None:
                self._under_way.add(origin)
                compat.schedule(self._obtain(origin, request)).addErrback(lambda _: None)  # whoever waits is told

    async def _obtain(self, origin: Origin, request: Request) -> Known | Failed:
        try:
            found = await self._job.robots.get(origin, self._explainer.asker(request))
        finally:
            self._under_way.discard(origin)
        if isinstance(found, Failed):
            self._failed[origin] = found
            if len(self._failed) > _MOST_FAILED:
                self._failed.popitem(last=False)
        return found

    async def robots_for(self, request: Request) -> Known | Failed:
        """The robots.txt that decides about the request."""
        origin = self._job.permission.origin_of(request)
        return self._failed.get(origin) or await self._obtain(origin, request)
