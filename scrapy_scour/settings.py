"""Every ``SCOUR_*`` setting: one table that drives reading, error messages, the README and a test.

The only module that reads ``SCOUR_*``. A wrong value stops the crawl: all of them are named at once, each with
setting, value and rule.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy_scour.exceptions import SettingsError
from scrapy_scour.policy.agents import BotUserAgent
from scrapy_scour.policy.pacing import MultipleOf, Throttle
from scrapy_scour.policy.redirects import DEFAULT_SAFE_HEADERS

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

PREFIX = "SCOUR_"
_NOTHING = {"", "none"}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def _text(value: Any) -> str | None:
    return value.strip() if isinstance(value, str) else None


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in (0, 1) and isinstance(value, int):
        return bool(value)
    named = {"true": True, "1": True, "false": False, "0": False}
    text = _text(value)
    if text is not None and text.lower() in named:
        return named[text.lower()]
    raise ValueError


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError
    number = float(value)
    if not math.isfinite(number) or number < 0:
        raise ValueError
    return number


def _positive(value: Any) -> float:
    number = _number(value)
    if number == 0:
        raise ValueError
    return number


def _optional(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read_optional(value: Any) -> Any:
        text = _text(value)
        if value is None or (text is not None and text.lower() in _NOTHING):
            return None
        return read(value)

    return read_optional


def _whole(at_least: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise ValueError
        number = int(value)
        if number != float(value) or number < at_least:
            raise ValueError
        return number

    return read


def _items(value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    raise ValueError


def _waits(value: Any) -> tuple[float, ...]:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = [value]
    return tuple(_number(item) for item in _items(value))


def _patterns(value: Any) -> tuple[str, ...]:
    if isinstance(value, (str, re.Pattern)):
        value = [value]  # a comma may belong to the expression
    found = []
    for item in _items(value):
        pattern = item.pattern if isinstance(item, re.Pattern) else item
        if not isinstance(pattern, str) or not pattern:
            raise ValueError
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r}: {error}") from error
        found.append(pattern)
    return tuple(found)


def _header_names(value: Any) -> tuple[str, ...]:
    names = _items(value)
    if not all(isinstance(name, str) and _TOKEN.fullmatch(name) for name in names):
        raise ValueError
    return tuple(name.lower() for name in names)


def _media_types(value: Any) -> tuple[str, ...]:
    types = [item.strip().lower() if isinstance(item, str) else "" for item in _items(value)]
    for item in types:
        kind, slash, sub = item.partition("/")
        if not slash or not _TOKEN.fullmatch(kind) or not _TOKEN.fullmatch(sub):
            raise ValueError
    return tuple(types)


def _one_of(*choices: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        text = (_text(value) or "").lower()
        if text not in choices:
            raise ValueError
        return text

    return read


def _bot(value: Any) -> BotUserAgent:
    if isinstance(value, BotUserAgent):
        return value
    if isinstance(value, str):
        return BotUserAgent.from_string(value)
    raise ValueError


def _wait(value: Any) -> MultipleOf | float:
    if isinstance(value, MultipleOf):
        return value
    text = _text(value)
    if text is not None and text.lower().endswith("x"):
        return MultipleOf(_number(text[:-1]))
    return _number(value)


def _wait_between(value: Any) -> tuple[MultipleOf | float, MultipleOf | float]:
    low, high = (_wait(item) for item in _items(value))
    Throttle(low, high, 0.0, None)
    return low, high


def _path(value: Any) -> str:
    text = str(value) if hasattr(value, "__fspath__") else _text(value)
    if not text:
        raise ValueError
    return text


@dataclass(frozen=True)
class Setting:
    """One setting: name, default, unit, the rule in words, what it is for, and how a value is read.

    ``read`` takes what the project or the command line gave and returns the value to use, or raises ValueError.
    """

    name: str
    default: Any
    unit: str
    rule: str
    help: str
    read: Callable[[Any], Any]

    @property
    def field(self) -> str:
        """Its attribute on :class:`ScourSettings`."""
        return self.name[len(PREFIX) :].lower()


_SECONDS = "a finite number of seconds, 0 or more"

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "SCOUR_BOT_USER_AGENT",
        None,
        "",
        'a BotUserAgent, or a string like "MyCrawler/1.0 (+https://example.com/bot)"; the product is letters, _ and -',
        "Who the crawler is: sets USER_AGENT and the product token that robots.txt is read for.",
        _optional(_bot),
    ),
    Setting(
        "SCOUR_ROBOTSTXT_TTL",
        86_400,
        "s",
        f"{_SECONDS}; 0: the life of the job",
        "How long a robots.txt is used before it is read again (RFC 9309 2.4 says at most 24 hours).",
        _number,
    ),
    Setting(
        "SCOUR_ROBOTSTXT_TIMEOUT",
        30,
        "s",
        "a finite number of seconds above 0",
        "How long one answer to a robots.txt request may take, its body included.",
        _positive,
    ),
    Setting(
        "SCOUR_ROBOTSTXT_MAXSIZE",
        2_097_152,
        "bytes",
        "a whole number, 512000 or more",
        "How much of a robots.txt is read, after decompression; the rest is not (RFC 9309 2.5).",
        _whole(512_000),
    ),
    Setting(
        "SCOUR_ROBOTSTXT_CACHE_SIZE",
        10_000,
        "origins",
        "a whole number, 1 or more",
        "How many robots.txt files are kept; one that was put out is read again before its next page.",
        _whole(1),
    ),
    Setting(
        "SCOUR_ROBOTSTXT_WAITS",
        (5.0, 30.0),
        "s",
        f"a list, each {_SECONDS}",
        "How long a host is left alone after each failure to get its robots.txt, until its pages are refused.",
        _waits,
    ),
    Setting(
        "SCOUR_ROBOTSTXT_IGNORE_WILDCARD",
        False,
        "",
        "True or False",
        "Only rules for our own token refuse; the * group's delay still paces.",
        _boolean,
    ),
    Setting(
        "SCOUR_SCOPE_INCLUDE",
        (),
        "",
        "a list of regular expressions",
        "When set, a URL must match one of them (spider attribute: scope_include).",
        _patterns,
    ),
    Setting(
        "SCOUR_SCOPE_EXCLUDE",
        (),
        "",
        "a list of regular expressions",
        "A URL that matches one of them is out of scope (spider attribute: scope_exclude).",
        _patterns,
    ),
    Setting(
        "SCOUR_REDIRECT_SAFE_HEADERS",
        tuple(name.lower() for name in DEFAULT_SAFE_HEADERS),
        "",
        "a list of header names",
        "The request headers that go along when a redirect leads to another host.",
        _header_names,
    ),
    Setting(
        "SCOUR_REDIRECT_BODY_OFF_HOST",
        False,
        "",
        "True or False",
        "Whether a 307 or 308 to another host may carry the request's body there; else it is refused.",
        _boolean,
    ),
    Setting(
        "SCOUR_REDIRECT_PRIVATE_ADDRESSES",
        False,
        "",
        "True or False",
        "Whether a public host may redirect to a private, loopback or link-local address.",
        _boolean,
    ),
    Setting(
        "SCOUR_CRAWL_DELAY_MAX",
        None,
        "s",
        f"None for no maximum, or {_SECONDS}",
        "The longest delay that the crawl will keep for a site that asks for it.",
        _optional(_number),
    ),
    Setting(
        "SCOUR_CRAWL_DELAY_OVER_MAX",
        "skip",
        "",
        '"skip" or "clamp"',
        "What happens above it: the host is skipped, or asked at the maximum (less polite: it asked for more).",
        _one_of("skip", "clamp"),
    ),
    Setting(
        "SCOUR_THROTTLE_ENABLED",
        False,
        "",
        "True or False",
        "Wait after each answer in proportion to the time it took.",
        _boolean,
    ),
    Setting(
        "SCOUR_THROTTLE_WAIT_BETWEEN",
        (MultipleOf(1), MultipleOf(2)),
        "s or multiples",
        "two waits, both MultipleOf(n) or both seconds, the first not larger; on the command line 1x,2x or 1,2",
        "The range from which each wait is drawn.",
        _wait_between,
    ),
    Setting(
        "SCOUR_THROTTLE_WAIT_AT_LEAST",
        0.25,
        "s",
        _SECONDS,
        "No wait of the throttle is shorter.",
        _number,
    ),
    Setting(
        "SCOUR_THROTTLE_WAIT_AT_MOST",
        None,
        "s",
        f"None for no maximum, or {_SECONDS}, not below SCOUR_THROTTLE_WAIT_AT_LEAST",
        "No wait of the throttle is longer.",
        _optional(_number),
    ),
    Setting(
        "SCOUR_RETRY_AFTER_MAX",
        60,
        "s",
        _SECONDS,
        "The longest Retry-After that the crawl waits for; never is a host asked earlier than it said.",
        _number,
    ),
    Setting(
        "SCOUR_RETRY_AFTER_OVER_MAX",
        "host",
        "",
        '"host" or "spider"',
        "What is given up when a host says longer: that host until then, or the crawl.",
        _one_of("host", "spider"),
    ),
    Setting(
        "SCOUR_RETRY_WAITS",
        (10.0, 60.0),
        "s",
        f"a list, each {_SECONDS}",
        "How long a host is left alone after each 429 or 503 incident in a row that names no usable time.",
        _waits,
    ),
    Setting(
        "SCOUR_RETRY_BACKOFF",
        0,
        "s",
        f"{_SECONDS}; 0: at once, as in Scrapy",
        "How long a host is left alone after another failure that is retried, doubling while they go on.",
        _number,
    ),
    Setting(
        "SCOUR_MAX_REQUESTS_PER_DOMAIN",
        0,
        "requests",
        "a whole number; 0: no limit",
        "How many requests a host gets, retries and hops included.",
        _whole(0),
    ),
    Setting(
        "SCOUR_CONTENT_TYPES",
        (),
        "",
        'a list of media types like "text/html" or "text/*"; empty: all',
        "Other types are refused on their headers, before the body is read.",
        _media_types,
    ),
    Setting(
        "SCOUR_OUTCOMES_FILE",
        None,
        "path",
        "None or a path",
        "One JSON line for each request that did not become a page.",
        _optional(_path),
    ),
    Setting(
        "SCOUR_REPORT_FILE",
        None,
        "path",
        "None or a path",
        "One HTML page about the crawl, written at its end over what was there (needs the extra report).",
        _optional(_path),
    ),
)


@dataclass(frozen=True)
class ScourSettings:
    """The values of one crawl, read and checked once. A field is the setting's name without ``SCOUR_``."""

    bot_user_agent: BotUserAgent | None
    robotstxt_ttl: float
    robotstxt_timeout: float
    robotstxt_maxsize: int
    robotstxt_cache_size: int
    robotstxt_waits: tuple[float, ...]
    robotstxt_ignore_wildcard: bool
    scope_include: tuple[str, ...]
    scope_exclude: tuple[str, ...]
    redirect_safe_headers: tuple[str, ...]
    redirect_body_off_host: bool
    redirect_private_addresses: bool
    crawl_delay_max: float | None
    crawl_delay_over_max: str
    throttle_enabled: bool
    throttle_wait_between: tuple[MultipleOf | float, MultipleOf | float]
    throttle_wait_at_least: float
    throttle_wait_at_most: float | None
    retry_after_max: float
    retry_after_over_max: str
    retry_waits: tuple[float, ...]
    retry_backoff: float
    max_requests_per_domain: int
    content_types: tuple[str, ...]
    outcomes_file: str | None
    report_file: str | None

    @property
    def throttle(self) -> Throttle | None:
        """The adaptive throttle, or None when it is off."""
        return self.throttle_range if self.throttle_enabled else None

    @property
    def throttle_range(self) -> Throttle:
        """The waits of the throttle, whether it is on or not; ValueError when they contradict each other."""
        return Throttle(*self.throttle_wait_between, self.throttle_wait_at_least, self.throttle_wait_at_most)


def read_settings(settings: BaseSettings) -> ScourSettings:
    """Read every ``SCOUR_*`` setting, or raise :class:`SettingsError` that lists all that is wrong with them."""
    values, problems = collect(settings)
    if problems:
        raise SettingsError(refusal(problems))
    return ScourSettings(**values)


def collect(settings: BaseSettings) -> tuple[dict[str, Any], list[str]]:
    """The values by field, and one sentence for everything that is wrong."""
    values: dict[str, Any] = {}
    problems = []
    for setting in SETTINGS:
        # Not .get(), for which a None that the project wrote is no value.
        given = settings[setting.name] if setting.name in settings else setting.default  # noqa: SIM401
        try:
            values[setting.field] = setting.read(given)
        except (ValueError, TypeError, OverflowError) as error:
            detail = f" ({error})" if type(error) is ValueError and str(error) and _speaks(error) else ""
            problems.append(f"{setting.name} = {given!r}: must be {setting.rule}{detail}")
    if not problems:
        try:
            ScourSettings(**values).throttle_range  # noqa: B018
        except ValueError as error:
            problems.append(
                f"SCOUR_THROTTLE_WAIT_AT_MOST = {values['throttle_wait_at_most']!r} with"
                f" SCOUR_THROTTLE_WAIT_AT_LEAST = {values['throttle_wait_at_least']!r}: {error}"
            )
    known = [setting.name for setting in SETTINGS]
    for name in settings:
        if isinstance(name, str) and name.startswith(PREFIX) and name not in known:
            # Without the prefix, which makes any two of them alike.
            names = [one.removeprefix(PREFIX) for one in known]
            near = difflib.get_close_matches(name.removeprefix(PREFIX), names, n=1, cutoff=0.6)
            meant = f"; did you mean {PREFIX}{near[0]}?" if near else ""
            problems.append(f"{name} = {settings.get(name)!r}: there is no such setting{meant}")
    return values, problems


def refusal(problems: list[str]) -> str:
    """The one message for all that is wrong with a set-up."""
    return "scrapy-scour refuses to start, nothing was fetched:" + "".join(f"\n  {line}" for line in problems)


def _speaks(error: ValueError) -> bool:
    """Whether the message says more than Python's own words for a bad number."""
    return not str(error).startswith(("could not convert", "invalid literal", "not enough values", "too many values"))
