"""Real crawls for tests: in this process beside a witness, or as a ``scrapy`` process.

``crawl()`` runs one crawl with scrapy-scour's add-on, or with stock Scrapy for the twin of a test, and
tells what came of it. Names are resolved by :mod:`tests.support.resolver`, so nothing leaves the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import subprocess
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import scrapy
from scrapy import Spider, signals
from scrapy.crawler import AsyncCrawlerRunner, Crawler, CrawlerRunner
from scrapy.http import Request, Response
from scrapy.settings import default_settings
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.reactor import is_asyncio_reactor_installed
from twisted.python.failure import Failure

from tests.support import resolver

ROOT = Path(__file__).resolve().parents[2]
ADDONS = {"scrapy_scour.Addon": 500}
DNS_RESOLVER_SETTING = "TWISTED_DNS_RESOLVER" if hasattr(default_settings, "TWISTED_DNS_RESOLVER") else "DNS_RESOLVER"
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ftp_proxy")
STOP_WITHIN = 5.0
"""Seconds that a crawl gets to stop after its test was cut off."""

BASE_SETTINGS: dict[str, Any] = {
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "LOG_LEVEL": "DEBUG",
    "LOGSTATS_INTERVAL": 0,
    "MEMUSAGE_ENABLED": False,
    "RETRY_TIMES": 1,
    "DOWNLOAD_DELAY": 0,
    "DOWNLOAD_TIMEOUT": 10,
    "USER_AGENT": "testbot/1.0 (+http://testbot.test/)",
}
"""What every crawl of a test starts from; its own settings come on top."""

NO_JITTER: dict[str, Any] = (
    {"DOWNLOAD_DELAY_JITTER": 0}
    if hasattr(default_settings, "DOWNLOAD_DELAY_JITTER")
    else {"RANDOMIZE_DOWNLOAD_DELAY": False}
)
"""The project's own delay is kept as it is written."""


@dataclass
class Page:
    """A response that reached the spider's callback, as plain values."""

    url: str
    status: int
    body: bytes
    flags: list[str]
    meta: dict[str, Any]
    response: Response

    @property
    def request(self) -> Request:
        """The request that this response answers."""
        assert self.response.request is not None
        return self.response.request


@dataclass
class Failed:
    """A failure that reached the spider's errback. ``url`` is that of the request that failed."""

    url: str
    error: BaseException
    request: Request
    failure: Failure


@dataclass
class Result:
    """What came of a crawl.

    ``responses`` and ``errors`` are what reached the callbacks and errbacks of :class:`Requests`; another
    spider's are its own affair. ``log`` holds every record of every logger from DEBUG up while the crawl
    ran.
    """

    stats: dict[str, Any] = field(default_factory=dict)
    finish_reason: str | None = None
    responses: list[Page] = field(default_factory=list)
    errors: list[Failed] = field(default_factory=list)
    items: list[Any] = field(default_factory=list)
    log: list[logging.LogRecord] = field(default_factory=list)
    spider: Spider | None = None
    crawler: Crawler | None = None
    elapsed: float = 0.0

    def urls(self) -> list[str]:
        """The URLs of the pages, in order of arrival."""
        return [page.url for page in self.responses]

    def page(self, url: str) -> Page:
        """The only page of this URL."""
        found = [page for page in self.responses if page.url == url]
        assert len(found) == 1, f"{len(found)} pages of {url}; pages: {self.urls()}"
        return found[0]

    def error(self, url: str) -> BaseException:
        """The only error of this URL."""
        found = [failed.error for failed in self.errors if failed.url == url]
        assert len(found) == 1, f"{len(found)} errors of {url}; errors: {[(f.url, f.error) for f in self.errors]}"
        return found[0]

    def messages(self, level: int = logging.WARNING, logger: str = "") -> list[str]:
        """The texts logged at *level* or above, by loggers whose name starts with *logger*."""
        return [r.getMessage() for r in self.log if r.levelno >= level and r.name.startswith(logger)]

    @property
    def tracebacks(self) -> list[logging.LogRecord]:
        """Records that carry an exception, whoever logged it."""
        return [r for r in self.log if r.exc_info and r.exc_info[0] is not None]

    @property
    def package_tracebacks(self) -> list[logging.LogRecord]:
        """Those whose traceback passes through the code of scrapy-scour."""
        package = str(ROOT / "scrapy_scour") + os.sep
        return [
            r
            for r in self.tracebacks
            if r.exc_info and any(f.filename.startswith(package) for f in traceback.extract_tb(r.exc_info[2]))
        ]


class Requests(Spider):
    """Yields what it was given; records what comes back in its ``result``.

    :param start: URLs and requests to yield; a request keeps a callback or errback of its own.
    :param follow: also follow the links of each page, with the same recording.
    :param domains: becomes ``allowed_domains``.
    """

    name = "requests"

    def __init__(
        self,
        start: Sequence[str | Request],
        result: Result,
        follow: bool = False,
        domains: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.start_with = start
        self.result = result
        self.follow_links = follow
        if domains is not None:
            self.allowed_domains = list(domains)

    async def start(self) -> AsyncIterator[Any]:
        for one in self.start_with:
            yield self.recorded(Request(one, dont_filter=True) if isinstance(one, str) else one)

    def recorded(self, request: Request) -> Request:
        """*request* with the recording callback and errback where it has none."""
        return request.replace(callback=request.callback or self.parse, errback=request.errback or self.record_failure)

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Request]:
        self.result.responses.append(
            Page(
                url=response.url,
                status=response.status,
                body=response.body,
                flags=list(response.flags),
                meta=dict(response.meta),
                response=response,
            )
        )
        if self.follow_links and isinstance(response, scrapy.http.TextResponse):
            for link in response.css("a::attr(href)").getall():
                yield self.recorded(response.follow(link))

    def record_failure(self, failure: Failure) -> None:
        request: Request = failure.request  # type: ignore[attr-defined]
        assert failure.value is not None
        self.result.errors.append(Failed(request.url, failure.value, request, failure))


Start = type[Spider] | str | Request | Sequence["str | Request"]


async def crawl(
    start: Start,
    settings: Mapping[str, Any] | None = None,
    *,
    stock: bool = False,
    addon: bool = True,
    jobdir: Path | str | None = None,
    hosts: Mapping[str, str] | None = None,
    follow: bool = False,
    domains: Sequence[str] | None = None,
    spider_args: Mapping[str, Any] | None = None,
) -> Result:
    """Run one crawl to its end; what refuses to start raises here.

    :param start: a spider class, or URLs and requests for the :class:`Requests` spider. A URL given as text
        is requested with ``dont_filter``, as Scrapy's own ``start()`` does; give a Request to choose.
    :param settings: on top of :data:`BASE_SETTINGS`. :param stock: Scrapy alone with ROBOTSTXT_OBEY, for
        twins.
    :param addon: False leaves the add-on out without choosing stock (for the way in by explicit settings).
    :param jobdir: JOBDIR. :param hosts: names for this crawl beside those of the open named sites.
    :param follow: follow links; :param domains: ``allowed_domains``; both for the Requests spider.
    """
    values = {**BASE_SETTINGS, **({"ROBOTSTXT_OBEY": True} if stock else {"ADDONS": ADDONS} if addon else {})}
    values.update(settings or {})
    on_asyncio = is_asyncio_reactor_installed()
    if not on_asyncio:
        values.setdefault("TWISTED_REACTOR", None)
    if jobdir is not None:
        values["JOBDIR"] = str(jobdir)

    result = Result()
    arguments = dict(spider_args or {})
    if isinstance(start, type):
        spider_class = start
    else:
        spider_class = Requests
        given = [start] if isinstance(start, str | Request) else list(start)
        arguments.update(start=given, result=result, follow=follow, domains=domains)

    runner = AsyncCrawlerRunner(values) if on_asyncio else CrawlerRunner(values)
    crawler = runner.create_crawler(spider_class)
    result.crawler = crawler

    def keep_item(item: Any) -> None:
        result.items.append(item)

    crawler.signals.connect(keep_item, signal=signals.item_scraped)
    began = time.monotonic()
    with resolver.installed(hosts) as names, _logged(result.log):
        try:
            running: Awaitable[None] = runner.crawl(crawler, **arguments)
            await running
        except BaseException as error:
            if not isinstance(error, Exception):  # the test was cut off: leave no crawl behind it
                await _stop(crawler)
            raise
        finally:
            result.elapsed = time.monotonic() - began
            result.spider = crawler.spider
    if crawler.stats is not None:
        result.stats = dict(crawler.stats.get_stats())
    result.finish_reason = result.stats.get("finish_reason")
    if names.strays:
        raise AssertionError(f"the crawl asked for names that no test gave an address: {sorted(set(names.strays))}")
    return result


async def sleep(seconds: float) -> None:
    """Let the reactor run for some time, on either reactor."""
    from twisted.internet import reactor
    from twisted.internet.task import deferLater

    await maybe_deferred_to_future(deferLater(reactor, seconds))  # type: ignore[arg-type]


async def _stop(crawler: Crawler) -> None:
    with contextlib.suppress(Exception):
        if is_asyncio_reactor_installed():
            await asyncio.wait_for(crawler.stop_async(), STOP_WITHIN)
        else:
            await crawler.stop_async()


class _Keeper(logging.Handler):
    def __init__(self, records: list[logging.LogRecord]) -> None:
        super().__init__(logging.DEBUG)
        self.records = records

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@contextlib.contextmanager
def _logged(records: list[logging.LogRecord]) -> Iterator[None]:
    root = logging.getLogger()
    level = root.level
    keeper = _Keeper(records)
    root.addHandler(keeper)
    root.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        root.setLevel(level)
        root.removeHandler(keeper)


def clean_environment() -> dict[str, str]:
    """This process's environment without proxies and without a Scrapy project."""
    unwanted = {*PROXY_VARIABLES, "scrapy_settings_module", "scrapy_project"}
    return {name: value for name, value in os.environ.items() if name.lower() not in unwanted}


def run_scrapy(
    args: Iterable[str],
    cwd: Path | str,
    settings: Mapping[str, Any] | None = None,
    *,
    hosts: Mapping[str, str] | None = None,
    timeout: float = 60.0,
    environment: Mapping[str, str] | None = None,
    stdin: str | bytes | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run ``scrapy`` with *args* in *cwd*; stdout and stderr come as text.

    :param settings: each becomes ``-s NAME=VALUE`` (dictionaries and lists as JSON).
    :param hosts: names beside those of the open named sites. :param timeout: seconds; TimeoutExpired after
        that.
    """
    values = {DNS_RESOLVER_SETTING: f"{resolver.__name__}.ProcessResolver", **(settings or {})}
    command = [sys.executable, "-m", "scrapy", *args]
    for name, value in values.items():
        text = json.dumps(value) if isinstance(value, dict | list) else str(value)
        command += ["-s", f"{name}={text}"]
    return subprocess.run(
        command,
        cwd=cwd,
        env=process_environment(hosts, environment),
        input=stdin.decode() if isinstance(stdin, bytes) else stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def process_environment(
    hosts: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of a ``scrapy`` process of a test: the package importable, the test's names, no
    proxies."""
    clean = clean_environment()
    path = os.pathsep.join([str(ROOT), *filter(None, [clean.get("PYTHONPATH")])])
    names = json.dumps({**resolver.NAMES, **(hosts or {})})
    return {**clean, "PYTHONPATH": path, resolver.HOSTS_VARIABLE: names, **(environment or {})}


def write_project(folder: Path, spider: str, settings: str = "", *, name: str = "project") -> Path:
    """Write a minimal Scrapy project and return its folder, from which ``scrapy crawl`` runs.

    :param spider: source of the spider module. :param settings: source appended to the settings module, which
        otherwise only names the spiders and opens no console.
    """
    package = folder / name
    (package / "spiders").mkdir(parents=True)
    (folder / "scrapy.cfg").write_text(f"[settings]\ndefault = {name}.settings\n")
    (package / "__init__.py").touch()
    (package / "spiders" / "__init__.py").touch()
    (package / "spiders" / "spider.py").write_text(spider)
    base = f'BOT_NAME = "{name}"\nSPIDER_MODULES = ["{name}.spiders"]\nTELNETCONSOLE_ENABLED = False\n'
    base += "REMOTE_CONTROL_ENABLED = False\n"
    (package / "settings.py").write_text(base + settings)
    return folder


def clean(result: Result) -> None:
    """No fault of ours, and an outcome for every error."""
    assert result.package_tracebacks == []
    assert result.stats.get("scour/outcomes", 0) == len(result.errors)
