"""Asks robots.txt before a request goes on: position 510, after what sets the User-Agent, before all that answers.

Gathers the facts and acts; ``permission`` asks the policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_scour import compat
from scrapy_scour.job import REAL_URL, WAITING, job_of
from scrapy_scour.permission import CHECKED_AGENT, CRAWL_DELAYS, LET_PASS, ROBOTS_TRIES
from scrapy_scour.robotsfetch import ROBOTS_REQUEST

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from typing_extensions import Self


#: Meta keys on account of which a request goes the long way.
_SAY_MORE = frozenset(
    {
        REAL_URL,
        WAITING,
        compat.DOWNLOAD_SLOT,
        "dont_obey_robotstxt",
        LET_PASS,
        CRAWL_DELAYS,
        ROBOTS_REQUEST,
        ROBOTS_TRIES,
    }
)


class RobotsTxtMiddleware:
    """Refuses what robots.txt refuses for the agent that is sent, and sends back to the scheduler what has to wait.

    Raises RobotsDisallowed, RobotsUnreachable, CrawlDelayTooLong, RateLimited or PolicyCheckFailed. With
    ``ROBOTSTXT_OBEY = False`` only the host's pace is kept.
    """

    def __init__(self, crawler: Crawler) -> None:
        self.job = job_of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def _passes_at_once(self, request: Request) -> bool:
        """Let a request pass of which there is nothing to say: it is allowed, and nobody asks for a pace.

        So it is with nearly all. What is done is what the long way would do, which costs a page several times as much;
        whatever is not that plain goes the long way.
        """
        job, meta, url = self.job, request.meta, request.url
        place = job.under_way.places.get(request)
        if place is None or not place.by_url or not _SAY_MORE.isdisjoint(meta):
            return False
        if not job.permission.obeys or job.pace.any_given_up:
            return False
        place.clock = clock = job.pace.known(place.host)
        origin = job.sites.of(url).origin
        if origin is None or clock is None or clock.paced or compat.slot_delay(job.downloader, place.slot):
            return False
        known = job.robots.fresh(origin)
        if known is None:
            return False
        token = job.permission.token_of(request)
        if not job.permission.passes_plainly(url, known, token):
            return False
        meta[CRAWL_DELAYS] = {clock.host: 0}
        meta[CHECKED_AGENT] = token
        clock.pages += 1
        return True

    async def process_request(self, request: Request) -> Request | None:
        if self._passes_at_once(request):
            return None
        job = self.job
        if job.fetcher.is_ours(request):
            return None
        job.restore(request)
        permission = job.permission
        if not permission.applies_to(request):
            job.refuse_if_given_up(request)
            return job.wait_elsewhere(request, job.clock_of(request))
        origin = permission.origin_of(request)
        known = job.robots.fresh(origin)
        still_holds = permission.still_holds(request)
        # Where robots.txt itself said "later", that is what its pages end with, not that the host is given up for it.
        if known is not None or not job.robots.refuses(origin):
            job.refuse_if_given_up(request)
        if known is not None:
            permission.judge(request, origin, known)
        elif permission.needs_no_rules(request):
            permission.let_through(request)
        elif not still_holds:
            back = await permission.obtain(request, origin)
            if back is not None:
                return back
            job.refuse_if_given_up(request)
        clock = job.clock_of(request)
        back = job.wait_elsewhere(request, clock)
        if back is not None:
            permission.let_wait(back)
        elif clock is not None:
            clock.pages += 1
        return back
