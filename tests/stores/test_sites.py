"""What is remembered of a site is what reading its URLs one by one would say."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_scour.policy.urls import Origin, canonical_host, origin_of
from scrapy_scour.stores.sites import Site, Sites

AUTHORITIES = [
    "a.test",
    "A.Test",
    "a.test:80",
    "a.test:8080",
    "a.test.",
    "a_b.test",
    "user@a.test",
    "user:a.test@b.test",
    "127.1",
    "127.0.0.1:8000",
    "[::1]:8000",
    "[0:0::1]",
    "b\u00fccher.test",
    "a.test\\@b.test",
    "a.test:99999",
    "a.test:",
    "",
]
SCHEMES = ["http://", "https://", "HTTP://", "http:/", "http:///", "ftp://", "s3://", "file://", "http:\\\\", "data:"]
RESTS = ["", "/", "/a", "?a=/b", "#/", "/a/b?c=//d", "//b.test/", "\\b.test/"]


def read(url: str) -> Site:
    name = urlsplit(url).hostname or ""
    return Site(canonical_host(name), name == canonical_host(name), origin_of(url))


def test_the_site_of_a_url_is_its_host_and_its_origin() -> None:
    sites = Sites()
    assert sites.of("https://A.test/x") == Site("a.test", True, Origin("https", "a.test", 443))
    assert sites.of("http://127.1:8000/") == Site("127.0.0.1", False, Origin("http", "127.0.0.1", 8000))
    assert sites.of("data:,/x") == Site("", True, None)


@given(
    st.lists(st.tuples(st.sampled_from(SCHEMES), st.sampled_from(AUTHORITIES), st.sampled_from(RESTS)), min_size=2),
    st.integers(1, 5),
)
def test_no_url_is_taken_for_another_whatever_was_asked_before(urls: list[tuple[str, str, str]], size: int) -> None:
    sites = Sites(size)
    for parts in urls:
        url = "".join(parts)
        try:
            expected = read(url)
        except ValueError:
            with pytest.raises(ValueError, match=r"netloc|IPv6"):
                sites.of(url)
            continue
        assert sites.of(url) == sites.of(url) == expected
        assert len(sites) <= size


@given(st.lists(st.text("htps:/\\?#@.a1[] \t", min_size=1).map("http://".__add__), min_size=2))
def test_no_odd_url_is_taken_for_another(urls: list[str]) -> None:
    sites = Sites()
    for url in urls:
        try:
            expected = read(url)
        except ValueError:
            continue
        assert sites.of(url) == expected


def test_a_long_url_without_a_path_is_not_kept_whole() -> None:
    """What is remembered is never longer than scheme and authority."""
    sites = Sites()
    sites.of("data:text/plain," + "x" * 100_000 + "/")
    sites.of("http://a.test?" + "x" * 100_000 + "/")
    assert all(len("".join(key)) < 50 for key in sites._known)
