"""Records how each request ended that did not become a page: once, in stats, in a file and for whoever listens.

Decides nothing: the category comes with the outcome, or from ``policy.failures``. What ends a request:

- its download, seen by ``compat.watch_fetch``: a response whose status is a failure (it still reaches the spider, as in
  stock), an exception of whoever's, a drop. A request that comes back in its place (redirect, retry, wait) is no end;
- the scheduler, which has seen it before (``duplicate``), or a handler of ``request_scheduled`` that drops it;
- the end of the crawl, for what was still waiting in memory (a job directory keeps what waits on disk).

A 3xx that was not followed ends as ``redirect_refused``, unless the project or the request wants it handed back: then
it is a page. robots.txt requests of ours are not the spider's and end nowhere here.

The file (``SCOUR_OUTCOMES_FILE``) is always added to, never emptied: a resumed job goes on where it was, and crawls
that share one do not cut each other short. Each line is written out at once, one JSON object with these keys:

``time``
    when it ended, ISO 8601 in UTC with milliseconds.
``spider``, ``url``, ``method``, ``host``
    whose request it was; the URL is that of the site (``scour_url`` where set) and, like every other one, without
    userinfo.
``category``, ``reason``
    a :class:`FailureCategory` value and a sentence part for people.
``status``
    the HTTP status that was the failure, null when it was not one.
``trail``
    the URLs that led here by redirects, first one first; where a hop was refused, its target is the last.
``exception``, ``component``
    the class of the exception, and that of the downloader middleware it came out of; null when there was none.
``depth``, ``found_on``
    Scrapy's depth, null when unknown; the page that the link was found on (the Referer), null when unknown.
"""

from __future__ import annotations

import json
import logging
import os
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from scrapy import Request
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.httpobj import urlparse_cached

from scrapy_scour import compat, signals, stats
from scrapy_scour.exceptions import Duplicate, Outcome
from scrapy_scour.policy.failures import FailureCategory, category_of_status, failure_category
from scrapy_scour.policy.urls import without_userinfo
from scrapy_scour.robotsfetch import ROBOTS_REQUEST
from scrapy_scour.stores.host_marks import ClosedHosts, HostMark

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from scrapy_scour.job import Job
    from scrapy_scour.stores.pace import HostClock

logger = logging.getLogger(__name__)

#: Examples that are kept of each category, for the summary.
EXAMPLES = 3
#: Characters that are kept of a reason: the message of somebody else's exception may hold a whole page.
LONGEST_REASON = 500
_USERINFO = re.compile(r"(?<=//)[^/?#\s<>\"']*@")


class Outcomes:
    """All outcomes of one crawl; memory does not grow with them.

    ``examples``: the first few of each category as ``(url, reason)``. ``hosts``, ``unreachable``, ``limited``: hosts
    closed by robots.txt, without a robots.txt that could be read, and cut short by the limit. ``slowest``: the longest
    delay that a host asked for, seconds, and its clock.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.examples: dict[FailureCategory, list[tuple[str, str]]] = {}
        self.hosts = ClosedHosts()
        self.unreachable = HostMark()
        self.limited = HostMark()
        self.slowest: tuple[float, HostClock] | None = None
        self._slowest_s = 0.0
        self._file: IO[str] | None = None
        #: Called with each request that became a page.
        self.on_page: list[Callable[[Request], None]] = []
        self._last: Request | None = None
        self._components: Container[int] = ()

    # The crawl begins and ends

    def opened(self) -> None:
        """Open the file, and watch what goes out."""
        self._job.on_dispatched.append(self._dispatched)
        self._job.pace.listeners.append(self._clock_changed)
        path = self._job.settings.outcomes_file
        if path is None:
            return
        self._components = {id(one) for one in compat.middlewares(self._job.crawler)}
        try:
            self._file = open(path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115  (open for the whole crawl)
        except OSError as error:
            logger.error("SCOUR_OUTCOMES_FILE = %r cannot be written, the crawl ends: %s", path, error)
            compat.close_spider(self._job.crawler, "scour_outcomes_file")

    def closed(self, reason: str) -> None:
        """Record what is still waiting in memory, count the hosts, close the file."""
        for request in compat.left_in_memory(self._job.crawler):
            self._job.restore(request)
            why = f"the crawl was closed ({reason}) before its turn came"
            self.record(request, Outcome(why, url=self._url(request), trail=_trail(request)))
        closed = len(self.hosts.closed)
        if closed:
            self._job.count.add(stats.ROBOTS_HOSTS_CLOSED, count=closed)
        self._last = None
        if self._file is not None:
            self._close_file()

    def _close_file(self) -> None:
        file, self._file = self._file, None
        try:
            if file is not None:
                file.close()
        except OSError as error:
            logger.error("SCOUR_OUTCOMES_FILE could not be written to its end: %s", error)

    # What is seen on the way

    def _dispatched(self, request: Request, clock: HostClock | None) -> None:
        if clock is not None and ROBOTS_REQUEST not in request.meta:
            self.hosts.opened(clock.host)

    def _clock_changed(self, clock: HostClock) -> None:
        if clock.asked_s > self._slowest_s:
            self._slowest_s = clock.asked_s
            self.slowest = (clock.asked_s, clock)

    # How requests end

    def fetch_ended(self, request: Request, result: Any) -> None:
        """A request has left the downloader: with a Response, with a Request in its place, or with a Failure."""
        if request.callback is NO_CALLBACK and ROBOTS_REQUEST in request.meta:
            return
        if isinstance(result, Response):
            self._answered(request, result)
            return
        if isinstance(result, Request):
            return
        error = getattr(result, "value", None)
        if isinstance(error, Outcome):
            self.record(request, error)
            return
        category = failure_category(error) if isinstance(error, BaseException) else None
        what = type(error).__name__ if error is not None else f"{type(result).__name__} in place of an answer"
        said = _without_own_userinfo(str(error), request) if error is not None else ""
        outcome = Outcome(
            f"{what}: {said}" if said else what,
            url=self._url(request),
            trail=_trail(request),
            category=category or FailureCategory.OTHER,
        )
        outcome.__cause__ = error
        self.record(request, outcome)

    def _answered(self, request: Request, response: Response) -> None:
        status = response.status
        category = None if 200 <= status <= 299 else category_of_status(status)
        if category is None:
            if not 300 <= status <= 399 or self._wants_redirects(request, status):
                self._job.count.add(stats.PAGES)
                self.hosts.opened(self._job.host_of(request))
                for listener in self.on_page:
                    listener(request)
                return
            category = FailureCategory.REDIRECT_REFUSED
            reason = f"a redirect (status {status}) that leads nowhere"
        else:
            reason = f"status {status}"
        self.record(
            request,
            Outcome(reason, url=self._url(request), trail=_trail(request), category=category, status=status),
        )

    def _wants_redirects(self, request: Request, status: int) -> bool:
        """Whether a 3xx was to be handed back, as Scrapy's settings and meta keys say it."""
        meta, crawler = request.meta, self._job.crawler
        settings = crawler.settings
        return bool(
            not settings.getbool("REDIRECT_ENABLED")
            or not settings.getint("REDIRECT_MAX_TIMES")
            or meta.get("dont_redirect")
            or meta.get("handle_httpstatus_all")
            or _names(meta.get("handle_httpstatus_list"), status)
            or _names(getattr(crawler.spider, "handle_httpstatus_list", None), status)
        )

    def duplicate(self, request: Request) -> None:
        """The scheduler has seen the request before."""
        trail = _trail(request)
        why = "the redirect leads to a URL that was requested before" if trail else "its URL was requested before"
        self.record(request, Duplicate(why, url=self._url(request), trail=trail))

    def not_scheduled(self, request: Request) -> None:
        """The request was kept from the scheduler by a handler of ``request_scheduled``: ours has recorded it."""
        if request is not self._last:
            why = "a handler of request_scheduled dropped it"
            self.record(request, Outcome(why, url=self._url(request), trail=_trail(request)))

    def record(self, request: Request, outcome: Outcome) -> None:
        """Note one ended request. Exactly once for each: the callers see to that."""
        job, category = self._job, outcome.category
        self._last = request
        job.count.add(stats.OUTCOMES)
        job.count.add(stats.OUTCOME, category.value)
        if category is FailureCategory.ROBOTS_DISALLOWED:
            self.hosts.refused(job.host_of(request))
        elif category is FailureCategory.ROBOTS_UNREACHABLE:
            if self.unreachable.add(job.host_of(request)):
                job.count.add(stats.ROBOTS_HOSTS_UNREACHABLE)
        elif category is FailureCategory.REQUEST_LIMIT and self.limited.add(job.host_of(request)):
            job.count.add(stats.LIMIT_HOSTS)
        examples = self.examples.setdefault(category, [])
        if len(examples) < EXAMPLES:
            examples.append((outcome.url or self._url(request), clean_reason(outcome.reason)))
        if self._file is not None:
            self._write(request, outcome)
        job.crawler.signals.send_catch_log(
            signals.request_refused, request=request, outcome=outcome, spider=job.crawler.spider
        )

    def _write(self, request: Request, outcome: Outcome) -> None:
        error = outcome if type(outcome) is not Outcome else outcome.__cause__
        referer = request.headers.get("Referer")
        depth = request.meta.get("depth")
        line = {
            "time": datetime.fromtimestamp(self._job.wall(), timezone.utc).isoformat(timespec="milliseconds"),
            "spider": getattr(self._job.crawler.spider, "name", None),
            "url": without_userinfo(outcome.url or self._url(request)),
            "method": request.method,
            "host": self._job.host_of(request),
            "category": outcome.category.value,
            "reason": clean_reason(outcome.reason),
            "status": outcome.status,
            "trail": [without_userinfo(url) for url in outcome.trail],
            "exception": None if error is None else _name(type(error)),
            "component": None if error is None else _component(error, self._components),
            "depth": depth if isinstance(depth, int) else None,
            "found_on": None if referer is None else without_userinfo(referer.decode("latin-1")),
        }
        try:
            assert self._file is not None
            self._file.write(json.dumps(line) + "\n")
        except (OSError, ValueError) as error_of_file:
            logger.error("SCOUR_OUTCOMES_FILE can no longer be written, it ends here: %s", error_of_file)
            self._close_file()

    def _url(self, request: Request) -> str:
        return without_userinfo(self._job.real_url(request))


def file_problems(path: str | None, setting: str = "SCOUR_OUTCOMES_FILE", *, replaced: bool = False) -> list[str]:
    """What speaks against writing to ``path``, in the words of a refused setting; nothing is made or changed.

    ``replaced``: the file is written beside ``path`` and put in its place, so its folder has to be writable.
    """
    if path is None:
        return []
    wrong = f"{setting} = {path!r}: must be a file that can be written; "
    folder = Path(path).resolve().parent if replaced else Path(path).parent
    if Path(path).is_dir():
        return [f"{wrong}it is a folder"]
    if not folder.is_dir():
        return [f"{wrong}there is no folder {str(folder)!r}"]
    if not os.access(path if Path(path).exists() and not replaced else folder, os.W_OK):
        return [f"{wrong}this user may not write there"]
    return []


def _names(statuses: Any, status: int) -> bool:
    """Whether a ``handle_httpstatus_list`` names the status; what is no collection names none."""
    try:
        return status in (statuses or ())
    except TypeError:
        return False


def _trail(request: Request) -> Sequence[str]:
    trail = request.meta.get("redirect_urls")
    return trail if isinstance(trail, (list, tuple)) else ()


def clean_reason(reason: str) -> str:
    """The reason without userinfo and line breaks, in a bounded length."""
    return _USERINFO.sub("", " ".join(reason.split()))[:LONGEST_REASON]


def _without_own_userinfo(said: str, request: Request) -> str:
    """Somebody else's message without the user name and password of the request, which may stand there as a host."""
    userinfo, at, _ = urlparse_cached(request).netloc.rpartition("@")
    return said.replace(userinfo + at, "") if at else said


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _component(error: BaseException, components: Container[int]) -> str | None:
    """The class of the last of ``components`` (ids) that the error came through, None when none is on the way."""
    found = None
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code.co_varnames[:1] == ("self",):
            owner = frame.f_locals.get("self")
            if id(owner) in components:
                found = _name(type(owner))
        trace = trace.tb_next
    return found
