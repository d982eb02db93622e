"""What a redirect asks for: the URL, the method, and what of the request may go along.

Decides the absolute URL behind a ``Location``, the method and headers of the next request, and
whether a chain turns in a circle. Does not decide whether the target may be asked (``scope``,
``robots``) nor how many hops are too many (the middleware, by ``REDIRECT_MAX_TIMES``).

Sources: RFC 9110 section 15.4 (redirection) and 10.2.2 (Location), RFC 3986 section 5; where a
``Location`` is no valid reference, what browsers do (the URL standard of WHATWG), because that is
what its author has tried it with.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

from w3lib.url import safe_url_string

from scrapy_scour.policy.addresses import address_of
from scrapy_scour.policy.spelling import escaped, with_slashes, without_dot_segments
from scrapy_scour.policy.urls import canonical_host, origin_of, without_userinfo

#: Statuses whose Location is followed (RFC 9110 15.4.2 to 15.4.9, without 300, 304 and 305).
REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})

#: Request headers that may go to another host. Referer has a policy of its own.
DEFAULT_SAFE_HEADERS: tuple[str, ...] = ("Accept", "Accept-Encoding", "Accept-Language", "User-Agent")

# RFC 9110 15.4: content-specific fields go when the content goes; and those of its framing.
_CONTENT_FIELDS = frozenset({"digest", "repr-digest", "last-modified", "transfer-encoding", "trailer", "expect"})
# Without these a body that travels to another host would mean something else there.
_BODY_MEANING = frozenset({"content-type", "content-encoding"})

_DEFAULT_PORTS = {"http": "80", "https": "443"}
_C0_AND_SPACE = "".join(map(chr, range(0x21)))
_TAB_AND_NEWLINE = {ord(character): None for character in "\t\n\r"}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BRACKETED = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::(.*))?\Z", re.DOTALL)
_HOST_NAME = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\Z")
_MOST_CHARACTERS = 300


@dataclass(frozen=True)
class Target:
    """Where a Location leads.

    ``url``
        The absolute URL as it would be requested, without userinfo; None if there is none.
    ``problem``
        Why the URL must not be followed, without the URL; empty if nothing is wrong with its form.
        A URL of a scheme other than http(s) is given together with its problem.
    ``userinfo_removed``
        Whether the Location carried a user name or password (RFC 9110 4.2.4).
    """

    url: str | None
    problem: str = ""
    userinfo_removed: bool = False


class _Unusable(ValueError):
    """The reference leads nowhere; the message says why."""


class _Reference(NamedTuple):
    """An absolute http(s) URL in parts; ``authority`` is host and port without userinfo."""

    scheme: str
    authority: str
    path: str
    query: str | None
    fragment: str | None
    had_userinfo: bool


def resolve_location(base_url: str, location: bytes, *, base_fragment: str | None = None) -> Target:
    """Return where *location*, a raw header value, leads from *base_url*; never raises.

    ``base_fragment`` (default: that of *base_url*) is inherited by a target that has no fragment
    (RFC 9110 10.2.2). Bytes above ASCII are kept as bytes and escaped. The URL in the result is
    left unchanged by ``w3lib.url.safe_url_string``, so it is the one that will be requested.
    """
    text = location.decode("utf-8", "surrogateescape")
    text = text.strip(_C0_AND_SPACE).translate(_TAB_AND_NEWLINE)
    if not text:
        return Target(None, "the Location is empty")
    scheme = _SCHEME.match(text)
    if scheme and scheme[1].lower() not in _DEFAULT_PORTS:
        return _other_scheme(text, scheme[1].lower())
    try:
        base = _base(base_url)
        found = _resolve(base, text)
        if found.fragment is None:
            found = found._replace(fragment=base.fragment if base_fragment is None else base_fragment)
        return Target(_written(found), "", found.had_userinfo)
    except _Unusable as error:
        return Target(None, str(error))
    except ValueError:
        return Target(None, "the Location is no URL")


def next_method(status: int, method: str) -> tuple[str, bool]:
    """Return the method after *status* and whether the body is kept (RFC 9110 15.4.2 to 15.4.9)."""
    if status in {307, 308}:
        return method, True
    if status == 303:
        return ("HEAD" if method == "HEAD" else "GET"), False
    if method in {"GET", "HEAD"}:
        return method, True
    return "GET", False


def headers_to_keep(names: Iterable[str], *, same_host: bool, body_kept: bool, safe: Collection[str]) -> list[str]:
    """Return those of *names* that the next request may carry, in their order and spelling.

    ``same_host`` is whether source and target are one host in the sense of ``urls.same_host``;
    ``body_kept`` whether the body goes along on this hop; ``safe`` the names that may go to another
    host. Host is made anew for every request (RFC 9110 7.2).
    """
    harmless = {name.lower() for name in safe}
    if body_kept:
        harmless |= _BODY_MEANING

    def survives(name: str) -> bool:
        field = name.lower()
        if field == "host":
            return False
        if not body_kept and (field.startswith("content-") or field in _CONTENT_FIELDS):
            return False
        return same_host or field in harmless

    return [name for name in names if survives(name)]


def trail_key(url: str) -> str:
    """Return *url* as a chain remembers it: no fragment, no userinfo, no default port, host lower-case.

    Path, query and a trailing dot of the host stay as written: a site that redirects from one
    spelling to another does not turn in a circle.
    """
    bare = without_userinfo(url).partition("#")[0]
    try:
        parts = urlsplit(bare)
    except ValueError:
        return bare
    host = parts.netloc.rpartition("@")[2].lower()
    default = _DEFAULT_PORTS.get(parts.scheme)
    if default is None:
        return bare
    host = host.removesuffix(f":{default}").removesuffix(":")
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{host}{parts.path or '/'}{query}"


def is_loop(trail: Sequence[tuple[str, str, int]], method: str, url: str, cookies_version: int) -> bool:
    """Return whether asking for *url* would repeat a request of the chain (RFC 9110 15.4).

    ``trail`` has one ``(method, trail_key(url), cookies_version)`` for every request so far, as
    tuples or, after JSON, lists. ``cookies_version`` counts the new cookies of the chain: the same
    method and URL again is no loop if a cookie has come in since.
    """
    key = trail_key(url)
    return any(
        method.upper() == asked.upper() and key == asked_key and version >= cookies_version
        for asked, asked_key, version in trail
    )


def shorten_trail(urls: Sequence[str], most: int = 10) -> list[str]:
    """Return *urls* for a message: at most *most* (>= 1) entries, the middle counted, no userinfo."""
    if most < 1:
        raise ValueError(f"most must be 1 or more, not {most}")
    if len(urls) <= most:
        return [_shown(url) for url in urls]
    first = most // 2
    last = most - first - 1
    left_out = len(urls) - first - last
    tail = urls[len(urls) - last :]
    return [*map(_shown, urls[:first]), f"... {left_out} more ...", *map(_shown, tail)]


def _shown(url: str) -> str:
    bare = without_userinfo(url)
    return bare if len(bare) <= _MOST_CHARACTERS else f"{bare[: _MOST_CHARACTERS - 3]}..."


def _other_scheme(text: str, scheme: str) -> Target:
    problem = f"scheme {scheme[:20]!r} is neither http nor https"
    try:
        url = safe_url_string(escaped(text))
        bare = without_userinfo(url)
        if safe_url_string(bare) == bare:
            return Target(bare, problem, bare != url)
    except ValueError:
        pass
    return Target(None, problem)


def _base(url: str) -> _Reference:
    scheme = _SCHEME.match(url)
    if not scheme or scheme[1].lower() not in _DEFAULT_PORTS:
        raise _Unusable("the redirecting URL is neither http nor https")
    return _absolute(scheme[1].lower(), with_slashes(url[scheme.end() :]))


def _resolve(base: _Reference, text: str) -> _Reference:
    """Resolve *text* as the URL standard's parser does for http(s) (its "special" schemes)."""
    scheme = base.scheme
    if match := _SCHEME.match(text):
        scheme = match[1].lower()
        text = text[match.end() :]
    text = with_slashes(text)
    # "https:b.example" has an authority if it changes the scheme; "http:x" is a path if not.
    if text.startswith("//") or scheme != base.scheme:
        return _absolute(scheme, text)
    path, query, fragment = _cut(text)
    if not path:
        path = base.path
        query = base.query if query is None else query
    elif not path.startswith("/"):
        path = base.path[: base.path.rindex("/") + 1] + path
    return base._replace(path=without_dot_segments(path), query=query, fragment=fragment, had_userinfo=False)


def _absolute(scheme: str, text: str) -> _Reference:
    """Read *text*, what follows the colon; however many slashes lead to the authority."""
    rest = text.lstrip("/")
    end = re.search(r"[/?#]|\Z", rest)
    assert end is not None
    authority, had_userinfo = _authority(rest[: end.start()], _DEFAULT_PORTS[scheme])
    path, query, fragment = _cut(rest[end.start() :])
    return _Reference(scheme, authority, without_dot_segments(path or "/"), query, fragment, had_userinfo)


def _cut(text: str) -> tuple[str, str | None, str | None]:
    """Return path, query and fragment of *text*; None for one that is not there."""
    before, hash_mark, fragment = text.partition("#")
    path, question_mark, query = before.partition("?")
    return path, query if question_mark else None, fragment if hash_mark else None


def _authority(text: str, default_port: str) -> tuple[str, bool]:
    """Return host and port of *text* without userinfo, and whether there was some."""
    _, userinfo, place = text.rpartition("@")
    bracketed = _BRACKETED.match(place)
    if bracketed:
        host, port = f"[{IPv6Address(bracketed[1])}]", bracketed[2] or ""
    else:
        name, _, port = place.partition(":")
        host = _host(name)
    if not re.fullmatch(r"0*[0-9]{0,5}", port) or (port and not 0 < int(port) < 65536):
        raise _Unusable("the port is not a number from 1 to 65535")
    port = port.lstrip("0")
    return (f"{host}:{port}" if port and port != default_port else host), bool(userinfo)


def _host(name: str) -> str:
    """Return *name* as it is asked for: unescaped, in ASCII, addresses in dotted decimal."""
    if not name:
        raise _Unusable("there is no host")
    plain = unquote_to_bytes(name.encode("utf-8", "surrogateescape")).decode("utf-8")
    host = canonical_host(plain)
    if not _HOST_NAME.match(host):
        raise _Unusable("the host is no valid name")
    address = address_of(host)
    if isinstance(address, IPv4Address):
        return str(address)
    return f"{host}." if plain.endswith(".") else host


def _written(found: _Reference) -> str:
    query = "" if found.query is None else f"?{escaped(found.query)}"
    fragment = f"#{escaped(found.fragment)}" if found.fragment else ""
    url = safe_url_string(f"{found.scheme}://{found.authority}{escaped(found.path)}{query}{fragment}")
    if origin_of(url) is None or safe_url_string(url) != url:
        raise _Unusable("the Location has no stable form")
    return url
