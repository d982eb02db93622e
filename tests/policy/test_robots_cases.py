"""Faults that other crawlers have had with robots.txt, each with what is right.

The ids are those of a collection of public reports; the inputs are reduced to what matters.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from scrapy_scour.policy.agents import product_token
from scrapy_scour.policy.robots import parse

A = "https://a.example"


class Case(NamedTuple):
    """``header`` is a User-Agent header; paths are separated by spaces."""

    id: str
    body: str | bytes
    header: str
    allowed: str = ""
    refused: str = ""


STAR = "User-agent: *\n"
MINE = "User-agent: mybot\n"
THREE = "User-agent: mybot\n{0}\n\nUser-agent: otherbot\nDisallow: /\n"

CASES: list[Case] = [
    Case("PARSE-01 bytes", b"\xef\xbb\xbf" + STAR.encode() + b"Disallow: /\n", "mybot", "", "/x"),
    Case("PARSE-01 str", "\ufeff" + STAR + "Disallow: /\n", "mybot", "", "/x"),
    Case("PARSE-03", STAR + "Disallow: /*s=", "mybot", "/ /s/", "/?s=term"),
    Case("PARSE-04", STAR + "Disallow: /en/*q=*relevance*", "mybot", "/en/c/4018", "/en/c/4018?q=%3Arelevance%3Atype"),
    Case("PARSE-05", STAR + "Disallow: /*%2F*", "mybot", "/a/b", "/a%2Fb /a%2fb"),
    Case(
        "PARSE-06",
        STAR + "Disallow: /path/file-with-a-%2A.html\nDisallow: /path/foo-%24",
        "mybot",
        "/path/file-with-a-x.html",
        "/path/file-with-a-*.html /path/foo-$",
    ),
    Case(
        "PARSE-07",
        STAR + "Disallow: /foo/bar/ツ",
        "mybot",
        "/foo/bar/",
        "/foo/bar/ツ /foo/bar/%E3%83%84 /foo/bar/%e3%83%84",
    ),
    Case("PARSE-08", STAR + "Disallow: /*?", "mybot", "/ /a", "/a? /a?x=1"),
    Case("PARSE-09 a", STAR + "Disallow: */test", "mybot", "/x", "/test /a/test"),
    Case("PARSE-09 b", STAR + "Disallow: *", "mybot", "", "/ /a"),
    Case("PARSE-10 plus", STAR + "Disallow: *phone++*", "mybot", "/phones-x.html", "/x/phone++y"),
    Case("PARSE-10 others", STAR + "Disallow: /a.b(c)[d]\\e", "mybot", "/aXb(c)[d]e", "/a.b(c)[d]%5Ce"),
    Case(
        "PARSE-10 25 stars", STAR + "Disallow: /" + "*a" * 25 + "*b", "mybot", "/" + "a" * 2000, "/" + "a" * 2000 + "b"
    ),
    *(
        Case(f"PARSE-11 {line} {bot}", THREE.format(line), bot, "", "/a")
        for line in ("Crawl-delay: 10", "Sitemap: https://a.example/s.xml", "Unknown: x")
        for bot in ("mybot", "otherbot")
    ),
    Case("PARSE-12 a", MINE + "Disallow: /secret\n\n" + STAR + "Disallow: /public", "mybot", "/public", "/secret"),
    Case(
        "PARSE-12 a turned", STAR + "Disallow: /public\n\n" + MINE + "Disallow: /secret", "mybot", "/public", "/secret"
    ),
    Case("PARSE-12 b", f"{MINE}Disallow: /a\n{STAR}Disallow: /c\n{MINE}Disallow: /b", "mybot", "/c", "/a /b"),
    Case("PARSE-12 b first", f"{STAR}Disallow: /c\n{MINE}Disallow: /a\n{MINE}Disallow: /b", "mybot", "/c", "/a /b"),
    Case("PARSE-12 b last", f"{MINE}Disallow: /a\n{MINE}Disallow: /b\n{STAR}Disallow: /c", "mybot", "/c", "/a /b"),
    Case("PARSE-13 mine", "User-agent: mybot\n\nUser-agent: otherbot\nDisallow: /", "mybot", "", "/"),
    Case("PARSE-13 other", "User-agent: mybot\n\nUser-agent: otherbot\nDisallow: /", "otherbot", "", "/"),
    Case(
        "PARSE-15",
        STAR
        + "Disallow: /print$\n\nUser-agent: slowbot\nCrawl-delay: 10\n\nUser-agent: ads\nDisallow: /\nCrawl-delay: 5",
        "mybot",
        "/a",
        "/print",
    ),
    Case("PARSE-18 directives", "<html>\nUser-agent: *<br>\nDisallow: /<br>\n</html>", "mybot", "/ /a"),
    Case("PARSE-18 none", "<html><p>Not found</p></html>", "mybot", "/ /a"),
    Case("PARSE-18 empty", "", "mybot", "/ /a"),
    Case("PARSE-19", STAR + "Disallow: /", "mybot", "/robots.txt", "/"),
    Case(
        "PARSE-20",
        STAR + "Disallow: /some-path/\nAllow: /some-path/exception",
        "mybot",
        "/other /some-path/exception/b",
        "/some-path/a",
    ),
    Case(
        "PARSE-21",
        STAR + "Disallow: /foo?baz=https://x.example",
        "mybot",
        "/foo?baz=",
        "/foo?baz=https://x.example /foo?baz=https%3A%2F%2Fx.example",
    ),
    Case("AGENT-01 mybot", "User-agent: bot\nDisallow: /", "mybot", "/x"),
    Case("AGENT-01 bot", "User-agent: bot\nDisallow: /", "bot", "", "/x"),
    Case("AGENT-01 version", "User-agent: bot\nDisallow: /", "bot/1.0", "", "/x"),
    Case("AGENT-02 a", "User-agent: my\nAllow: /\n\n" + STAR + "Disallow: /p", "mybot", "/x", "/p"),
    Case("AGENT-02 b", "User-agent: google\nDisallow: /", "googlebot", "/x"),
    Case("AGENT-03 a", "User-agent: MyBot\nDisallow: /v", "MyBot/1.0", "/x", "/v"),
    Case("AGENT-03 b", "User-agent: MyBot/2.1\nDisallow: /v\n\n" + STAR + "Disallow: /all", "mybot", "/all", "/v"),
    Case(
        "AGENT-04",
        "User-agent: Mozilla\nDisallow: /\n\nUser-agent: MyBot\nDisallow: /p",
        "Mozilla/5.0 (compatible; MyBot/1.0; +https://op.example)",
        "/a",
        "/p",
    ),
    Case(
        "AGENT-04 no token",
        "User-agent: Mozilla\nDisallow: /\n\n" + STAR + "Disallow: /p",
        "Mozilla/5.0 (X11)",
        "/a",
        "/p",
    ),
    Case("AGENT-05 mine", "User-agent: MyBot\nDisallow:\n\n" + STAR + "Disallow: /", "MyBot", "/ /x"),
    Case("AGENT-05 other", "User-agent: MyBot\nDisallow:\n\n" + STAR + "Disallow: /", "other", "", "/ /x"),
    Case("AGENT-07", "User-agent: MyBot\nDisallow: /m\n" + STAR + "Disallow: /s", "MyBot/1.0", "/s", "/m"),
    Case(
        "AGENT-09 header of a browser",
        "User-agent: Firefox\nDisallow: /\n" + STAR + "Disallow: /s",
        "Mozilla/5.0 (rv:1) Firefox/1",
        "/x",
        "/s",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_known_fault_is_not_ours(case: Case) -> None:
    robots = parse(case.body)
    token = product_token(case.header)
    assert [path for path in case.allowed.split() if not robots.verdict(A + path, token)] == []
    assert [path for path in case.refused.split() if robots.verdict(A + path, token)] == []


def test_a_delay_between_agents_is_for_the_agents_above_it_only() -> None:
    """PARSE-11, PARSE-15."""
    robots = parse(THREE.format("Crawl-delay: 10"))
    assert (robots.crawl_delay("mybot"), robots.crawl_delay("otherbot")) == (10.0, None)
    leaky = parse(
        STAR + "Disallow: /print$\n\nUser-agent: slowbot\nCrawl-delay: 10\n\nUser-agent: adsbot\nCrawl-delay: 5"
    )
    assert leaky.crawl_delay("mybot") is None
    assert leaky.delay("mybot") == 0.0


def test_of_a_file_without_end_the_first_part_counts() -> None:
    """PARSE-17: what is kept of it is the downloader's business, what is read of it ours."""
    body = b"User-agent: *\nDisallow: /x\n" + b"# " + b"x" * 3_000_000 + b"\nDisallow: /y\n"
    robots = parse(body, max_size=2_097_152)
    assert robots.truncated
    assert not robots.allowed(A + "/x", "mybot")
    assert robots.allowed(A + "/y", "mybot")
    assert [warning for warning in robots.warnings() if "size limit" in warning.message]


def test_an_html_page_can_be_told_from_a_file_with_rules() -> None:
    """PARSE-18."""
    assert parse("<html>\nUser-agent: *<br>\nDisallow: /<br>\n</html>").is_empty
    assert not parse(STAR + "Disallow: /x").is_empty
