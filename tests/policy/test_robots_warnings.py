"""What the owner of a site is told about its robots.txt, and what not."""

from __future__ import annotations

import gzip

import pytest

from scrapy_scour.policy.robots import parse
from scrapy_scour.policy.robots_pace import rate_of

RULES = "User-agent: *\nDisallow: /x\n"
JOINED = "does not end its group: the rules below line 3 are for the agents above it too"


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        (RULES.encode("utf-16"), 1, "UTF-16"),
        (b"\xfe\xff" + RULES.encode("utf-16-be"), 1, "UTF-16"),
        (RULES + "Request-rate: foo", 3, "'foo' is no number of requests per seconds"),
        (RULES + "Request-rate: 0/10", 3, "'0/10' is no number of requests per seconds"),
        ("Request-rate: 1/10\n" + RULES, 1, "this Request-rate stands before any user-agent line"),
        (RULES + "Sitemap: /map.xml", 3, "the sitemap '/map.xml' is no full URL"),
        (RULES + "Disallow: /pri\0vate", 3, "'/pri\\x00vate' holds a NUL octet"),
        (b"\x89PNG\r\n\x1a\n" + RULES.encode("utf-16")[2:], 1, "no line of the file can be read"),
        ("Bye", 1, "no line of the file can be read"),
        (" \n<!doctype html>\n", 2, "looks like a web page"),
        ("<html>\nALL: x\nDisalow\nAllows: /x\n</html>", 1, "looks like a web page"),
    ],
)
def test_a_file_that_is_not_read_as_it_was_meant_is_pointed_out(body: str | bytes, line: int, words: str) -> None:
    found = [warning for warning in parse(body).warnings() if "not UTF-8 (RFC 9309 2.3): the octets" not in warning[1]]
    assert [(warning.line, words in warning.message) for warning in found] == [(line, True)]


def test_a_compressed_file_is_called_by_its_name() -> None:
    found = parse(gzip.compress(RULES.encode())).warnings()
    assert any("gzip" in warning.message for warning in found)


@pytest.mark.parametrize("key", ["Crawl-delay: 1", "Request-rate: 1/2", "Noindex: /y", "Sitemap: http://a.example/map"])
def test_a_line_between_two_user_agents_that_joins_them_is_pointed_out_where_rules_follow(key: str) -> None:
    joining = f"User-agent: a\n{key}\nUser-agent: b\n"
    (warning,) = parse(f"{joining}Disallow: /\n").warnings()
    assert warning.line == 2
    assert f"this {key.partition(':')[0]} {JOINED}" in warning.message
    assert ("the delay is not for those below" in warning.message) is (key[0] in "CR")
    assert parse(joining).warnings() == []
    assert parse(f"User-agent: a\nDisallow: /\n{key}\nUser-agent: b\nDisallow: /\n").warnings() == []


def test_each_join_before_the_same_rules_is_told_and_the_line_that_asks_for_a_pace_first() -> None:
    body = "User-agent: a\nSitemap: http://a/\nCrawl-delay: 1\nUser-agent: b\nHost: x\nUser-agent: c\nAllow: /\n"
    assert [(one.line, one.message.split()[1]) for one in parse(body).warnings()] == [(3, "Crawl-delay"), (5, "Host")]


def test_a_key_that_resembles_none_is_no_misspelling() -> None:
    assert parse(RULES + "ALL: /\nFoo: bar\nCache-delay: 3\nSite: x\n").warnings() == []
    (warning,) = parse(RULES + "Sitmap: http://a.example/").warnings()
    assert "is 'sitemap' meant?" in warning.message


@pytest.mark.parametrize(("value", "seconds"), [(b"1/10", 10.0), (b"2/1m", 30.0), (b"0/10", None), (b"foo", None)])
def test_a_rate_that_can_be_kept_is_read(value: bytes, seconds: float | None) -> None:
    rate = rate_of(value)
    assert (rate and rate.seconds / rate.requests) == seconds
