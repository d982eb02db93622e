"""The job's boundary: at scheduling, and again before the download. Position 50, before anything else acts.

One rule for what the spider asks for, start requests, hops and media; the rule itself is ``policy.scope``. When no
start request is left inside, the crawl ends and says so.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import CloseSpider

from scrapy_scour import stats
from scrapy_scour.compat import DOWNLOAD_SLOT
from scrapy_scour.exceptions import OutOfScope, PolicyCheckFailed, Refused
from scrapy_scour.job import REAL_URL, WAITING, job_of
from scrapy_scour.policy.urls import without_userinfo
from scrapy_scour.robotsfetch import ROBOTS_REQUEST

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from scrapy_scour.policy.scope import Scope

logger = logging.getLogger(__name__)

#: Finish reason of a crawl whose start requests all ended out of scope.
OUT_OF_SCOPE = "scour_out_of_scope"
#: meta key: the start request that this is, or that led here by redirects or retries, has been counted; False once it
#: has ended out of scope, so that meta which an errback copies counts nothing.
COUNTED = "scour_start"
#: Where the counts of an earlier run are kept in ``spider.state``: ``[seen, lost]``.
STATE = "scrapy_scour_starts"


#: Hosts that are remembered as being inside. Past that they are all forgotten.
_MOST_INSIDE = 50_000
#: Meta keys on account of which a request is looked at in full.
_SAY_MORE = frozenset({DOWNLOAD_SLOT, REAL_URL})


class ScopeMiddleware:
    """Drops what is out of scope with OutOfScope, before it is queued and before anything is sent for it."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.job = job_of(crawler)
        self.job.on_lost.append(self._lost)
        self._hosts_told: set[str] = set()
        self._scope: Scope | None = None
        self._inside: set[str] = set()  # hosts of which all URLs are inside ``_scope``
        self._starts = [0, 0]  # start requests seen, and those of them that ended out of scope
        self._first_lost = ""
        for handler, signal in (
            (self.engine_started, signals.engine_started),
            (self.request_scheduled, signals.request_scheduled),
            (self.request_dropped, signals.request_dropped),
            (self.spider_idle, signals.spider_idle),
        ):
            crawler.signals.connect(handler, signal=signal)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def request_scheduled(self, request: Request, spider: Spider | None = None, **_: Any) -> None:
        """At scheduling: a refusal here keeps the request out of the queue.

        Takes whatever the signal brings, which costs each request less than to leave it out.
        """
        meta = request.meta
        if WAITING in meta:
            self.job.name_slot(request)
            return  # judged before it went back; judged again when it comes out
        if "is_start_request" in meta and COUNTED not in meta and meta["is_start_request"]:
            meta[COUNTED] = True
            self._starts[0] += 1
        try:
            self._judge(request)
        except Refused as refusal:
            self.job.ended(request, refusal)
            raise

    def process_request(self, request: Request) -> None:
        """Before the download: for what did not come through the scheduler, and for what an earlier run queued."""
        meta = request.meta
        if ROBOTS_REQUEST in meta and self.job.fetcher.is_ours(request):
            return
        if WAITING in meta:
            self.job.restore(request)
        self._judge(request)

    def _judge(self, request: Request) -> None:
        """Raise what keeps the request from being fetched; name its download slot where that is not its host's name."""
        job, meta = self.job, request.meta
        site, scope = job.sites.of(request.url), job.scope
        if site.as_spelled and site.host in self._inside and scope is self._scope and _SAY_MORE.isdisjoint(meta):
            return  # nearly always
        job.name_slot(request)
        slot = meta.get(DOWNLOAD_SLOT)
        if slot is not None and not isinstance(slot, str):
            raise PolicyCheckFailed(
                f"meta[{DOWNLOAD_SLOT!r}] = {slot!r} must be the name of a download slot, a string",
                url=without_userinfo(request.url),
            )
        if REAL_URL in meta:
            job.check_real_url(request)
        verdict = job.judge_request(request)
        if verdict:
            if scope.contains_all_of(site.host):
                self._remember(site.host, scope)
            return
        host = job.host_of(request)
        if host not in self._hosts_told and len(self._hosts_told) < 100_000:
            self._hosts_told.add(host)
            logger.debug(
                "Filtered out-of-scope request to %(host)r: <%(method)s %(url)s>: %(reason)s",
                {
                    "host": host,
                    "method": request.method,
                    "url": without_userinfo(request.url),
                    "reason": verdict.reason,
                },
                extra={"spider": self.crawler.spider},
            )
            job.count.add(stats.OFFSITE_DOMAINS)
        job.count.add(stats.OFFSITE_FILTERED)
        url = without_userinfo(job.real_url(request))
        came_by = meta.get("redirect_urls")
        trail = [*came_by, url] if came_by and isinstance(came_by, (list, tuple)) else ()
        raise job.lost(request, OutOfScope(f"{verdict.reason} ({verdict.source})", url=url, trail=trail))

    def _remember(self, host: str, scope: Scope) -> None:
        """All URLs of the host are inside, as long as the scope is this one."""
        if scope is not self._scope or len(self._inside) >= _MOST_INSIDE:
            self._scope, self._inside = scope, set()
        self._inside.add(host)

    # Whether any start request is left

    def engine_started(self) -> None:
        """Go on with the counts of an earlier run: its start requests may still be in the queue."""
        state = getattr(self.crawler.spider, "state", None)
        if isinstance(state, dict):
            kept = state.get(STATE)
            if isinstance(kept, list) and [type(count) for count in kept] == [int, int]:
                self._starts = kept
            state[STATE] = self._starts

    def request_dropped(self, request: Request, spider: Spider) -> None:
        """A start request that the duplicate filter dropped is the other one over again."""
        if request.meta.get(COUNTED):
            request.meta[COUNTED] = False
            self._starts[0] -= 1

    def _lost(self, request: Request, refusal: OutOfScope) -> None:
        if not request.meta.get(COUNTED) or request.meta.get("depth"):
            return  # with a depth it is a callback's own request, which has copied its meta
        request.meta[COUNTED] = False
        self._starts[1] += 1
        self.job.count.add(stats.SCOPE_STARTS_LOST)
        if not self._first_lost:
            trail = refusal.trail
            said = f"seed redirected to {trail[-1]}, out of scope" if trail else f"seed {refusal.url} is out of scope"
            self._first_lost = f"{said}: {refusal.reason}"

    def spider_idle(self, spider: Spider) -> None:
        seen, lost = self._starts
        if self._first_lost and lost >= seen and not self.job.count.get(stats.PAGES):
            logger.error(
                "%s. That was all: %s. Change the start URLs, or allowed_domains and the scope patterns.",
                self._first_lost,
                "the only start request" if lost == 1 else f"{lost} start requests, none of them in scope",
                extra={"spider": spider},
            )
            raise CloseSpider(OUT_OF_SCOPE)
