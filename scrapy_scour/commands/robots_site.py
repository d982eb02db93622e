"""What ``scrapy robots`` tells of one robots.txt: how it was obtained, for whom it speaks, at which pace."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_scour.policy import robots_lines as lines
from scrapy_scour.policy.access import Means
from scrapy_scour.policy.pacing import asked_delay
from scrapy_scour.policy.robots import Robots
from scrapy_scour.policy.robots_agents import Agents
from scrapy_scour.policy.urls import octets_of, origin_of, without_userinfo
from scrapy_scour.policy.verdict import Verdict
from scrapy_scour.stores.robots import Failed, Known

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_scour.commands.robots_identity import Identity
    from scrapy_scour.job import Job

#: Origins whose facts are remembered.
_MOST_SITES = 1000
#: The same where all crawlers that a file names are asked for: their rules are kept.
_MOST_WITH_AGENTS = 50


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
    """The facts about one file, for one identity; the fields as in the JSON form.

    ``too_slow``: the refusal of a host that asks for too long a delay. ``unheeded``: the delay that it asks for and
    that a crawl does not keep, seconds. ``ruleless``: why no rule of the file speaks to anybody, "" if one does.
    ``read_by``: the user's own parser that reads it.
    """

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
    all_agents: Agents | None = None
    unheeded: float = 0.0
    ruleless: str = ""
    read_by: str | None = None


class Sites:
    """The facts about each origin's robots.txt, for one identity. ``file`` and ``sent`` as in ``Explainer``."""

    def __init__(self, job: Job, identity: Identity, *, file: str | None, sent: str | None, all_agents: bool) -> None:
        self._job = job
        self._identity = identity
        self._file = file
        self._sent = sent
        self._all_agents = all_agents
        self._sites: OrderedDict[Any, tuple[Known | Failed, Site]] = OrderedDict()

    def about(self, request: Request, found: Known | Failed) -> Site:
        origin = origin_of(request.url)
        kept = self._sites.pop(origin, None)
        site = kept[1] if kept is not None and kept[0] is found else self._read_site(request, found)
        self._sites[origin] = found, site
        if len(self._sites) > (_MOST_WITH_AGENTS if self._all_agents else _MOST_SITES):
            self._sites.popitem(last=False)
        if self._file is None and isinstance(found, Known):
            site = replace(site, file=replace(site.file, age=round(self._job.now() - found.at, 3)))
        return site

    def _read_site(self, request: Request, found: Known | Failed) -> Site:
        origin = None if self._file is not None else str(origin_of(request.url))
        file = self._file_facts(found)
        own_s, own_from = self._own_delay(request)
        site = Site(origin, file, delay=own_s, delay_from=own_from if own_s else None)
        if isinstance(found, Failed):
            return site
        asked_s, source = self._job.permission.delay_s(request, found)
        settings = self._job.settings
        kept = asked_delay(asked_s, settings.crawl_delay_max, settings.crawl_delay_over_max, source)
        robots, token = engine_of(found), self._identity.token
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
                warnings=tuple(Warned(*warning) for warning in robots.warnings()),
                all_agents=Agents(robots.text) if self._all_agents else None,
                ruleless=_ruleless(robots),
            )
        elif found.fetched.parser is not None:
            site = replace(site, read_by=type(found.fetched.parser).__name__)
        if not self._job.permission.obeys:
            return replace(site, unheeded=asked_s)
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
        problem = None
        if fetched.means is Means.NOT_OBTAINED:
            problem = fetched.problem.rstrip(".") or "no answer"
            if fetched.retry_after_s is not None:
                problem += f", to be asked again in {fetched.retry_after_s:.0f} s (Retry-After)"
        trail = [without_userinfo(url) for url in fetched.trail]
        return File(
            state,
            trail[0] if trail else "",
            fetched.status,
            tuple(trail[1:]),
            fetched.address or None,
            fetched.size if fetched.means is Means.RULES else None,
            fetched.truncated,
            problem=problem,
            fetched_as=self._sent,
        )

    def _own_delay(self, request: Request) -> tuple[float, str]:
        """The delay that the user set for the host, seconds, and where; with a throttle that of the beginning."""
        told = self._set_delay(request)
        throttle = self._job.settings.throttle
        if throttle is None or (least_s := throttle.wait_s(0.0, 0.0)) <= told[0]:
            return told
        return least_s, f"SCOUR_THROTTLE_WAIT_{'AT_LEAST' if least_s <= throttle.at_least_s else 'BETWEEN'}"

    def _set_delay(self, request: Request) -> tuple[float, str]:
        settings = self._job.crawler.settings
        slot = settings.getdict("DOWNLOAD_SLOTS").get(self._job.host_of(request))
        if isinstance(slot, dict) and slot.get("delay") is not None:
            return float(slot["delay"]), "DOWNLOAD_SLOTS"
        of_spider = getattr(self._job.crawler.spider, "download_delay", None)
        told = settings.getfloat("DOWNLOAD_DELAY"), "DOWNLOAD_DELAY"
        if isinstance(of_spider, (int, float)):
            told = float(of_spider), "the spider's download_delay"
        start_s = settings.getfloat("AUTOTHROTTLE_START_DELAY")
        if settings.getbool("AUTOTHROTTLE_ENABLED") and start_s > told[0]:
            return start_s, "AUTOTHROTTLE_START_DELAY"
        return told


def engine_of(found: Known | Failed) -> Robots | None:
    """The rules as this package reads them; None without any, or when the user's own parser reads them."""
    robots = getattr(found.fetched.parser, "robots", None)
    return robots if isinstance(robots, Robots) else None


def _ruleless(robots: Robots) -> str:
    if not robots.is_empty:
        return ""
    whole = lines.lines_of(robots.text, [(0, len(robots.text))])
    if any(kind in lines.RULES and value[:1] in (b"/", b"*") for kind, _, value in whole):
        return "the rules in robots.txt are for nobody: no user-agent line above them names a crawler"
    return "robots.txt has no rules"
