"""How a URL is spelled: the one spelling under which patterns see it, and the others that some server reads alike.

Changes spellings, decides nothing; whether a spelling is inside the job says ``scope``, where a Location leads
``redirects``, and what robots.txt compares ``urls``.

Sources: RFC 3986 sections 2, 5.2.4 and 6.2; the URL standard of WHATWG for backslashes and escaped dots.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes, urlsplit

from w3lib.url import safe_url_string

from scrapy_scour.policy.addresses import address_of
from scrapy_scour.policy.urls import canonical_host, origin_of, without_userinfo

_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ESCAPES = re.compile(r"(?:%[0-9A-F]{2})+")
_SLASHES = re.compile(r"/{2,}")
# RFC 3986 2.3; all other escapes are kept, since their characters could separate something.
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_PATH_OF_WEB_URL = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_DOT_SEGMENT = re.compile(r"/(?:\.|%2e){1,2}(?:[/?#]|\Z)", re.IGNORECASE)
# Escapes that a reader of the URL does not take for the character itself.
_NEVER_READ = frozenset("/?#%")


def normalised(url: str) -> str:
    """Return *url* as patterns see it, so that one resource has one spelling (RFC 3986 6.2.2, 6.2.3).

    Scheme, host and port are canonical, the default port, userinfo and fragment are gone, escapes
    of unreserved characters are decoded and the rest upper-case, everything beyond visible ASCII is
    escaped, dot segments are resolved, an empty path is ``/``. ``%2F`` stays different from ``/``.
    A URL of another scheme only loses userinfo and fragment.
    """
    return _respelled(url, resolve_dots=True)


def _respelled(url: str, *, resolve_dots: bool) -> str:
    try:
        safe = safe_url_string(with_slashes(url) if _is_web(url) else url)
        origin = origin_of(safe)
        parts = urlsplit(safe)
    except ValueError:
        return without_userinfo(url).partition("#")[0]
    if origin is None or parts.scheme not in {"http", "https"}:
        return without_userinfo(safe).partition("#")[0]
    path = _normal_escapes(parts.path) or "/"
    if resolve_dots:
        path = without_dot_segments(path)
    query = f"?{_normal_escapes(parts.query)}" if parts.query else ""
    return f"{origin._replace(host=canonical_name(origin.host))}{path}{query}"


def _normal_escapes(text: str) -> str:
    """Return *text* with one spelling for every octet; a ``%`` that begins no escape is an octet."""

    def spell(escape: re.Match[str]) -> str:
        character = chr(int(escape[1], 16))
        return character if character in _UNRESERVED else escape[0].upper()

    return _ESCAPE.sub(spell, _LONE_PERCENT.sub("%25", text))


def readable(url: str) -> str:
    """Return a normalised *url* as people read it: escapes decoded unless they would separate."""

    def read(escapes: re.Match[str]) -> str:
        try:
            text = unquote_to_bytes(escapes[0]).decode("utf-8")
        except UnicodeDecodeError:
            return escapes[0]
        return "".join(c if c.isprintable() and c not in _NEVER_READ else _octets(c) for c in text)

    return _ESCAPES.sub(read, url)


def _octets(character: str) -> str:
    return "".join(f"%{octet:02X}" for octet in character.encode("utf-8"))


def lenient_readings(url: str) -> Iterator[str]:
    """Yield how a server reads *url* that leaves dot segments alone, or that joins slashes."""
    as_sent = _respelled(url, resolve_dots=False)
    yield as_sent
    scheme, separator, rest = normalised(url).partition("://")
    yield f"{scheme}{separator}{_SLASHES.sub('/', rest)}"


def _is_web(url: str) -> bool:
    return url.lstrip().lower().startswith(("http:", "https:"))


def canonical_name(host: str) -> str:
    """Return *host* as names and addresses are compared: an address in its one spelling, a name in IDNA."""
    address = address_of(host)
    return canonical_host(host) if address is None else str(address)


def without_dot_segments(path: str) -> str:
    """Return *path*, which begins with "/", without ``.`` and ``..``, escaped ones too (RFC 3986 5.2.4)."""
    kept: list[str] = []
    segments = path.split("/")[1:]
    for position, segment in enumerate(segments, 1):
        dots = segment.lower().replace("%2e", ".")
        if dots not in {".", ".."}:
            kept.append(segment)
            continue
        if dots == ".." and kept:
            kept.pop()
        if position == len(segments):
            kept.append("")
    return "/" + "/".join(kept)


def with_dots_resolved(url: str) -> str:
    """Return *url* as it is read, or sent, by who resolves dot segments in its path; *url* itself without any."""
    start = _PATH_OF_WEB_URL.match(url)
    if start is None or not _DOT_SEGMENT.search(url):
        return url
    end = re.search(r"[?#]|\Z", url)
    assert end is not None
    path = url[start.end() : end.start()]
    return f"{start[0]}{without_dot_segments(path)}{url[end.start() :]}" if path else url


def with_slashes(text: str) -> str:
    """Return *text* with backslashes before the query and fragment turned, as browsers read them."""
    end = re.search(r"[?#]|\Z", text)
    assert end is not None
    return text[: end.start()].replace("\\", "/") + text[end.start() :]


def escaped(text: str) -> str:
    """Return *text* with everything but visible ASCII as percent-escapes of its bytes."""
    octets = text.encode("utf-8", "surrogateescape")
    return "".join(chr(octet) if 0x20 < octet < 0x7F else f"%{octet:02X}" for octet in octets)
