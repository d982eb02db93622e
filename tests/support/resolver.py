"""Names for tests: ``*.test`` names lead to loopback addresses that the test chose, nothing leaves the
machine.

Looked up in this order: the mapping (names, or address literals that a test wants elsewhere), ``localhost``
and names under it, literals of loopback addresses in every spelling that the system accepts. An unknown
``*.test`` or ``*.invalid`` name does not exist, as in a real DNS. Anything else is refused as well, and is
remembered in ``Resolver.strays``: a test that asks for it is wrong, and the harness fails it.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IHostnameResolver, IHostResolution
from zope.interface import implementer

NAMES: dict[str, str] = {}
"""Name to loopback address, of the named sites that are open in this process."""

HOSTS_VARIABLE = "WITNESS_HOSTS"
"""Environment variable (JSON object, name to address) that :class:`ProcessResolver` reads in a crawl of its
own."""

_system_getaddrinfo = socket.getaddrinfo


@implementer(IHostResolution)
class _Resolution:
    def __init__(self, name: str) -> None:
        self.name = name

    def cancel(self) -> None:
        raise NotImplementedError


@implementer(IHostnameResolver)
class Resolver:
    """A Twisted name resolver, and a ``getaddrinfo`` for what does not go through Twisted."""

    def __init__(self, hosts: Mapping[str, str]) -> None:
        self.hosts = {name.lower(): address for name, address in hosts.items()}
        self.asked: list[str] = []
        self.strays: list[str] = []

    def addresses(self, name: str) -> list[str]:
        """The addresses of *name*; none when it does not exist or may not be asked for."""
        name = name.lower()
        self.asked.append(name)
        plain = name.rstrip(".")
        if plain in self.hosts:
            return [self.hosts[plain]]
        if plain == "localhost" or plain.endswith(".localhost"):
            return ["127.0.0.1"]
        literal = _literal(name)
        if literal is not None and _is_loopback(literal):
            return [literal]
        if literal is not None or not plain.endswith((".test", ".invalid")):
            self.strays.append(name)
        return []

    def resolveHostName(
        self,
        resolutionReceiver: Any,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Sequence[Any] | None = None,
        transportSemantics: str = "TCP",
    ) -> Any:
        resolution = _Resolution(hostName)
        resolutionReceiver.resolutionBegan(resolution)
        for address in self.addresses(hostName):
            kind = IPv6Address if ":" in address else IPv4Address
            if addressTypes is None or kind in addressTypes:
                resolutionReceiver.addressResolved(kind("TCP", address, portNumber))
        resolutionReceiver.resolutionComplete()
        return resolution

    def getaddrinfo(self, host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        """As :func:`socket.getaddrinfo`, over this mapping."""
        if host is None:
            return _system_getaddrinfo(host, port, *args, **kwargs)
        name = host.decode("ascii") if isinstance(host, bytes) else str(host)
        found = self.addresses(name)
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, f"{name} is not known to this test")
        return _system_getaddrinfo(found[0], port, *args, **kwargs)


@contextlib.contextmanager
def installed(hosts: Mapping[str, str] | None = None) -> Iterator[Resolver]:
    """Resolve through the open named sites and *hosts* until the block ends."""
    from twisted.internet import reactor

    resolver = Resolver({**NAMES, **(hosts or {})})
    previous = reactor.installNameResolver(resolver)  # type: ignore[attr-defined]
    before = socket.getaddrinfo
    socket.getaddrinfo = resolver.getaddrinfo
    try:
        yield resolver
    finally:
        socket.getaddrinfo = before
        reactor.installNameResolver(previous)  # type: ignore[attr-defined]


class ProcessResolver:
    """The same for a ``scrapy`` process: Scrapy's DNS resolver setting names this class."""

    def __init__(self, reactor: Any) -> None:
        self.reactor = reactor
        self.resolver = Resolver(json.loads(os.environ.get(HOSTS_VARIABLE) or "{}"))

    @classmethod
    def from_crawler(cls, crawler: Any, reactor: Any) -> ProcessResolver:
        return cls(reactor)

    def install_on_reactor(self) -> None:
        self.reactor.installNameResolver(self.resolver)
        socket.getaddrinfo = self.resolver.getaddrinfo


def _literal(name: str) -> str | None:
    """The canonical address when *name* is a literal in any spelling that the system accepts."""
    try:
        found = _system_getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return None
    return str(found[0][4][0])


def _is_loopback(address: str) -> bool:
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(parsed, "ipv4_mapped", None)
    return (mapped or parsed).is_loopback
