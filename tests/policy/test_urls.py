"""Origins, hosts and the spellings of a path."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_scour.policy.urls import (
    Origin,
    canonical_host,
    host_of,
    normal_length,
    normal_path,
    origin_of,
    path_and_query,
    same_host,
    without_userinfo,
)

ORIGINS: dict[str, str | None] = {
    "http://a.example/x?y#z": "http://a.example",
    "HTTPS://A.Example/": "https://a.example",
    "http://a.example:80/": "http://a.example",
    "https://a.example:443/": "https://a.example",
    "https://a.example:80/": "https://a.example:80",
    "https://a.example:8443/x": "https://a.example:8443",
    "http://a.example": "http://a.example",
    "http://a.example?q": "http://a.example",
    "http://a.example:/": "http://a.example",
    "http://a.example./": "http://a.example",
    "http://user:secret@a.example:8080/": "http://a.example:8080",
    "http://user@evil.example@a.example/": "http://a.example",
    "http://[::1]:8080/": "http://[::1]:8080",
    "http://[0:0:0:0:0:0:0:1]/": "http://[::1]",
    "http://[2001:DB8::0:1]/": "http://[2001:db8::1]",
    "http://bücher.example/": "http://xn--bcher-kva.example",
    "http://BÜCHER.example/": "http://xn--bcher-kva.example",
    "http://a。example/": "http://a.example",
    "http://127.0.0.1/": "http://127.0.0.1",
    f"http://{'a' * 70}.example/": f"http://{'a' * 70}.example",
    f"http://{'ü' * 70}.example/": f"http://{'ü' * 70}.example",
    "ftp://a.example/": None,
    "mailto:x@a.example": None,
    "data:text/plain,x": None,
    "/x": None,
    "//a.example/x": None,
    "": None,
    "http:///x": None,
    "http:a.example": None,
    "http://./": None,
    "http://../": None,
    "http://a../": "http://a",
    "http://user@/": None,
    "http://a.example:0/": None,
    "http://a.example:65536/": None,
    "http://a.example:http/": None,
    "http://a.example:-1/": None,
    "http://[::1/": None,
    "http://[zz]/": None,
    "http://a.example\\@b.example/": None,
    "http://a b.example/": None,
    "http://\ud800.example/": None,
}


@pytest.mark.parametrize(("url", "origin"), ORIGINS.items(), ids=range(len(ORIGINS)))
def test_an_origin_is_scheme_host_and_port_in_one_spelling_or_none(url: str, origin: str | None) -> None:
    found = origin_of(url)
    assert (None if found is None else str(found)) == origin
    if found is not None:
        assert origin_of(str(found)) == found


def test_the_default_port_is_a_number_like_any_other() -> None:
    assert origin_of("http://a.example/") == Origin("http", "a.example", 80)
    assert origin_of("https://[::1]/") == ("https", "::1", 443)


@pytest.mark.parametrize(
    ("url", "robots_url"),
    [
        ("https://u:p@a.example:8443/x", "https://a.example:8443/robots.txt"),
        ("https://A.example:443/x/y?z", "https://a.example/robots.txt"),
        ("http://[::1]/x", "http://[::1]/robots.txt"),
    ],
)
def test_the_rules_are_at_the_root_of_the_origin_without_userinfo(url: str, robots_url: str) -> None:
    origin = origin_of(url)
    assert origin is not None
    assert origin.robots_url == robots_url


@given(st.text() | st.text(alphabet="htps:/@[]\\.a%#?0\ud800é ").map(lambda rest: "http://" + rest))
def test_no_text_makes_the_url_functions_raise(text: str) -> None:
    origin = origin_of(text)
    assert origin is None or (origin.host and 0 < origin.port < 65536)
    if origin is not None:
        assert origin_of(str(origin)) == origin
        assert host_of(text) == origin.host
    canonical_host(text)
    same_host(text, "http://a.example/")
    without_userinfo(text)
    normal_path(path_and_query(text), either_spelling=True)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("s3://Bucket.Example/key", "bucket.example"),
        ("ftp://u@A.example.:21/x", "a.example"),
        ("file:///etc/hosts", ""),
        ("data:,x", ""),
        ("http://[::1]:99999/", "::1"),
        ("nonsense", ""),
        ("http://[::1", ""),
        ("http://a.example\\@b.example/", ""),
    ],
)
def test_a_host_is_a_canonical_name_whatever_the_scheme(url: str, host: str) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    ("name", "host"),
    [
        (" A.Example. ", "a.example"),
        ("[::1]", "::1"),
        ("::0001", "::1"),
        ("MÜNCHEN.example", "xn--mnchen-3ya.example"),
        ("127.1", "127.0.0.1"),
        ("0x7F000001.", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("1.2.3.4.5", "1.2.3.4.5"),
        ("a b.1", ""),
        ("1.a", "1.a"),
        ("a.example/x", ""),
        ("a.example:80", ""),
        ("u@a.example", ""),
        ("", ""),
    ],
)
def test_a_bare_name_is_canonical_or_empty(name: str, host: str) -> None:
    assert canonical_host(name) == host


SAME_HOST: list[tuple[str, str, bool]] = [
    ("http://a.example/x", "http://A.example.:80/y", True),
    ("http://a.example/x", "https://a.example/x", True),
    ("http://a.example:80/", "https://a.example:443/", True),
    ("https://a.example/", "http://a.example/", False),
    ("http://a.example:8080/", "https://a.example:8080/", False),
    ("http://a.example/", "https://a.example:8443/", False),
    ("http://a.example:8080/", "https://a.example/", False),
    ("http://a.example/", "http://a.example:8080/", False),
    ("http://a.example/", "http://b.example/", False),
    ("http://a.example/", "https://b.example/", False),
    ("http://a.example/", "http://www.a.example/", False),
    ("http://a.example/", "ftp://a.example/", False),
    ("ftp://a.example/", "ftp://a.example/", False),
    ("", "", False),
]


@pytest.mark.parametrize(("a", "b", "same"), SAME_HOST)
def test_one_host_is_one_origin_or_the_step_up_to_https_on_default_ports(a: str, b: str, same: bool) -> None:
    assert same_host(a, b) is same


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://u:p@a.example/x@y?z@w#v@", "http://a.example/x@y?z@w#v@"),
        ("https://u@A.example.:443", "https://A.example.:443"),
        ("http://u:p@x:q@a.example/", "http://a.example/"),
        ("http:///u:p@a.example/", "http:///a.example/"),
        ("//u:p@a.example/", "//a.example/"),
        ("http://a.example/u:p@b", "http://a.example/u:p@b"),
        ("http://a.example?u:p@b", "http://a.example?u:p@b"),
        ("mailto:u@a.example", "mailto:u@a.example"),
        ("http://[bad@host/", "http://host/"),
    ],
)
def test_userinfo_goes_and_everything_else_stays(url: str, shown: str) -> None:
    assert without_userinfo(url) == shown


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("http://a.example/a/b?c=d&e#f", b"/a/b?c=d&e"),
        ("http://a.example", b"/"),
        ("http://a.example?q=/x", b"/?q=/x"),
        ("http://a.example#f", b"/"),
        ("http://a.example/a?", b"/a?"),
        ("http://a.example//a", b"//a"),
        ("/a?u=http://b.example/", b"/a?u=http://b.example/"),
        ("a?u=http://b.example/", b"/a?u=http://b.example/"),
        ("", b"/"),
        ("http://a.example/é", "/é".encode()),
        ("http://a.example/\udce9", b"/\xe9"),
    ],
)
def test_what_is_compared_is_path_and_query_without_the_fragment(url: str, path: bytes) -> None:
    assert path_and_query(url) == path


@pytest.mark.parametrize(
    ("one", "other", "path", "either"),
    [
        # the same in every case
        (b"/%7eb", b"/~b", True, True),
        (b"/%c3%a9", "/é".encode(), True, True),
        (b"/%3Ca", b"/<a", True, True),
        (b"/a b", b"/a%20b", True, True),
        (b"/%2a%24", b"/*$", True, True),
        (b"/100%", b"/100%25", True, True),
        # delimiters of the path never, of the query always
        (b"/a%2fb", b"/a/b", False, False),
        (b"/a%3fb", b"/a?b", False, False),
        (b"/?a%2fb%3F%23%40", b"/?a/b?#@", True, True),
        # sub-delimiters only for a Disallow
        (b"/a%3Ab%2c", b"/a:b,", False, True),
        (b"/?a%26b%3d", b"/?a&b=", False, True),
        (b"/%41", b"/%61", False, False),
    ],
)
def test_spellings_are_the_same_path_where_the_table_says_so(
    one: bytes, other: bytes, path: bool, either: bool
) -> None:
    assert (normal_path(one, either_spelling=False) == normal_path(other, either_spelling=False)) is path
    assert (normal_path(one, either_spelling=True) == normal_path(other, either_spelling=True)) is either


@given(st.binary(max_size=60))
def test_a_normal_form_is_as_long_as_the_escapes_say_and_holds_no_half_of_one(raw: bytes) -> None:
    form = normal_path(raw, either_spelling=False)
    halves = [octet for octet in form if octet >= 0x80]
    assert len(halves) == 2 * form.count(b"%")
    assert not set(form) & set(b' <>"{}\\^|`\x00\x7f')


@pytest.mark.parametrize(
    ("pattern", "octets"),
    [
        (b"/", 1),
        (b"/a*b$", 5),
        ("/é".encode(), 7),
        (b"/%C3%A9", 7),
        (b"/%7e", 2),
        (b"/a:b", 4),
        (b"/a?b=c", 6),
        (b"/a?b=https://x", 20),
        (b"/a?b=https%3A%2F%2Fx", 20),
    ],
)
def test_a_pattern_is_as_long_as_its_normal_form(pattern: bytes, octets: int) -> None:
    assert normal_length(pattern) == octets
