"""What holds for every file: it never fails, it takes time in proportion, and a rule only works one way."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import process_time
from typing import SupportsIndex

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from scrapy_scour.policy import robots_lines
from scrapy_scour.policy.robots import parse
from scrapy_scour.policy.robots_rules import Pattern
from scrapy_scour.policy.urls import normal_length, normal_path, path_and_query

A = "https://a.example"

# --- Material: text that looks like robots.txt files ---

pieces = st.sampled_from(
    [
        "/",
        "a",
        "b",
        "*",
        "$",
        "?",
        "%2F",
        "%2f",
        "%3F",
        "%61",
        "%C3",
        "%",
        ":",
        "%3a",
        "&",
        "%26",
        "é",
        "ü",
        "#",
        "=",
        ".",
        " ",
        "{",
        "%7B",
    ]
)
values = st.lists(pieces, max_size=7).map("".join)
patterns = values.map(lambda value: "/" + value) | values
agents = st.sampled_from(["*", "foo", "foobar", "Foo/2", "bar", "", "(x)", "* all"])
keys = st.sampled_from(["Disallow: ", "Allow: ", "disallow:", "Disallow ", "Dissalow: ", "allow : "])
lines = st.one_of(
    st.tuples(keys, patterns).map("".join),
    agents.map(lambda agent: f"User-agent: {agent}"),
    agents.map(lambda agent: f"useragent {agent}"),
    st.sampled_from(
        ["", "# x", "Crawl-delay: 5", "Crawl-delay: x", "Sitemap: /s", "Request-rate: 1/9", "Visit-time: 1", "agent"]
    ),
    st.text(max_size=8),
)
files = st.lists(lines, max_size=12).flatmap(
    lambda given_lines: st.sampled_from(["\n", "\r\n", "\r"]).map(lambda end: end.join(given_lines))
)
rules = st.lists(st.tuples(st.sampled_from(["Allow", "Disallow"]), patterns), max_size=6)
paths = values.map(lambda value: A + "/" + value)
tokens = st.sampled_from(["foo", "bar", "*", "unknown", "é"]) | st.none()


def written(group: list[tuple[str, str]]) -> str:
    return "User-agent: *\n" + "".join(f"{key}: {value}\n" for key, value in group)


def everything(body: bytes | str, url: str, token: str | None) -> bool:
    """Ask a file everything; returns whether the URL is allowed."""
    robots = parse(body)
    verdict = robots.verdict(url, token)
    assert robots.allowed(url, token) is verdict.allowed
    assert verdict.allowed or verdict.source.startswith("robots.txt line ")
    assert 0.0 <= (robots.crawl_delay(token) or 0.0) <= robots.delay(token) < float("inf")
    robots.request_rate(token)
    robots.visit_time(token)
    robots.delay_source(token)
    robots.group_label(token)
    count = body.count("\n") if isinstance(body, str) else len(body)
    assert all(1 <= warning.line <= max(count, len(body)) + 1 for warning in robots.warnings())
    assert isinstance(robots.sitemaps, list)
    assert robots.is_empty in (True, False)
    return verdict.allowed


# --- It never fails ---


@given(st.binary(max_size=200), paths | st.text(max_size=20), tokens | st.text(max_size=5))
@example(b"\xff\xfe\x00", A, "foo")
@example(b"\xfe\xff\x00", A, "foo")
@example(b"\xef\xbb", A, None)
@example(b"user-agent:\nuser-agent:*\nallow:/", A, "")
def test_no_octets_make_it_raise(body: bytes, url: str, token: str | None) -> None:
    everything(body, url, token)


@given(files, paths, tokens)
def test_no_file_makes_it_raise(body: str, url: str, token: str | None) -> None:
    everything(body, url, token)
    for size in range(0, len(body.encode()), 7):
        parse(body, max_size=size).verdict(url, token)
        parse(body.encode()[:size], truncated=True).verdict(url, token)


# --- A rule only works one way ---


@given(rules, st.integers(0, 6), patterns, paths)
def test_adding_an_allow_never_removes_permission(
    group: list[tuple[str, str]], at: int, pattern: str, url: str
) -> None:
    more = [*group[:at], ("Allow", pattern), *group[at:]]
    assert parse(written(group)).allowed(url, "foo") <= parse(written(more)).allowed(url, "foo")


@given(rules, st.integers(0, 6), patterns, paths)
def test_adding_a_disallow_never_adds_permission(group: list[tuple[str, str]], at: int, pattern: str, url: str) -> None:
    more = [*group[:at], ("Disallow", pattern), *group[at:]]
    assert parse(written(group)).allowed(url, "foo") >= parse(written(more)).allowed(url, "foo")


@given(st.permutations([("Allow", "/a*"), ("Disallow", "/a"), ("Disallow", "/ab$"), ("Allow", "/ab?")]), rules, paths)
def test_the_order_of_the_rules_means_nothing(
    some: list[tuple[str, str]], others: list[tuple[str, str]], url: str
) -> None:
    group = some + others
    assert parse(written(group)).allowed(url, "foo") is parse(written(group[::-1])).allowed(url, "foo")


def turned_case(text: str) -> str:
    """The text with every escape in the other case of its digits."""
    head, *rest = text.split("%")
    return head + "".join("%" + part[:2].swapcase() + part[2:] if is_escape(part) else "%" + part for part in rest)


def is_escape(part: str) -> bool:
    return len(part) >= 2 and all(digit in "0123456789abcdefABCDEF" for digit in part[:2])


def escaped(text: str) -> str:
    """The text with every unreserved letter that is not part of an escape written as one, and non-ASCII too."""
    head, *rest = text.split("%")
    return letters_escaped(head) + "".join(
        "%" + part[:2] + letters_escaped(part[2:]) if is_escape(part) else "%25" + letters_escaped(part)
        for part in rest
    )


def letters_escaped(text: str) -> str:
    return "".join(
        "".join(f"%{octet:02X}" for octet in character.encode()) if character in "ab.éü" else character
        for character in text
    )


@given(rules, paths)
def test_neither_the_case_of_an_escape_nor_a_needless_one_changes_a_verdict(
    group: list[tuple[str, str]], url: str
) -> None:
    decided = parse(written(group)).allowed(url, "foo")
    path = url.removeprefix(A)
    for spelled in (turned_case, escaped):
        respelled = [(key, spelled(value.partition("#")[0].strip())) for key, value in group]
        assert parse(written(respelled)).allowed(url, "foo") is decided
        assert parse(written(group)).allowed(A + spelled(path), "foo") is decided
        assert parse(written(respelled)).allowed(A + spelled(path), "foo") is decided


def readings(path: str, pattern: str) -> bool:
    """Whether a pattern without escapes matches, by trying every run that a star may stand for."""
    if not pattern:
        return True
    if pattern == "$":
        return not path
    if pattern[0] == "*":
        return any(readings(path[start:], pattern[1:]) for start in range(len(path) + 1))
    return bool(path) and path[0] == pattern[0] and readings(path[1:], pattern[1:])


@given(st.text("ab/*$?", max_size=7), st.text("ab/?", max_size=9))
def test_a_pattern_matches_exactly_what_trying_everything_finds(pattern: str, path: str) -> None:
    anchored = pattern.endswith("$")
    literal = pattern.removesuffix("$").replace("$", "d")  # only at the end it is more than itself
    pattern = "/" + literal + ("$" if anchored else "")
    found = Pattern(pattern, either_spelling=True).matches("/" + path)
    assert found is readings("/" + path, pattern)


# --- Short cuts change nothing ---


def by_the_book(group: list[tuple[str, str]], path: bytes) -> bool:
    """Whether a path is allowed, by trying every rule on its own."""
    best = {"Allow": -1, "Disallow": 0}
    for key, written_value in group:
        value = written_value.partition("#")[0].strip().encode()
        if value[:1] in (b"/", b"*"):
            either = key == "Disallow"
            normal = normal_path(path, either_spelling=either).decode("latin-1")
            if Pattern(value.decode("latin-1"), either_spelling=either).matches(normal):
                best[key] = max(best[key], normal_length(value))
    return best["Allow"] >= best["Disallow"] or best["Disallow"] == 0


@given(
    st.sampled_from([0, 2, 64]),
    st.lists(st.tuples(st.sampled_from(["Allow", "Disallow"]), patterns), max_size=9),
    paths,
)
def test_the_rule_that_decides_is_the_one_that_trying_all_finds(
    many: int, group: list[tuple[str, str]], url: str
) -> None:
    path = path_and_query(url)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("scrapy_scour.policy.robots_rules._MANY", many)
        assert parse(written(group)).allowed(url, "foo") is by_the_book(group, path)


AGENT_LINES = """\
User-agent: *|user-agent: foo|User-Agent: *bot|User-agent:*|User-agent:  *|User-agent: |User-agent:|User-agent: # x
User-agent: *# x|User agent: *|User-agent: * x|user-agent *| User-agent: *|User-agent:\v*|User-agent: \t*
Disallow: /a|Allow: /b|Crawl-delay: 1||# agent"""
agent_lines = st.lists(st.sampled_from(AGENT_LINES.replace("\n", "|").split("|")), max_size=9)


@given(agent_lines, st.sampled_from(["", "\n"]))
def test_the_usual_way_finds_the_sections_that_the_general_way_finds(written: list[str], end: str) -> None:
    text = robots_lines.read_body(("\n".join(written) + end).encode(), truncated=False)
    usual = robots_lines.usual_sections(text.lower(), b"bar")
    if usual is not None:
        sections = robots_lines.Sections(text)
        numbers = sections.named(robots_lines.EVERYONE)
        label_at = sections.value_at(numbers[0]) if numbers else 0
        rules = [robots_lines.read_line(line) for start, stop in usual[1] for line in text[start:stop].split(b"\n")]
        found = robots_lines.lines_of(text, sections.below(numbers, robots_lines.RULES))
        assert [robots_lines.written(text, at) for at in (usual[0], label_at) if at] == ["*"] * 2 * bool(numbers)
        assert [rule for rule in rules if rule[0] in robots_lines.RULES] == [
            (kind, value) for kind, _, value in found if kind in robots_lines.RULES
        ]


@given(files, paths, tokens)
def test_a_url_and_its_bare_path_get_the_same_answer(body: str, url: str, token: str | None) -> None:
    """Only of a URL an answer at first sight is tried."""
    robots = parse(body)
    assert robots.allowed(url, token) is parse(body).allowed(url.removeprefix(A), token)
    assert robots.verdict(url, token) == parse(body).verdict(url.removeprefix(A), token)


@given(files, st.lists(st.tuples(paths | values, tokens), min_size=2, max_size=8))
def test_what_was_asked_before_changes_nothing(body: str, asked: list[tuple[str, str | None]]) -> None:
    robots = parse(body)
    for url, token in asked:
        assert robots.allowed(url, token) is parse(body).allowed(url, token)
        assert robots.verdict(url, token) == parse(body).verdict(url, token)
        robots.delay(asked[0][1])
    for url, token in asked:
        assert robots.allowed(url.replace(A, "http://u@b.example:81"), token) is parse(body).allowed(url, token)


# --- It takes time in proportion ---


class Measured(str):
    """A path that counts the octets which searches in it go over."""

    work: int

    def find(self, sub: str, start: SupportsIndex | None = 0, end: SupportsIndex | None = None) -> int:
        at = super().find(sub, start)
        begin = int(start or 0)
        self.work += 1 + len(sub) + (at - begin if at >= 0 else max(len(self) - begin, 0))
        return at


STARRED: list[tuple[str, str, str]] = [
    ("2,000 stars", "/" + "*a" * 2000 + "*b", "/" + "a" * 60_000),
    ("2,000 stars and an end", "/" + "*a" * 2000 + "$", "/" + "a" * 60_000 + "c"),
    ("stars in a row", "/" + "*" * 2000 + "x", "/" + "a" * 60_000),
    ("two forms, path", "/" + "*%2F" * 2000, "/" + "/" * 60_000),
    ("two forms, query", "/" + "*%2F" * 2000, "/?" + "/" * 60_000),
    ("two forms, both", "/" + "*%2Fa*%3Fb" * 1000, "/" + "%2Fa%3Fb" * 900 + "?" + "/a?b" * 9000),
]


@pytest.mark.parametrize(("name", "pattern", "path"), STARRED, ids=[name for name, _, _ in STARRED])
def test_matching_goes_over_the_path_a_fixed_number_of_times(name: str, pattern: str, path: str) -> None:
    measured = Measured(path)
    measured.work = 0
    Pattern(pattern, either_spelling=True).matches(measured)
    assert measured.work <= 4 * (len(path) + len(pattern))


def operations(act: Callable[[], object]) -> int:
    """How many calls, of Python and of C, an act takes."""
    count = 0

    def counting(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counting)
    try:
        act()
    finally:
        sys.setprofile(before)
    return count


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "one line": lambda n: b"a" * n,
    "no line ends": lambda n: b"User-agent: * Disallow: / " * (n // 26),
    "one line of agents": lambda n: b"agent" * (n // 5),
    "one line of colons": lambda n: b"user-agent:" * (n // 11),
    "one comment of agents": lambda n: b"#" + b"agent" * (n // 5),
    "line ends": lambda n: b"\n" * n,
    "line ends of all kinds": lambda n: b"\r\n\n\r" * (n // 4),
    "NULs": lambda n: b"\xff\xfe" + b"\0" * n,
    "spaces": lambda n: b"User-agent:" + b" " * n + b"*",
    "everyone, again and again": lambda n: b"User-agent: *\n" * (n // 14),
    "everyone, without rules": lambda n: b"User-agent: *\nCrawl-delay: x\n" * (n // 29),
    "everyone, with a rule each": lambda n: b"User-agent: *\nDisallow: /a\n" * (n // 27),
    "everyone, oddly": lambda n: b"useragent *\ndisalow /a\n" * (n // 23),
    "empty names": lambda n: b"User-agent: *\nDisallow: /a\n" + b"User-agent:\nDisallow: /b\n" * (n // 25),
    "others": lambda n: b"".join(b"User-agent: bot%d\nDisallow: /\n" % number for number in range(n // 30)),
    "rules": lambda n: b"User-agent: *\n" + b"".join(b"Disallow: /%d\n" % number for number in range(n // 17)),
    "rules of all lengths": lambda n: (
        b"User-agent: *\n" + b"".join(b"Disallow: /%s\n" % (b"a" * (number % 97)) for number in range(n // 60))
    ),
    "special rules": lambda n: (
        b"User-agent: *\n" + b"".join(b"Disallow: /*%%2F%d$\n" % number for number in range(n // 22))
    ),
    "both kinds": lambda n: b"User-agent: *\n" + b"Allow: /*a\nDisallow: /*b\n" * (n // 25),
    "delays": lambda n: b"User-agent: *\n" + b"".join(b"Crawl-delay: %d\n" % number for number in range(n // 18)),
    "digits": lambda n: b"User-agent: *\nCrawl-delay: " + b"9" * n,
    "percent signs": lambda n: b"User-agent: *\nDisallow: /" + b"%" * n,
    "escapes": lambda n: b"User-agent: *\nDisallow: /" + b"%2f" * (n // 3),
    "stars": lambda n: b"User-agent: *\nDisallow: /" + b"*a" * (n // 2),
    "dollars": lambda n: b"User-agent: *\nDisallow: /" + b"$" * n,
}
SIZE = 1 << 18


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE.keys())
def test_four_times_the_octets_take_no_more_than_about_four_times_the_work(make: Callable[[int], bytes]) -> None:
    small, large = make(SIZE // 4), make(SIZE)
    urls = [A + "/", A + "/" + "a%2F9" * 100 + "?" + "/b" * 100]

    def ask(body: bytes) -> None:
        robots = parse(body)
        for token in ("foo", None):
            for url in urls:
                robots.allowed(url, token)
                robots.verdict(url, token)
            robots.delay(token)
            robots.group_label(token)

    assert operations(lambda: ask(large)) <= 5 * operations(lambda: ask(small)) + 500


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE.keys())
def test_two_mebibytes_of_anything_are_read(make: Callable[[int], bytes]) -> None:
    body = make(1 << 21)
    before = process_time()
    robots = parse(body, max_size=1 << 21)
    verdict = robots.verdict(A + "/" + "a" * 2000, "foo")
    assert verdict.allowed or verdict.source
    assert robots.delay("foo") >= 0.0
    assert process_time() - before < 20  # seconds; about one where it was measured, days if it were quadratic


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=30)
@given(
    st.lists(
        st.sampled_from([b"User-agent: *", b"User-agent:", b"agent", b"Disallow: /a*b%2F$", b"Allow: /", b"\xff"]),
        min_size=1,
        max_size=3,
    )
)
def test_any_mixture_repeated_takes_work_in_proportion(unit: list[bytes]) -> None:
    body = b"\n".join(unit) + b"\n"

    def ask(times: int) -> None:
        robots = parse(body * times)
        robots.verdict(A + "/axb/", "foo")
        robots.delay("foo")

    assert operations(lambda: ask(400)) <= 5 * operations(lambda: ask(100)) + 500
