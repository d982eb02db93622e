"""Which host names stand for a machine that the public cannot reach.

Decides from the spelling alone: nothing is resolved, so an ordinary name that happens to point to
a private address is not recognised here. Every spelling that some resolver accepts counts: if any
reasonable reading is a private address, the host is private.

Sources: the IANA special-purpose registries (RFC 6890), RFC 6598 (shared space), RFC 4193 (unique
local), RFC 3056 (6to4), RFC 6052 and 8215 (NAT64), RFC 4380 (Teredo), RFC 6761 (``localhost``),
POSIX ``inet_addr`` for the numeric forms of IPv4.
"""

from __future__ import annotations

import re
import unicodedata
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from urllib.parse import unquote

#: IPv4 blocks that are not public. The documentation blocks are left out: nothing lives there.
_V4_NETWORKS = tuple(
    IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this network (RFC 791)
        "10.0.0.0/8",  # private use (RFC 1918)
        "100.64.0.0/10",  # shared by carriers (RFC 6598); also a cloud's metadata service
        "127.0.0.0/8",  # loopback (RFC 1122)
        "168.63.129.16/32",  # a cloud's service to its own machines, in public space
        "169.254.0.0/16",  # link-local (RFC 3927); most clouds' metadata service
        "172.16.0.0/12",  # private use (RFC 1918)
        "192.0.0.0/24",  # protocol assignments (RFC 6890)
        "192.168.0.0/16",  # private use (RFC 1918)
        "198.18.0.0/15",  # device tests inside a network (RFC 2544)
        "240.0.0.0/4",  # reserved, with the limited broadcast (RFC 1112, RFC 919)
    )
)
_V6_NETWORKS = tuple(
    IPv6Network(block)
    for block in (
        "::/127",  # unspecified and loopback (RFC 4291)
        "64:ff9b:1::/48",  # NAT64 inside one network (RFC 8215)
        "100::/64",  # discard only (RFC 6666)
        "fc00::/7",  # unique local (RFC 4193)
        "fe80::/10",  # link-local (RFC 4291)
        "fec0::/10",  # site-local, deprecated but still in use (RFC 3879)
    )
)
#: IPv6 blocks that carry an IPv4 address: the block and how many bits stand to the right of it.
_V4_INSIDE_V6 = (
    (IPv6Network("::/96"), 0),  # IPv4-compatible (RFC 4291 2.5.5.1)
    (IPv6Network("::ffff:0:0/96"), 0),  # IPv4-mapped (RFC 4291 2.5.5.2)
    (IPv6Network("::ffff:0:0:0/96"), 0),  # IPv4-translated (RFC 2765)
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64 (RFC 6052)
    (IPv6Network("2002::/16"), 80),  # 6to4 (RFC 3056)
)
_TEREDO = IPv6Network("2001::/32")
_V4_MASK = 0xFFFFFFFF

_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")
_METADATA_NAMES = ("metadata.google.internal", "metadata.goog")

_HEXADECIMAL = re.compile(r"0x[0-9a-f]*\Z")
_OCTAL = re.compile(r"0[0-7]*\Z")
_DECIMAL = re.compile(r"[0-9]+\Z")


def is_private(host: str) -> bool:
    """Return whether *host* is, by its spelling, loopback, private, link-local or the like.

    *host* is a name or an address as it stands in a URL: with or without brackets, zone,
    trailing dot, escapes, full-width digits. Unreadable hosts and ordinary names are not private;
    whether they are usable is another question.
    """
    name = _plain(host)
    if any(name == local or name.endswith(f".{local}") for local in _LOCAL_NAMES):
        return True
    if name in _METADATA_NAMES:
        return True
    address = address_of(host)
    if isinstance(address, IPv6Address):
        return _is_private_v6(address)
    if address is not None and _is_private_v4(address):
        return True
    # Some resolvers read 010.0.0.1 as 10.0.0.1, others as 8.0.0.1: the private reading counts.
    as_decimal = _read_numbers(name, leading_zero_is_octal=False)
    return as_decimal is not None and _is_private_v4(as_decimal)


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address that *host* spells, None if it is a name.

    IPv4 is read as ``inet_aton`` does: one to four numbers, decimal, octal (leading 0) or
    hexadecimal (leading 0x), the last of which fills what is left. A zone id is dropped.
    """
    name = _plain(host)
    if ":" in name:
        try:
            return IPv6Address(name)
        except ValueError:
            return None
    return _read_numbers(name, leading_zero_is_octal=True)


def _plain(host: str) -> str:
    """Return *host* lower-case, without brackets, zone, escapes, trailing dot and odd digits."""
    name = host.strip().removeprefix("[").removesuffix("]")
    # RFC 6874: the zone follows "%" (in a URL "%25"); only IPv6 addresses have one.
    name = name.partition("%")[0] if ":" in name else unquote(name, errors="replace")
    if not name.isascii():
        # IDNA (RFC 3490 3.1, RFC 3491): other full stops are dots, full-width digits are digits,
        # and invisible characters are dropped.
        name = unicodedata.normalize("NFKC", name).replace("\u3002", ".")
        name = "".join(c for c in name if unicodedata.category(c) not in {"Cf", "Mn"})
    return name.lower().removesuffix(".")


def _read_numbers(name: str, *, leading_zero_is_octal: bool) -> IPv4Address | None:
    parts = name.split(".")
    if len(parts) > 4:
        return None
    numbers = [_read_number(part, leading_zero_is_octal) for part in parts]
    value = 0
    for position, number in enumerate(numbers):
        last = position == len(numbers) - 1
        bits_left = 8 * (4 - position)
        if number is None or number >= 1 << (bits_left if last else 8):
            return None
        value |= number << (0 if last else bits_left - 8)
    return IPv4Address(value)


def _read_number(part: str, leading_zero_is_octal: bool) -> int | None:
    """Return one number of an IPv4 address, None if it is none or longer than any address.

    A bare ``0x`` is 0 for browsers and nothing for C libraries; it is read as 0.
    """
    if _HEXADECIMAL.match(part):
        digits, base = part[2:], 16
    elif leading_zero_is_octal and part.startswith("0"):
        if not _OCTAL.match(part):
            return None
        digits, base = part, 8
    elif _DECIMAL.match(part):
        digits, base = part, 10
    else:
        return None
    digits = digits.lstrip("0")
    # 32 bits are 11 octal digits; Python refuses to read thousands of decimal ones.
    if len(digits) > 11:
        return None
    return int(digits or "0", base)


def _is_private_v4(address: IPv4Address) -> bool:
    return any(address in network for network in _V4_NETWORKS)


def _is_private_v6(address: IPv6Address) -> bool:
    if any(address in network for network in _V6_NETWORKS):
        return True
    value = int(address)
    if address in _TEREDO:  # the client's address stands inverted in the last 32 bits
        return _is_private_v4(IPv4Address(~value & _V4_MASK))
    return any(
        _is_private_v4(IPv4Address(value >> shift & _V4_MASK)) for network, shift in _V4_INSIDE_V6 if address in network
    )
