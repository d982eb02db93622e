"""Asks robots.txt for one request: which agent, which rules, what pace, and what follows from each.

The one implementation of "may this URL be fetched now" that the middlewares, the wire check, external fetchers and the
``scrapy robots`` command share. Gathers facts, asks ``policy``, raises the outcome.
"""

from __future__ import annotations

import logging
import math
import re
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.python import to_bytes

from scrapy_scour import compat, stats
from scrapy_scour.exceptions import CrawlDelayTooLong, PolicyCheckFailed, RobotsDisallowed, RobotsUnreachable
from scrapy_scour.policy.agents import product_token
from scrapy_scour.policy.pacing import asked_delay
from scrapy_scour.policy.spelling import with_dots_resolved
from scrapy_scour.policy.urls import Origin, origin_of, path_and_query, without_userinfo
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
#: meta key: the request has been let pass and waits in the scheduler; only :meth:`Permission.still_holds` reads it.
LET_PASS = "scour_let_pass"
#: A delay above this many seconds is said once per host.
LONG_DELAY_S = 60.0
#: Messages that are remembered as said; past that the oldest may be said again.
MOST_TOLD = 10_000
_ROBOTS_PATH = b"/robots.txt"
_DAY_S = 86_400.0
_PLAIN_URL = re.compile(r"https?://[^\x00-\x1f\x7f]*\Z", re.IGNORECASE)
_UNSET = object()


class Permission:
    """Robots permission for the requests of one crawl. ``obeys`` is False when the project said so."""

    def __init__(self, job: Job) -> None:
        self._job = job
        settings = job.crawler.settings
        # Not said by the project: obeyed (the package is there to obey). Said: as said.
        self.obeys = settings.getbool("ROBOTSTXT_OBEY") or not settings.getpriority("ROBOTSTXT_OBEY")
        self._own_agents = self._agents_of_the_job()
        self._own_name: str | None = settings["ROBOTSTXT_USER_AGENT"] or None
        self._own_token = product_token(self._own_name) if self._own_name else None
        self._sent_as_written = compat.handlers_send_as_written(settings)
        self._tokens: dict[bytes, str | None] = {}
        self._told: dict[Any, None] = {}
        self._run = uuid4().hex

    def _agents_of_the_job(self) -> tuple[bytes, ...]:
        """The User-Agents that the job sends by itself, the one that wins first: b"" stands for none."""
        crawler = self._job.crawler
        headers = {str(k).lower(): v for k, v in (crawler.settings.getdict("DEFAULT_REQUEST_HEADERS") or {}).items()}
        configured = (
            headers.get("user-agent"),
            getattr(crawler.spider, "user_agent", None),
            crawler.settings["USER_AGENT"],
        )
        return (*(to_bytes(agent) for agent in configured if agent and isinstance(agent, (str, bytes))), b"")

    def warn_at_start(self) -> None:
        """Say at start what a person should know about who the crawl is."""
        if not self.obeys:
            logger.warning("ROBOTSTXT_OBEY = False: robots.txt is neither read nor obeyed, as the project asks.")
        elif self._own_token is None and product_token(self._own_agents[0]) is None:
            self._once(
                "token",
                "No product token can be derived from the User-Agent %r, so the rules for * apply to this crawl;"
                ' set SCOUR_BOT_USER_AGENT or a USER_AGENT like "MyCrawler/1.0 (+https://example.com/bot)".',
                self._own_agents[0].decode("latin-1"),
            )

    # Which agent

    def agent_of(self, request: Request) -> bytes:
        """The User-Agent that the request is about to be sent under; b"" without one."""
        agents = compat.values_of(request.headers, b"User-Agent")
        return agents[-1] if agents else b""

    def token_of(self, request: Request) -> str | None:
        """The product token that the rules are read for; None for ``*`` (RFC 9309 2.2.1). Of the header that is sent.

        ``ROBOTSTXT_USER_AGENT`` stands for it only while the request goes under the job's own agent; the bot's own name
        is in the header.
        """
        agents = compat.values_of(request.headers, b"User-Agent")
        return self.token_of_agent(agents[-1] if agents else b"")

    def token_of_agent(self, agent: bytes) -> str | None:
        """:meth:`token_of` a request that is sent under ``agent``."""
        if self._own_name is not None and agent in self._own_agents:
            return self._own_token
        token = self._tokens.get(agent, _UNSET)
        if token is _UNSET:
            if len(self._tokens) > 10_000:
                self._tokens.clear()
            token = self._tokens[agent] = product_token(agent)
            if token is None and agent:
                self._once(
                    "token",
                    "No product token can be derived from the User-Agent %r; the rules for * apply to such requests.",
                    agent.decode("latin-1"),
                )
        return token  # type: ignore[return-value]

    # Whether

    def applies_to(self, request: Request) -> bool:
        """Whether robots.txt has a say: the project obeys, the request is not exempt, and it is an http(s) one.

        One that names the site behind a service is for a site, however that is written.
        """
        job, meta = self._job, request.meta
        job.check_real_url(request)
        return (
            self.obeys
            and not meta.get("dont_obey_robotstxt")
            and (
                request.url.startswith(("http://", "https://"))  # nearly always, and nothing has to be taken apart
                or job.real_url(request) is not request.url
                or urlparse_cached(request).scheme in ("http", "https")
            )
        )

    def passes_plainly(self, url: str, known: Known, token: str | None) -> bool:
        """Whether the file permits the URL, as it is written, and asks that agent for no delay.

        False also where that is not told at once: :meth:`judge` tells, and says what there is to say.
        """
        if known.stale or not _PLAIN_URL.match(url):
            return False
        parser = known.fetched.parser
        if parser is None:
            return True
        delay = known.cache.get(token)
        if delay is None or delay[0] or not self._sent_as_written:
            return False
        try:
            robots = getattr(parser, "robots", None)
            ignored = self._job.settings.robotstxt_ignore_wildcard
            return robots is not None and bool(robots.verdict(url, token, ignore_wildcard=ignored))
        except Exception:
            return False

    def needs_no_rules(self, request: Request) -> bool:
        """Whether the request is for a robots.txt itself, which is always allowed (RFC 9309 2.2.2).

        It is not kept waiting for the rules: a middleware may have put it in the place of the very request by which
        they are read.
        """
        return path_and_query(self._job.real_url(request)) == _ROBOTS_PATH

    def let_through(self, request: Request) -> None:
        """Note of a request that :meth:`needs_no_rules` what a judged one would bring along."""
        delays = _delays_of(request)
        request.meta[CRAWL_DELAYS] = {self._job.host_of(request): 0, **delays}
        request.meta[CHECKED_AGENT] = self.token_of(request)

    def origin_of(self, request: Request) -> Origin:
        """The origin whose robots.txt decides; PolicyCheckFailed when the URL names none that can be trusted."""
        url = self._job.real_url(request)
        origin = self._job.sites.of(url).origin if url is request.url else origin_of(url)
        # What cannot stand in a URL is read in one way here and perhaps in another by a service that is given it.
        if origin is None or not _PLAIN_URL.match(url):
            raise PolicyCheckFailed("the URL names no usable host", url=without_userinfo(url))
        return origin

    def verdict(self, request: Request, known: Known, token: Any = _UNSET) -> Verdict:
        """What the rules say of the request; no parser means no rules.

        Rules are for the path as it is written. Some download handlers, and browsers behind a service, resolve its dot
        segments before they send it: then it has to be allowed in both spellings. ``token``: :meth:`token_of`, where it
        is known already.
        """
        parser = known.fetched.parser
        if parser is None:
            return Verdict(True)
        url = self._job.real_url(request)
        token = self.token_of(request) if token is _UNSET else token
        verdict = self._verdict(request, url, parser, token)
        if not verdict.allowed or (self._sent_as_written and url is request.url):
            return verdict
        resolved = with_dots_resolved(url)
        return verdict if resolved is url else self._verdict(request, resolved, parser, token)

    def _verdict(self, request: Request, url: str, parser: Any, token: str | None) -> Verdict:
        robots = getattr(parser, "robots", None)
        if robots is None:  # a parser of the user's own
            return Verdict(True) if parser.allowed(url, self._name_for(request)) else Verdict(False, "", "robots.txt")
        verdict: Verdict = robots.verdict(url, token, ignore_wildcard=self._job.settings.robotstxt_ignore_wildcard)
        return verdict

    def delay_s(self, request: Request, known: Known, token: Any = _UNSET) -> tuple[float, str]:
        """The delay that the file asks of this request's agent, seconds (0 for none), and the line that says so."""
        parser = known.fetched.parser
        if parser is None:
            return 0.0, ""
        robots = getattr(parser, "robots", None)
        if robots is None:
            name: str | bytes | None = self._name_for(request)
        else:
            name = self.token_of(request) if token is _UNSET else token
        found = known.cache.get(name)
        if found is None:
            if robots is not None:
                found = (robots.delay(name), robots.delay_source(name))
            else:
                asked = getattr(parser, "crawl_delay", lambda _: None)(name)
                found = (float(asked) if asked and 0 < float(asked) < float("inf") else 0.0, "robots.txt")
            if len(known.cache) > 100:
                known.cache.clear()
            known.cache[name] = found
        return found  # type: ignore[no-any-return]

    def _name_for(self, request: Request) -> str | bytes:
        agent = self.agent_of(request)
        if self._own_name is not None and agent in self._own_agents:
            return self._own_name
        return agent

    def judge(self, request: Request, origin: Origin, known: Known) -> None:
        """Let the request pass and note the pace, or raise the refusal; PolicyCheckFailed when that cannot be told."""
        try:
            token = self.token_of(request)
            verdict = self.verdict(request, known, token)
            asked_s, source = self.delay_s(request, known, token)
        except Exception as error:
            # A fault of the parser's permits nothing.
            problem = f"{type(error).__name__}: {error}".rstrip(": ")
            whose = self._whose(request)
            logger.error(
                "The robots.txt check of %s failed, so it is not fetched: %s", whose["url"], problem, exc_info=True
            )
            raise PolicyCheckFailed(f"the robots.txt check failed: {problem}", **whose) from error
        if known.stale:
            self._once(
                ("stale", origin),
                "The robots.txt of %s could not be read again; the rules known so far stay in use.",
                origin,
            )
        if not verdict:
            self._pace_of_refused(request, origin, asked_s, source)
            self._job.count.add(stats.ROBOTS_FORBIDDEN)
            reason = f"{verdict.source or 'robots.txt'} ({verdict.reason}) refuses it for {token or '*'}"
            reason = reason.replace(" ()", "")
            logger.debug(
                "Forbidden by robots.txt: %(request)s: %(reason)s",
                {"request": request, "reason": reason},
                extra={"spider": self._job.crawler.spider},
            )
            raise RobotsDisallowed(f"Forbidden by robots.txt: {reason}", **self._whose(request))
        self._pace(request, origin, asked_s, source)
        request.meta[CHECKED_AGENT] = token
        request.meta.pop(ROBOTS_TRIES, None)

    def let_wait(self, request: Request) -> None:
        """Note on a request that goes back to wait for its host's turn that it has passed.

        Without: by then its rules may be out of date, or others may have taken their place among those that are kept,
        so they would be read again, for which the host has to wait again: a site would be asked for its robots.txt for
        ever, and for no page.
        """
        job = self._job
        until = job.now() + (job.settings.robotstxt_ttl or math.inf)
        request.meta[LET_PASS] = [self._run, job.real_url(request), self.token_of(request), until, self._gone(request)]

    def still_holds(self, request: Request) -> bool:
        """Whether the request has passed before it waited: in this run, for this URL and agent; holds once.

        For as long as its rules are kept, and longer only where no page of the host has gone since.
        """
        noted = request.meta.pop(LET_PASS, None)
        if not isinstance(noted, list) or len(noted) != 5:
            return False
        *same, until, gone = noted
        if same != [self._run, self._job.real_url(request), self.token_of(request)]:
            return False
        now = self._job.now()
        return bool(now < until or (gone == self._gone(request) and now < until + _DAY_S))

    def _gone(self, request: Request) -> int:
        clock = self._job.clock_of(request)
        return 0 if clock is None else clock.pages

    def _whose(self, request: Request) -> dict[str, Any]:
        """What an outcome says of the request that it ends."""
        return {"url": without_userinfo(self._job.real_url(request)), "trail": _trail_of(request)}

    def _pace(self, request: Request, origin: Origin, asked_s: float, source: str) -> None:
        settings = self._job.settings
        host = self._job.host_of(request)
        delays = _delays_of(request)
        if not asked_s:
            request.meta[CRAWL_DELAYS] = {**delays, host: 0}
            clock = self._job.pace.known(host)
            if clock is not None and clock.asked_s:
                clock.ask((origin, self.token_of(request)), 0.0)
            return
        kept = asked_delay(asked_s, settings.crawl_delay_max, settings.crawl_delay_over_max, source)
        if kept.clamped or not kept.verdict:
            self._over_max(request, origin, asked_s, source)
        if not kept.verdict:
            self._once(("skip", host), "%s is skipped: %s (%s).", host, kept.verdict.reason, source)
            raise CrawlDelayTooLong(kept.verdict.reason, **self._whose(request))
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
        self._ask(request, origin, kept.seconds, source)
        request.meta[CRAWL_DELAYS] = {**delays, host: kept.seconds}

    def _pace_of_refused(self, request: Request, origin: Origin, asked_s: float, source: str) -> None:
        """The delay counts for what else is asked of the host, such as the robots.txt of another port."""
        settings = self._job.settings
        kept = asked_delay(asked_s, settings.crawl_delay_max, settings.crawl_delay_over_max, source)
        if asked_s and kept.verdict:
            self._ask(request, origin, kept.seconds, source)

    def _ask(self, request: Request, origin: Origin, seconds: float, source: str) -> None:
        clock = self._job.clock_of(request)
        if clock is None:
            return
        unsaid = not clock.asked_by  # nobody has, in this run: an earlier one may have remembered the same
        changed = clock.ask((origin, self.token_of(request)), seconds)
        if changed or (unsaid and 0.0 < seconds == clock.asked_s):
            clock.asked_by = f"{origin} {source}"
            self._job.count.largest(stats.DELAY_MAX, clock.asked_s)
            if unsaid:
                self._job.count.add(stats.DELAY_HOSTS)

    def _over_max(self, request: Request, origin: Origin, seconds: float, source: str) -> None:
        """Note a delay that is not kept, for people."""
        clock = self._job.clock_of(request)
        if clock is not None and seconds > clock.over_max_s:
            clock.over_max_s, clock.over_max_by = seconds, f"{origin} {source}"

    def _once(self, key: Any, message: str, *args: Any) -> bool:
        if key in self._told:
            return False
        if len(self._told) >= MOST_TOLD:
            del self._told[next(iter(self._told))]
        self._told[key] = None
        logger.warning(message, *args)
        return True

    def unreachable(self, request: Request, origin: Origin, failed: Failed) -> RobotsUnreachable:
        """The refusal of a request whose site could not say what it permits."""
        fetched = failed.fetched
        self._once(
            ("unreachable", origin),
            "The robots.txt of %s could not be read (%s); its pages are not fetched.",
            origin,
            fetched.problem or "no answer",
        )
        return RobotsUnreachable(
            f"robots.txt of {origin} could not be read: {fetched.problem or 'no answer'}",
            **self._whose(request),
        )

    def tries_allowed(self, request: Request) -> int:
        """How often a request may wait for another try to read robots.txt: as often as it may be retried."""
        settings = self._job.crawler.settings
        if not settings.getbool("RETRY_ENABLED") or request.meta.get("dont_retry"):
            return 0
        own = request.meta.get("max_retry_times")
        return own if isinstance(own, int) else settings.getint("RETRY_TIMES")

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
            if compat.is_closing(job.crawler) and job.may_go_back(request):
                return job.back_to_scheduler(request)  # a later run may find the site better
            tries = _tries_of(request)
            if answer.final or tries >= self.tries_allowed(request):
                raise self.unreachable(request, origin, answer)
            self._hold(request, answer)
            if job.may_go_back(request):
                back = job.back_to_scheduler(request)
                back.meta[ROBOTS_TRIES] = tries + 1
                return back
            request.meta[ROBOTS_TRIES] = tries + 1
            while (wait := answer.not_before - job.now()) > 0:
                job.refuse_if_given_up(request)
                if compat.is_closing(job.crawler):
                    raise self.unreachable(request, origin, answer)
                await compat.sleep(min(wait, 1.0))

    def _hold(self, request: Request, failed: Failed) -> None:
        """Leave the host alone until its robots.txt is tried again."""
        job = self._job
        clock = job.pace.clock(job.host_of(request), job.now())
        if failed.not_before > max(job.now(), clock.held_until):
            job.count_hold(clock, "robots_unreachable")
            clock.hold(failed.not_before, "robots_unreachable", probe=False)


# Meta is the user's: what is not of the shape that we write there counts as absent.


def _delays_of(request: Request) -> dict[str, Any]:
    delays = request.meta.get(CRAWL_DELAYS)
    return delays if isinstance(delays, dict) else {}


def _trail_of(request: Request) -> tuple[str, ...]:
    trail = request.meta.get("redirect_urls")
    return tuple(trail) if isinstance(trail, (list, tuple)) else ()


def _tries_of(request: Request) -> int:
    tries = request.meta.get(ROBOTS_TRIES)
    return tries if isinstance(tries, int) else 0
