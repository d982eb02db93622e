"""Where a redirect leads, and what goes along."""

from __future__ import annotations

import json
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scrapy import Request
from w3lib.url import safe_url_string

from scrapy_scour.policy.redirects import (
    DEFAULT_SAFE_HEADERS,
    REDIRECT_STATUSES,
    headers_to_keep,
    is_loop,
    next_method,
    resolve_location,
    shorten_trail,
    trail_key,
)
from scrapy_scour.policy.spelling import with_slashes, without_dot_segments
from scrapy_scour.policy.urls import origin_of

BASE: Final = "https://a.example/n/m?k=1"

LOCATIONS: Final[list[tuple[str, bytes, str]]] = [
    ("RFC9110-10.2.2 absolute", b"http://b.example/x", "http://b.example/x"),
    ("RFC3986-4.2 same scheme", b"//b.example/x", "https://b.example/x"),
    ("RFC3986-4.2 absolute path", b"/x", "https://a.example/x"),
    ("RFC3986-5.2.3 relative path", b"x", "https://a.example/n/x"),
    ("RFC3986-5.2.2 query only", b"?x=2", "https://a.example/n/m?x=2"),
    ("RFC3986-5.2.2 fragment only", b"#x", "https://a.example/n/m?k=1#x"),
    ("RFC3986-5.2.4 dots", b"../../../x/./y/..", "https://a.example/x/"),
    ("WHATWG escaped dots", b"/x/%2e%2E/y/%2e", "https://a.example/y/"),
    ("WHATWG dots in an absolute URL", b"http://b.example/p/../q", "http://b.example/q"),
    ("WHATWG three slashes", b"///b.example/new/", "https://b.example/new/"),
    ("WHATWG five slashes after the scheme", b"http://///b.example/x", "http://b.example/x"),
    ("WHATWG one slash, other scheme", b"http:/b.example/x", "http://b.example/x"),
    ("WHATWG no slash, other scheme", b"http:b.example/x", "http://b.example/x"),
    ("WHATWG no slash, same scheme", b"https:x", "https://a.example/n/x"),
    ("WHATWG one slash, same scheme", b"https:/x", "https://a.example/x"),
    ("WHATWG two backslashes", rb"\\b.example\x", "https://b.example/x"),
    ("WHATWG slash and backslash", rb"/\b.example/x", "https://b.example/x"),
    ("WHATWG backslashes after the scheme", rb"http:\\b.example\x", "http://b.example/x"),
    ("WHATWG backslash ends the host", rb"http://b.example\@a.example/", "http://b.example/@a.example/"),
    ("WHATWG backslash in the query stays", rb"/x?a\b", "https://a.example/x?a%5Cb"),
    ("missing path", b"http://a.example?test=1", "http://a.example/?test=1"),
    ("missing path before a fragment", b"http://a.example#f", "http://a.example/#f"),
    ("raw UTF-8", b"/fa/\xd8\xa7", "https://a.example/fa/%D8%A7"),
    ("raw bytes that are no UTF-8", b"/caf\xe9?q=\xff", "https://a.example/caf%E9?q=%FF"),
    ("escaped colon is a path", b"http%3A//b.example/", "https://a.example/n/http%3A//b.example/"),
    ("spaces around and inside", b"  /x y\t ", "https://a.example/x%20y"),
    ("WHATWG tabs and newlines vanish", b"ht\ntp://b.exa\tmple/\r\nx", "http://b.example/x"),
    ("controls are escaped", b"/a\x00b", "https://a.example/a%00b"),
    ("host in capitals", b"HTTP://B.EXAMPLE/X", "http://b.example/X"),
    ("default port", b"http://b.example:80/x", "http://b.example/x"),
    ("other port", b"http://b.example:0443/x", "http://b.example:443/x"),
    ("empty port", b"http://b.example:/x", "http://b.example/x"),
    ("trailing dot stays", b"http://b.example./x", "http://b.example./x"),
    ("IDNA RFC3490", b"http://b\xc3\xbccher.example/", "http://xn--bcher-kva.example/"),
    ("escaped host", b"http://%62.example/", "http://b.example/"),
    ("short address", b"http://127.1/x", "http://127.0.0.1/x"),
    ("decimal address", b"http://2130706433/x", "http://127.0.0.1/x"),
    ("full-width address", "http://１２７.0.0.1/x".encode(), "http://127.0.0.1/x"),
    ("v6 address", b"http://[::1]:8080/x", "http://[::1]:8080/x"),
    ("path that looks like a host", b"/.//b.example/", "https://a.example//b.example/"),
]

UNUSABLE: Final[list[tuple[str, bytes, str]]] = [
    ("empty", b"", "the Location is empty"),
    ("blank", b" \t\r\n", "the Location is empty"),
    ("no host", b"http://", "there is no host"),
    ("no host before a query", b"//?x", "there is no host"),
    ("only a port", b"//:80/", "there is no host"),
    ("only userinfo", b"//u:p@/", "there is no host"),
    ("port too high", b"//b.example:65536/", "the port is not a number from 1 to 65535"),
    ("port zero", b"//b.example:0/", "the port is not a number from 1 to 65535"),
    ("port in words", b"//b.example:http/", "the port is not a number from 1 to 65535"),
    ("endless port", b"//b.example:" + b"0" * 6000 + b"/", "the Location is no URL"),
    ("space in the host", b"http://b example/", "the host is no valid name"),
    ("escaped slash in the host", b"http://a.example%2Fb.example/", "the host is no valid name"),
    ("dots in a row", b"http://b..example/", "the host is no valid name"),
    ("two Location values joined", b"http://b.example,http://c.example/", "the host is no valid name"),
    ("host of no encoding", b"http://b\xff.example/", "the Location is no URL"),
    ("open bracket", b"http://[::1/", "the host is no valid name"),
    ("zone in brackets", b"http://[fe80::1%25eth0]/", "the host is no valid name"),
    ("no such v6 address", b"http://[::1::]/", "the Location is no URL"),
    ("ftp", b"ftp://u:p@b.example/x", "scheme 'ftp' is neither http nor https"),
    ("mailto", b"mailto:x@b.example", "scheme 'mailto' is neither http nor https"),
    ("javascript", b"javascript:alert(1)", "scheme 'javascript' is neither http nor https"),
    ("data", b"data:text/html,x", "scheme 'data' is neither http nor https"),
    ("file", b"file:///etc/passwd", "scheme 'file' is neither http nor https"),
    ("host and port without scheme", b"b.example:8080/x", "scheme 'b.example' is neither http nor https"),
]

METHODS: Final[list[tuple[int, str, str, bool]]] = [
    (301, "GET", "GET", True),
    (301, "HEAD", "HEAD", True),
    (301, "POST", "GET", False),
    (301, "PUT", "GET", False),
    (302, "GET", "GET", True),
    (302, "HEAD", "HEAD", True),
    (302, "POST", "GET", False),
    (302, "DELETE", "GET", False),
    (303, "GET", "GET", False),
    (303, "HEAD", "HEAD", False),
    (303, "POST", "GET", False),
    (307, "POST", "POST", True),
    (307, "GET", "GET", True),
    (308, "PUT", "PUT", True),
    (308, "HEAD", "HEAD", True),
]

SECRETS: Final = [
    "Authorization",
    "Cookie",
    "X-API-Key",
    "X-Auth-Token",
    "Api-Key",
    "Proxy-Authorization",
    "Origin",
    "Referer",
    "X-Anything",
]
CONTENT: Final = [
    "Content-Type",
    "Content-Encoding",
    "Content-Language",
    "Content-Location",
    "Content-Length",
    "Digest",
    "Last-Modified",
    "Transfer-Encoding",
]
HARMLESS: Final = ["Accept", "accept-encoding", "ACCEPT-LANGUAGE", "User-Agent"]

_FRAGMENTS: Final = [
    *(bytes((octet,)) for octet in b"/\\:@?#[]%.;'| \t\x00\xff"),
    *b"http: https: ftp: // %2e %00 .. ::1 127.1 80 65536 a.example b.example u:p@ xn-- 0x7f".split(),
    *(character.encode() for character in "\u0627\uff11\u00df\u3002"),
]
_LOCATION: Final = st.one_of(st.binary(), st.lists(st.sampled_from(_FRAGMENTS), max_size=9).map(b"".join))


@pytest.mark.parametrize(("location", "url"), [r[1:] for r in LOCATIONS], ids=[r[0] for r in LOCATIONS])
def test_a_location_leads_where_a_browser_would_go(location: bytes, url: str) -> None:
    target = resolve_location(BASE, location)
    assert (target.url, target.problem) == (url, "")
    assert Request(url).url == url


@pytest.mark.parametrize(("location", "problem"), [r[1:] for r in UNUSABLE], ids=[r[0] for r in UNUSABLE])
def test_a_location_that_cannot_be_followed_says_why(location: bytes, problem: str) -> None:
    target = resolve_location(BASE, location)
    assert target.problem == problem
    assert target.url is None or origin_of(target.url) is None


def test_a_location_of_another_scheme_is_given_back_without_its_password() -> None:
    target = resolve_location(BASE, b"ftp://u:p@b.example/x")
    assert target.url == "ftp://b.example/x"
    assert target.userinfo_removed
    assert resolve_location(BASE, b"mailto:x@b.example").url == "mailto:x@b.example"


@pytest.mark.parametrize(
    ("base", "location", "url", "removed"),
    [
        (BASE, b"http://u:p@b.example/", "http://b.example/", True),
        (BASE, b"//u@b.example/", "https://b.example/", True),
        (BASE, b"//u:p@x@b.example/", "https://b.example/", True),
        ("http://u:p@a.example/x", b"/y", "http://a.example/y", False),
        ("http://u:p@a.example/x", b"//b.example/y", "http://b.example/y", False),
        ("http://u:p@a.example/x", b"?q", "http://a.example/x?q", False),
    ],
)
def test_userinfo_never_travels_and_is_reported_if_the_site_sent_it(
    base: str, location: bytes, url: str, removed: bool
) -> None:
    """RFC 9110 4.2.4."""
    target = resolve_location(base, location)
    assert (target.url, target.userinfo_removed) == (url, removed)


@pytest.mark.parametrize(
    ("location", "base_fragment", "url"),
    [
        (b"/x", None, "https://a.example/x#top"),
        (b"//b.example/", None, "https://b.example/#top"),
        (b"/x#own", None, "https://a.example/x#own"),
        (b"/x#", None, "https://a.example/x"),
        (b"/x", "other", "https://a.example/x#other"),
        (b"/x", "", "https://a.example/x"),
    ],
)
def test_a_target_without_fragment_inherits_it(location: bytes, base_fragment: str | None, url: str) -> None:
    """RFC 9110 10.2.2."""
    assert resolve_location(f"{BASE}#top", location, base_fragment=base_fragment).url == url


@pytest.mark.parametrize("base", ["data:text/html,x", "file:///x", "", "a.example", "http://", "http://[::1/"])
def test_a_page_without_a_host_redirects_nowhere(base: str) -> None:
    target = resolve_location(base, b"/x")
    assert target.url is None
    assert target.problem


@given(_LOCATION, st.sampled_from([BASE, "http://[::1]:8080/?#f", "http://u:p@a.example", "http://a.example/%"]))
@example(b"http://\xe2\x84\xa1.example/", BASE)
@example(b"http://xn--/", BASE)
def test_what_comes_out_is_what_will_be_requested(location: bytes, base: str) -> None:
    """No bytes raise; a URL is absolute, unchanged by Scrapy's Request, and without userinfo."""
    target = resolve_location(base, location)
    if target.url is None:
        assert target.problem
        return
    assert safe_url_string(target.url) == target.url
    if target.problem:
        assert origin_of(target.url) is None
        return
    assert Request(target.url).url == target.url
    origin = origin_of(target.url)
    assert origin is not None
    assert origin_of(Request(target.url).url) == origin
    assert "@" not in target.url.split("/")[2]
    assert "\\" not in target.url


@given(st.binary(max_size=30), st.text(max_size=30))
def test_no_base_makes_it_raise(location: bytes, base: str) -> None:
    target = resolve_location(f"http:{base}", location, base_fragment=base)
    assert (target.url is None) == bool(target.problem) or origin_of(target.url or "") is None


@given(st.lists(st.sampled_from(["..", ".", "a", "", "%2e", "%2E."]), max_size=6).map("/".join))
def test_without_dot_segments_is_stable_and_leaves_none(path: str) -> None:
    """RFC 3986 5.2.4."""
    resolved = without_dot_segments(f"/{path}")
    assert resolved.startswith("/")
    assert without_dot_segments(resolved) == resolved
    assert not {"..", "."} & {segment.lower().replace("%2e", ".") for segment in resolved.split("/")}


def test_backslashes_are_slashes_only_before_the_query() -> None:
    assert with_slashes(r"a\b?c\d#e\f") == r"a/b?c\d#e\f"
    assert with_slashes(r"a\b#c\d") == r"a/b#c\d"


@pytest.mark.parametrize(("status", "method", "after", "body"), METHODS)
def test_the_method_follows_the_status(status: int, method: str, after: str, body: bool) -> None:
    """RFC 9110 15.4.2 to 15.4.9."""
    assert next_method(status, method) == (after, body)
    assert status in REDIRECT_STATUSES


def test_the_statuses_are_those_whose_location_is_followed() -> None:
    assert frozenset({301, 302, 303, 307, 308}) == REDIRECT_STATUSES


@pytest.mark.parametrize("body_kept", [True, False])
def test_only_harmless_headers_go_to_another_host(body_kept: bool) -> None:
    """RFC 9110 15.4: credentials, however they are called, stay with the host they were meant for."""
    kept = headers_to_keep(
        [*SECRETS, "Host", *HARMLESS], same_host=False, body_kept=body_kept, safe=DEFAULT_SAFE_HEADERS
    )
    assert kept == HARMLESS


def test_on_the_same_host_everything_but_host_is_kept() -> None:
    names = [*SECRETS, *HARMLESS, *CONTENT]
    assert headers_to_keep([*names, "HOST"], same_host=True, body_kept=True, safe=()) == names


def test_on_the_same_host_a_lost_body_takes_nothing_but_its_own_headers() -> None:
    names = [*SECRETS, *HARMLESS]
    assert headers_to_keep([*names, *CONTENT], same_host=True, body_kept=False, safe=()) == names


@pytest.mark.parametrize("same_host", [True, False])
@pytest.mark.parametrize("name", CONTENT)
def test_content_headers_go_with_the_content(name: str, same_host: bool) -> None:
    """RFC 9110 15.4, also when a setting calls them safe."""
    assert headers_to_keep([name.upper()], same_host=same_host, body_kept=False, safe=CONTENT) == []


def test_a_body_that_may_travel_keeps_its_meaning_but_not_its_length() -> None:
    kept = headers_to_keep(CONTENT, same_host=False, body_kept=True, safe=DEFAULT_SAFE_HEADERS)
    assert kept == ["Content-Type", "Content-Encoding"]


def test_the_project_may_name_further_headers_but_never_host() -> None:
    kept = headers_to_keep(["X-Trace", "Host", "Cookie"], same_host=False, body_kept=True, safe=["x-trace", "host"])
    assert kept == ["X-Trace"]


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("http://a.example", "http://a.example/", True),
        ("http://A.example:80/x#f", "HTTP://a.example/x", True),
        ("http://u:p@a.example/x", "http://a.example/x", True),
        ("http://a.example/x", "https://a.example/x", False),
        ("http://a.example/x", "http://a.example:8080/x", False),
        ("http://a.example/%7Eu", "http://a.example/~u", False),
        ("http://a.example/X", "http://a.example/x", False),
        ("http://a.example/x", "http://a.example/x?", True),
        ("http://a.example./", "http://a.example/", False),
    ],
)
def test_a_chain_tells_apart_what_a_server_may_redirect_between(a: str, b: str, same: bool) -> None:
    assert (trail_key(a) == trail_key(b)) is same


@given(st.text())
def test_no_text_breaks_the_trail_key(url: str) -> None:
    assert "#" not in trail_key(f"http://{url}")


def test_the_same_method_and_url_again_is_a_loop() -> None:
    trail = [("GET", trail_key("http://a.example/loop"), 0), ("GET", trail_key("http://a.example/loop2"), 0)]
    assert is_loop(trail, "GET", "http://a.example/loop#x", 0)
    assert not is_loop(trail, "GET", "http://a.example/loop3", 0)
    assert not is_loop(trail, "GET", "https://a.example/loop", 0)
    assert not is_loop(trail, "POST", "http://a.example/loop", 0)
    assert not is_loop([], "GET", "http://a.example/loop", 0)


def test_a_new_cookie_since_makes_it_another_request() -> None:
    """A page that sets a cookie and redirects to itself; then again without a new one."""
    url = "http://a.example/self"
    trail = [("GET", trail_key(url), 0)]
    assert not is_loop(trail, "GET", url, 1)
    trail.append(("GET", trail_key(url), 1))
    assert is_loop(trail, "GET", url, 1)
    assert not is_loop(trail, "GET", url, 2)


def test_a_chain_survives_a_queue_on_disk() -> None:
    """The entries come back from JSON as lists."""
    trail = json.loads(json.dumps([("GET", trail_key("http://a.example/a"), 3)]))
    assert is_loop(trail, "get", "http://a.example/a", 3)
    assert not is_loop(trail, "GET", "http://a.example/a", 4)


def test_urls_that_grow_are_no_loop_but_can_be_shown() -> None:
    """/d?u=1 -> /d?u=1&u=1 -> ...: the hop limit ends it, the message stays short."""
    urls = ["http://u:secret@a.example/d?" + "&".join(["u=1"] * n) for n in range(1, 200)]
    trail = [("GET", trail_key(url), 0) for url in urls[:-1]]
    assert not is_loop(trail, "GET", urls[-1], 0)
    shown = shorten_trail(urls)
    assert len(shown) == 10
    assert shown[0] == "http://a.example/d?u=1"
    assert shown[5] == "... 190 more ..."
    assert all(len(text) <= 300 for text in shown)
    assert "secret" not in "".join(shown)


@given(
    st.lists(st.sampled_from(["http://a.example/", "http://u:p@b.example/x"]), max_size=30),
    st.integers(1, 12),
)
def test_a_shortened_trail_has_at_most_so_many_entries(urls: list[str], most: int) -> None:
    shown = shorten_trail(urls, most)
    assert len(shown) == min(len(urls), most)
    assert "@" not in "".join(shown)


def test_a_trail_of_nothing_cannot_be_asked_for() -> None:
    with pytest.raises(ValueError, match="most must be 1 or more"):
        shorten_trail(["http://a.example/"], 0)
