"""The engine behind Scrapy's own parser interface."""

from __future__ import annotations

import pytest
from scrapy.robotstxt import RobotParser
from scrapy.utils.misc import load_object
from scrapy.utils.test import get_crawler

from scrapy_scour.policy.robots import Robots
from scrapy_scour.robotstxt import RFC9309RobotParser

BODY = """\
User-agent: *
Disallow: /all
Crawl-delay: 3
User-agent: MyBot
Disallow: /mine
User-agent: slowbot
Crawl-delay: 0.5
"""
HEADER = "Mozilla/5.0 (compatible; MyBot/1.0; +https://op.example)"


@pytest.fixture
def parser() -> RFC9309RobotParser:
    return RFC9309RobotParser.from_crawler(get_crawler(), BODY.encode())


def test_scrapy_finds_the_parser_by_its_setting() -> None:
    loaded = load_object("scrapy_scour.robotstxt.RFC9309RobotParser")
    assert loaded is RFC9309RobotParser
    assert issubclass(loaded, RobotParser)


@pytest.mark.parametrize(
    ("agent", "path", "allowed"),
    [
        (HEADER, "/mine", False),
        (HEADER, "/all", True),
        ("MyBot", "/mine", False),
        ("mybot/7", "/mine", False),
        ("OtherBot/1.0", "/mine", True),
        ("OtherBot/1.0", "/all", False),
        ("Mozilla/5.0 (X11; Linux) Firefox/140", "/all", False),
        ("*", "/all", False),
        ("", "/all", False),
    ],
)
def test_a_header_or_a_token_names_the_crawler(
    parser: RFC9309RobotParser, agent: str, path: str, allowed: bool
) -> None:
    url = f"https://a.example{path}"
    assert parser.allowed(url, agent) is allowed
    assert parser.allowed(url.encode(), agent.encode()) is allowed


def test_octets_that_are_no_utf_8_are_compared_as_they_are(parser: RFC9309RobotParser) -> None:
    odd = RFC9309RobotParser.from_crawler(get_crawler(), b"User-agent: *\nDisallow: /\xfc")
    assert not odd.allowed(b"https://a.example/\xfc", "MyBot")
    assert not odd.allowed("https://a.example/%FC", b"\xff\xfe")
    assert odd.allowed(b"https://a.example/\xc3\xbc", "MyBot")


def test_a_crawl_delay_is_seconds_or_none(parser: RFC9309RobotParser) -> None:
    assert parser.crawl_delay("OtherBot") == 3.0
    assert parser.crawl_delay(HEADER) is None
    assert parser.crawl_delay(b"slowbot/1") == 0.5


def test_the_rules_themselves_are_at_hand(parser: RFC9309RobotParser) -> None:
    assert isinstance(parser.robots, Robots)
    assert parser.robots.verdict("https://a.example/mine", "MyBot").source == "robots.txt line 5"
