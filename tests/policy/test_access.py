"""What an answer to a robots.txt request means (RFC 9309 2.3.1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_scour.policy.access import MAX_HOPS, Means, meaning, next_hop

RULES, NO_RULES, NOT_OBTAINED = Means.RULES, Means.NO_RULES, Means.NOT_OBTAINED

STATUSES: tuple[tuple[int, Means, str], ...] = (
    (200, RULES, "2.3.1.1"),
    (203, RULES, "2.3.1.1"),
    (204, RULES, "2.3.1.1"),
    (299, RULES, "2.3.1.1"),
    (400, NO_RULES, "2.3.1.3"),
    (401, NO_RULES, "2.3.1.3"),
    (403, NO_RULES, "2.3.1.3"),
    (404, NO_RULES, "2.3.1.3"),
    (410, NO_RULES, "2.3.1.3"),
    (451, NO_RULES, "2.3.1.3"),
    (499, NO_RULES, "2.3.1.3"),
    (407, NOT_OBTAINED, "the proxy's word"),
    (429, NOT_OBTAINED, "RFC 6585 4"),
    (500, NOT_OBTAINED, "2.3.1.4"),
    (502, NOT_OBTAINED, "2.3.1.4"),
    (503, NOT_OBTAINED, "2.3.1.4"),
    (504, NOT_OBTAINED, "2.3.1.4"),
    (520, NOT_OBTAINED, "2.3.1.4"),
    (599, NOT_OBTAINED, "2.3.1.4"),
    (100, NOT_OBTAINED, "no final answer"),
    (199, NOT_OBTAINED, "no final answer"),
    (300, NOT_OBTAINED, "not followed"),
    (304, NOT_OBTAINED, "not followed"),
    (399, NOT_OBTAINED, "not followed"),
    (600, NOT_OBTAINED, "no status of HTTP"),
    (999, NOT_OBTAINED, "no status of HTTP"),
)


@pytest.mark.parametrize(("status", "means", "why"), STATUSES)
def test_the_status_decides(status: int, means: Means, why: str) -> None:
    assert meaning(status) is means


@given(st.integers(min_value=-1000, max_value=10_000))
def test_only_2xx_and_4xx_are_ever_a_yes(status: int) -> None:
    assert (meaning(status) is NOT_OBTAINED) or status // 100 in (2, 4)


HERE = "http://a.example/robots.txt"


def hop(
    location: bytes | None,
    *,
    url: str = HERE,
    status: int = 301,
    trail: list[str] | None = None,
    private_addresses: bool = False,
) -> tuple[str | None, str]:
    found = next_hop(url, status, location, trail or [url], private_addresses=private_addresses)
    return found.url, found.problem


FOLLOWED: tuple[tuple[bytes, str], ...] = (
    (b"https://a.example/robots.txt", "https://a.example/robots.txt"),
    (b"//b.example/r.txt", "http://b.example/r.txt"),
    (b"/other.txt", "http://a.example/other.txt"),
    (b"other.txt?x=1", "http://a.example/other.txt?x=1"),
    (b"http://b.example:8080/robots.txt#part", "http://b.example:8080/robots.txt"),
    (b"http://93.184.216.34/robots.txt", "http://93.184.216.34/robots.txt"),
)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(("location", "url"), FOLLOWED)
def test_a_redirect_is_followed_to_other_hosts_too(location: bytes, url: str, status: int) -> None:
    """RFC 9309 2.3.1.2."""
    assert hop(location, status=status) == (url, "")


NOT_FOLLOWED: tuple[tuple[int, bytes | None, str], ...] = (
    (301, None, "without a Location"),
    (302, b"", "unusable address"),
    (302, b"ftp://a.example/robots.txt", "unusable address"),
    (302, b"file:///etc/passwd", "unusable address"),
    (302, b"data:text/plain,User-agent:*", "unusable address"),
    (302, b"javascript:0", "unusable address"),
    (302, b"http://", "unusable address"),
    (302, b"http://a.example:99999/robots.txt", "unusable address"),
    (300, b"http://b.example/robots.txt", "status 300"),
    (304, b"http://b.example/robots.txt", "status 304"),
    (399, b"http://b.example/robots.txt", "status 399"),
    (302, HERE.encode(), "in a circle"),
    (302, HERE.encode() + b"#again", "in a circle"),
    (302, b"http://127.0.0.1/robots.txt", "private address"),
    (302, b"http://[::1]/robots.txt", "private address"),
    (302, b"http://169.254.169.254/latest", "private address"),
    (302, b"http://localhost/robots.txt", "private address"),
)


@pytest.mark.parametrize(("status", "location", "problem"), NOT_FOLLOWED)
def test_a_redirect_that_leads_nowhere_obtains_nothing(status: int, location: bytes | None, problem: str) -> None:
    url, said = hop(location, status=status)
    assert url is None
    assert problem in said


def test_five_hops_are_followed_and_the_sixth_is_not() -> None:
    """RFC 9309 2.3.1.2: at least five consecutive redirects."""
    trail = [HERE]
    for number in range(1, MAX_HOPS + 1):
        url, _ = hop(f"/{number}".encode(), url=trail[-1], trail=trail)
        assert url is not None
        trail.append(url)
    assert len(trail) == 6
    assert hop(b"/6", url=trail[-1], trail=trail) == (None, "more than 5 redirects")


def test_a_circle_over_two_hosts_is_seen() -> None:
    trail = [HERE, "http://b.example/robots.txt"]
    assert hop(HERE.encode(), url=trail[-1], trail=trail)[0] is None


def test_a_private_address_may_be_reached_from_a_private_one_or_when_the_project_says_so() -> None:
    assert hop(b"http://127.0.0.2/robots.txt", url="http://127.0.0.1/robots.txt")[0] == "http://127.0.0.2/robots.txt"
    assert hop(b"http://127.0.0.2/robots.txt", private_addresses=True)[0] == "http://127.0.0.2/robots.txt"


@given(st.binary(max_size=80), st.integers(min_value=300, max_value=399))
def test_no_location_is_too_odd(location: bytes, status: int) -> None:
    """Whatever a server sends gives an http(s) URL or a problem in words."""
    url, problem = hop(location, status=status)
    assert (url is None) == bool(problem)
    assert url is None or url.startswith(("http://", "https://"))
