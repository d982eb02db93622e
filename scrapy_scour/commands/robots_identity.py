"""Whom ``scrapy robots`` asks about: the User-Agent of the crawl, the product token in it, and where both come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.downloadermiddlewares.defaultheaders import DefaultHeadersMiddleware
from scrapy.downloadermiddlewares.useragent import UserAgentMiddleware
from scrapy.utils.misc import load_object
from scrapy.utils.python import to_unicode

from scrapy_scour import compat
from scrapy_scour.policy.agents import product_token
from scrapy_scour.policy.urls import octets_of

if TYPE_CHECKING:
    from scrapy_scour.job import Job

#: The site of a bare path, which is asked of a file: RFC 2606 keeps the name for what does not exist.
NO_SITE = "http://site.invalid"
#: The stock middlewares that set the User-Agent of a request.
_SETTERS = (DefaultHeadersMiddleware, UserAgentMiddleware)


@dataclass(frozen=True)
class Identity:
    """Whom robots.txt is asked about. ``header``: the User-Agent, "" for none; ``token``: the product token that the
    rules are read for, None for ``*``; each with the setting or option that it comes from.
    """

    header: str
    header_from: str
    token: str | None
    token_from: str


def identity_of(job: Job, agent: str | None) -> Identity:
    """Whom a request of this crawl is sent as, or the ``agent`` that was asked about instead."""
    settings = job.crawler.settings
    if agent is not None:
        return Identity(agent, "--agent", job.permission.token_of(asked_as(NO_SITE, agent)), "--agent")
    header, source = _sent_by(job)
    token = job.permission.token_of(asked_as(NO_SITE, header))
    name = settings["ROBOTSTXT_USER_AGENT"]
    return Identity(header, source, token, "ROBOTSTXT_USER_AGENT" if name and token == product_token(name) else source)


def _sent_by(job: Job) -> tuple[str, str]:
    """The User-Agent that Scrapy's own middlewares give to a request, as far as they are enabled, and where from.

    A project's subclass of one counts as the stock one: what it does may be meant for requests that are sent.
    """
    crawler, request = job.crawler, Request(NO_SITE)
    source = "no User-Agent is set"
    for component, _ in compat.enabled_components(crawler.settings, "DOWNLOADER_MIDDLEWARES"):
        cls = load_object(component)
        if not isinstance(cls, type):
            continue
        if issubclass(cls, DefaultHeadersMiddleware):
            DefaultHeadersMiddleware.from_crawler(crawler).process_request(request)
            said = "DEFAULT_REQUEST_HEADERS"
        elif issubclass(cls, UserAgentMiddleware):
            agent, said = _of_spider_or_setting(job)
            UserAgentMiddleware(agent).process_request(request)
        else:
            continue
        if "User-Agent" in request.headers:
            source = said
            break
    return to_unicode(request.headers.get("User-Agent") or b"", errors="surrogateescape"), source


def stand_ins(job: Job) -> list[str]:
    """The project's own kinds of the middlewares that set the User-Agent, which are not asked."""
    components = compat.enabled_components(job.crawler.settings, "DOWNLOADER_MIDDLEWARES")
    classes = [cls for component, _ in components if isinstance(cls := load_object(component), type)]
    return [
        f"{cls.__module__}.{cls.__qualname__}" for cls in classes if issubclass(cls, _SETTERS) and cls not in _SETTERS
    ]


def _of_spider_or_setting(job: Job) -> tuple[Any, str]:
    settings, spider = job.crawler.settings, job.crawler.spider
    bot = job.settings.bot_user_agent
    if hasattr(spider, "user_agent"):
        return getattr(spider, "user_agent", None), "the spider's user_agent"
    if bot is not None and settings["USER_AGENT"] == str(bot):
        return settings["USER_AGENT"], "SCOUR_BOT_USER_AGENT"
    default = "" if settings.getpriority("USER_AGENT") else " (Scrapy's default)"
    return settings["USER_AGENT"], f"USER_AGENT{default}"


def asked_as(url: str, header: str) -> Request:
    return Request(url, headers={"User-Agent": octets_of(header)} if header else None)
