"""What ``scrapy robots`` says about a URL, as plain values: the verdict, what decided, the facts about the file.

Decides nothing: scope, rules and pace are asked of the crawl's own ``Job``. Neither fetches nor prints.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from scrapy import Request

from scrapy_scour.commands.robots_identity import NO_SITE, Identity, asked_as, identity_of, stand_ins
from scrapy_scour.commands.robots_site import File, Site, Sites, engine_of
from scrapy_scour.policy.access import Means
from scrapy_scour.policy.urls import origin_of, without_userinfo
from scrapy_scour.policy.verdict import Verdict
from scrapy_scour.stores.robots import Failed, Known

if TYPE_CHECKING:
    from scrapy_scour.job import Job

ALLOWED, REFUSED, UNKNOWN = "allowed", "refused", "unknown"
#: Exit status by verdict; the largest of a run is its own.
STATUS = {ALLOWED: 0, REFUSED: 1, UNKNOWN: 2}
#: What stands before the colon is no host with a port.
_OTHER_SCHEME = re.compile(r".*://|[a-z][a-z0-9+-]*:(?![0-9])", re.IGNORECASE)
_LINE = re.compile(r"robots\.txt line (\d+)\Z")


@dataclass(frozen=True)
class ForAgent:
    """The verdict for one of the crawlers that a file names; ``delay`` is what it asks of that one, seconds."""

    token: str
    verdict: str
    line: int | None
    rule: str | None
    delay: float


@dataclass(frozen=True)
class Answer:
    """The answer for one URL. ``line`` and ``rule``: what decided, None when no rule did. ``site`` is None when
    robots.txt was not asked.
    """

    url: str
    verdict: str
    reason: str
    line: int | None = None
    rule: str | None = None
    site: Site | None = None
    agents: tuple[ForAgent, ...] | None = None

    def as_json(self, identity: Identity, notes: tuple[str, ...]) -> dict[str, Any]:
        """The JSON form, see ``robots_run``."""
        site = self.site or Site(None, File("not asked", ""))
        file = asdict(site.file) if self.site else None
        return {
            "url": self.url,
            "verdict": self.verdict,
            "reason": self.reason,
            "line": self.line,
            "rule": self.rule,
            "origin": site.origin,
            "group": site.group,
            "group_is_own": site.group_is_own,
            "agent": identity.header,
            "agent_from": identity.header_from,
            "token": identity.token,
            "token_from": identity.token_from,
            "delay": site.delay if self.site else None,
            "delay_from": site.delay_from,
            "crawl_delay": site.crawl_delay,
            "request_rate": site.request_rate,
            "robots": file,
            "sitemaps": site.sitemaps,
            "warnings": [warning._asdict() for warning in site.warnings],
            "agents": None if self.agents is None else [asdict(agent) for agent in self.agents],
            "notes": notes,
        }


class Explainer:
    """Answers for the URLs of one run.

    ``agent``: what ``--agent`` gave, None for the project's own. ``file``: the name of the file that the rules come
    from, None when they are fetched. ``all_agents``: answer for all crawlers that a file names, too. ``job`` is the
    crawl that is asked, ``sent`` the User-Agent that robots.txt files are fetched under, None when they are not.
    """

    def __init__(
        self, job: Job, *, agent: str | None = None, file: str | None = None, all_agents: bool = False
    ) -> None:
        self.job = job
        self._file = file
        self._all_agents = all_agents
        self.identity = identity_of(job, agent)
        own = identity_of(job, None).header
        # A bare name is asked about; only who writes a whole header says what is sent.
        sent = agent if agent is not None and re.search(r"[/\s(;]", agent) else own
        self.sent = sent if file is None else None
        self.notes = tuple(self._notes())
        self._sites = Sites(job, self.identity, file=file, sent=self.sent, all_agents=all_agents)

    def _notes(self) -> list[str]:
        notes = []
        if not self.job.permission.obeys:
            notes.append("ROBOTSTXT_OBEY = False: this project does not obey robots.txt when it crawls")
        if self.job.settings.throttle_enabled:
            notes.append("SCOUR_THROTTLE_ENABLED: a crawl waits longer than the delay told where answers are slow")
        if self.job.crawler.settings.getbool("AUTOTHROTTLE_ENABLED"):
            notes.append("AUTOTHROTTLE_ENABLED: the delay told is that of the beginning, which answers then change")
        if self.identity.header_from != "--agent":
            notes += [
                f"{name} is not asked: the User-Agent told is that of the stock middleware (--agent names another)"
                for name in stand_ins(self.job)
            ]
        if self.identity.token is None and self.identity.header not in ("", "*"):
            notes.append(f"no product token can be derived from {self.identity.header!r}: the rules for * apply")
        return notes

    # What is asked

    def question(self, url: str) -> Request | None:
        """The request that the crawl would make, None when the URL is none that can be crawled."""
        if self._file is not None and url.startswith("/") and not url.startswith("//"):
            url = NO_SITE + url
        try:
            request = asked_as(url, self.identity.header)
        except (ValueError, TypeError):
            return None
        return request if origin_of(request.url) is not None else None

    def asker(self, request: Request) -> Request:
        """The request on whose behalf the robots.txt is fetched."""
        return asked_as(request.url, self.sent or "")

    def broken(self, url: str) -> Answer:
        """The answer for what is no URL."""
        return Answer(_shown(url), UNKNOWN, wrong_with(url))

    def out_of_scope(self, url: str, request: Request) -> Answer | None:
        """The answer for a URL outside the job, to whose host nothing is sent; None for one inside."""
        if request.url.startswith(f"{NO_SITE}/"):
            return None
        verdict = self.job.judge_request(request)
        if verdict:
            return None
        source = verdict.source.removeprefix("scope: ")
        return Answer(_shown(url), REFUSED, f"out of scope: {verdict.reason} ({source})")

    # What is answered

    def answer(self, url: str, request: Request, found: Known | Failed) -> Answer:
        """The answer for a URL inside the job, from its robots.txt or the lack of it."""
        try:
            site = self._sites.about(request, found)
            answer = self._judged(url, request, found, site)
        except Exception as error:  # of a parser of the user's own: it permits nothing
            return Answer(_shown(url), UNKNOWN, f"the robots.txt check failed: {type(error).__name__}: {error}")
        if self._all_agents:
            told = site.all_agents.say(request.url) if site.all_agents is not None else ()
            agents = (
                ForAgent(name, ALLOWED if allowed else REFUSED, line, rule, delay)
                for name, allowed, line, rule, delay in told
            )
            answer = replace(answer, agents=tuple(agents))
        return answer

    def _judged(self, url: str, request: Request, found: Known | Failed, site: Site) -> Answer:
        if self.job.permission.needs_no_rules(request):
            return Answer(_shown(url), ALLOWED, "robots.txt itself is always allowed (RFC 9309 2.2.2)", site=site)
        if isinstance(found, Failed):
            reason = f"robots.txt could not be read: {site.file.problem}; until it can, a crawl fetches no page here"
            return Answer(_shown(url), UNKNOWN, reason, site=site)
        verdict, aside = self._verdict(url, request, found)
        if verdict and site.too_slow is not None:
            return Answer(_shown(url), REFUSED, f"{site.too_slow.reason} ({site.too_slow.source})", site=site)
        unruled = ""
        if not verdict.source:
            verdict = self._allowing(url, request, found)
            unruled = "" if verdict.source else self._unruled(request, found, site)
        line, rule = _deciding(verdict, site.group)
        reason = (unruled or verdict.source) + (f": {rule}" if rule else "") + aside
        return Answer(_shown(url), ALLOWED if verdict else REFUSED, reason, line, rule, site)

    def _verdict(self, url: str, request: Request, found: Known) -> tuple[Verdict, str]:
        """What the rules say of the request that a crawl would make and of the URL as it was written: both must be
        allowed. And what is to be said when they differ: Scrapy drops the ``?`` of an empty query.
        """
        verdict = self.job.permission.verdict(request, found)
        robots = engine_of(found)
        if robots is None or not verdict:
            return verdict, ""
        ignore = self.job.settings.robotstxt_ignore_wildcard
        written = robots.verdict(url, self.identity.token, ignore_wildcard=ignore)
        if not written:
            return written, f"; a crawl asks for {without_userinfo(request.url)}, which is allowed"
        # A crawl need not know which line allows it.
        return robots.verdict(request.url, self.identity.token, ignore_wildcard=ignore), ""

    def _allowing(self, url: str, request: Request, found: Known) -> Verdict:
        """The Allow that permits a URL where no Disallow speaks against it, as written or as a crawl asks."""
        robots, token = engine_of(found), self.identity.token
        if robots is None or not robots.verdict(request.url, token):
            return Verdict(True)
        written = robots.allowing(url, token)
        return written if written.source else robots.allowing(request.url, token)

    def _unruled(self, request: Request, found: Known, site: Site) -> str:
        """Why a URL is allowed that no rule speaks about."""
        if found.fetched.means is Means.NO_RULES:
            return f"robots unavailable: {found.fetched.status}, so there are no rules (RFC 9309 2.3.1.3)"
        robots = engine_of(found)
        if robots is None:
            return "robots.txt allows it"
        ignored = robots.verdict(request.url, self.identity.token)
        if not ignored:
            return f"{ignored.source} refuses it for *, which SCOUR_ROBOTSTXT_IGNORE_WILDCARD ignores"
        if site.ruleless:
            return site.ruleless
        if site.group is None:
            return f"robots.txt has no group for {self.identity.token or '*'}" + (
                " and none for *" if self.identity.token else ""
            )
        return f"no rule of the group {site.group} matches"


def wrong_with(url: str) -> str:
    """Why it is no URL that can be crawled, in words."""
    try:
        url.encode()
    except UnicodeEncodeError:
        return "this is not UTF-8; other octets stand in a URL as %XX"
    hint = "" if _OTHER_SCHEME.match(url) else "; is https:// missing?"
    return f"this is no http or https URL with a host{hint}"


def _shown(url: str) -> str:
    return without_userinfo(url)


def _deciding(verdict: Verdict, group: str | None) -> tuple[int | None, str | None]:
    """Number and text of the line that decided."""
    found = _LINE.match(verdict.source)
    if not found:
        return None, None
    return int(found[1]), verdict.reason.removesuffix(f" (group {group})")
