"""URLs as the policies compare them: the only place that takes one apart.

Decides which origin a URL belongs to, when two URLs are of the same host, and when two spellings of a path
are the same path for robots.txt.  It does not resolve names, does not repair URLs and does not know which
addresses are private.  Nothing here raises on any text.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from scrapy_scour.policy.addresses import address_of

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

# What no host name holds: the delimiters of a URL, space, controls and a backslash, which browsers read as
# "/" and Python as part of the host.  Where two readings name two hosts, neither is taken.
_NO_HOST_CHARACTER = re.compile(r"[\x00-\x20\x7f\\/?#@:\[\]<>^|]")
_DOTS: Final = ".\u3002\uff0e\uff61"  # RFC 3490 3.1
# What the last label of an IPv4 address is, in any spelling; none of a name that is in the DNS of the world.
_NUMBER_AT_END = re.compile(r"(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)\Z")
_AUTHORITY_WITH_USERINFO = re.compile(r"^(\s*(?:[A-Za-z][A-Za-z0-9+.\-]*:)?[/\\]{2,})[^/?#]*@")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*\Z")


class Origin(NamedTuple):
    """Scheme, host and port: the unit that has a robots.txt of its own (RFC 9309 2.3).

    ``scheme`` is ``http`` or ``https``; ``host`` is canonical (see `canonical_host`), an IPv6 address without
    brackets; ``port`` is always a number, the default one included.
    """

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _DEFAULT_PORTS.get(self.scheme) else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    @property
    def robots_url(self) -> str:
        """Where the rules of this origin are (RFC 9309 2.3)."""
        return f"{self}/robots.txt"


def canonical_host(name: str) -> str:
    """A bare host name as it is compared: lower case, IDNA, no trailing dot, IPv6 compressed and without
    brackets, IPv4 in dotted decimal.  ``127.1`` and ``0x7f000001`` lead to the same server as ``127.0.0.1``.

    Returns ``""`` when the text is no host name.  A label that IDNA refuses (too long) is kept as it is, as
    Scrapy does.
    """
    name = name.strip().lower()
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    if ":" in name:
        try:
            return IPv6Address(name).compressed
        except ValueError:
            return ""
    name = name.rstrip(_DOTS)
    if not name.isascii():
        try:
            name = name.encode("idna").decode("ascii").lower()
        except UnicodeError:
            if any("\ud800" <= character <= "\udfff" for character in name):
                return ""
    if _NUMBER_AT_END.search(name):
        address = address_of(name)
        if address is not None:
            return str(address)
    return "" if _NO_HOST_CHARACTER.search(name) else name


def origin_of(url: str) -> Origin | None:
    """The origin of an http or https URL; None for another scheme, no host, a bad port or two readings of the
    host.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    default = _DEFAULT_PORTS.get(parts.scheme)
    if default is None or port == 0 or "\\" in parts.netloc:
        return None
    host = canonical_host(parts.hostname or "")
    return Origin(parts.scheme, host, default if port is None else port) if host else None


def host_of(url: str) -> str:
    """The canonical host name of a URL of any scheme, ``""`` if it has none."""
    try:
        parts = urlsplit(url)
        hostname = parts.hostname or ""
    except ValueError:
        return ""
    return "" if "\\" in parts.netloc else canonical_host(hostname)


def same_host(a: str, b: str) -> bool:
    """Whether going from ``a`` to ``b`` stays on one host: the same origin, or http to https on the default
    ports.

    Directional: https back to http is another host.  A URL without an http(s) origin is on no host at all.
    """
    here, there = origin_of(a), origin_of(b)
    if here is None or there is None:
        return False
    return here == there or (here == ("http", there.host, 80) and there[::2] == ("https", 443))


def without_userinfo(url: str) -> str:
    """The same URL without ``user:password@``, for logs and Referer; everything else stays as it is."""
    return _AUTHORITY_WITH_USERINFO.sub(r"\1", url) if "@" in url else url


# --- Paths as robots.txt compares them (RFC 9309 2.2.2) -----------------------------------------------------
#
# In the normal form an escape is "%" and two octets above ASCII, one for each half: as long as the escape it
# stands for, equal for both cases of its hex digits, and no part of it can be mistaken for another character,
# so that a plain search for bytes never matches half an escape.

_UNRESERVED: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"  # RFC 3986 2.3
_RESERVED: Final = b":/?#[]@!$&'()*+,;="  # RFC 3986 2.2
PLAIN: Final = _UNRESERVED + _RESERVED
"""Octets that are their own normal form; the rest (``%`` too) needs `normal_path`."""

# Raw or escaped is the same: the literal characters of RFC 9309 2.2.3 everywhere; reserved ones in a query,
# where they delimit nothing; and, for a Disallow only, what RFC 3986 2.2 lets a server treat as it likes.
_LITERAL: Final = b"*$"
_QUERY_RESERVED: Final = b":/?#[]@"
_EITHER_SPELLING: Final = b":[]@!&'()+,;="

_NEEDS_WORK = re.compile(rb"%[0-9A-Fa-f]{2}|[^" + re.escape(PLAIN) + rb"]")


def _escape(octet: int) -> bytes:
    return bytes((0x25, 0x80 | octet >> 4, 0x80 | octet & 15))


def _spellings(folded: bytes) -> dict[bytes, bytes]:
    """Every escape, in each case of its digits, and every octet that must be escaped, with its normal form."""
    table = {bytes((octet,)): _escape(octet) for octet in range(256) if octet not in PLAIN}
    for octet in range(256):
        form = bytes((octet,)) if octet in folded else _escape(octet)
        for high in {f"{octet >> 4:x}", f"{octet >> 4:X}"}:
            for low in {f"{octet & 15:x}", f"{octet & 15:X}"}:
                table[f"%{high}{low}".encode()] = form
    return table


_COUNTED = _spellings(_UNRESERVED)
_PATH, _QUERY = (
    (_spellings(_UNRESERVED + _LITERAL), _spellings(_UNRESERVED + _LITERAL + _EITHER_SPELLING)),
    (
        _spellings(_UNRESERVED + _LITERAL + _QUERY_RESERVED),
        _spellings(_UNRESERVED + _LITERAL + _QUERY_RESERVED + _EITHER_SPELLING),
    ),
)


def _replaced(raw: bytes, table: dict[bytes, bytes]) -> bytes:
    return _NEEDS_WORK.sub(lambda found: table[found[0]], raw)


def is_plain(raw: bytes) -> bool:
    """Whether the octets are their own normal form, wherever they stand."""
    return not raw.translate(None, PLAIN)


def normal_path(raw: bytes, *, either_spelling: bool) -> bytes:
    """The normal form of a path with its query; the first ``?`` starts the query.

    ``either_spelling``: also treat the escaped sub-delimiters as the raw ones (for a Disallow).
    """
    if is_plain(raw):
        return raw
    path, mark, query = raw.partition(b"?")
    path = _replaced(path, _PATH[either_spelling])
    return path + mark + _replaced(query, _QUERY[either_spelling]) if mark else path


def normal_query(raw: bytes, *, either_spelling: bool) -> bytes:
    """The normal form of octets that stand in a query as a whole."""
    return raw if is_plain(raw) else _replaced(raw, _QUERY[either_spelling])


def normal_length(raw: bytes) -> int:
    """How many octets a pattern has after normalisation, by which the most specific rule is found (RFC 9309
    2.2.2).

    What follows a ``?`` counts as RFC 9309's own table writes it, with the reserved characters escaped.
    """
    if not is_plain(raw):
        raw = _replaced(raw, _COUNTED)
    query = raw.find(b"?") + 1
    if not query:
        return len(raw)
    return len(raw) + 2 * (len(raw) - query - len(raw[query:].translate(None, _QUERY_RESERVED)))


def octets_of(text: str) -> bytes:
    """The octets of a text, whatever it holds; bytes that came smuggled in a str come back as they were."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        try:
            return text.encode(errors="surrogateescape")
        except UnicodeEncodeError:
            return text.encode(errors="surrogatepass")


def base_of(url: str) -> str:
    """An http(s) URL up to and with the slash that starts its path, as written; ``""`` if it has none there."""
    start = url.find("/", 8) + 1  # behind the authority, of which there is at least one character
    base = url[:start]
    return base if start and base.startswith(("http://", "https://")) and "?" not in base and "#" not in base else ""


def path_and_query(url: str) -> bytes:
    """What is asked of the server: path and query of an absolute URL (or of a bare path), without the
    fragment.

    The octets are as written; an absent path is ``/``.  A ``?`` with nothing behind it stays, a rule may end
    in one.
    """
    base = base_of(url)
    if base and "#" not in url:
        return octets_of(url[len(base) - 1 :])
    url = url.partition("#")[0]
    if not url.startswith("/"):
        scheme, mark, rest = url.partition("://")
        if mark and _SCHEME.match(scheme):
            path, question, query = rest.partition("?")
            url = f"/{path.partition('/')[2]}{question}{query}"
        else:
            url = f"/{url}"
    return octets_of(url)
