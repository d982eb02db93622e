"""Stands for a client of a rendering service, an SDK or a browser: it gets pages by itself, past Scrapy."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.threads import deferToThread

from example.sites import ADDRESS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

WITHIN_S = 5.0


def provider(agent: str) -> Callable[[str], Awaitable[str]]:
    """A provider whose requests go under ``agent``; awaited, it gives the text of a page of the tour's sites."""
    opener = build_opener(ProxyHandler({}))

    def get(url: str) -> str:
        parts = urlsplit(url)
        there = parts._replace(netloc=f"{ADDRESS}:{parts.port}").geturl()
        with opener.open(Request(there, headers={"Host": parts.netloc, "User-Agent": agent}), timeout=WITHIN_S) as page:
            return str(page.read().decode())

    async def fetch(url: str) -> str:
        return await maybe_deferred_to_future(deferToThread(get, url))

    return fetch
