"""What ``scrapy robots`` says about a URL, as plain values: the verdict, what decided, the facts about the file.

Decides nothing: scope, rules and pace are asked of the crawl's own ``Job``. Neither fetches nor prints.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy import Request
from scrapy.utils.python import to_unicode

from scrapy_scour.policy import robots_lines as lines
from scrapy_scour.policy.access import Means
from scrapy_scour.policy.pacing import asked_delay
from scrapy_scour.policy.robots import Robots
from scrapy_scour.policy.urls import octets_of, origin_of, without_userinfo
from scrapy_scour.policy.verdict import Verdict
from scrapy_scour.stores.robots import Failed, Known

if TYPE_CHECKING:
    from scrapy_scour.job import Job

ALLOWED, REFUSED, UNKNOWN = "allowed", "refused", "unknown"
#: Exit status by verdict; the largest of a run is its own.
STATUS = {ALLOWED: 0, REFUSED: 1, UNKNOWN: 2}
#: The site of a bare path, which is asked of a file: RFC 2606 keeps the name for what does not exist.
NO_SITE = "http://site.invalid"
_LINE = re.compile(r"robots\.txt line (\d+)\Z")
#: Origins whose facts are remembered.
_MOST_SITES = 1000


@dataclass(frozen=True)
class Identity:
    """Whom robots.txt is asked about. ``header``: the User-Agent, "" for none; ``token``: the product token that the
    rules are read for, None for ``*``; each with the setting or option that it comes from.
    """

    header: str
    header_from: str
    token: str | None
    token_from: str


@dataclass(frozen=True)
class File:
    """How a robots.txt was obtained; the fields are those of ``robots`` in the JSON form, see ``robots_run``."""

    state: str
    url: str
    status: int | None = None
    redirects: tuple[str, ...] = ()
    address: str | None = None
    size: int | None = None
    truncated: bool = False
    age: float | None = None
    problem: str | None = None
    fetched_as: str | None = None


class Warned(NamedTuple):
    """``line`` counts from 1."""

    line: int
    message: str


@dataclass(frozen=True)
class Site:
    """The facts about one file, for one identity; the fields as in the JSON form."""

    origin: str | None
    file: File
    group: str | None = None
    group_is_own: bool = False
    delay: float = 0.0
    delay_from: str | None = None
    crawl_delay: float | None = None
    request_rate: dict[str, float] | None = None
    sitemaps: tuple[str, ...] = ()
    warnings: tuple[Warned, ...] = ()
    too_slow: Verdict | None = None
    named: tuple[str, ...] = ()


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


def identity_of(job: Job, agent: str | None) -> Identity:
    """Whom a request of this crawl is sent as, or the ``agent`` that was asked about instead."""
    settings, spider = job.crawler.settings, job.crawler.spider
    if agent is not None:
        return Identity(agent, "--agent", job.permission.token_of(_asked_as(NO_SITE, agent)), "--agent")
    headers = {str(k).lower(): v for k, v in (settings.getdict("DEFAULT_REQUEST_HEADERS") or {}).items()}
    bot = job.settings.bot_user_agent
    setting = "USER_AGENT"
    if bot is not None and settings["USER_AGENT"] == str(bot):
        setting = "SCOUR_BOT_USER_AGENT"
    elif not settings.getpriority("USER_AGENT"):
        setting = "USER_AGENT (Scrapy's default)"
    header, source = "", "no User-Agent is set"
    for value, name in (
        (headers.get("user-agent"), "DEFAULT_REQUEST_HEADERS"),
        (getattr(spider, "user_agent", None), "the spider's user_agent"),
        (settings["USER_AGENT"], setting),
    ):
        if value and isinstance(value, (str, bytes)):
            header, source = to_unicode(value, errors="surrogateescape"), name
            break
    token = job.permission.token_of(_asked_as(NO_SITE, header))
    return Identity(header, source, token, "ROBOTSTXT_USER_AGENT" if settings["ROBOTSTXT_USER_AGENT"] else source)


def _asked_as(url: str, header: str) -> Request:
    return Request(url, headers={"User-Agent": octets_of(header)} if header else None)


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
        self._sites: OrderedDict[Any, tuple[Known | Failed, Site]] = OrderedDict()

    def _notes(self) -> list[str]:
        notes = []
        if not self.job.permission.obeys:
            notes.append("ROBOTSTXT_OBEY = False: this project does not obey robots.txt when it crawls")
        if self.identity.token is None and self.identity.header not in ("", "*"):
            notes.append(f"no product token can be derived from {self.identity.header!r}: the rules for * apply")
        return notes

    # What is asked

    def question(self, url: str) -> Request | None:
        """The request that the crawl would make, None when the URL is none that can be crawled."""
        if self._file is not None and url.startswith("/") and not url.startswith("//"):
            url = NO_SITE + url
        try:
            request = _asked_as(url, self.identity.header)
        except (ValueError, TypeError):
            return None
        return request if origin_of(request.url) is not None else None

    def asker(self, request: Request) -> Request:
        """The request on whose behalf the robots.txt is fetched."""
        return _asked_as(request.url, self.sent or "")

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
            site = self._site(request, found)
            answer = self._judged(url, request, found, site)
        except Exception as error:  # of a parser of the user's own: it permits nothing
            return Answer(_shown(url), UNKNOWN, f"the robots.txt check failed: {type(error).__name__}: {error}")
        robots = _engine(found)
        if self._all_agents:
            answer = replace(answer, agents=tuple(_for_agents(robots, request.url, site.named)) if robots else ())
        return answer

    def _judged(self, url: str, request: Request, found: Known | Failed, site: Site) -> Answer:
        if self.job.permission.needs_no_rules(request):
            return Answer(_shown(url), ALLOWED, "robots.txt itself is always allowed (RFC 9309 2.2.2)", site=site)
        if isinstance(found, Failed):
            reason = f"robots.txt could not be read: {site.file.problem}; until it can, a crawl fetches no page here"
            return Answer(_shown(url), UNKNOWN, reason, site=site)
        verdict, aside = self._verdict(url, request, found)
        line, rule = _deciding(verdict, site.group)
        if verdict and site.too_slow is not None:
            return Answer(_shown(url), REFUSED, f"{site.too_slow.reason} ({site.too_slow.source})", site=site)
        reason = verdict.source or self._unruled(request, found, site)
        reason += (f": {rule}" if rule else "") + aside
        return Answer(_shown(url), ALLOWED if verdict else REFUSED, reason, line, rule, site)

    def _verdict(self, url: str, request: Request, found: Known) -> tuple[Verdict, str]:
        """What the rules say of the request that a crawl would make and of the URL as it was written: both must be
        allowed. And what is to be said when they differ: Scrapy drops the ``?`` of an empty query.
        """
        verdict = self.job.permission.verdict(request, found)
        robots = _engine(found)
        if robots is None or not verdict:
            return verdict, ""
        ignore = self.job.settings.robotstxt_ignore_wildcard
        written = robots.verdict(url, self.identity.token, ignore_wildcard=ignore)
        if not written:
            return written, f"; a crawl asks for {without_userinfo(request.url)}, which is allowed"
        # A crawl need not know which line allows it.
        return robots.verdict(request.url, self.identity.token, ignore_wildcard=ignore), ""

    def _unruled(self, request: Request, found: Known, site: Site) -> str:
        """Why a URL is allowed that no rule speaks about."""
        if found.fetched.means is Means.NO_RULES:
            return f"robots unavailable: {found.fetched.status}, so there are no rules (RFC 9309 2.3.1.3)"
        robots = _engine(found)
        if robots is None:
            return "robots.txt allows it"
        ignored = robots.verdict(request.url, self.identity.token)
        if not ignored:
            return f"{ignored.source} refuses it for *, which SCOUR_ROBOTSTXT_IGNORE_WILDCARD ignores"
        if robots.is_empty:
            return "robots.txt has no rules"
        if site.group is None:
            return f"robots.txt has no group for {self.identity.token or '*'}" + (
                " and none for *" if self.identity.token else ""
            )
        return f"no rule of the group {site.group} matches"

    # The facts about the file

    def _site(self, request: Request, found: Known | Failed) -> Site:
        origin = origin_of(request.url)
        kept = self._sites.pop(origin, None)
        site = kept[1] if kept is not None and kept[0] is found else self._read_site(request, found)
        self._sites[origin] = found, site
        if len(self._sites) > _MOST_SITES:
            self._sites.popitem(last=False)
        if self._file is None and isinstance(found, Known):
            site = replace(site, file=replace(site.file, age=round(self.job.now() - found.at, 3)))
        return site

    def _read_site(self, request: Request, found: Known | Failed) -> Site:
        origin = None if self._file is not None else str(origin_of(request.url))
        file = self._file_facts(found)
        own_s, own_from = self._own_delay(request)
        site = Site(origin, file, delay=own_s, delay_from=own_from if own_s else None)
        if isinstance(found, Failed):
            return site
        asked_s, source = self.job.permission.delay_s(request, found)
        settings = self.job.settings
        kept = asked_delay(asked_s, settings.crawl_delay_max, settings.crawl_delay_over_max, source)
        robots, token = _engine(found), self.identity.token
        if robots is not None:
            label = robots.group_label(token)
            rate = robots.request_rate(token)
            site = replace(
                site,
                group=label,
                group_is_own=bool(label) and lines.agent_of(octets_of(label or "")) != lines.EVERYONE,
                crawl_delay=robots.crawl_delay(token),
                request_rate={"requests": rate.requests, "seconds": rate.seconds} if rate else None,
                sitemaps=tuple(robots.sitemaps),
                warnings=tuple(_warnings(robots)),
                named=tuple(agents_in(robots)) if self._all_agents else (),
            )
        if not kept.verdict:
            return replace(site, delay=asked_s, delay_from=source, too_slow=kept.verdict)
        if kept.seconds >= own_s and kept.seconds > 0:
            asks = "Request-rate" if (site.crawl_delay or 0.0) < asked_s and site.request_rate else "Crawl-delay"
            said = f"{asks}, {source}"
            if kept.clamped:
                said = f"SCOUR_CRAWL_DELAY_MAX; {said} asks for {asked_s:g} s"
            site = replace(site, delay=kept.seconds, delay_from=said)
        return site

    def _file_facts(self, found: Known | Failed) -> File:
        fetched = found.fetched
        if self._file is not None:
            return File("file", self._file, size=fetched.size, truncated=fetched.truncated)
        state = {Means.RULES: "read", Means.NO_RULES: "unavailable", Means.NOT_OBTAINED: "unreachable"}[fetched.means]
        trail = [without_userinfo(url) for url in fetched.trail]
        return File(
            state,
            trail[0] if trail else "",
            fetched.status,
            tuple(trail[1:]),
            fetched.address or None,
            fetched.size if fetched.means is Means.RULES else None,
            fetched.truncated,
            problem=(fetched.problem.rstrip(".") or "no answer") if fetched.means is Means.NOT_OBTAINED else None,
            fetched_as=self.sent,
        )

    def _own_delay(self, request: Request) -> tuple[float, str]:
        """The delay that the user set for the host, seconds, and where."""
        settings = self.job.crawler.settings
        slot = settings.getdict("DOWNLOAD_SLOTS").get(self.job.host_of(request))
        if isinstance(slot, dict) and slot.get("delay") is not None:
            return float(slot["delay"]), "DOWNLOAD_SLOTS"
        of_spider = getattr(self.job.crawler.spider, "download_delay", None)
        if isinstance(of_spider, (int, float)):
            return float(of_spider), "the spider's download_delay"
        return settings.getfloat("DOWNLOAD_DELAY"), "DOWNLOAD_DELAY"


def wrong_with(url: str) -> str:
    """Why it is no URL that can be crawled, in words."""
    hint = "" if "://" in url else "; is https:// missing?"
    return f"this is no http or https URL with a host{hint}"


def _shown(url: str) -> str:
    return without_userinfo(url)


def _engine(found: Known | Failed) -> Robots | None:
    """The rules as this package reads them; None without any, or when the user's own parser reads them."""
    robots = getattr(found.fetched.parser, "robots", None)
    return robots if isinstance(robots, Robots) else None


def _deciding(verdict: Verdict, group: str | None) -> tuple[int | None, str | None]:
    """Number and text of the line that decided."""
    found = _LINE.match(verdict.source)
    if not found:
        return None, None
    return int(found[1]), verdict.reason.removesuffix(f" (group {group})")


def _warnings(robots: Robots) -> list[Warned]:
    found = [Warned(*warning) for warning in robots.warnings()]
    text = robots._text
    if text.lstrip()[:1] == b"<":
        at = len(text) - len(text.lstrip())
        found.insert(0, Warned(lines.line_number(text, at), "this looks like a web page, not like a robots.txt"))
    return found


def agents_in(robots: Robots) -> list[str]:
    """The names that the file speaks to, in lower case and in its order; ``*`` last."""
    text = robots._text
    sections = lines.Sections(text)
    named: dict[str, None] = {}
    for number in sections.all():
        start = sections.value_at(number)
        end = text.find(b"\n", start)
        value = lines.without_comment(text[start : len(text) if end < 0 else end])
        named[lines.agent_of(value).decode("utf-8", "surrogateescape")] = None
    named.pop("*", None)
    return [*named, "*"]


def _for_agents(robots: Robots, url: str, names: tuple[str, ...]) -> list[ForAgent]:
    found = []
    for name in names:
        verdict = robots.verdict(url, name)
        line, rule = _deciding(verdict, robots.group_label(name))
        found.append(ForAgent(name, ALLOWED if verdict else REFUSED, line, rule, robots.delay(name)))
    return found
