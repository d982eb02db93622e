"""Whom ``scrapy robots`` asks about: the User-Agent of the crawl, the product token in it, and where both come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.utils.python import to_unicode

from scrapy_scour.policy.urls import octets_of

if TYPE_CHECKING:
    from scrapy_scour.job import Job

#: The site of a bare path, which is asked of a file: RFC 2606 keeps the name for what does not exist.
NO_SITE = "http://site.invalid"


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
    settings, spider = job.crawler.settings, job.crawler.spider
    if agent is not None:
        return Identity(agent, "--agent", job.permission.token_of(asked_as(NO_SITE, agent)), "--agent")
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
    token = job.permission.token_of(asked_as(NO_SITE, header))
    return Identity(header, source, token, "ROBOTSTXT_USER_AGENT" if settings["ROBOTSTXT_USER_AGENT"] else source)


def asked_as(url: str, header: str) -> Request:
    return Request(url, headers={"User-Agent": octets_of(header)} if header else None)
