"""Private hosts, by their spelling."""

from __future__ import annotations

import ipaddress
import socket
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_scour.policy.addresses import address_of, is_private

PRIVATE: Final[list[tuple[str, str]]] = [
    ("loopback RFC1122-3.2.1.3", "127.0.0.1"),
    ("loopback far end", "127.255.255.254"),
    ("this network RFC791-3.2", "0.0.0.0"),
    ("this network, other address", "0.1.2.3"),
    ("RFC1918 ten", "10.0.0.5"),
    ("RFC1918 172 first", "172.16.0.0"),
    ("RFC1918 172 last", "172.31.255.255"),
    ("RFC1918 192", "192.168.1.1"),
    ("link-local RFC3927", "169.254.1.1"),
    ("metadata", "169.254.169.254"),
    ("metadata in shared space", "100.100.100.200"),
    ("metadata in public space", "168.63.129.16"),
    ("metadata by name", "metadata.google.internal"),
    ("metadata by name, dot and case", "Metadata.Google.Internal."),
    ("shared RFC6598 first", "100.64.0.0"),
    ("shared RFC6598 last", "100.127.255.255"),
    ("broadcast", "255.255.255.255"),
    ("decimal", "2130706433"),
    ("hexadecimal", "0x7f000001"),
    ("hexadecimal, upper case", "0X7F.1"),
    ("hexadecimal and short", "0x7f.1"),
    ("short", "127.1"),
    ("three parts", "10.0.5"),
    ("octal", "017700000001"),
    ("octal parts", "0177.0.0.01"),
    ("octal with many zeros", "000000000000000000000177.1"),
    ("leading zero read as decimal", "010.0.0.1"),
    ("zero", "0"),
    ("bare 0x, zero for browsers", "0x.1"),
    ("trailing dot", "127.0.0.1."),
    ("decimal with trailing dot", "2130706433."),
    ("full-width digits", "１２７．０．０．１"),
    ("ideographic full stops", "127。0。0。1"),
    ("circled digits", "①②⑦.0.0.①"),
    ("soft hyphen", "127\u00ad.0.0.1"),
    ("escapes", "%31%32%37.0.0.1"),
    ("spaces around", " 127.0.0.1 "),
    ("localhost RFC6761-6.3", "localhost"),
    ("localhost, case and dot", "LocalHost."),
    ("localhost, zero width space", "local\u200bhost"),
    ("under localhost RFC6761-6.3", "db.internal.localhost"),
    ("localhost in a domain of its own", "localhost.localdomain"),
    ("v6 loopback RFC4291-2.5.3", "::1"),
    ("v6 loopback in brackets", "[::1]"),
    ("v6 loopback in full", "[0:0:0:0:0:0:0:1]"),
    ("v6 unspecified RFC4291-2.5.2", "[::]"),
    ("v6 link-local RFC4291-2.5.6", "[fe80::1]"),
    ("v6 link-local with zone RFC6874", "[fe80::1%25eth0]"),
    ("v6 link-local with bare zone", "fe80::1%eth0"),
    ("v6 loopback with zone", "[::1%25lo]"),
    ("v6 unique local RFC4193", "[fd00:ec2::254]"),
    ("v6 unique local, first half", "[fc00::1]"),
    ("v6 site-local RFC3879", "[fec0::1]"),
    ("v4-mapped RFC4291-2.5.5.2", "[::ffff:10.0.0.1]"),
    ("v4-mapped in hexadecimal", "[::FFFF:7f00:1]"),
    ("v4-compatible RFC4291-2.5.5.1", "[::127.0.0.1]"),
    ("v4-translated RFC2765", "[::ffff:0:127.0.0.1]"),
    ("6to4 RFC3056", "[2002:7f00:1::]"),
    ("6to4 of RFC1918", "[2002:c0a8:101::1]"),
    ("NAT64 RFC6052", "[64:ff9b::10.0.0.1]"),
    ("NAT64 local RFC8215", "[64:ff9b:1::8.8.8.8]"),
    ("Teredo RFC4380, client 127.0.0.1", "[2001:0:4136:e378:8000:63bf:80ff:fffe]"),
]

PUBLIC: Final[list[tuple[str, str]]] = [
    ("name", "a.example"),
    ("name that begins like an address", "127.0.0.1.example"),
    ("name that ends like localhost", "notlocalhost"),
    ("localhost as a label to the left", "localhost.example"),
    ("v4", "8.8.8.8"),
    ("v4 before RFC1918 172", "172.15.255.255"),
    ("v4 after RFC1918 172", "172.32.0.0"),
    ("v4 before shared", "100.63.255.255"),
    ("v4 after shared", "100.128.0.0"),
    ("beside the service in public space", "168.63.129.17"),
    ("v4 in hexadecimal", "0x08080808"),
    ("v6", "[2606:4700:4700::1111]"),
    ("v4-mapped of a public one", "[::ffff:8.8.8.8]"),
    ("6to4 of a public one", "[2002:808:808::1]"),
    ("NAT64 of a public one", "[64:ff9b::8.8.8.8]"),
    ("empty", ""),
    ("five parts", "127.0.0.0.1"),
    ("empty part", "127..1"),
    ("not hexadecimal", "0x7g.1"),
    ("too large for one part", "4294967296"),
    ("part over 255", "127.256.0.1"),
    ("unreadable v6", "[::1::]"),
    ("thousands of digits", "1" * 6000),
]

_NUMBER: Final = st.one_of(
    st.integers(0, 300).map(str),
    st.integers(0, 2**33).map(str),
    st.integers(0, 2**33).map(hex),
    st.integers(0, 2**33).map(lambda n: f"0{n:o}"),
    st.text("0123456789abxX", max_size=4),
)
_IPV4_SPELLING: Final = st.lists(_NUMBER, min_size=1, max_size=5).map(".".join)
_DOCUMENTATION: Final = [
    ipaddress.ip_network(n) for n in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20")
]
_GLOBAL_UNICAST: Final = ipaddress.ip_network("2000::/3")


@pytest.mark.parametrize("host", [h for _, h in PRIVATE], ids=[i for i, _ in PRIVATE])
def test_a_host_that_some_reading_makes_private_is_private(host: str) -> None:
    assert is_private(host)


@pytest.mark.parametrize("host", [h for _, h in PUBLIC], ids=[i for i, _ in PUBLIC])
def test_a_name_or_a_public_address_is_not_private(host: str) -> None:
    assert not is_private(host)


@given(_IPV4_SPELLING)
@example("0x7f.1")
@example("017700000001")
@example("08.1.1.1")
def test_numbers_are_read_as_the_resolver_reads_them(host: str) -> None:
    """What inet_aton accepts is that address, what it refuses is none, but for 0x and a last dot."""
    try:
        expected = ipaddress.IPv4Address(socket.inet_aton(host.removesuffix(".")))
    except OSError:
        bare = any(part.lower() == "0x" for part in host.split("."))
        assert bare or address_of(host) is None
    else:
        assert address_of(host) == expected


@given(st.ip_addresses(v=4))
def test_every_ipv4_address_agrees_with_the_standard_library(address: ipaddress.IPv4Address) -> None:
    if any(address in n for n in _DOCUMENTATION if n.version == 4):
        return
    if address in ipaddress.ip_network("192.0.0.0/24") or address.is_multicast:
        return  # the library's own answer depends on its version
    shared = address in ipaddress.ip_network("100.64.0.0/10")
    service = str(address) == "168.63.129.16"
    expected = address.is_private or address.is_link_local or address.is_loopback or shared or service
    for spelling in (str(address), str(int(address)), hex(int(address)), f"{address}."):
        assert is_private(spelling) is expected
    if expected:  # the other way round does not hold: a leading zero has two readings
        assert is_private(f"0{int(address):o}")


@given(st.ip_addresses(v=6))
def test_an_ipv6_address_that_the_standard_library_calls_private_is_private(
    address: ipaddress.IPv6Address,
) -> None:
    if any(address in n for n in _DOCUMENTATION if n.version == 6):
        return
    if address.is_loopback or address.is_link_local or address.is_site_local or address.is_unspecified:
        assert is_private(f"[{address}]")
    if address in ipaddress.ip_network("fc00::/7"):
        assert is_private(address.exploded)
    if address in _GLOBAL_UNICAST and not (address.sixtofour or address.teredo):
        assert not is_private(str(address))


@given(st.ip_addresses(v=4))
def test_an_address_inside_an_ipv6_address_is_judged_like_itself(address: ipaddress.IPv4Address) -> None:
    value = int(address)
    expected = is_private(str(address))
    assert is_private(f"[::ffff:{address}]") is expected
    assert is_private(f"[64:ff9b::{address}]") is expected
    assert is_private(str(ipaddress.IPv6Address((0x2002 << 112) | (value << 80)))) is expected


@given(st.text())
def test_no_text_makes_the_check_raise(host: str) -> None:
    assert is_private(host) in {True, False}
