"""Asks robots.txt before a request goes on: position 510, after what sets the User-Agent, before all that answers.

Gathers the facts and acts; ``permission`` asks the policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_scour.job import job_of

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from typing_extensions import Self


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

    async def process_request(self, request: Request) -> Request | None:
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
