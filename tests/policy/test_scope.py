"""The boundary of a crawl."""

from __future__ import annotations

import dataclasses
import re
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scrapy import Request

from scrapy_scour.policy.redirects import resolve_location
from scrapy_scour.policy.scope import Scope, ScopeError
from scrapy_scour.policy.spelling import normalised

A: Final = "http://a.example/"


def scope_of(*domains: str, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> Scope:
    scope, warnings = Scope.build(domains, include, exclude)
    assert warnings == []
    return scope


CORRECTED: Final[list[tuple[str, str, str]]] = [
    ("http://a.example/path", "a.example", "it is a URL"),
    ("https://u:secret@a.example:8080/", "a.example", "it is a URL"),
    ("//a.example/", "a.example", "it is a URL"),
    ("a.example/path", "a.example", "paths are not part of it"),
    ("a.example:8080", "a.example", "ports are not part of it"),
    ("A.Example", "a.example", "names are lower-case"),
    ("*.a.example", "a.example", "subdomains are always included"),
    (".a.example", "a.example", "subdomains are always included"),
    ("a.example.", "a.example", "the trailing dot is not needed"),
    ("bücher.example", "xn--bcher-kva.example", "IDNA"),
    ("127.1", "127.0.0.1", "canonical form"),
    ("127.0.0.1:8000", "127.0.0.1", "ports are not part of it"),
    ("[::1]:8000", "::1", "canonical form"),
    ("0:0:0:0:0:0:0:1", "::1", "canonical form"),
]

REFUSED: Final[list[object]] = [
    None,
    3,
    b"a.example",
    ["a.example"],
    "",
    " ",
    " a.example",
    "a.example b.example",
    "a.example,b.example",
    "/path",
    "*",
    "*.",
    ".",
    "a.*.example",
    "*a.example",
    "a..example",
    "http://",
    "http:///path",
    "me@a.example",
    r"a\.example",
    "(a|b).example",
    f"{'a' * 64}.example",
    "a.example\n",
]

HOSTS: Final[list[tuple[str, str, bool]]] = [
    ("a.example", "a.example", True),
    ("a.example", "www.a.example", True),
    ("a.example", "x.y.a.example", True),
    ("a.example", "A.EXAMPLE.", True),
    ("a.example", "ba.example", False),
    ("a.example", "a.example.b.example", False),
    ("a.example", "example", False),
    ("a.example", "", False),
    ("www.a.example", "a.example", False),
    ("a.example", "a-example", False),
    ("xn--bcher-kva.example", "bücher.example", True),
    ("127.0.0.1", "127.0.0.1", True),
    ("127.0.0.1", "127.1", True),
    ("127.0.0.1", "2130706433", True),
    ("127.0.0.1", "127.0.0.2", False),
    ("127.0.0.1", "x.127.0.0.1", False),
    ("0.0.1.1", "10.0.1.1", False),
    ("::1", "[::1]", True),
    ("::1", "[0:0:0:0:0:0:0:1]", True),
    ("::1", "[::2]", False),
    # Suffixes are never shortened to a registrable domain: other customers stay outside.
    ("shop.co.uk", "other.co.uk", False),
    ("u1.github.io", "u2.github.io", False),
]


@pytest.mark.parametrize(("value", "domain", "why"), CORRECTED)
def test_a_domain_that_can_be_understood_is_corrected_and_said(value: str, domain: str, why: str) -> None:
    scope, warnings = Scope.build([value])
    assert scope.domains == {domain}
    [warning] = warnings
    assert warning.startswith("allowed_domains: ")
    assert repr(domain) in warning
    assert why in warning
    assert "secret" not in warning


@pytest.mark.parametrize("value", REFUSED)
def test_a_domain_that_cannot_be_understood_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="must be a domain name"):
        Scope.build(["a.example", value])


def test_all_wrong_values_are_named_at_once_with_their_rules() -> None:
    with pytest.raises(ScopeError) as caught:
        Scope.build(["a b", None, "a.example"], include=["("], exclude=["", "ok", "[z-a]"])
    assert len(caught.value.problems) == 5
    for word in ("'a b'", "None", "'('", "''", "'[z-a]'", "regular expression", "domain name"):
        assert word in str(caught.value)


def test_a_refused_value_is_shown_without_its_password() -> None:
    with pytest.raises(ScopeError) as caught:
        Scope.build(["http://me:secret@"])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("value", ["a.example", b"a.example", 7])
def test_one_value_in_place_of_a_list_is_refused(value: object) -> None:
    """A str would be taken letter by letter."""
    with pytest.raises(ValueError, match="must be a list of domain names, not one value"):
        Scope.build(value)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be a list of regular expressions, not one value"):
        Scope.build(None, include=value)  # type: ignore[arg-type]


def test_compiled_patterns_are_taken_and_other_types_refused() -> None:
    scope, _ = Scope.build(None, exclude=[re.compile("PRIVATE", re.IGNORECASE)])  # type: ignore[list-item]
    assert not scope.judge_request(f"{A}private")
    with pytest.raises(ValueError, match="not empty"):
        Scope.build(None, exclude=[re.compile(b"x"), None])  # type: ignore[list-item]


@pytest.mark.parametrize("value", [None, [], ()])
def test_no_domains_means_every_host_but_names_none(value: list[object] | None) -> None:
    scope, warnings = Scope.build(value)
    assert warnings == []
    assert scope.allows_host("b.example")
    assert not scope.names_host("b.example")
    assert scope.judge_request("data:,x")


def test_a_scope_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        scope_of("a.example").domains = frozenset()  # type: ignore[misc]


@pytest.mark.parametrize(("domain", "host", "inside"), HOSTS)
def test_a_host_is_inside_if_it_or_a_domain_above_it_is_listed(domain: str, host: str, inside: bool) -> None:
    scope = scope_of(domain)
    assert scope.allows_host(host) is inside
    assert scope.names_host(host) is inside


@pytest.mark.parametrize(
    ("url", "dont_filter", "allow_offsite", "allowed"),
    [
        ("http://a.example/x", False, False, True),
        ("https://www.a.example:8443/x", False, False, True),
        ("http://b.example/x", False, False, False),
        ("http://b.example/x", True, False, True),
        ("http://b.example/x", False, True, True),
        ("http://a.example@b.example/", False, False, False),
        ("http://b.example/?http://a.example/", False, False, False),
        ("http://b.example#a.example", False, False, False),
        ("http://b.example\\@a.example/", False, False, False),
        ("http://b.example\\.a.example/", False, False, False),
        ("data:,x", False, False, False),
        ("data:,x", True, False, True),
        ("file:///a.example", False, False, False),
        ("s3://a.example/key", False, False, True),
        ("s3://bucket/key", False, False, False),
        ("ftp://b.example/x", False, False, False),
        ("http://[::1", False, False, False),
        ("javascript:x", False, False, False),
    ],
)
def test_what_the_spider_asks_for_is_judged_by_domain_as_in_stock(
    url: str, dont_filter: bool, allow_offsite: bool, allowed: bool
) -> None:
    verdict = scope_of("a.example").judge_request(url, dont_filter=dont_filter, allow_offsite=allow_offsite)
    assert verdict.allowed is allowed
    assert allowed or verdict.source == "scope: allowed_domains"


@pytest.mark.parametrize("dont_filter", [True, False])
def test_patterns_judge_every_request_unless_allow_offsite(dont_filter: bool) -> None:
    scope = scope_of("a.example", include=(r"/shop/",), exclude=(r"/shop/cart", r"[?&]sort="))
    assert scope.judge_request(f"{A}shop/1", dont_filter=dont_filter)
    cart = scope.judge_request(f"{A}shop/cart/1", dont_filter=dont_filter)
    assert not cart
    assert cart.source == "scope: excluded pattern '/shop/cart'"
    assert not scope.judge_request(f"{A}shop/1?x=1&sort=up", dont_filter=dont_filter)
    news = scope.judge_request(f"{A}news", dont_filter=dont_filter)
    assert not news
    assert news.source == "scope: included patterns"
    assert scope.judge_request(f"{A}shop/cart/1", dont_filter=dont_filter, allow_offsite=True)


HOPS: Final[list[tuple[str, str, str, bool]]] = [
    ("same host", A, "http://a.example/y", True),
    ("subdomain", A, "http://www.a.example/", True),
    ("out of the list", "http://a.example/out", "http://b.example/", False),
    ("out of the list, https", "http://a.example/out", "https://b.example/", False),
    ("back into it", "http://b.example/", "http://a.example/", True),
    ("other port of the host", A, "http://a.example:8080/", True),
    ("three slashes", "https://a.example/n", "https://b.example/new/", False),
    ("userinfo", A, "http://a.example@b.example/", False),
    ("backslash", A, "http://b.example\\@a.example/", False),
    ("no host", A, "http:///x", False),
    ("bad port", A, "http://a.example:99999/", False),
    ("ftp", A, "ftp://a.example/", False),
    ("file", A, "file:///etc/passwd", False),
    ("data", A, "data:,x", False),
    ("javascript", A, "javascript:x", False),
    ("relative", A, "/x", False),
    ("empty", A, "", False),
]


@pytest.mark.parametrize(("source", "target", "allowed"), [h[1:] for h in HOPS], ids=[h[0] for h in HOPS])
def test_a_hop_is_judged_by_its_target(source: str, target: str, allowed: bool) -> None:
    assert scope_of("a.example").judge_hop(source, target).allowed is allowed


@pytest.mark.parametrize("target", ["ftp://b.example/", "data:,x", "http://", "/x", "mailto:x@b.example"])
def test_a_hop_needs_an_http_target_even_without_a_list(target: str) -> None:
    verdict = scope_of().judge_hop(A, target, exempt_host="a.example", allow_offsite=True, private_addresses=True)
    assert not verdict
    assert verdict.source == "scope: target"


@pytest.mark.parametrize(
    ("source", "target", "allowed"),
    [
        ("http://b.example/x", "http://b.example/y", True),
        ("http://b.example/x", "https://B.example.:8443/y", True),
        ("http://b.example/x", "http://www.b.example/y", False),
        ("http://b.example/x", "http://c.example/y", False),
        ("http://a.example/x", "http://b.example/y", False),
        ("http://b.example/x", "http://a.example/y", True),
        ("http://b.example/x", "http://c.example\\@b.example/y", False),
    ],
)
def test_an_exemption_covers_hops_from_that_host_to_itself(source: str, target: str, allowed: bool) -> None:
    """A start request outside the list is fetched; what it redirects to elsewhere is not."""
    scope = scope_of("a.example")
    for exempt in ("b.example", "B.Example."):
        assert scope.judge_hop(source, target, exempt_host=exempt).allowed is allowed
    assert not scope.judge_hop("http://b.example/x", "http://b.example/y")
    assert not scope.judge_hop("http://b.example/x", "http://b.example/y", exempt_host="")
    assert scope.judge_hop("http://127.1/x", "http://127.0.0.1/y", exempt_host="127.1")


def test_only_allow_offsite_exempts_hops_from_the_patterns() -> None:
    scope = scope_of("a.example", exclude=("/private",))
    source, target = "http://b.example/x", "http://b.example/private"
    assert not scope.judge_hop(source, target, exempt_host="b.example")
    assert scope.judge_hop(source, target, exempt_host="b.example", allow_offsite=True)
    assert not scope.judge_hop(source, target, exempt_host="c.example", allow_offsite=True)
    assert not scope.judge_hop(source, "http://a.example/private", exempt_host="b.example", allow_offsite=True)


PRIVATE_TARGETS: Final = [
    "http://169.254.169.254/latest/",
    "http://127.0.0.1/",
    "http://10.0.0.5/",
    "http://[::1]/",
    "http://[::ffff:10.0.0.1]/",
    "http://2130706433/",
    "http://0x7f.1/",
    "http://127.1:8080/",
    "http://017700000001/",
    "http://localhost/",
    "http://x.localhost./",
    "https://localhost:6379/",
    "http://１２７.0.0.1/",
    "http://a.example@127.0.0.1/",
]


@pytest.mark.parametrize("target", PRIVATE_TARGETS)
def test_a_hop_from_a_public_to_a_private_address_is_out_of_scope(target: str) -> None:
    scope = scope_of()
    verdict = scope.judge_hop("http://public.example/x", target)
    assert not verdict
    assert verdict.source == "scope: private address"
    assert scope.judge_hop("http://public.example/x", target, private_addresses=True)
    assert scope.judge_hop("http://192.168.0.1/x", target)
    assert scope.judge_request(target)


@pytest.mark.parametrize("target", PRIVATE_TARGETS)
def test_a_private_address_is_outside_a_list_that_does_not_name_it(target: str) -> None:
    scope = scope_of("public.example")
    assert not scope.judge_hop("http://public.example/x", target)
    assert not scope.judge_hop("http://public.example/x", target, private_addresses=True)


def test_a_private_address_that_the_list_names_is_inside() -> None:
    scope = scope_of("public.example", "127.0.0.1", "localhost", "::1")
    for target in ("http://127.0.0.1/", "http://127.1/", "http://localhost:8000/", "http://[::1]/"):
        assert scope.judge_hop("http://public.example/", target)
    assert not scope.judge_hop("http://public.example/", "http://127.0.0.2/")


def test_a_page_whose_host_cannot_be_read_counts_as_public() -> None:
    assert not scope_of().judge_hop("", "http://127.0.0.1/")


LOCATIONS: Final[list[tuple[bytes, bool]]] = [
    (b"///b.example/new/", False),
    (b"http://a.example?test=1", True),
    (b"/fa/\xd8\xa7", True),
    (b"http%3A//b.example/", True),
    (b" /x y", True),
    (b"//b.example\\@a.example/", False),
    (b"http://a.example@b.example/", False),
    (b"http://a.example:@b.example/", False),
    (b"\\\\b.example/", False),
    (b"http://a.example.b.example/", False),
    (b"http://127.1/", False),
]


@pytest.mark.parametrize(("location", "inside"), LOCATIONS)
def test_scope_is_judged_on_the_url_that_an_odd_location_really_means(location: bytes, inside: bool) -> None:
    """RFC 9110 10.2.2, RFC 3986 5."""
    target = resolve_location("https://a.example/n", location)
    assert target.url is not None
    verdict = scope_of("a.example").judge_hop("https://a.example/n", target.url)
    assert verdict.allowed is inside


NORMALISED: Final[list[tuple[str, str, str]]] = [
    ("RFC3986-6.2.2.1 case", "HTTP://A.Example/X?Y", "http://a.example/X?Y"),
    ("RFC3986-6.2.2.1 case of escapes", A + "%c3%bc", A + "%C3%BC"),
    ("RFC3986-6.2.2.2 unreserved escapes", A + "%61%2D%7e?%62", A + "a-~?b"),
    ("RFC3986-6.2.2.2 reserved escapes stay", A + "a%2fb%3f", A + "a%2Fb%3F"),
    ("RFC3986-6.2.2.3 dots", A + "x/../y/./z", A + "y/z"),
    ("RFC3986-6.2.2.3 escaped dots", A + "x/%2e%2E/y", A + "y"),
    ("RFC3986-6.2.3 empty path", "http://a.example", A),
    ("RFC3986-6.2.3 empty path before a query", "http://a.example?x", A + "?x"),
    ("RFC3986-6.2.3 default port", "http://a.example:80/", A),
    ("RFC3986-6.2.3 default port of https", "https://a.example:443/", "https://a.example/"),
    ("other port", "http://a.example:443/", "http://a.example:443/"),
    ("RFC9110-4.2.4 userinfo", "http://u:p@a.example/x", A + "x"),
    ("fragment", A + "x#y", A + "x"),
    ("trailing dot", "http://a.example./x", A + "x"),
    ("raw characters", A + "ü x?ü", A + "%C3%BC%20x?%C3%BC"),
    ("backslash", "http://a.example\\x", A + "x"),
    ("backslash in the query", A + "?a\\b", A + "?a%5Cb"),
    ("escape within an escape", A + "%%36%31", A + "%2561"),
    ("lone percent", A + "100%", A + "100%25"),
    ("IDNA", "http://bücher.example/", "http://xn--bcher-kva.example/"),
    ("short address", "http://127.1/", "http://127.0.0.1/"),
    ("v6 address", "http://[0:0::1]:80/", "http://[::1]/"),
    ("other scheme", "ftp://u:p@a.example/X%61#f", "ftp://a.example/X%61"),
    ("no scheme", "/x#f", "/x"),
]


@pytest.mark.parametrize(("url", "expected"), [n[1:] for n in NORMALISED], ids=[n[0] for n in NORMALISED])
def test_one_resource_has_one_spelling(url: str, expected: str) -> None:
    assert normalised(url) == expected
    assert normalised(expected) == expected


BYPASSES: Final[list[str]] = [
    "http://a.example/private/x",
    "http://A.EXAMPLE/private/x",
    "http://a.example./private/x",
    "http://a.example:80/private/x",
    "http://u:p@a.example/private/x",
    "http://a.example/%70rivate/x",
    "http://a.example/%70%72%69%76%61%74%65/x",
    "http://a.example/./private/x",
    "http://a.example/y/../private/x",
    "http://a.example/y/%2e%2E/private/x",
    "http://a.example//private/x",
    "http://a.example\\private/x",
    "http://a.example/\\private/x",
    "http:\\\\a.example\\private\\x",
    "http://a.example/private/../public",
    "http://a.exa\tmple/pri\nvate/x",
    " http://a.example/private/x",
    "http://a.example/private/x#y",
    "http://a.example/private/x?y",
]


@pytest.mark.parametrize("url", BYPASSES)
def test_an_excluded_path_has_no_other_spelling(url: str) -> None:
    scope = scope_of(exclude=(r"^http://a\.example/private/",))
    assert not scope.judge_request(url)
    assert not scope.judge_request(Request(url.strip()).url)
    assert scope.judge_request("http://a.example/public")


@pytest.mark.parametrize("pattern", ["/über", r"/über \(1\)", "%C3%BCber%20", "&x=", r"\[1\]", "'"])
def test_a_pattern_may_be_written_as_people_read_the_url(pattern: str) -> None:
    scope = scope_of(exclude=(pattern,))
    for url in (
        "http://a.example/über (1)?'a'[1]&x=2",
        "http://a.example/%c3%bcber%20%281%29?%27a%27%5b1%5d%26x%3d2",
    ):
        assert not scope.judge_request(url)


def test_an_included_pattern_allows_only_what_it_spells() -> None:
    scope = scope_of(include=(r"^http://a\.example/shop/", "/über/"))
    assert scope.judge_request("http://a.example/shop/x")
    assert scope.judge_request("http://a.example/%C3%BCber/")
    assert not scope.judge_request("http://a.example/shop/../private")
    assert not scope.judge_request("http://a.example//shop/x")
    assert not scope.judge_request("http://a.example/shop%2Fx")
    assert not scope_of(include=("/a=b",)).judge_request("http://a.example/a%3Db")


_CHARACTERS: Final = st.text("abcz019-._~", min_size=1, max_size=8)


@st.composite
def _spellings(draw: st.DrawFn, path: str) -> str:
    """One of the many ways to write http://a.example/ and *path*."""
    scheme = draw(st.sampled_from(["http", "HTTP", "Http"]))
    host = "".join(draw(st.sampled_from([c, c.upper()])) for c in "a.example")
    userinfo = draw(st.sampled_from(["", "u@", "u:p@", "b.example@"]))
    host += draw(st.sampled_from(["", "."])) + draw(st.sampled_from(["", ":80", ":", ":080"]))
    slash = draw(st.sampled_from(["/", "\\", "/./", "/%2e/", "/x/../", "/y/%2E./", "//"]))
    escapes = [draw(st.sampled_from([c, f"%{ord(c):02x}", f"%{ord(c):02X}"])) for c in path]
    return f"{scheme}://{userinfo}{host}{slash}{''.join(escapes)}{draw(st.sampled_from(['', '#f']))}"


@given(st.data(), _CHARACTERS.filter(lambda path: path not in {".", ".."}))
def test_no_spelling_slips_past_an_excluded_pattern(data: st.DataObject, path: str) -> None:
    """RFC 3986 6.2.2: spellings that name one resource are refused as one."""
    url = data.draw(_spellings(path))
    scope = scope_of(exclude=(f"^http://a\\.example/{re.escape(path)}$",))
    assert not scope.judge_request(url)
    assert not scope.judge_hop(A, url)
    assert not scope.judge_request(Request(url).url)


@given(
    st.text(max_size=40),
    st.sampled_from(["", "http:", "http://a.example", "http://", "https://[", "http://a.example/%"]),
)
@example("\ud800", "http://a.example/")
@example("//b.example\ud800", "http:")
def test_no_url_makes_a_judgement_raise(text: str, start: str) -> None:
    scope = scope_of("a.example", exclude=("/private",))
    url = start + text
    assert normalised(url) is not None
    assert scope.judge_request(url).allowed in {True, False}
    assert scope.judge_hop(A, url).allowed in {True, False}
    assert scope.judge_hop(url, A).allowed in {True, False}
    assert scope.allows_host(text) in {True, False}


@given(st.text(max_size=40))
def test_normalising_twice_changes_nothing(text: str) -> None:
    once = normalised(f"http://a.example/{text}")
    assert normalised(once) == once


_LOCATION: Final = st.one_of(
    st.binary(max_size=20),
    st.lists(
        st.sampled_from(b"http: https: / // \\ @ : . ? # % a.example b.example 127.1 localhost %2e private".split()),
        max_size=8,
    ).map(b"".join),
)


@given(_LOCATION)
@example(b"//b.example\\@a.example/")
@example("//a。example/".encode())
def test_the_judgement_is_about_the_request_that_scrapy_makes(location: bytes) -> None:
    """Judging the target and judging the URL of the Request made of it give the same verdict."""
    scope = scope_of("a.example", exclude=("/private",))
    target = resolve_location("http://a.example/n", location)
    if target.url is None or target.problem:
        return
    request = Request(target.url)
    assert scope.judge_hop(A, target.url) == scope.judge_hop(A, request.url)
    assert scope.judge_request(target.url) == scope.judge_request(request.url)


_URL: Final = st.lists(
    st.sampled_from(
        [
            *"/\\@:.?#%[] \t\n\x00\u3002\uff0f\uff20\u2100\u00ad\ufe68",
            "//",
            "a.example",
            "b.example",
            "127.1",
            "u:p@",
        ]
    ),
    max_size=9,
).map("".join)


@given(_URL, st.sampled_from(["http://", "https:", "HTTP:\\\\", "\x00http://"]))
@example("b.example\\@a.example/", "http://")
def test_what_is_allowed_as_written_is_allowed_as_requested(text: str, start: str) -> None:
    """No odd URL is read as one host here and as another by Scrapy's Request."""
    scope = scope_of("a.example")
    if scope.judge_request(start + text):
        try:
            request = Request(start + text)
        except ValueError:
            return
        assert scope.judge_request(request.url)


@given(st.text(max_size=12), st.sampled_from(["a.example", "b.example", "www.a.example"]))
def test_a_longer_list_of_exclusions_never_allows_more(pattern: str, host: str) -> None:
    narrow, _ = Scope.build(["a.example"], exclude=["/private"])
    narrower, _ = Scope.build(["a.example"], exclude=["/private", re.escape(pattern) or "x"])
    for path in ("", "private", pattern):
        url = f"http://{host}/{path}"
        assert narrow.judge_request(url) or not narrower.judge_request(url)
