"""The rules in a robots.txt: what RFC 9309 says, and what was decided where it says nothing."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from scrapy_scour.policy.robots import parse
from scrapy_scour.policy.verdict import Verdict

A = "https://a.example"


class Rule(NamedTuple):
    """One file, and what it says to one name: the paths that are allowed and the ones that are refused."""

    section: str
    body: str | bytes
    token: str | None
    allowed: str = ""
    refused: str = ""


TABLE: list[Rule] = [
    # --- which lines are one group -----------------------------------------------------------------------------
    Rule("2.2.1 a run of agents", "User-agent: foo\nUser-agent: bar\nDisallow: /x", "foo", "/y", "/x"),
    Rule("2.2.1 blank lines mean nothing", "User-agent: foo\n\n\nUser-agent: bar\n\nDisallow: /x", "foo", "/y", "/x"),
    Rule(
        "2.2.1 a rule ends the run", "User-agent: foo\nDisallow: /x\nUser-agent: bar\nDisallow: /y", "foo", "/y", "/x"
    ),
    Rule("2.2.1 Allow ends the run", "User-agent: foo\nAllow: /x\nUser-agent: bar\nDisallow: /", "foo", "/y"),
    Rule("2.2.1 an empty rule ends it", "User-agent: foo\nDisallow:\nUser-agent: bar\nDisallow: /", "foo", "/y"),
    *(
        Rule(
            f"2.2.4 {other} ends nothing", f"User-agent: foo\n{other}\nUser-agent: bar\nDisallow: /x", "foo", "/y", "/x"
        )
        for other in ("Crawl-delay: 5", "Sitemap: /s", "Request-rate: 1/5", "Host: a", "Unknown: x", "nonsense", "#x")
    ),
    *(
        Rule(
            f"2.2.4 {other} among the rules",
            f"User-agent: foo\nDisallow: /x\n{other}\nDisallow: /y",
            "foo",
            "/z",
            "/x /y",
        )
        for other in ("Crawl-delay: 5", "Sitemap: /s", "Unknown: x", "nonsense", "", "# x")
    ),
    Rule("empty agent ignored", "User-agent: foo\nDisallow: /x\nUser-agent:\nDisallow: /y", "foo", "/z", "/x /y"),
    Rule(
        "empty agent ignored in a run",
        "User-agent: foo\nUser-agent: # x\nUser-agent: bar\nDisallow: /x",
        "foo",
        "/z",
        "/x",
    ),
    Rule(
        "empty agent after a rule",
        "User-agent: foo\nDisallow: /x\nUser-agent:\nUser-agent: bar\nDisallow: /y",
        "foo",
        "/y",
        "/x",
    ),
    Rule("rules before any agent", "Disallow: /x\nUser-agent: foo\nDisallow: /y", "foo", "/x", "/y"),
    Rule("rules before any agent, for *", "Disallow: /x\nUser-agent: foo\nDisallow: /y", "bar", "/x /y"),
    Rule("2.2.1 no group", "User-agent: foo\nDisallow: /", "bar", "/ /x"),
    Rule("no file", "", "foo", "/ /x"),
    # --- which group is ours -----------------------------------------------------------------------------------
    Rule("2.2.1 case-insensitive", "user-AGENT: FooBot\nDisallow: /", "fOObOT", "", "/"),
    Rule("2.2.1 no prefix of ours", "User-agent: foo\nDisallow: /", "foobot", "/x"),
    Rule("2.2.1 ours is no prefix", "User-agent: foobot\nDisallow: /", "foo", "/x"),
    Rule("2.2.1 no part", "User-agent: bot\nDisallow: /", "my-bot", "/x"),
    Rule(
        "2.2.1 cut at the version",
        "User-agent: FooBot/2.1\nDisallow: /x\nUser-agent: *\nDisallow: /y",
        "foobot",
        "/y",
        "/x",
    ),
    Rule("2.2.1 cut at a space", "User-agent: Foo Bar\nDisallow: /x", "foo", "/y", "/x"),
    Rule("2.2.1 cut at a star", "User-agent: foo*\nDisallow: /x", "foo", "/y", "/x"),
    Rule("digits are in a token", "User-agent: AB42bot\nDisallow: /x", "ab42bot", "/y", "/x"),
    Rule("digits do not end a token", "User-agent: AB42bot\nDisallow: /x", "ab", "/x"),
    Rule("octets above ASCII are in a token", "User-agent: Jävla-bot\nDisallow: /x", "jävla-bot", "/y", "/x"),
    Rule("names nobody", "User-agent: *\nDisallow: /x\nUser-agent: (foo)\nAllow: /", "foo", "/y", "/x"),
    Rule("2.2.1 * if not named", "User-agent: *\nDisallow: /x\nUser-agent: bar\nDisallow: /y", "foo", "/y", "/x"),
    Rule("2.2.1 * for no name", "User-agent: *\nDisallow: /x\nUser-agent: bar\nDisallow: /y", None, "/y", "/x"),
    Rule("* words is *", "User-agent: * everybody\nDisallow: /x", "foo", "/y", "/x"),
    Rule("*x is nobody", "User-agent: *x\nDisallow: /x", "foo", "/x"),
    Rule("2.2.1 own excludes *", "User-agent: *\nDisallow: /x\nUser-agent: foo\nDisallow: /y", "foo", "/x", "/y"),
    Rule(
        "2.2.1 own excludes * in any order",
        "User-agent: foo\nDisallow: /y\nUser-agent: *\nDisallow: /x",
        "foo",
        "/x",
        "/y",
    ),
    Rule("own without rules excludes *", "User-agent: *\nDisallow: /\nUser-agent: foo\n", "foo", "/ /x"),
    Rule(
        "2.2.1 own merge",
        "User-agent: foo\nDisallow: /x\nUser-agent: *\nDisallow: /y\nUser-agent: FOO/2\nDisallow: /z",
        "foo",
        "/y",
        "/x /z",
    ),
    Rule(
        "2.2.1 * merge",
        "User-agent: *\nDisallow: /x\nUser-agent: foo\nDisallow: /y\nUser-agent: *\nDisallow: /z",
        "bar",
        "/y",
        "/x /z",
    ),
    # --- which rule decides ------------------------------------------------------------------------------------
    Rule("2.2.2 the longest", "User-agent: *\nAllow: /x/y\nDisallow: /x", "foo", "/x/y/z /y", "/x /x/z"),
    Rule("2.2.2 the longest, in any order", "User-agent: *\nDisallow: /x\nAllow: /x/y", "foo", "/x/y/z /y", "/x /x/z"),
    Rule("2.2.2 allow wins a tie", "User-agent: *\nDisallow: /x\nAllow: /x", "foo", "/x"),
    Rule(
        "5.2 longest",
        "User-agent: *\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif",
        "foo",
        "/example/page/",
        "/example/page/disallowed.gif",
    ),
    Rule("2.2.2 octets, stars included", "User-agent: *\nAllow: /x\nDisallow: /*x", "foo", "/y", "/x"),
    Rule("2.2.2 escapes count as octets", "User-agent: *\nAllow: /é\nDisallow: /%C3%A9x", "foo", "/é /éy", "/éx"),
    Rule("2.2.2 unreserved escapes count once", "User-agent: *\nDisallow: /%61%62\nAllow: /abc", "foo", "/abc", "/abd"),
    Rule("2.2.2 raw and escaped tie", "User-agent: *\nDisallow: /é\nAllow: /%c3%a9", "foo", "/é"),
    Rule(
        "2.2.2 raw and escaped in a query tie",
        "User-agent: *\nDisallow: /?u=a%2Fb\nAllow: /?u=a/b",
        "foo",
        "/?u=a/b /?u=a%2Fb",
    ),
    Rule("2.2.2 no match", "User-agent: *\nAllow: /x\nDisallow: /y", "foo", "/z", "/y"),
    Rule("2.2.2 empty value is no rule", "User-agent: *\nDisallow:\nAllow:", "foo", "/ /x"),
    Rule("2.2.2 case-sensitive", "User-agent: *\nDisallow: /X", "foo", "/x", "/X"),
    # --- spellings ---------------------------------------------------------------------------------------------
    Rule("2.2.2 unreserved escapes", "User-agent: *\nDisallow: /%62%61%7A", "foo", "/bax", "/baz /%62a%7a"),
    Rule("2.2.2 escape case", "User-agent: *\nDisallow: /%e3%83%84", "foo", "/%E3%83%85", "/%E3%83%84 /ツ /%e3%83%84"),
    Rule("2.2.2 raw non-ASCII", "User-agent: *\nDisallow: /ツ", "foo", "/", "/ツ /%E3%83%84 /%e3%83%84"),
    Rule("2.2.2 other octets", b"User-agent: *\nDisallow: /b\xfccher", "foo", "/bücher", "/b%FCcher /b%fccher/x"),
    Rule(
        "2.2.2 space and others",
        'User-agent: *\nDisallow: /a b<>"{}\\^|`',
        "foo",
        "/ab",
        "/a%20b%3C%3E%22%7B%7D%5C%5E%7C%60",
    ),
    Rule("2.2.2 %2F is not /", "User-agent: *\nDisallow: /a%2Fb", "foo", "/a/b", "/a%2fb /a%2Fb"),
    Rule("2.2.2 / is not %2F", "User-agent: *\nDisallow: /a/b", "foo", "/a%2Fb", "/a/b"),
    Rule("2.2.2 %3F is not ?", "User-agent: *\nDisallow: /a%3Fb", "foo", "/a?b", "/a%3fb"),
    Rule("2.2.2 ? is not %3F", "User-agent: *\nDisallow: /a?b", "foo", "/a%3Fb", "/a?b"),
    Rule(
        "a query delimits nothing",
        "User-agent: *\nDisallow: /a?u=:/?[]@",
        "foo",
        "/a?u=",
        "/a?u=:/?[]@ /a?u=%3a%2F%3f%5B%5d%40",
    ),
    Rule(
        "escaped in the rule's query",
        "User-agent: *\nDisallow: /a?u=%3A%2F%3F%23",
        "foo",
        "/a?u=:/x",
        "/a?u=:/%3f%23 /a?u=%3a%2f?%23",
    ),
    Rule(
        "behind a star, in the query",
        "User-agent: *\nDisallow: /*a%2Fb",
        "foo",
        "/a/b /x/a/b?u",
        "/a%2Fb /?u=a/b /?u=a%2fb",
    ),
    Rule("behind a star, raw", "User-agent: *\nDisallow: /*a/b", "foo", "/a%2Fb /a%2Fb?u", "/a/b /?u=a/b /?u=a%2fb"),
    Rule(
        "behind a star, over the mark",
        "User-agent: *\nDisallow: /*a%2Fb?c%2Fd",
        "foo",
        "/a/b?c/d /a%2Fb/c/d",
        "/a%2Fb?c/d /a%2fb?c%2fd /?a/b?c/d /x?a%2fb%3fc/d",
    ),
    Rule(
        "after the mark, the query only",
        "User-agent: *\nDisallow: /*?*a%2Fb",
        "foo",
        "/a%2Fb?c /?a",
        "/?a/b /?a%2Fb /a?%3F/a/b",
    ),
    Rule(
        "at the end, in the query only",
        "User-agent: *\nDisallow: /*a%2Fb$",
        "foo",
        "/a/b /?a/bc",
        "/a%2Fb /?a/b /a%2Fb?x=a/b",
    ),
    Rule(
        "the mark itself has one spelling", "User-agent: *\nDisallow: /*%3Fa", "foo", "/x?a", "/x%3Fa /x?y?a /x?y%3fa"
    ),
    Rule("2.2.3 %2A is a star", "User-agent: *\nDisallow: /a%2Ab", "foo", "/aXb", "/a*b /a%2ab"),
    Rule("2.2.3 %24 is a dollar", "User-agent: *\nDisallow: /a%24", "foo", "/a", "/a$ /a%24 /a$b"),
    Rule(
        "half an escape", "User-agent: *\nDisallow: /*3\nDisallow: /*A9\nDisallow: /%C", "foo", "/%C3%A9 /%E3", "/3 /A9"
    ),
    Rule("half an escape at the end", "User-agent: *\nDisallow: /*9$\nDisallow: /*C3%A", "foo", "/%C3%A9", "/9"),
    Rule("a lone percent", "User-agent: *\nDisallow: /100%", "foo", "/100%41", "/100% /100%25 /100%/"),
    Rule(
        "a Disallow in its other spelling",
        "User-agent: *\nDisallow: /a:[]@!&'()+,;=b",
        "foo",
        "/ab",
        "/a%3A%5B%5D%40%21%26%27%28%29%2B%2C%3B%3Db",
    ),
    Rule("a Disallow escaped, in its other spelling", "User-agent: *\nDisallow: /a%3a%2c", "foo", "/a", "/a:, /a%3A,"),
    Rule("an Allow only as written", "User-agent: *\nDisallow: /\nAllow: /a:b", "foo", "/a:b", "/a%3Ab"),
    Rule("an Allow escaped only as written", "User-agent: *\nDisallow: /\nAllow: /a%2Cb", "foo", "/a%2cb", "/a,b"),
    Rule("an Allow's star is no escape", "User-agent: *\nDisallow: /\nAllow: /a%2Ab", "foo", "/a*b /a%2ab", "/aXb"),
    # --- patterns ----------------------------------------------------------------------------------------------
    Rule("2.2.3 star", "User-agent: *\nDisallow: /a*c", "foo", "/ab /bac", "/ac /abc /abcd /a/b/c"),
    Rule("2.2.3 star at the end", "User-agent: *\nDisallow: /a*", "foo", "/b", "/a /ab"),
    Rule("2.2.3 only a star", "User-agent: *\nDisallow: *", "foo", "", "/ /a"),
    Rule("2.2.3 many stars", "User-agent: *\nDisallow: /***a**b***", "foo", "/a /ba", "/ab /xaxbx"),
    Rule("2.2.3 end", "User-agent: *\nDisallow: /a$", "foo", "/ab /a?x /a/", "/a"),
    Rule(
        "2.2.3 end behind a star",
        "User-agent: *\nDisallow: /*.php$",
        "foo",
        "/a.php5 /a.php?x",
        "/a.php /x/y.php /a.php?x.php",
    ),
    Rule("2.2.3 end and star", "User-agent: *\nDisallow: /a*$", "foo", "/b", "/a /ab"),
    Rule("2.2.3 the end reaches not back", "User-agent: *\nDisallow: /ab*b$", "foo", "/ab", "/abb /abcb"),
    Rule(
        "2.2.3 dollar elsewhere",
        "User-agent: *\nDisallow: /a$b\nDisallow: /c$*d",
        "foo",
        "/a /c /cd",
        "/a$b /a%24bc /c$d",
    ),
    Rule("a dollar at the end is no literal", "User-agent: *\nDisallow: /a$", "foo", "/a$ /a%24", "/a"),
    Rule(
        "2.2.2 no slash, no star",
        "User-agent: *\nDisallow: a\nDisallow: https://a.example/\nDisallow: $\nDisallow: %2F",
        "foo",
        "/a / /%2F",
    ),
    Rule(
        "no regular expression",
        "User-agent: *\nDisallow: /a.b\nDisallow: /(c)+[d]|\\e",
        "foo",
        "/aXb /c",
        "/a.b /(c)+[d]%7C%5Ce",
    ),
    Rule("fragments are not compared", "User-agent: *\nDisallow: /a$", "foo", "/b#/a", "/a#b"),
    Rule("paths are not resolved", "User-agent: *\nDisallow: /b", "foo", "/a/../b //b", "/b/../a"),
    # --- keys --------------------------------------------------------------------------------------------------
    Rule("keys in any case, space around", " USER-agent \t:\t foo \n\tdisALLOW :/x\t\n", "foo", "/y", "/x"),
    *(
        Rule(f"read as Disallow: {key}", f"User-agent: foo\n{key}: /x\n{key.title()} /y", "foo", "/z", "/x /y")
        for key in ("disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw")
    ),
    Rule("not read as Disallow", "User-agent: foo\nDisalloww: /x\nDeny: /x\nDis-allow: /x\nXDisallow: /x", "foo", "/x"),
    *(
        Rule(f"read as User-agent: {key}", f"{key} foo\nDisallow: /x\nUser-agent: bar\nDisallow: /y", "foo", "/y", "/x")
        for key in ("useragent:", "user agent:", "USER AGENT :", "user-agent", "UserAgent", "User-Agent\t")
    ),
    Rule(
        "user agent without colon is none",
        "User-agent: foo\nDisallow: /x\nuser agent bar\nDisallow: /y",
        "foo",
        "/z",
        "/x /y",
    ),
    Rule("no colon, one word only", "User-agent: foo\nDisallow /x y\nDisallow: /z", "foo", "/x /x%20y", "/z"),
    Rule("no colon, comment", "User-agent foo # bar\nDisallow /x # y", "foo", "/y", "/x"),
    Rule("no colon, but one in the path", "User-agent: foo\nDisallow /x:y", "foo", "/x", "/x:y"),
    Rule("Allow needs its colon", "User-agent: foo\nDisallow: /\nAllow /x\nAlow: /x\nAllows: /x", "foo", "", "/x"),
    # --- octets ------------------------------------------------------------------------------------------------
    Rule("2.3 byte order mark", b"\xef\xbb\xbfUser-agent: foo\nDisallow: /x", "foo", "/y", "/x"),
    Rule("byte order mark, decoded", "\ufeffUser-agent: foo\nDisallow: /x", "foo", "/y", "/x"),
    Rule("byte order mark, two octets", b"\xef\xbbUser-agent: foo\nDisallow: /x", "foo", "/y", "/x"),
    Rule("byte order mark, one octet", b"\xefUser-agent: foo\nDisallow: /x", "foo", "/y", "/x"),
    Rule("byte order mark elsewhere", "User-agent: foo\n\ufeffDisallow: /x", "foo", "/x"),
    Rule("UTF-16, little end", "\ufeffUser-agent: foo\nDisallow: /é".encode("utf-16-le"), "foo", "/y", "/é"),
    Rule("UTF-16, big end", "\ufeffUser-agent: foo\r\nDisallow: /é".encode("utf-16-be"), "foo", "/y", "/é"),
    Rule("UTF-16 mark without NULs", b"\xff\xfeUser-agent: foo\nDisallow: /x", "foo", "/y", "/x"),
    Rule("UTF-16 cut in two", "\ufeffUser-agent: foo\nDisallow: /x".encode("utf-16-le")[:-1], "foo", "/y"),
    *(
        Rule(
            f"2.2 lines end at {end!r}",
            f"#{end}User-agent: foo{end}{end}Disallow: /x{end}Allow: /x/y{end}",
            "foo",
            "/y /x/y",
            "/x",
        )
        for end in ("\n", "\r", "\r\n", "\r\r\n", "\n\r")
    ),
    *(
        Rule(f"2.2 no line ends at {other!r}", f"User-agent: foo\nAllow: /x{other}Disallow: /", "foo", "/x /y")
        for other in ("\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\x00")
    ),
    Rule(
        "2.2 comments",
        "# x\nUser-agent: foo # bar\nDisallow: /x#y\n#Disallow: /y\nDisallow:#/z",
        "foo",
        "/y /z",
        "/x /x%23y",
    ),
    Rule("NULs and nonsense", b"\x00\x00\nUser-agent: foo\n\xff\xfe\n:\n: :\n=\nDisallow: /x", "foo", "/y", "/x"),
    Rule(
        "2.2.2 /robots.txt itself",
        "User-agent: *\nDisallow: /\nDisallow: /robots.txt",
        "foo",
        "/robots.txt /robots.txt#x",
        "/robots.txt? /robots.txt?x /robots.txt/ /robots.txtx /x/robots.txt /Robots.txt",
    ),
]


@pytest.mark.parametrize("rule", TABLE, ids=[f"{number}: {rule.section}" for number, rule in enumerate(TABLE)])
def test_a_file_allows_and_refuses_exactly_that(rule: Rule) -> None:
    robots = parse(rule.body)
    for path in rule.allowed.split():
        assert robots.verdict(A + path, rule.token).allowed, path
        assert robots.allowed(A + path, rule.token), path
    for path in rule.refused.split():
        assert not robots.verdict(A + path, rule.token).allowed, path
        assert not robots.allowed(A + path, rule.token), path


def test_every_row_of_the_table_says_something() -> None:
    assert not [rule.section for rule in TABLE if not rule.allowed.split() and not rule.refused.split()]


# --- The line that decided ---

FILE = """\
# for everybody
User-agent: *   # all
Disallow: /private
Allow: /private/open
Disallow: /*.pdf$  # no documents

User-agent: MyBot/2.1
User-agent: other
Dissallow:/x
Disallow /y
Disallow: /é
Disallow: /x
Crawl-delay: 2

User-agent: mybot
Disallow: /z
"""


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    ("path", "token", "verdict"),
    [
        ("/", "foo", Verdict(True)),
        ("/private", "foo", Verdict(False, "Disallow: /private (group *)", "robots.txt line 3")),
        ("/private/open", None, Verdict(True, "Allow: /private/open (group *)", "robots.txt line 4")),
        ("/a.pdf", "foo", Verdict(False, "Disallow: /*.pdf$ (group *)", "robots.txt line 5")),
        ("/x", "MYBOT", Verdict(False, "Dissallow:/x (group MyBot/2.1)", "robots.txt line 9")),
        ("/y", "other", Verdict(False, "Disallow /y (group other)", "robots.txt line 10")),
        ("/%c3%a9", "mybot", Verdict(False, "Disallow: /é (group MyBot/2.1)", "robots.txt line 11")),
        ("/z", "mybot", Verdict(False, "Disallow: /z (group MyBot/2.1)", "robots.txt line 16")),
        ("/z", "other", Verdict(True)),
    ],
)
def test_a_verdict_names_the_first_line_that_decided_as_it_is_written(
    end: str, path: str, token: str | None, verdict: Verdict
) -> None:
    robots = parse(FILE.replace("\n", end))
    assert robots.verdict(A + path, token) == verdict
    assert robots.verdict(A + path, token) == verdict  # the second time from memory
    assert parse("\ufeff" + FILE.replace("\n", end)).verdict(A + path, token) == verdict


def test_a_rule_is_found_by_its_whole_value_also_where_others_begin_with_it() -> None:
    body = "User-agent: *\nDisallow: /a/b\nDisallow: /a b\n# Disallow: /a\nAllow: /a\n   Disallow :  /a#b\n"
    assert parse("Disallow: /a\n" + body).verdict(A + "/a?x", "foo").source == "robots.txt line 6"  # allow, a tie
    assert parse(body.replace("Allow: /a", "")).verdict(A + "/a?x", "foo").source == "robots.txt line 6"


def test_an_allow_that_overrules_nothing_is_named_when_asked_for() -> None:
    robots = parse("User-agent: *\nAllow: /a\nAllow: /a/*.html$\nAllow: /%C3%A9\nDisallow: /x\nAllow: /x/y\n")
    for path, line in (("/a/b", 2), ("/a/b.html", 3), ("/é?q", 4), ("/x/y", 6)):
        assert robots.allowing(A + path, "foo").source == f"robots.txt line {line}"
    assert robots.allowing(A + "/a/b.html", None).reason == "Allow: /a/*.html$ (group *)"
    assert robots.allowing(A + "/x", "foo") == robots.allowing(A + "/", "foo") == Verdict(True)
    assert robots.verdict(A + "/a/b", "foo") == Verdict(True)  # it decides nothing


@pytest.mark.parametrize(
    ("written", "octets"),
    [("{", 3), ("|", 3), ('"', 3), ("<", 3), ("\\", 3), ("%7B", 3), ("é", 6), ("x", 1), ("%41", 1)],
)
def test_what_must_be_escaped_counts_as_its_escape(written: str, octets: int) -> None:
    """RFC 9309 2.2.2: the rule with the most octets decides, after encoding; Allow if both have as many."""
    for stars in (octets - 1, octets):
        robots = parse(f"User-agent: *\nDisallow: /a{written}b\nAllow: /{'*' * stars}b$\n")
        assert robots.allowed(f"{A}/a{written}b", "foo") is (stars == octets)


def test_many_deciding_rules_are_each_named() -> None:
    robots = parse("User-agent: *\n" + "".join(f"Disallow: /{number}/\n" for number in range(1000)))
    for number in (0, 1, 10, 100, 500, 999, 999, 1, *range(0, 1000, 7)):
        assert robots.verdict(f"{A}/{number}/", "foo").source == f"robots.txt line {number + 2}"


def test_rules_for_everyone_refuse_nothing_when_only_our_own_are_to_count() -> None:
    robots = parse("User-agent: *\nDisallow: /x\nUser-agent: foo\nDisallow: /y\nAllow: /y/z")
    assert robots.verdict(A + "/x", "bar", ignore_wildcard=True) == Verdict(True)
    assert robots.verdict(A + "/x", None, ignore_wildcard=True) == Verdict(True)
    assert robots.verdict(A + "/x", "*", ignore_wildcard=True) == Verdict(True)
    assert not robots.verdict(A + "/y", "foo", ignore_wildcard=True)
    assert robots.verdict(A + "/y/z", "foo", ignore_wildcard=True).source == "robots.txt line 5"
    assert not robots.verdict(A + "/x", "bar")


def test_the_label_is_the_one_in_the_file() -> None:
    robots = parse(FILE)
    assert robots.group_label("mybot") == "MyBot/2.1"
    assert robots.group_label("foo") == "*"
    assert robots.group_label(None) == "*"
    assert parse("User-agent: bar\nDisallow: /").group_label("foo") is None
    assert parse(b"User-agent: b\xfccher\nDisallow: /").group_label("b\udcfccher") == "b\ufffdcher"


def test_any_number_of_names_may_ask_in_turn() -> None:
    robots = parse("".join(f"User-agent: bot{number}\nDisallow: /{number}$\n" for number in range(20)))
    for _ in range(2):
        for number in range(20):
            assert not robots.allowed(f"{A}/{number}", f"bot{number}")
            assert robots.allowed(f"{A}/{number + 1}", f"bot{number}")


@pytest.mark.parametrize(
    ("body", "empty"),
    [
        ("", True),
        ("<html><body>\nNot found\n</body></html>", True),
        ("<html>User-agent: *<br>\nDisallow: /<br></html>", True),
        ("User-agent: *\nDisallow:\nCrawl-delay: 3", True),
        ("Disallow: /", True),
        ("User-agent:\nDisallow: /", True),
        ("User-agent: *\nDisallow: nothing that matches", True),
        ("User-agent: foo\nAllow: /", False),
        ("User-agent: foo\nUser-agent: *\n\nDisallow /x", False),
    ],
)
def test_a_file_without_a_rule_for_anybody_is_empty(body: str, empty: bool) -> None:
    assert parse(body).is_empty is empty


# --- Size ---


@pytest.mark.parametrize(
    ("kept", "lost", "token", "allowed", "refused"),
    [
        ("User-agent: *\nDisallow: /x\nAllow: /x/y", "z\n", "foo", "", "/x /x/y /x/yz"),  # an Allow goes
        ("User-agent: *\nDisallow: /x\nAllow: /x/yz", "\nX", "foo", "/x/yz", "/x"),  # unless nothing of it was cut
        ("User-agent: *\nDisallow: /x\nAllow: /x/yz\n", "X", "foo", "/x/yz", "/x"),
        ("User-agent: *\rDisallow: /x\rAllow: /x/yz", "\rX", "foo", "/x/yz", "/x"),
        ("User-agent: *\nDisallow: /pri", "vate\n", "foo", "/x", "/pri /private"),  # a Disallow refuses more
        ("User-agent: *\nDisallow: /a%C", "3%A9\n", "foo", "/b", "/a%C3%A9 /a"),  # half an escape goes
        ("User-agent: *\nDisallow: /a%C3", "%A9\n", "foo", "/a", "/a%C3%A9"),
        ("User-agent: *\nDisallow: /a$", "b\n", "foo", "/b", "/a /a$b /ac"),  # not the end of the path
        ("User-agent: *\nDisallow: /x\nUser-agent: foo", "bar\nDisallow: /", "foo", "/y", "/x"),  # another's name
        ("User-agent: *\nDisallow: /x\nUser-agent: foo\n", "Disallow: /", "foo", "/y", "/x"),  # rules not seen
        ("User-agent: *\nDisallow: /x\nUser-agent: foo\nUser-agent: b\n\n#", "\n", "foo", "/y", "/x"),
        ("User-agent: *\nDisallow: /x\nUser-agent: foo\nDisallow: /y\n", "#", "foo", "/x", "/y"),
    ],
)
def test_what_is_left_of_a_cut_line_never_opens_anything(
    kept: str, lost: str, token: str, allowed: str, refused: str
) -> None:
    cut = [parse(kept + lost, max_size=len(kept)), parse((kept + lost).encode(), max_size=len(kept))]
    if lost[0] not in "\r\n":
        cut.append(parse(kept, truncated=True))
    for robots in cut:
        assert robots.truncated
        assert [path for path in allowed.split() if not robots.allowed(A + path, token)] == []
        assert [path for path in refused.split() if robots.allowed(A + path, token)] == []


def test_rules_up_to_the_limit_count_and_those_beyond_do_not() -> None:
    body = b"User-agent: *\nDisallow: /x\n" + b"# comment\n" * 60_000 + b"Disallow: /y\n"
    assert len(body) > 512_000
    robots = parse(body, max_size=512_000)
    assert robots.truncated
    assert not robots.allowed(A + "/x", "foo")
    assert robots.allowed(A + "/y", "foo")
    assert not parse(body).allowed(A + "/y", "foo")
    assert not parse(body).truncated


# --- Warnings for the owner of the site ---


def test_a_proper_file_gives_no_warning() -> None:
    body = (
        "# ok\nUser-agent: *\nUser-agent: foo-bot\nDisallow: /x\nAllow: /x/*$\nCrawl-delay: 1.5\n"
        "Sitemap: http://a.example/s\nHost: a\n"
    )
    assert parse(body).warnings() == []


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("\ufeffUser-agent: *\nDisallow: /", 1, "byte order mark"),
        (b"User-agent: *\nDisallow: /\xfc", 2, "UTF-8"),
        ("Disallow: /x\nUser-agent: *\nDisallow: /", 1, "before any user-agent"),
        ("Crawl-delay: 1\nUser-agent: *\nDisallow: /", 1, "before any user-agent"),
        ("User-agent: *\nDissallow: /x", 2, "'dissallow' is not 'disallow'"),
        ("Useragent: *\nDisallow: /x", 1, "'useragent' is not 'user-agent'"),
        ("User-agent: *\nDisallow /x", 2, "no colon"),
        ("User-agent *\nDisallow: /x", 1, "no colon"),
        ("User-agent: *\nDisallow: /\nAllow /x", 3, "ignored"),
        ("User-agent: *\nDisallow: /\nAlow: /x", 3, "is 'allow' meant"),
        ("User-agent: *\nDisalow /x:y", 2, "no colon"),
        ("User-agent: *\nDisallow: x", 2, "never match"),
        ("User-agent: *\nAllow: https://a.example/", 2, "never match"),
        ("User-agent: a\nCrawl-delay: 1\n\nUser-agent: b\nDisallow: /", 2, "line 4"),
        ("User-agent: *\nCrawl-delay: 1s\nDisallow: /", 2, "no number"),
        ("User-agent: *\nDisallow: /\nUser-agent:\nDisallow: /x", 3, "without a name"),
        ("User-agent: MyBot/2.1\nDisallow: /", 1, "read as 'MyBot'"),
        ("User-agent: * all\nDisallow: /", 1, "read as '*'"),
        ("User-agent: (x)\nDisallow: /", 1, "nobody"),
    ],
)
def test_a_line_that_does_not_say_what_it_seems_to_say_is_pointed_out(body: str | bytes, line: int, words: str) -> None:
    (warning,) = parse(body).warnings()
    assert warning.line == line
    assert words in warning.message


def test_a_file_over_the_limit_is_pointed_out_at_its_last_line() -> None:
    (warning,) = parse("User-agent: *\nDisallow: /x\nDisallow: /y\n", max_size=30).warnings()
    assert (warning.line, "size limit" in warning.message) == (3, True)


def test_warnings_about_a_hostile_file_come_to_an_end() -> None:
    assert 100 <= len(parse("Disallow: x\n" * 10_000).warnings()) <= 103
