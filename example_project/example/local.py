"""Runs the sites of the tour inside the crawl's own process, gives them names, and prints at the end what they saw."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import scrapy
from scrapy import signals
from scrapy.downloadermiddlewares import cookies
from scrapy.exceptions import NotConfigured
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IHostnameResolver, IHostResolution
from zope.interface import implementer

from example.report import as_text
from example.sites import ADDRESS, Server
from example.stations import STATIONS

if TYPE_CHECKING:
    from collections.abc import Collection

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from typing_extensions import Self


class LocalSites:
    """Extension: the sites are up before the first request and down after the last; then their logs are printed.

    For a spider with an attribute ``label``, which says in the table who crawled; its attribute ``report`` names a file
    for the same as JSON together with the logs.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._spider: Any = crawler.spider
        if not hasattr(self._spider, "label"):
            raise NotConfigured
        self.server = Server({name: respond for one in STATIONS for name, respond in one.sites().items()})
        self.server.start()
        _read_public_suffixes_from_disk()
        self._names = _Names(set(self.server.logs))
        self._reason = ""
        for handler, signal in (
            (self.engine_started, signals.engine_started),
            (self.spider_closed, signals.spider_closed),
            (self.engine_stopped, signals.engine_stopped),
        ):
            crawler.signals.connect(handler, signal=signal)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def url(self, address: str) -> str:
        """``name/path`` as a URL of the running site."""
        name, slash, path = address.partition("/")
        return f"http://{name}:{self.server.port}{slash}{path}"

    def engine_started(self) -> None:
        self._names.install()

    def spider_closed(self, spider: Spider, reason: str) -> None:
        self._reason = reason

    def engine_stopped(self) -> None:
        """Nothing is asked any more: read the logs."""
        self._names.uninstall()
        self.server.stop()
        logs = self.server.logs
        rows = [(one.title, ", ".join(one.sites()), one.saw(logs)) for one in STATIONS]
        label = f"{self._spider.label} on Scrapy {scrapy.__version__}"
        print(as_text(label, rows), flush=True)
        if self._spider.report:
            found = {
                "label": label,
                "scrapy": scrapy.__version__,
                "finish_reason": self._reason,
                "rows": rows,
                "logs": {name: [asdict(seen) for seen in log] for name, log in logs.items()},
                "pages": self._spider.pages,
                "failures": self._spider.failures,
            }
            Path(self._spider.report).write_text(json.dumps(found, indent=1), encoding="utf-8")


def _read_public_suffixes_from_disk() -> None:
    """Scrapy's cookie middleware would download the list of public suffixes at its first cookie.

    The tour stays on this machine, and the copy that is installed will do. Where the place has another name, Scrapy
    does as it always does.
    """
    extract = getattr(cookies, "_split_domain", None)
    if extract is not None:
        extract.suffix_list_urls = ()


@implementer(IHostnameResolver)
class _Names:
    """Leads the sites' names to this machine, and every other name to the resolver that was there before."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._before: Any = None

    def install(self) -> None:
        from twisted.internet import reactor

        # Scrapy puts its own resolver in place just before the reactor starts; this one comes after it.
        reactor.callWhenRunning(self._install, reactor)  # type: ignore[attr-defined]

    def _install(self, reactor: Any) -> None:
        self._before = reactor.installNameResolver(self)

    def uninstall(self) -> None:
        from twisted.internet import reactor

        if self._before is not None:
            reactor.installNameResolver(self._before)  # type: ignore[attr-defined]
            self._before = None

    def resolveHostName(
        self,
        resolutionReceiver: Any,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Sequence[Any] | None = None,
        transportSemantics: str = "TCP",
    ) -> Any:
        if hostName not in self._names:
            return self._before.resolveHostName(
                resolutionReceiver, hostName, portNumber, addressTypes, transportSemantics
            )
        resolution = _Resolution(hostName)
        resolutionReceiver.resolutionBegan(resolution)
        resolutionReceiver.addressResolved(IPv4Address("TCP", ADDRESS, portNumber))
        resolutionReceiver.resolutionComplete()
        return resolution


@implementer(IHostResolution)
class _Resolution:
    def __init__(self, name: str) -> None:
        self.name = name

    def cancel(self) -> None:
        """It is complete before anyone could cancel it."""
