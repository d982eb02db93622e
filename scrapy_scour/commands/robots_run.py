"""Runs ``scrapy robots``: in a crawler that fetches robots.txt files and nothing else, or offline from a file.

The crawler is a real one with the project's settings, so that proxies, handlers and the store of robots.txt files are
those of a crawl; what else a crawl would do (feeds, pipelines, extensions, job directory) is left out. Its spider
yields no request.

``--json`` prints one object per URL and line. All keys are there in each; more may be added, none is taken away.

``url``           as given, without user and password
``verdict``       "allowed", "refused" or "unknown" (it cannot be told: robots.txt could not be read, or this is no URL)
``reason``        why, in words
``line``          number of the line of robots.txt that decided, from 1; null when no line did
``rule``          that line, without comment and space around it; null likewise
``origin``        scheme, host and port whose robots.txt it is; null for ``--file`` and when it was not asked
``group``         the group of rules that applied, as its first user-agent line names it; null without one
``group_is_own``  whether that is a group for the token by name, so that the group ``*`` does not apply
``agent``         the User-Agent that the answer is about; "" for none
``agent_from``    the setting or option that it comes from
``token``         the product token that the rules were read for; null for ``*``
``token_from``    the setting or option that it comes from
``delay``         seconds that a crawl would leave between two requests to the host; null when robots.txt was not asked
``delay_from``    what asks for it; null for none
``crawl_delay``   seconds that Crawl-delay asks for; null without one
``request_rate``  ``{"requests": n, "seconds": s}``; null without one
``robots``        how robots.txt was obtained; null when it was not asked (no URL, or out of scope):
                  ``state`` "read", "unavailable" (a 4xx: no rules), "unreachable" (nothing is permitted) or "file";
                  ``url`` the first address asked, or the file; ``status`` of the last answer, null without;
                  ``redirects`` the further addresses asked, in order; ``address`` IP address that answered, null when
                  unknown; ``size`` octets read, null without; ``truncated`` whether there was more; ``age`` seconds
                  since it was read, null without; ``problem`` why not, null; ``fetched_as`` the User-Agent that was
                  sent, null for a file
``sitemaps``      the sitemaps that the file names
``warnings``      what the owner of the site would want to know: ``{"line": n, "message": "..."}``, by line
``agents``        with ``--all-agents`` one object per crawler that the file names, and ``*``: ``token``, ``verdict``,
                  ``line``, ``rule``, ``delay`` (seconds asked for); else null
``notes``         what else is worth knowing about this run, in words
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.spiderloader import get_spider_loader
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.log import configure_logging
from twisted.internet.defer import Deferred

from scrapy_scour import compat
from scrapy_scour.commands.robots_answer import STATUS, Answer, Explainer
from scrapy_scour.commands.robots_input import chunks_of_lines, lines_now
from scrapy_scour.commands.robots_plan import STDIN, BadInput, Plan
from scrapy_scour.commands.robots_spider import asking_spider
from scrapy_scour.commands.robots_text import TextReport, printable
from scrapy_scour.exceptions import SettingsError
from scrapy_scour.job import Job, job_of
from scrapy_scour.policy.access import Means
from scrapy_scour.policy.urls import Origin
from scrapy_scour.stores.robots import Failed, Fetched, Known

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import CrawlerProcessBase
    from scrapy.settings import Settings
    from twisted.python.failure import Failure

#: Origins whose robots.txt are fetched at once.
_AT_ONCE = 16
#: Origins remembered as not answering: each is tried once.
_MOST_FAILED = 10_000


class _OutputGone(Exception):
    """Nobody reads what is printed any more."""


def run(asked: Plan, settings: Settings, process: CrawlerProcessBase | None) -> int:
    """Answer, and return the exit status. Raises BadInput."""
    desk = _Desk(asked)
    model = _spider_class(settings, asked.spider, process)
    try:
        if asked.file is not None:
            _run_offline(desk, asked, settings, model)
        else:
            assert process is not None
            _run_online(desk, asked, process, model)
    except SettingsError as error:
        first, *problems = str(error).splitlines()
        raise BadInput(f"{first} {'; '.join(problem.strip() for problem in problems)}") from error
    except _OutputGone:
        _forget_stdout()
    except KeyboardInterrupt:
        return STATUS["unknown"]
    return desk.status()


def _spider_class(settings: Settings, name: str | None, process: CrawlerProcessBase | None) -> type[Spider] | None:
    if name is None:
        return None
    try:
        return (process.spider_loader if process is not None else get_spider_loader(settings)).load(name)
    except KeyError:
        raise BadInput(f"there is no spider {name!r} here") from None


class _Desk:
    """Takes URLs, writes answers, keeps the exit status of the run."""

    def __init__(self, asked: Plan) -> None:
        self._asked = asked
        self._worst = 0
        self._answers = 0
        self.finished = False
        self.explainer: Explainer
        self._text: TextReport

    def open(self, job: Job) -> None:
        """Begin to answer for a crawl."""
        asked = self._asked
        self.explainer = Explainer(job, agent=asked.agent, file=asked.file, all_agents=asked.all_agents)
        self._text = TextReport(_write, self.explainer.identity, self.explainer.sent, self.explainer.notes)
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")

    def write(self, answer: Answer) -> None:
        """Write one answer; raises _OutputGone."""
        self._answers += 1
        self._worst = max(self._worst, STATUS[answer.verdict])
        if self._asked.as_json:
            _write(json.dumps(answer.as_json(self.explainer.identity, self.explainer.notes)) + "\n")
        else:
            self._text.add(answer)

    def done(self) -> None:
        """All URLs were answered."""
        if not self._answers:
            raise BadInput("no URL came on standard input")
        self.finished = True

    def status(self) -> int:
        """The exit status: a run that did not come to its end cannot tell."""
        return self._worst if self.finished else STATUS["unknown"]


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise _OutputGone from None


def _forget_stdout() -> None:
    """Nobody reads any more: what is left in the buffer must not fail when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# Offline


def _run_offline(desk: _Desk, asked: Plan, settings: Settings, model: type[Spider] | None) -> None:
    if not logging.root.handlers:  # else the crawler process has done it
        configure_logging(settings)
    job = offline_job(settings, model, asked.arguments)
    known = known_from_file(job, asked.file or STDIN)
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


# In a crawler


def _run_online(desk: _Desk, asked: Plan, process: CrawlerProcessBase, model: type[Spider] | None) -> None:
    failed: list[BaseException] = []

    async def ask(crawler: Crawler) -> None:
        try:
            await _ask_all(desk, asked, job_of(crawler))
        except Exception as error:
            if not compat.is_closing(crawler):
                failed.append(error)

    def note(failure: Failure) -> None:
        if failure.value is not None:
            failed.append(failure.value)

    crawler = process.create_crawler(asking_spider(model, asked.arguments, process.settings, ask))
    running: Any = process.crawl(crawler)
    # Looked at in any case, so that nobody logs it as an error that nobody looked at.
    (running if isinstance(running, Deferred) else Deferred.fromFuture(running)).addErrback(note)
    process.start()
    for error in failed:
        if isinstance(error, (BadInput, SettingsError, _OutputGone)):
            raise error
        raise BadInput(
            f"the project's crawler failed: {type(error).__name__}: {' '.join(str(error).split())}"
        ) from error


async def _ask_all(desk: _Desk, asked: Plan, job: Job) -> None:
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
                answer = desk.explainer.answer(url, request, await source.robots_for(request))
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
