"""Every SCOUR_* setting is read by one table, and whatever is wrong with one is said with setting, value and rule."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from scrapy.settings import Settings

from scrapy_scour import BotUserAgent, MultipleOf
from scrapy_scour.exceptions import SettingsError
from scrapy_scour.settings import SETTINGS, ScourSettings, read_settings

BY_NAME = {setting.name: setting for setting in SETTINGS}

GOOD: tuple[tuple[str, Any, Any], ...] = (
    ("SCOUR_BOT_USER_AGENT", None, None),
    ("SCOUR_BOT_USER_AGENT", "", None),
    ("SCOUR_BOT_USER_AGENT", BotUserAgent("MyBot"), BotUserAgent("MyBot")),
    ("SCOUR_BOT_USER_AGENT", "MyBot/1.0 (+https://op.test/bot)", BotUserAgent("MyBot", "https://op.test/bot", "1.0")),
    ("SCOUR_ROBOTSTXT_TTL", 0, 0.0),
    ("SCOUR_ROBOTSTXT_TTL", "3600", 3600.0),
    ("SCOUR_ROBOTSTXT_TIMEOUT", 0.5, 0.5),
    ("SCOUR_ROBOTSTXT_TIMEOUT", "2.5", 2.5),
    ("SCOUR_ROBOTSTXT_MAXSIZE", 512_000, 512_000),
    ("SCOUR_ROBOTSTXT_MAXSIZE", "600000", 600_000),
    ("SCOUR_ROBOTSTXT_CACHE_SIZE", 1, 1),
    ("SCOUR_ROBOTSTXT_CACHE_SIZE", "20", 20),
    ("SCOUR_ROBOTSTXT_WAITS", [5, 30], (5.0, 30.0)),
    ("SCOUR_ROBOTSTXT_WAITS", "5,30", (5.0, 30.0)),
    ("SCOUR_ROBOTSTXT_WAITS", [], ()),
    ("SCOUR_ROBOTSTXT_WAITS", 2, (2.0,)),
    ("SCOUR_ROBOTSTXT_IGNORE_WILDCARD", "True", True),
    ("SCOUR_ROBOTSTXT_IGNORE_WILDCARD", "0", False),
    ("SCOUR_SCOPE_INCLUDE", ["/a", "/b"], ("/a", "/b")),
    ("SCOUR_SCOPE_INCLUDE", "/a", ("/a",)),
    ("SCOUR_SCOPE_EXCLUDE", r"/x{2,3}", (r"/x{2,3}",)),
    ("SCOUR_REDIRECT_SAFE_HEADERS", "Accept,X-Mine", ("accept", "x-mine")),
    ("SCOUR_REDIRECT_BODY_OFF_HOST", "1", True),
    ("SCOUR_REDIRECT_PRIVATE_ADDRESSES", "False", False),
    ("SCOUR_CRAWL_DELAY_MAX", None, None),
    ("SCOUR_CRAWL_DELAY_MAX", "none", None),
    ("SCOUR_CRAWL_DELAY_MAX", "10", 10.0),
    ("SCOUR_CRAWL_DELAY_OVER_MAX", "Clamp", "clamp"),
    ("SCOUR_THROTTLE_ENABLED", "true", True),
    ("SCOUR_THROTTLE_WAIT_BETWEEN", "1x,2x", (MultipleOf(1), MultipleOf(2))),
    ("SCOUR_THROTTLE_WAIT_BETWEEN", (1, 2.5), (1.0, 2.5)),
    ("SCOUR_THROTTLE_WAIT_BETWEEN", (MultipleOf(2), MultipleOf(2)), (MultipleOf(2), MultipleOf(2))),
    ("SCOUR_THROTTLE_WAIT_AT_MOST", 3, 3.0),
    ("SCOUR_THROTTLE_WAIT_AT_MOST", "none", None),
    ("SCOUR_THROTTLE_WAIT_AT_LEAST", "0.1", 0.1),
    ("SCOUR_RETRY_AFTER_MAX", 0, 0.0),
    ("SCOUR_RETRY_AFTER_MAX", "120", 120.0),
    ("SCOUR_RETRY_AFTER_OVER_MAX", "spider", "spider"),
    ("SCOUR_RETRY_WAITS", (0.5,), (0.5,)),
    ("SCOUR_RETRY_WAITS", "1,2.5", (1.0, 2.5)),
    ("SCOUR_RETRY_BACKOFF", "0.5", 0.5),
    ("SCOUR_MAX_REQUESTS_PER_DOMAIN", "7", 7),
    ("SCOUR_CONTENT_TYPES", "text/html, application/*", ("text/html", "application/*")),
    ("SCOUR_OUTCOMES_FILE", "out.jl", "out.jl"),
    ("SCOUR_REPORT_FILE", " report.html ", "report.html"),
    ("SCOUR_REPORT_FILE", "none", None),
)

BAD: tuple[tuple[str, Any], ...] = (
    ("SCOUR_BOT_USER_AGENT", "My Bot!"),
    ("SCOUR_BOT_USER_AGENT", 7),
    ("SCOUR_ROBOTSTXT_TTL", -1),
    ("SCOUR_ROBOTSTXT_TTL", "a day"),
    ("SCOUR_ROBOTSTXT_TTL", float("nan")),
    ("SCOUR_ROBOTSTXT_TTL", None),
    ("SCOUR_ROBOTSTXT_TIMEOUT", 0),
    ("SCOUR_ROBOTSTXT_TIMEOUT", float("inf")),
    ("SCOUR_ROBOTSTXT_MAXSIZE", 511_999),
    ("SCOUR_ROBOTSTXT_MAXSIZE", 600_000.5),
    ("SCOUR_ROBOTSTXT_MAXSIZE", True),
    ("SCOUR_ROBOTSTXT_CACHE_SIZE", 0),
    ("SCOUR_ROBOTSTXT_WAITS", [5, -1]),
    ("SCOUR_ROBOTSTXT_WAITS", "soon"),
    ("SCOUR_ROBOTSTXT_WAITS", {"a": 1}),
    ("SCOUR_ROBOTSTXT_IGNORE_WILDCARD", "yes please"),
    ("SCOUR_ROBOTSTXT_IGNORE_WILDCARD", 2),
    ("SCOUR_SCOPE_INCLUDE", ["("]),
    ("SCOUR_SCOPE_INCLUDE", [3]),
    ("SCOUR_SCOPE_EXCLUDE", [""]),
    ("SCOUR_REDIRECT_SAFE_HEADERS", ["X Mine"]),
    ("SCOUR_REDIRECT_BODY_OFF_HOST", "maybe"),
    ("SCOUR_REDIRECT_PRIVATE_ADDRESSES", "10.0.0.0/8"),
    ("SCOUR_CRAWL_DELAY_MAX", -0.1),
    ("SCOUR_CRAWL_DELAY_OVER_MAX", "ignore"),
    ("SCOUR_CRAWL_DELAY_OVER_MAX", None),
    ("SCOUR_THROTTLE_ENABLED", None),
    ("SCOUR_THROTTLE_WAIT_BETWEEN", (MultipleOf(1), 2)),
    ("SCOUR_THROTTLE_WAIT_BETWEEN", (2, 1)),
    ("SCOUR_THROTTLE_WAIT_BETWEEN", (1,)),
    ("SCOUR_THROTTLE_WAIT_BETWEEN", "1x,2x,3x"),
    ("SCOUR_THROTTLE_WAIT_AT_LEAST", "fast"),
    ("SCOUR_THROTTLE_WAIT_AT_MOST", 0.1),
    ("SCOUR_RETRY_AFTER_MAX", None),
    ("SCOUR_RETRY_AFTER_OVER_MAX", "both"),
    ("SCOUR_RETRY_WAITS", [True]),
    ("SCOUR_RETRY_BACKOFF", [1]),
    ("SCOUR_MAX_REQUESTS_PER_DOMAIN", -1),
    ("SCOUR_MAX_REQUESTS_PER_DOMAIN", 10**400),
    ("SCOUR_CONTENT_TYPES", ["html"]),
    ("SCOUR_CONTENT_TYPES", [None]),
    ("SCOUR_OUTCOMES_FILE", 5),
    ("SCOUR_REPORT_FILE", True),
)


def test_the_table_and_the_object_have_the_same_fields() -> None:
    """Whoever adds a setting adds it to both."""
    assert [setting.field for setting in SETTINGS] == [field.name for field in fields(ScourSettings)]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_default_is_a_good_value(setting: Any) -> None:
    """A project that sets nothing gets the defaults of the table."""
    value = getattr(read_settings(Settings()), setting.field)
    assert value == setting.default
    assert setting.rule
    assert setting.help.endswith(".")


@pytest.mark.parametrize(("name", "given", "value"), GOOD)
def test_a_good_value_is_read(name: str, given: Any, value: Any) -> None:
    """From a settings module and from the command line, where everything is text."""
    assert getattr(read_settings(Settings({name: given})), BY_NAME[name].field) == value


def test_every_setting_can_be_given_as_text_and_has_a_value_that_is_refused() -> None:
    """None is left out of the tables of these tests: on the command line everything is text."""
    assert {name for name, given, _ in GOOD if isinstance(given, str)} == set(BY_NAME)
    assert {name for name, _ in BAD} == set(BY_NAME)


@pytest.mark.parametrize(("name", "given"), BAD)
def test_a_bad_value_is_refused_with_setting_value_and_rule(name: str, given: Any) -> None:
    """Fail closed: no default stands in for a value that was meant to be something else."""
    with pytest.raises(SettingsError) as refused:
        read_settings(Settings({name: given}))
    message = str(refused.value)
    assert name in message
    assert (repr(given) if len(repr(given)) < 200 else repr(given)[:50]) in message
    rule = BY_NAME[name].rule
    assert rule in message or "SCOUR_THROTTLE_WAIT_AT_LEAST" in message


def test_all_wrong_values_are_named_at_once() -> None:
    """One start tells everything, not one mistake after the other."""
    wrong = {"SCOUR_ROBOTSTXT_TTL": -1, "SCOUR_RETRY_WAITS": "x", "SCOUR_OUTCOMES_FILE": 5}
    with pytest.raises(SettingsError) as refused:
        read_settings(Settings(wrong))
    assert all(name in str(refused.value) for name in wrong)


@pytest.mark.parametrize(
    ("unknown", "near"),
    [("SCOUR_RETRY_WAIT", "SCOUR_RETRY_WAITS"), ("SCOUR_ROBOTS_TTL", "SCOUR_ROBOTSTXT_TTL")],
)
def test_an_unknown_name_is_refused_with_the_nearest_known_one(unknown: str, near: str) -> None:
    """A misspelled politeness setting must not be silence."""
    with pytest.raises(SettingsError, match=f"{unknown} = 1: there is no such setting; did you mean {near}"):
        read_settings(Settings({unknown: 1}))


@pytest.mark.parametrize("unknown", ["SCOUR_", "SCOUR_FOO", "SCOUR_NONSENSE"])
def test_an_unknown_name_that_resembles_none_is_refused_without_a_guess(unknown: str) -> None:
    """A guess at random would send somebody to the wrong setting."""
    with pytest.raises(SettingsError) as refused:
        read_settings(Settings({unknown: 1}))
    assert str(refused.value).endswith(f"{unknown} = 1: there is no such setting")
