"""Asks robots.txt for one request: which agent, which rules, what pace, and what follows from each.

The one implementation of "may this URL be fetched now" that the middlewares, the wire check, external fetchers and the
``scrapy robots`` command share. Gathers facts, asks ``policy``, raises the outcome.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy.utils.python import to_bytes

from scrapy_scour import compat, stats
from scrapy_scour.exceptions import CrawlDelayTooLong, PolicyCheckFailed, RobotsDisallowed, RobotsUnreachable
from scrapy_scour.policy.agents import product_token
from scrapy_scour.policy.pacing import asked_delay
from scrapy_scour.policy.urls import Origin, origin_of, without_userinfo
from scrapy_scour.policy.verdict import Verdict
from scrapy_scour.stores.robots import Failed, Known

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_scour.job import Job

logger = logging.getLogger(__name__)

#: meta key: ``{host: seconds}``, what every host of the chain asked for; 0 when nothing.
CRAWL_DELAYS = "scour_crawl_delays"
#: meta key: how often the request went back because robots.txt could not be read.
ROBOTS_TRIES = "scour_robotstxt_tries"
#: meta key: the product token that the robots check was made for.
CHECKED_AGENT = "scour_agent"
#: A delay above this many seconds is said once per host.
LONG_DELAY_S = 60.0
_UNSET = object()


class Permission:
    """Robots permission for the requests of one crawl. ``obeys`` is False when the project said so."""

    def __init__(self, job: Job) -> None:
        self._job = job
        settings = job.crawler.settings
        # Not said by the project: obeyed (the package is there to obey). Said: as said.
        self.obeys = settings.getbool("ROBOTSTXT_OBEY") or not settings.getpriority("ROBOTSTXT_OBEY")
        self._own_agent = to_bytes(settings["USER_AGENT"] or "")
        self._own_name: str | None = settings["ROBOTSTXT_USER_AGENT"] or None
        self._own_token = product_token(self._own_name) if self._own_name else None
        self._tokens: dict[bytes, str | None] = {}
        self._told: set[Any] = set()

    def warn_at_start(self) -> None:
        """Say at start what a person should know about who the crawl is."""
        if not self.obeys:
            logger.warning("ROBOTSTXT_OBEY = False: robots.txt is neither read nor obeyed, as the project asks.")
        elif self._own_token is None and product_token(self._own_agent) is None:
            logger.warning(
                "No product token can be derived from USER_AGENT = %r, so the rules for * apply to this crawl;"
                ' set SCOUR_BOT_USER_AGENT or a USER_AGENT like "MyCrawler/1.0 (+https://example.com/bot)".',
                self._own_agent.decode("latin-1"),
            )

    # Which agent

    def agent_of(self, request: Request) -> bytes:
        """The User-Agent that the request is about to be sent under; b"" without one."""
        return request.headers.get("User-Agent") or b""

    def token_of(self, request: Request) -> str | None:
        """The product token that the rules are read for; None for ``*`` (RFC 9309 2.2.1).

        Of the header that is sent. ``ROBOTSTXT_USER_AGENT`` stands for it only while the request goes under the job's
        own agent; the bot's own name is in the header.
        """
        agent = self.agent_of(request)
        if self._own_name is not None and agent in (self._own_agent, b""):
            return self._own_token
        token = self._tokens.get(agent, _UNSET)
        if token is _UNSET:
            if len(self._tokens) > 10_000:
                self._tokens.clear()
            token = self._tokens[agent] = product_token(agent)
            if token is None and agent and "token" not in self._told:
                self._told.add("token")
                logger.warning(
                    "No product token can be derived from the User-Agent %r; the rules for * apply to such requests.",
                    agent.decode("latin-1"),
                )
        return token  # type: ignore[return-value]

    # Whether

    def applies_to(self, request: Request) -> bool:
        """Whether robots.txt has a say: the project obeys, the request is not exempt, and it is an http(s) one."""
        return (
            self.obeys
            and not request.meta.get("dont_obey_robotstxt")
            and self._job.real_url(request).startswith(("http:", "https:"))
        )

    def origin_of(self, request: Request) -> Origin:
        """The origin whose robots.txt decides; PolicyCheckFailed when the URL names none that can be trusted."""
        url = self._job.real_url(request)
        origin = origin_of(url)
        if origin is None:
            raise PolicyCheckFailed("the URL names no usable host", url=without_userinfo(url))
        return origin

    def verdict(self, request: Request, known: Known) -> Verdict:
        """What the rules say of the request; no parser means no rules."""
        parser = known.fetched.parser
        if parser is None:
            return Verdict(True)
        url = self._job.real_url(request)
        robots = getattr(parser, "robots", None)
        if robots is None:  # a parser of the user's own
            return Verdict(True) if parser.allowed(url, self._name_for(request)) else Verdict(False, "", "robots.txt")
        token = self.token_of(request)
        ignore_wildcard = self._job.settings.robotstxt_ignore_wildcard
        if not ignore_wildcard and robots.allowed(url, token):
            return Verdict(True)
        verdict: Verdict = robots.verdict(url, token, ignore_wildcard=ignore_wildcard)
        return verdict

    def delay_s(self, request: Request, known: Known) -> tuple[float, str]:
        """The delay that the file asks of this request's agent, seconds (0 for none), and the line that says so."""
        parser = known.fetched.parser
        if parser is None:
            return 0.0, ""
        token = self.token_of(request)
        found = known.cache.get(token)
        if found is None:
            robots = getattr(parser, "robots", None)
            if robots is not None:
                found = (robots.delay(token), robots.delay_source(token))
            else:
                asked = getattr(parser, "crawl_delay", lambda _: None)(self._name_for(request))
                found = (float(asked) if asked and 0 < float(asked) < float("inf") else 0.0, "robots.txt")
            if len(known.cache) > 100:
                known.cache.clear()
            known.cache[token] = found
        return found  # type: ignore[no-any-return]

    def _name_for(self, request: Request) -> str | bytes:
        agent = self.agent_of(request)
        if self._own_name is not None and agent in (self._own_agent, b""):
            return self._own_name
        return agent

    def judge(self, request: Request, origin: Origin, known: Known) -> None:
        """Let the request pass and note the pace, or raise the refusal."""
        url = without_userinfo(self._job.real_url(request))
        trail = request.meta.get("redirect_urls", ())
        verdict = self.verdict(request, known)
        if not verdict:
            self._job.count.add(stats.ROBOTS_FORBIDDEN)
            token = self.token_of(request) or "*"
            reason = f"{verdict.source or 'robots.txt'} ({verdict.reason}) refuses it for {token}".replace(" ()", "")
            logger.debug(
                "Forbidden by robots.txt: %(request)s: %(reason)s",
                {"request": request, "reason": reason},
                extra={"spider": self._job.crawler.spider},
            )
            raise RobotsDisallowed(f"Forbidden by robots.txt: {reason}", url=url, trail=trail)
        self._pace(request, origin, known, url, trail)
        request.meta[CHECKED_AGENT] = self.token_of(request)

    def _pace(self, request: Request, origin: Origin, known: Known, url: str, trail: Any) -> None:
        asked_s, source = self.delay_s(request, known)
        settings = self._job.settings
        host = self._job.host_of(request)
        delays = request.meta.get(CRAWL_DELAYS)
        if not asked_s:
            if delays is None or host not in delays:
                request.meta[CRAWL_DELAYS] = {**(delays or {}), host: 0}
            clock = self._job.pace.known(host)
            if clock is not None and clock.asked_s:
                clock.ask((origin, self.token_of(request)), 0.0)
            return
        kept = asked_delay(asked_s, settings.crawl_delay_max, settings.crawl_delay_over_max, source)
        if not kept.verdict:
            self._once(("skip", host), "%s is skipped: %s (%s).", host, kept.verdict.reason, source)
            raise CrawlDelayTooLong(kept.verdict.reason, url=url, trail=trail)
        if kept.clamped and self._once(
            ("clamp", host),
            "%s asks for %g s between requests (%s) and is asked every %g s instead (SCOUR_CRAWL_DELAY_MAX).",
            host,
            asked_s,
            source,
            kept.seconds,
        ):
            self._job.count.add(stats.DELAY_CLAMPED)
        if kept.seconds > LONG_DELAY_S:
            self._once(
                ("long", host), "%s asks for %g s between requests (%s); it is kept.", host, kept.seconds, source
            )
        clock = self._job.pace.clock(host, self._job.now())
        first = not clock.asked_s
        if clock.ask((origin, self.token_of(request)), kept.seconds):
            clock.asked_by = f"{origin} {source}"
            self._job.count.largest(stats.DELAY_MAX, clock.asked_s)
            if first:
                self._job.count.add(stats.DELAY_HOSTS)
        request.meta[CRAWL_DELAYS] = {**(delays or {}), host: kept.seconds}

    def _once(self, key: Any, message: str, *args: Any) -> bool:
        if key in self._told:
            return False
        if len(self._told) < 10_000:
            self._told.add(key)
        logger.warning(message, *args)
        return True

    def unreachable(self, request: Request, origin: Origin, failed: Failed) -> RobotsUnreachable:
        """The refusal of a request whose site could not say what it permits."""
        fetched = failed.fetched
        first = self._once(
            ("unreachable", origin),
            "The robots.txt of %s could not be read (%s); its pages are not fetched.",
            origin,
            fetched.problem or "no answer",
        )
        if first:
            self._job.count.add(stats.ROBOTS_HOSTS_UNREACHABLE)
        return RobotsUnreachable(
            f"robots.txt of {origin} could not be read: {fetched.problem or 'no answer'}",
            url=without_userinfo(self._job.real_url(request)),
            trail=request.meta.get("redirect_urls", ()),
        )

    def tries_allowed(self, request: Request) -> int:
        """How often a request may wait for another try to read robots.txt: as often as it may be retried."""
        settings = self._job.crawler.settings
        if not settings.getbool("RETRY_ENABLED") or request.meta.get("dont_retry"):
            return 0
        return int(request.meta.get("max_retry_times", settings.getint("RETRY_TIMES")))

    # The whole way, for one that may wait

    async def obtain(self, request: Request, origin: Origin) -> Request | None:
        """Wait until the rules are known and the request has passed them; a Request means: back to the scheduler.

        Raises RobotsUnreachable when the site cannot be made to say, or any refusal of :meth:`judge`.
        """
        job = self._job
        while True:
            answer = await job.robots.get(origin, request)
            if isinstance(answer, Known):
                self.judge(request, origin, answer)
                return None
            tries = int(request.meta.get(ROBOTS_TRIES, 0))
            if answer.final or tries >= self.tries_allowed(request):
                raise self.unreachable(request, origin, answer)
            clock = job.pace.clock(job.host_of(request), job.now())
            if answer.not_before > job.now():
                if answer.not_before > clock.held_until:
                    job.count.add(stats.HOLD, "robots_unreachable")
                clock.hold(answer.not_before, "robots_unreachable", probe=False)
            if job.may_go_back(request):
                back = job.back_to_scheduler(request)
                back.meta[ROBOTS_TRIES] = tries + 1
                return back
            request.meta[ROBOTS_TRIES] = tries + 1
            while (wait := clock.wait_s(job.now())) > 0:
                if compat.is_closing(job.crawler):
                    raise self.unreachable(request, origin, answer)
                await compat.sleep(min(wait, 1.0))
