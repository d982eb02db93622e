"""The boundary of a crawl: which requests and redirect hops belong to the job.

Decides from ``allowed_domains``, include and exclude patterns and, for hops, the kind of address.
Does not read settings or spiders (the middleware does), and says nothing about robots.txt.

Leniency never opens anything: an exclude pattern refuses if any reasonable reading of the URL
matches, an include pattern allows only the normalised URL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scrapy_scour.policy.addresses import address_of, is_private
from scrapy_scour.policy.spelling import canonical_name, lenient_readings, normalised, readable
from scrapy_scour.policy.urls import host_of, origin_of
from scrapy_scour.policy.verdict import Verdict

_ALLOWED = Verdict(True)
_DOMAIN = re.compile(r"(?!.{254})[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\Z")


class ScopeError(ValueError):
    """Values that cannot be a scope. ``problems`` has one sentence for each, with its rule."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True)
class Scope:
    """The boundary of one job. Build it with :meth:`build`, which checks and corrects.

    ``domains``
        Canonical names and addresses that are inside; empty: every host is.
    ``include``, ``exclude``
        Patterns that are searched in the :func:`spelling.normalised` URL: at least one of the first (if
        there are any) and none of the second must match. A pattern with characters beyond ASCII is
        searched in the readable spelling.
    """

    domains: frozenset[str] = frozenset()
    include: tuple[re.Pattern[str], ...] = ()
    exclude: tuple[re.Pattern[str], ...] = ()

    @classmethod
    def build(
        cls,
        allowed_domains: Iterable[object] | None,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
    ) -> tuple[Scope, list[str]]:
        """Return the scope and, in plain words, what had to be corrected in ``allowed_domains``.

        None or nothing in ``allowed_domains`` means every host, as in Scrapy.

        Raises ScopeError (a ValueError) that names every value that cannot be corrected.
        """
        warnings: list[str] = []
        problems: list[str] = []
        domains = frozenset(_domains(allowed_domains, warnings, problems))
        included = tuple(_patterns("include", include, problems))
        excluded = tuple(_patterns("exclude", exclude, problems))
        if problems:
            raise ScopeError(problems)
        return cls(domains, included, excluded), warnings

    def allows_host(self, host: str) -> bool:
        """Return whether *host* is inside: it or a domain above it is listed, or none are.

        An address is inside only if that address is listed, in whatever spelling.
        """
        return not self.domains or self.names_host(host)

    def names_host(self, host: str) -> bool:
        """Return whether the list of domains covers *host*; False if there is no list."""
        if not self.domains or not host:
            return False
        name = canonical_name(host)
        if name in self.domains:
            return True
        if address_of(host) is not None:
            return False
        above = (name[dot.end() :] for dot in re.finditer(r"\.", name))
        return any(domain in self.domains and address_of(domain) is None for domain in above)

    def contains_all_of(self, host: str) -> bool:
        """Return whether every URL of *host* is inside, whoever asks for it and in whatever way."""
        return not self.include and not self.exclude and self.allows_host(host)

    def judge_request(self, url: str, *, dont_filter: bool = False, allow_offsite: bool = False) -> Verdict:
        """Judge what the spider itself asks for.

        ``dont_filter`` exempts from the list of domains, ``allow_offsite`` from patterns too.
        """
        if allow_offsite:
            return _ALLOWED
        if self.domains and not dont_filter and not self.allows_host(host_of(url)):
            return _off_domain(url)
        return self._judge_patterns(url)

    def judge_hop(
        self,
        source_url: str,
        target_url: str,
        *,
        exempt_host: str | None = None,
        allow_offsite: bool = False,
        private_addresses: bool = False,
    ) -> Verdict:
        """Judge a redirect from *source_url* to *target_url*, before anything is sent to it.

        ``exempt_host``
            The host on which the request was let out of the list of domains (``allow_offsite``, or
            a start request out of scope). Only hops from that host to itself profit. None: none.
        ``allow_offsite``
            Whether that exemption was ``allow_offsite``, which covers the patterns as well.
        ``private_addresses``
            Whether public sites may redirect to private addresses that the scope does not name.
        """
        if origin_of(target_url) is None:
            return Verdict(False, "the target is no usable http or https URL", "scope: target")
        source, target = host_of(source_url), host_of(target_url)
        exempt = exempt_host is not None and {*map(canonical_name, (source, target))} == {canonical_name(exempt_host)}
        private = is_private(target) and not self.names_host(target)
        if private and not private_addresses and not is_private(source):
            return Verdict(
                False,
                f"{target!r} is a private address and the hop comes from outside",
                "scope: private address",
            )
        if not exempt and not self.allows_host(target):
            return _off_domain(target_url)
        if exempt and allow_offsite:
            return _ALLOWED
        return self._judge_patterns(target_url)

    def _judge_patterns(self, url: str) -> Verdict:
        if not self.include and not self.exclude:
            return _ALLOWED
        plain = normalised(url)
        as_read = readable(plain)
        readings = {plain, as_read, *lenient_readings(url)} if self.exclude else set()
        for pattern in self.exclude:
            if any(pattern.search(reading) for reading in readings):
                return Verdict(False, f"matches {pattern.pattern!r}", f"scope: excluded pattern {pattern.pattern!r}")
        for pattern in self.include:
            if pattern.search(plain if pattern.pattern.isascii() else as_read):
                return _ALLOWED
        if self.include:
            return Verdict(False, "matches none of the included patterns", "scope: included patterns")
        return _ALLOWED


def _off_domain(url: str) -> Verdict:
    host = host_of(url)
    reason = f"{host!r} is not in allowed_domains" if host else "a URL without a host is not in allowed_domains"
    return Verdict(False, reason, "scope: allowed_domains")


def _domains(values: Iterable[object] | None, warnings: list[str], problems: list[str]) -> Iterator[str]:
    if values is None:
        return
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        problems.append(f"allowed_domains: {values!r} must be a list of domain names, not one value")
        return
    for value in values:
        domain = _domain(value)
        if domain is None:
            rule = "must be a domain name such as 'example.com', or an address"
            problems.append(f"allowed_domains: {_printable(value)} {rule}")
            continue
        if domain != value:
            warnings.append(f"allowed_domains: {_printable(value)} was read as {domain!r}: {_why(str(value))}")
        yield domain


def _domain(value: object) -> str | None:
    """Return the canonical domain that *value* means, None if it means none."""
    if not isinstance(value, str) or re.search(r"[\s\\]", value):
        return None
    text = value
    is_url = "://" in text or text.startswith("//")
    if is_url:
        text = text.partition("//")[2]
    text = re.split(r"[/?#]", text, maxsplit=1)[0]
    if is_url:
        text = text.rpartition("@")[2]
    if address_of(text) is None:  # "::1" ends like a port but has none
        text = re.sub(r":[0-9]*\Z", "", text)
    name = canonical_name(text.removeprefix("*.").removeprefix("."))
    return name if ":" in name or _DOMAIN.match(name) else None


def _why(value: str) -> str:
    """Return what of *value* is not part of a domain name; the first reason found."""
    reasons = (
        ("://" in value or value.startswith("//"), "it is a URL; to limit paths use an include pattern"),
        ("/" in value, "paths are not part of it; to limit paths use an include pattern"),
        (value.startswith(("*.", ".")), "subdomains are always included"),
        (bool(re.search(r"[^:]:[0-9]*\Z", value)) and value.count(":") == 1, "ports are not part of it"),
        (value.endswith("."), "the trailing dot is not needed"),
        (not value.isascii(), "names are compared in ASCII (IDNA)"),
        (value != value.lower(), "names are lower-case"),
    )
    return next((reason for holds, reason in reasons if holds), "this is its canonical form")


def _printable(value: object) -> str:
    """Return *value* for a message, never with a user name or password."""
    if isinstance(value, str) and "@" in value:
        return repr(f"...@{value.rpartition('@')[2]}")
    return repr(value)


def _patterns(name: str, values: Iterable[str], problems: list[str]) -> Iterator[re.Pattern[str]]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        problems.append(f"scope {name}: {values!r} must be a list of regular expressions, not one value")
        return
    for value in values:
        source: object = value.pattern if isinstance(value, re.Pattern) else value
        if not isinstance(source, str) or not source:
            problems.append(f"scope {name}: {value!r} must be a regular expression that is not empty")
            continue
        try:
            yield re.compile(value)
        except (re.error, RecursionError, OverflowError) as error:
            problems.append(f"scope {name}: {value!r} must be a regular expression: {error}")
