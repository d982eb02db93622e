"""The name that robots.txt files are asked under."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_scour.policy.agents import BotUserAgent, product_token, valid_product_token

TOKENS: dict[str, str | None] = {
    "MyBot": "MyBot",
    "MyBot/1.0": "MyBot",
    "MyBot 1.0": "MyBot",
    "MyBot(+https://op.example)": "MyBot",
    "MyBot;x": "MyBot",
    " MyBot/1.0": "MyBot",
    "MyBot/1.0 (compatible; OtherBot)": "MyBot",
    "FigTree Robot libwww-perl/5.04": "FigTree",
    "Mozilla/5.0 (compatible; MyBot/1.0; +https://op.example)": "MyBot",
    "mozilla/5.0 (Compatible;MyBot)": "MyBot",
    "Mozilla/5.0 (X11; Linux) AppleWebKit/537 (KHTML, like Gecko; compatible; MyBot/2.1; +http://x.example) Chrome/1": (
        "MyBot"
    ),
    "Mozilla/5.0 (compatible; Львів-bot/1.1)": "Львів-bot",
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0": None,
    "Mozilla": None,
    "Mozilla/5.0 (compatible; Mozilla/4.0)": None,
    "Mozilla/5.0 (compatible)": None,
    "Mozilla/5.0 (compatible; )": None,
    "Mozilla/5.0 (compatible; +https://op.example/bot)": None,
    "Mozilla/5.0 (incompatible; MyBot)": None,
    "*": None,
    "": None,
    "   ": None,
    "/1.0": None,
    "(comment)": None,
}


@pytest.mark.parametrize(("header", "token"), TOKENS.items(), ids=range(len(TOKENS)))
def test_the_token_is_the_leading_product_or_what_is_compatible_never_mozilla(header: str, token: str | None) -> None:
    assert product_token(header) == token
    assert product_token(header.encode()) == token


def test_no_header_has_no_token() -> None:
    assert product_token(None) is None


@given(st.text() | st.binary())
def test_a_token_is_never_mozilla_never_everyone_and_a_token_of_itself(header: str | bytes) -> None:
    token = product_token(header)
    if token is not None:
        assert token.lower() not in ("mozilla", "*", "")
        assert product_token(token) == token


@pytest.mark.parametrize("token", ["MyBot", "my_bot", "My-Bot", "-", "a"])
def test_letters_underscore_and_hyphen_make_a_valid_token(token: str) -> None:
    assert valid_product_token(token)


@pytest.mark.parametrize("token", ["", "MyBot2", "My Bot", "MyBot/1.0", "Bücher", "my.bot", "MyBot\n", "*"])
def test_nothing_else_is_a_valid_token(token: str) -> None:
    assert not valid_product_token(token)


HEADERS: dict[BotUserAgent, str] = {
    BotUserAgent("MyCrawler"): "Mozilla/5.0 (compatible; MyCrawler)",
    BotUserAgent("MyCrawler", version="1.2"): "Mozilla/5.0 (compatible; MyCrawler/1.2)",
    BotUserAgent("MyCrawler", "https://x.example/bot"): ("Mozilla/5.0 (compatible; MyCrawler; +https://x.example/bot)"),
    BotUserAgent("MyCrawler", "https://x.example/bot", "1.2"): (
        "Mozilla/5.0 (compatible; MyCrawler/1.2; +https://x.example/bot)"
    ),
}


@pytest.mark.parametrize(("agent", "header"), HEADERS.items(), ids=range(len(HEADERS)))
def test_a_bot_header_names_the_bot_and_is_read_back_as_it(agent: BotUserAgent, header: str) -> None:
    assert str(agent) == header
    assert product_token(header) == agent.token == agent.product
    assert BotUserAgent.from_string(header) == agent


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("My Crawler",), "product"),
        (("MyCrawler2",), "product"),
        (("MyCrawler/1.2",), "product"),
        (("",), "product"),
        ((None,), "product"),
        (("Mozilla",), "product"),
        (("MyCrawler", "x.example/bot"), "info_url"),
        (("MyCrawler", "ftp://x.example/bot"), "info_url"),
        (("MyCrawler", "https://"), "info_url"),
        (("MyCrawler", "https://x.example/a b"), "info_url"),
        (("MyCrawler", "https://x.example/(a)"), "info_url"),
        (("MyCrawler", "https://x.example/;a"), "info_url"),
        (("MyCrawler", "https://me@x.example/"), "info_url"),
        (("MyCrawler", "https://x.example/\r\nX: y"), "info_url"),
        (("MyCrawler", "https://x.example/é"), "info_url"),
        (("MyCrawler", ""), "info_url"),
        (("MyCrawler", None, ""), "version"),
        (("MyCrawler", None, "1 2"), "version"),
        (("MyCrawler", None, "1/2"), "version"),
        (("MyCrawler", None, "1)"), "version"),
        (("MyCrawler", None, "1\n"), "version"),
        (("MyCrawler", None, 1.2), "version"),
    ],
)
def test_a_bot_that_could_not_be_read_back_is_refused_with_the_part_that_is_wrong(
    arguments: tuple[str, ...], named: str
) -> None:
    with pytest.raises(ValueError, match=rf"^{named} "):
        BotUserAgent(*arguments)


@pytest.mark.parametrize(
    ("text", "agent"),
    [
        ("MyCrawler", BotUserAgent("MyCrawler")),
        (" MyCrawler/1.2 ", BotUserAgent("MyCrawler", version="1.2")),
        ("MyCrawler (https://x.example)", BotUserAgent("MyCrawler", "https://x.example")),
        ("MyCrawler/1.2 (+https://x.example/bot)", BotUserAgent("MyCrawler", "https://x.example/bot", "1.2")),
        ("MyCrawler/1.2(+https://x.example/bot)", BotUserAgent("MyCrawler", "https://x.example/bot", "1.2")),
    ],
)
def test_a_bot_can_be_written_on_a_command_line(text: str, agent: BotUserAgent) -> None:
    assert BotUserAgent.from_string(text) == agent


@pytest.mark.parametrize(
    "text", ["", "MyCrawler/", "My Crawler", "MyCrawler 1.2", "MyCrawler (no url)", "(x)", "Bot2/1"]
)
def test_what_is_no_bot_on_a_command_line_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        BotUserAgent.from_string(text)
