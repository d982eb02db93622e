"""``scrapy robots``: what it answers, what it sends, and how it ends."""

from __future__ import annotations

import argparse
import base64
import configparser
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scrapy.downloadermiddlewares.defaultheaders import DefaultHeadersMiddleware
from scrapy.downloadermiddlewares.retry import RetryMiddleware
from scrapy.downloadermiddlewares.useragent import UserAgentMiddleware
from scrapy.robotstxt import RobotParser
from scrapy.settings import Settings
from scrapy.utils.misc import load_object

from scrapy_scour.commands import robots_offline, robots_plan, robots_run, robots_settings
from scrapy_scour.commands.robots import Command
from scrapy_scour.commands.robots_answer import Explainer
from scrapy_scour.commands.robots_input import LONGEST_LINE, Lines
from scrapy_scour.commands.robots_text import WIDTH, TextReport, printable
from scrapy_scour.policy.access import Means
from scrapy_scour.policy.agents import product_token
from scrapy_scour.policy.robots import parse
from scrapy_scour.policy.urls import without_userinfo
from scrapy_scour.stores.robots import Fetched, Known
from tests.support.crawl import DNS_RESOLVER_SETTING, ROOT, crawl, process_environment, run_scrapy, write_project
from tests.support.resolver import ProcessResolver
from tests.support.site import Answer, Sites, closed, hang, redirect, truncated, unused_port

SHARED = ROOT.parent / "shared"
VECTORS = SHARED / "vectors" / "robots.jsonl"
CORPUS = SHARED / "corpus" / "robots"
RULES = """\
User-agent: *
Disallow: /private/   # nobody
Crawl-delay: 2

User-agent: testbot
User-agent: other
Disallow: /bots/
Request-rate: 1/10
Sitemap: http://site.test/map.xml
"""
BOT = "testbot/1.0 (+http://testbot.test/)"
KEYS = [
    "url",
    "verdict",
    "reason",
    "line",
    "rule",
    "origin",
    "group",
    "group_is_own",
    "agent",
    "agent_from",
    "token",
    "token_from",
    "delay",
    "delay_from",
    "crawl_delay",
    "request_rate",
    "robots",
    "sitemaps",
    "warnings",
    "agents",
    "notes",
]
README = (ROOT / "README.md").read_text(encoding="utf-8")
USER_AGENT_MIDDLEWARE = "scrapy.downloadermiddlewares.useragent.UserAgentMiddleware"
Run = Callable[..., "subprocess.CompletedProcess[str]"]
Tell = Callable[..., str]
Ask = Callable[..., "tuple[int, list[dict[str, Any]]]"]


def entry_points() -> str:
    """The entry points that the package is installed with."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return "".join(f"[{group}]\n{lines.strip()}\n" for group, lines in config["options.entry_points"].items())


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Makes the command known to ``scrapy`` as an installation would, where the package is not installed."""
    folder = tmp_path_factory.mktemp("installed")
    metadata = folder / "scrapy_scour-1.0.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: scrapy-scour\nVersion: 1.0.0\n")
    (metadata / "entry_points.txt").write_text(entry_points())
    return {"PYTHONPATH": os.pathsep.join([str(folder), process_environment()["PYTHONPATH"]])}


@pytest.fixture
def run(environment: dict[str, str], tmp_path: Path) -> Run:
    """Runs ``scrapy robots`` in a process of its own, outside a project unless told where."""

    def run_command(*args: str, cwd: Path = tmp_path, **options: Any) -> subprocess.CompletedProcess[str]:
        return run_scrapy(["robots", *args], cwd, environment=environment, **options)

    return run_command


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Runs the whole command in this process with ``--file``: exit status, and the objects of ``--json``."""

    def run_command(
        rules: str | bytes, *args: str, settings: dict[str, Any] | None = None
    ) -> tuple[int, list[dict[str, Any]]]:
        file = tmp_path / "robots.txt"
        file.write_bytes(rules if isinstance(rules, bytes) else rules.encode())
        status = command(["--file", str(file), "--json", *args], settings)
        return status, objects(capsys.readouterr().out)

    return run_command


@pytest.fixture
def tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Tell:
    """The same for people: what is printed, with one space for each line end inside it."""

    def run_command(rules: str | bytes, *args: str, settings: dict[str, Any] | None = None) -> str:
        file = tmp_path / "robots.txt"
        file.write_bytes(rules if isinstance(rules, bytes) else rules.encode())
        command(["--file", str(file), *args], settings)
        return re.sub(r"\n {15}", " ", capsys.readouterr().out)

    return run_command


def command(args: list[str], settings: dict[str, Any] | None = None) -> int:
    """What Scrapy's command line does with a command that needs no crawler process."""
    asked = Command()
    asked.settings = Settings(settings)
    parser = argparse.ArgumentParser(conflict_handler="resolve")
    asked.add_options(parser)
    opts, rest = parser.parse_known_args(args)
    asked.process_options(rest, opts)
    assert not asked.requires_crawler_process
    asked.run(rest, opts)
    return asked.exitcode


def objects(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


# --- The rules are those of the engine ----------------------------------------------------------------------


def vectors() -> list[dict[str, Any]]:
    if not VECTORS.exists():
        pytest.skip("shared/vectors/robots.jsonl is not beside the project")
    with VECTORS.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def octets(row: dict[str, Any]) -> bytes:
    return base64.b64decode(row["robots_b64"]) if "robots_b64" in row else str(row["robots"]).encode()


def as_argument(url: str) -> str:
    """A row's URL as it can be typed: some are paths without their slash."""
    return url if url.startswith("/") or "://" in url else f"/{url}"


def test_every_expectation_comes_out_of_the_command_as_out_of_the_engine() -> None:
    explainers: dict[str, Explainer] = {}
    wrong, other_token, no_web, rows = [], [], 0, 0
    for row in vectors():
        rows += 1
        agent = row["agent"] or "*"
        if agent not in explainers:
            explainers[agent] = explainer_for(agent)
        explainer = explainers[agent]
        rules = octets(row)
        known = robots_offline.known_from_octets(explainer.job, rules)
        answer = robots_offline.answer_offline(explainer, as_argument(row["url"]), known)
        said = json.loads(json.dumps(answer.as_json(explainer.identity, explainer.notes)))
        if row["url"].startswith("ftp:"):
            no_web += 1
            assert said["verdict"] == "unknown"
            continue
        engine = parse(rules).verdict(row["url"], said["token"])
        if engine and not engine.source and not said["reason"].startswith("robots.txt itself"):
            engine = parse(rules).allowing(row["url"], said["token"])
        source = "" if said["line"] is None else f"robots.txt line {said['line']}"
        if ({"allowed": True, "refused": False}[said["verdict"]], source) != (engine.allowed, engine.source):
            wrong.append(row["id"])
        if said["token"] != (product_token(row["agent"]) if row["agent_kind"] == "header" else row["agent"]):
            other_token.append(row["agent"])
            if row["agent"] not in ("", "*"):
                continue
        if engine.allowed is not row["allowed"]:
            wrong.append(row["id"])
    assert wrong == []
    assert rows >= 1778
    assert no_web <= 2
    # * and nothing are nobody's name; one with a space in it cannot be sent, so it is not asked about.
    assert set(other_token) == {"", "*", "Foo Bar", "foo bar", "harry potter"}


def test_the_whole_command_answers_every_expectation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From its arguments to what it prints and its exit status, one run for each file and agent."""
    runs: dict[tuple[bytes, str], list[dict[str, Any]]] = {}
    for row in vectors():
        # No other scheme is crawled; a space in a name makes it a header, which names another token.
        if not row["url"].startswith("ftp:") and " " not in (row["agent"] if row["agent_kind"] != "header" else ""):
            runs.setdefault((octets(row), row["agent"] or "*"), []).append(row)
    wrong = []
    for (rules, agent), rows in runs.items():
        (tmp_path / "rules").write_bytes(rules)
        urls = [as_argument(row["url"]) for row in rows]
        status = command([*urls, "--file", str(tmp_path / "rules"), "--json", "--agent", agent])
        said = objects(capsys.readouterr().out)
        assert [one["url"] for one in said] == [without_userinfo(url) for url in urls]
        wrong += [
            row["id"]
            for row, one in zip(rows, said, strict=True)
            if one["verdict"] != ("allowed" if row["allowed"] else "refused")
        ]
        assert status == (not all(row["allowed"] for row in rows))
    assert wrong == []
    assert sum(map(len, runs.values())) >= 1750


def explainer_for(agent: str) -> Explainer:
    """What answers for ``--agent agent --file ... --json``."""
    asked = robots_plan.Plan(urls=("/",), agent=agent, file="rules", as_json=True)
    settings = Settings()
    robots_settings.prepare(settings, asked)
    return Explainer(robots_offline.offline_job(settings), agent=agent, file="rules")


def test_the_same_in_a_process_of_its_own(run: Run, tmp_path: Path) -> None:
    rows = [row for row in vectors() if row["agent_kind"] == "header" and row["url"].startswith("http")]
    for allowed in (True, False):
        row = next(row for row in rows if row["allowed"] is allowed)
        (tmp_path / "rules").write_bytes(octets(row))
        done = run(row["url"], "--file", "rules", "--json", "--agent", row["agent"])
        assert [one["verdict"] for one in objects(done.stdout)] == ["allowed" if allowed else "refused"]
        assert done.returncode == (0 if allowed else 1)


def test_real_files_are_told_in_80_columns_of_printable_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    if not CORPUS.exists():
        pytest.skip("shared/corpus is not beside the project")
    urls = ["/a/b", "/search?q=1", "/robots.txt"]
    for path in sorted(CORPUS.iterdir())[::60]:
        status = command([*urls, "--file", str(path), "--all-agents", "--agent", "testbot"])
        said = capsys.readouterr().out
        robots = parse(path.read_bytes())
        verdicts = [robots.verdict(url, "testbot") for url in urls]
        told = [line for line in said.splitlines() if line.startswith(("allowed  ", "refused  "))]
        assert told == [f"{'allowed' if one else 'refused'}  {url}" for one, url in zip(verdicts, urls, strict=True)]
        assert status == (not all(verdicts))
        in_a_row = " ".join(said.split())
        assert all(one.source in in_a_row for one in verdicts)
        assert all(f"line {warning.line}: " in in_a_row for warning in robots.warnings()[:20])
        for line in said.splitlines():
            assert line.isprintable()
            assert len(line) <= WIDTH or len(line.split()) <= 3, line  # one long word


# --- What is said -------------------------------------------------------------------------------------------


def test_the_json_form_has_every_key_and_says_what_decided(ask: Ask) -> None:
    status, (refused, allowed) = ask(RULES, "http://site.test/bots/1", "/private/", "--agent", BOT)
    assert status == 1
    assert list(refused) == list(allowed) == KEYS
    assert refused == {
        "url": "http://site.test/bots/1",
        "verdict": "refused",
        "reason": "robots.txt line 7: Disallow: /bots/",
        "line": 7,
        "rule": "Disallow: /bots/",
        "origin": None,
        "group": "testbot",
        "group_is_own": True,
        "agent": BOT,
        "agent_from": "--agent",
        "token": "testbot",
        "token_from": "--agent",
        "delay": 10.0,
        "delay_from": "Request-rate, robots.txt line 8",
        "crawl_delay": None,
        "request_rate": {"requests": 1, "seconds": 10},
        "robots": {
            "state": "file",
            "url": refused["robots"]["url"],
            "status": None,
            "redirects": [],
            "address": None,
            "size": len(RULES),
            "truncated": False,
            "age": None,
            "problem": None,
            "fetched_as": None,
        },
        "sitemaps": ["http://site.test/map.xml"],
        "warnings": [],
        "agents": None,
        "notes": [],
    }
    assert (allowed["verdict"], allowed["line"]) == ("allowed", None)
    assert allowed["reason"] == "no rule of the group testbot matches"


def test_the_documentation_names_the_keys_of_the_json_form() -> None:
    named = [line.split("``")[1] for line in str(robots_run.__doc__).splitlines() if line.startswith("``")]
    assert [name for name in named if not name.startswith("--")] == KEYS


def test_the_readme_names_the_keys_of_the_json_form() -> None:
    table = README.partition("The keys of the JSON form")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert [key for cell in cells for key in re.findall(r"`(\w+)`", cell)] == KEYS


def test_the_sample_in_the_readme_is_what_the_command_prints() -> None:
    rules = """\
User-agent: *
Disallow: /private/   # nobody
Crawl-delay: 2

User-agent: testbot
User-agent: other
Disalow: /bots/
Request-rate: 1/10
Sitemap: https://shop.test/map.xml
"""
    settings = Settings({"USER_AGENT": BOT})
    robots_settings.prepare(settings, robots_plan.Plan(urls=()))
    job = robots_offline.offline_job(settings)
    explainer = Explainer(job)
    trail, address = ("https://shop.test/robots.txt",), "192.0.2.7"
    parser = job.robots_parser()(rules.encode(), False)
    fetched = Fetched(Means.RULES, parser=parser, status=200, trail=trail, size=len(rules), address=address)
    printed: list[str] = []
    report = TextReport(printed.append, explainer.identity, explainer.sent, explainer.notes)
    urls = ["https://shop.test/bots/1", "https://shop.test/"]
    for url in urls:
        report.add(robots_offline.answer_offline(explainer, url, Known(fetched, job.now())))
    assert f"```\n$ scrapy robots {' '.join(urls)}\n{''.join(printed)}```\n" in README


@pytest.mark.parametrize(
    ("rules", "url", "reason"),
    [
        ("", "/x", "robots.txt has no rules"),
        ("User-agent: a\nDisallow: /", "/x", "robots.txt has no group for testbot and none for *"),
        (RULES, "/robots.txt", "robots.txt itself is always allowed (RFC 9309 2.2.2)"),
        ("User-agent: testbot\nAllow: /x\nDisallow: /", "/x", "robots.txt line 2: Allow: /x"),
        ("User-agent: *\nAllow: /\nAllow: /abs", "/abs/1", "robots.txt line 3: Allow: /abs"),
        ("User-agent: *\nAllow: /abs", "/x", "no rule of the group * matches"),
        (
            "Disallow: /x\nUser-agent: (bot)\nDisallow: /",
            "/x",
            "the rules in robots.txt are for nobody: no user-agent line above them names a crawler",
        ),
        ("User-agent: *\nDisallow:\nDisallow: x", "/x", "robots.txt has no rules"),
    ],
)
def test_an_allowed_url_has_a_reason_too(ask: Ask, rules: str, url: str, reason: str) -> None:
    status, (one,) = ask(rules, url, "--agent", "testbot")
    assert (status, one["verdict"], one["reason"]) == (0, "allowed", reason)
    assert f"robots.txt line {one['line']}: {one['rule']}" == reason or one["line"] is one["rule"] is None


def test_a_url_is_refused_when_it_is_refused_as_written_though_scrapy_asks_for_another_spelling(ask: Ask) -> None:
    status, (one,) = ask("User-agent: *\nDisallow: /x?", "http://site.test/x?")
    assert (status, one["verdict"], one["line"]) == (1, "refused", 2)
    assert one["reason"].endswith("; a crawl asks for http://site.test/x, which is allowed")


@pytest.mark.parametrize(
    ("settings", "token", "source"),
    [
        ({}, "Scrapy", "USER_AGENT (Scrapy's default)"),
        ({"USER_AGENT": BOT}, "testbot", "USER_AGENT"),
        ({"USER_AGENT": BOT, "DEFAULT_REQUEST_HEADERS": {"user-agent": "a/1"}}, "a", "DEFAULT_REQUEST_HEADERS"),
        ({"USER_AGENT": BOT, "ROBOTSTXT_USER_AGENT": "other"}, "other", "ROBOTSTXT_USER_AGENT"),
        ({"SCOUR_BOT_USER_AGENT": "mybot/2"}, "mybot", "SCOUR_BOT_USER_AGENT"),
        ({"USER_AGENT": "Mozilla/5.0 (X11)"}, None, "USER_AGENT"),
        ({"USER_AGENT": ["a/1", "b/1"]}, "b", "USER_AGENT"),
        ({"USER_AGENT": ["a/1", "b/1"], "ROBOTSTXT_USER_AGENT": "other"}, "b", "USER_AGENT"),
        (
            {"USER_AGENT": BOT, "DEFAULT_REQUEST_HEADERS": {b"User-Agent": ["x/1", "y/1"]}},
            "y",
            "DEFAULT_REQUEST_HEADERS",
        ),
        ({"USER_AGENT": BOT, "DEFAULT_REQUEST_HEADERS": {"User-Agent": ""}}, None, "DEFAULT_REQUEST_HEADERS"),
        ({"USER_AGENT": BOT, "DOWNLOADER_MIDDLEWARES": {USER_AGENT_MIDDLEWARE: None}}, None, "no User-Agent is set"),
    ],
)
def test_the_token_is_told_with_the_setting_it_comes_from(
    ask: Ask, settings: dict[str, Any], token: str | None, source: str
) -> None:
    _, (one,) = ask(RULES, "/", settings=settings)
    assert (one["token"], one["token_from"]) == (token, source)
    assert any("no product token" in note for note in one["notes"]) is (token is None and one["agent"] != "")


async def test_the_agent_is_the_one_that_a_crawl_sends(ask: Ask, sites: Sites) -> None:
    site = sites()
    site.robots("")
    for settings in (
        {"USER_AGENT": 5},
        {"USER_AGENT": ["a/1", "b/1"]},
        {"DEFAULT_REQUEST_HEADERS": {b"User-Agent": ["x/1"]}},
        {"DEFAULT_REQUEST_HEADERS": {"User-Agent": None}},
        {"DEFAULT_REQUEST_HEADERS": {"User-Agent": ""}},
    ):
        _, (one,) = ask(RULES, "/", settings={"USER_AGENT": BOT, **settings})
        await crawl([site.url("/")], settings)
        page, seen = site.log.pop(), site.log.pop()
        assert [page.path, seen.path] == ["/", "/robots.txt"]
        assert one["agent"] == (page.header("User-Agent") or "") == (seen.header("User-Agent") or "")


class OwnAgent(UserAgentMiddleware):
    """A project's own."""


class OwnHeaders(DefaultHeadersMiddleware):
    """A project's own."""


def test_a_middleware_of_the_projects_own_that_is_not_asked_for_the_agent_is_named(ask: Ask) -> None:
    settings = {"DOWNLOADER_MIDDLEWARES": {OwnAgent: 500, OwnHeaders: 400, USER_AGENT_MIDDLEWARE: None}}
    _, (one,) = ask(RULES, "/", settings={"USER_AGENT": BOT, **settings})
    assert one["agent"] == BOT
    assert [note.split()[0].rpartition(".")[2] for note in one["notes"]] == ["OwnHeaders", "OwnAgent"]
    for args, plain in (([], {}), (["--agent", "testbot"], settings)):
        _, (one,) = ask(RULES, "/", *args, settings={"USER_AGENT": BOT, **plain})
        assert one["notes"] == []


def test_agent_stands_above_every_setting(ask: Ask) -> None:
    settings = {"USER_AGENT": "other/1", "ROBOTSTXT_USER_AGENT": "third"}
    for agent in ("testbot", BOT, "other/1"):
        _, (one,) = ask(RULES, "/", "--agent", agent, settings=settings)
        assert (one["token"], one["token_from"]) == (product_token(agent), "--agent")


THROTTLED = {"SCOUR_THROTTLE_ENABLED": True, "SCOUR_THROTTLE_WAIT_AT_LEAST": 3}


@pytest.mark.parametrize(
    ("settings", "verdict", "delay", "source"),
    [
        ({}, "allowed", 2.0, "Crawl-delay, robots.txt line 3"),
        ({"DOWNLOAD_DELAY": 5}, "allowed", 5.0, "DOWNLOAD_DELAY"),
        ({"DOWNLOAD_SLOTS": {"site.test": {"delay": 7}}}, "allowed", 7.0, "DOWNLOAD_SLOTS"),
        ({"SCOUR_THROTTLE_ENABLED": True}, "allowed", 2.0, "Crawl-delay, robots.txt line 3"),
        (THROTTLED, "allowed", 3.0, "SCOUR_THROTTLE_WAIT_AT_LEAST"),
        ({**THROTTLED, "DOWNLOAD_DELAY": 4}, "allowed", 4.0, "DOWNLOAD_DELAY"),
        ({**THROTTLED, "SCOUR_THROTTLE_WAIT_BETWEEN": (4, 9)}, "allowed", 4.0, "SCOUR_THROTTLE_WAIT_BETWEEN"),
        ({"AUTOTHROTTLE_ENABLED": True}, "allowed", 5.0, "AUTOTHROTTLE_START_DELAY"),
        ({"AUTOTHROTTLE_ENABLED": True, "DOWNLOAD_DELAY": 6}, "allowed", 6.0, "DOWNLOAD_DELAY"),
        ({"SCOUR_CRAWL_DELAY_MAX": 1}, "refused", 2.0, "robots.txt line 3"),
        (
            {"SCOUR_CRAWL_DELAY_MAX": 1, "SCOUR_CRAWL_DELAY_OVER_MAX": "clamp"},
            "allowed",
            1.0,
            "SCOUR_CRAWL_DELAY_MAX; Crawl-delay, robots.txt line 3 asks for 2 s",
        ),
    ],
)
def test_the_delay_is_the_one_that_a_crawl_would_keep(
    ask: Ask, settings: dict[str, Any], verdict: str, delay: float, source: str
) -> None:
    status, (one,) = ask(RULES, "http://site.test/", "--agent", "third", settings=settings)
    assert (one["verdict"], one["delay"], one["delay_from"]) == (verdict, delay, source)
    assert status == (verdict == "refused")
    assert one["crawl_delay"] == 2.0


@pytest.mark.parametrize(
    ("settings", "delay", "source", "note"),
    [
        ({"SCOUR_THROTTLE_ENABLED": True}, 0.25, "SCOUR_THROTTLE_WAIT_AT_LEAST", "waits longer than the delay told"),
        ({"AUTOTHROTTLE_ENABLED": True}, 5.0, "AUTOTHROTTLE_START_DELAY", "is that of the beginning"),
        (
            {"AUTOTHROTTLE_ENABLED": True, "DOWNLOAD_SLOTS": {"site.test": {"delay": 1}}},
            1.0,
            "DOWNLOAD_SLOTS",
            "is that of the beginning",
        ),
    ],
)
def test_with_a_throttle_the_delay_is_the_one_that_a_crawl_begins_with(
    ask: Ask, tell: Tell, settings: dict[str, Any], delay: float, source: str, note: str
) -> None:
    _, (one,) = ask("", "http://site.test/", settings=settings)
    assert (one["delay"], one["delay_from"]) == (delay, source)
    assert [note in said for said in one["notes"]] == [True]
    assert f"{delay:g} s between two requests ({source})" in tell("", "http://site.test/", settings=settings)


def test_the_wildcard_group_can_be_ignored_as_in_a_crawl(ask: Ask) -> None:
    settings = {"SCOUR_ROBOTSTXT_IGNORE_WILDCARD": True}
    status, (one,) = ask(RULES, "/private/", "--agent", "third", settings=settings)
    assert status == 0
    assert "SCOUR_ROBOTSTXT_IGNORE_WILDCARD" in one["reason"]
    assert "robots.txt line 2" in one["reason"]


def test_a_project_that_does_not_obey_is_told_the_verdict_and_that_it_does_not(ask: Ask, tell: Tell) -> None:
    for delay, said in ((0, "none set"), (5, "5 s between two requests (DOWNLOAD_DELAY)")):
        settings = {"ROBOTSTXT_OBEY": False, "SCOUR_CRAWL_DELAY_MAX": 1, "DOWNLOAD_DELAY": delay}
        status, (one, other) = ask(RULES, "/private/", "/", "--agent", "third", settings=settings)
        assert (status, one["verdict"], other["verdict"]) == (1, "refused", "allowed")
        assert "ROBOTSTXT_OBEY = False" in one["notes"][0]
        assert (one["delay"], one["delay_from"], one["crawl_delay"]) == (
            delay,
            "DOWNLOAD_DELAY" if delay else None,
            2.0,
        )
        assert f"{said}; the 2 s that robots.txt asks for are not kept" in tell(
            RULES, "/", "--agent", "third", settings=settings
        )


@pytest.mark.parametrize("body", ["<html><body>Hello</body></html>", "\n <!doctype html>\nUser-agent: *\nDisallow: /"])
def test_a_web_page_in_the_place_of_robots_txt_is_flagged_and_its_rules_are_read(ask: Ask, body: str) -> None:
    status, (one,) = ask(body, "/x")
    assert any("web page" in warning["message"] for warning in one["warnings"])
    assert status == ("Disallow" in body)


def test_a_file_over_the_size_limit_is_told_as_truncated(ask: Ask) -> None:
    body = b"User-agent: *\nDisallow: /x\n" + b"#" * 600_000
    _, (one,) = ask(body, "/x", settings={"SCOUR_ROBOTSTXT_MAXSIZE": 512_000})
    assert (one["robots"]["truncated"], one["robots"]["size"]) == (True, 512_000)
    assert any("size limit" in warning["message"] for warning in one["warnings"])


def test_all_agents_answers_for_each_name_in_the_file_and_the_exit_status_for_ours_only(
    ask: Ask, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, (one,) = ask("User-agent: a\nAllow: /abs", "/abs", "--agent", "third", "--all-agents")
    assert [(a["token"], a["line"], a["rule"]) for a in one["agents"]] == [("a", 2, "Allow: /abs"), ("*", None, None)]
    status, (one,) = ask(RULES, "/bots/", "--agent", "third", "--all-agents")
    assert (status, one["verdict"]) == (0, "allowed")
    assert [(a["token"], a["verdict"], a["line"], a["rule"], a["delay"]) for a in one["agents"]] == [
        ("testbot", "refused", 7, "Disallow: /bots/", 10.0),
        ("other", "refused", 7, "Disallow: /bots/", 10.0),
        ("*", "allowed", None, None, 2.0),
    ]
    assert command(["/bots/", "--file", str(tmp_path / "robots.txt"), "--all-agents", "--agent", "third"]) == 0
    said = capsys.readouterr().out
    assert "refused for testbot, other by line 7: Disallow: /bots/, delay 10 s" in said
    assert "allowed for *, no rule matches, delay 2 s" in said


def test_each_crawler_that_a_real_file_names_is_told_what_the_engine_says_to_it(ask: Ask) -> None:
    if not CORPUS.exists():
        pytest.skip("shared/corpus is not beside the project")
    named = 0
    for path in sorted(CORPUS.iterdir())[::150]:
        rules = path.read_bytes()
        for url in ("http://a.test/search?q=1", "http://a.test/robots.txt", "http://a.test/a/b.pdf"):
            _, (one,) = ask(rules, url, "--all-agents")
            assert one["agents"][-1]["token"] == "*"
            for agent in one["agents"]:
                robots = parse(rules)
                verdict = robots.verdict(url, agent["token"])
                if not verdict.source and not url.endswith("/robots.txt"):
                    verdict = robots.allowing(url, agent["token"])
                line = f"robots.txt line {agent['line']}" if agent["line"] else ""
                told = (agent["verdict"] == "allowed", line, agent["delay"])
                assert told == (verdict.allowed, verdict.source, robots.delay(agent["token"]))
                named += 1
    assert named > 100


def test_a_file_that_names_very_many_crawlers_is_read_once(ask: Ask) -> None:
    group = "User-agent: bot{0}\nUser-agent: other{0}\nCrawl-delay: {0}\nDisallow: /{0}/\n"
    groups = "".join(group.format(n) for n in range(200))
    run = "".join(f"User-agent: many{n}\n" for n in range(1000)) + "Disallow: /many\n"
    began = time.process_time()
    _, said = ask(groups + run, *(f"/{n}/x" for n in range(40)), "--all-agents")
    assert time.process_time() - began < 10.0
    for n, one in enumerate(said):
        assert [a["token"] for a in one["agents"] if a["verdict"] == "refused"] == [f"bot{n}", f"other{n}"]
        assert len(one["agents"]) == 1401
        assert (one["agents"][2 * n + 1]["rule"], one["agents"][2 * n + 1]["delay"]) == (f"Disallow: /{n}/", n)


def test_a_parser_of_the_users_own_is_asked_instead(ask: Ask, tell: Tell) -> None:
    settings = {"ROBOTSTXT_PARSER": "scrapy.robotstxt.PythonRobotParser"}
    status, (one,) = ask("User-agent: *\nDisallow: /x", "/x/1", settings=settings)
    assert (status, one["verdict"], one["line"], one["group"]) == (1, "refused", None, None)
    assert "group        not known, read by PythonRobotParser" in tell(RULES, "/x/1", settings=settings)


class StockRetry(RetryMiddleware):
    """A project's own."""


class BrokenParser(RobotParser):
    """A parser that cannot tell."""

    @classmethod
    def from_crawler(cls, crawler: Any, robotstxt_body: bytes) -> BrokenParser:
        return cls()

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        raise RuntimeError("no idea")


def test_a_parser_that_fails_cannot_tell(ask: Ask) -> None:
    status, (one,) = ask(RULES, "/x", settings={"ROBOTSTXT_PARSER": BrokenParser})
    assert (status, one["verdict"]) == (2, "unknown")
    assert "RuntimeError: no idea" in one["reason"]


def test_octets_that_are_no_text_are_marked_as_such_in_the_json_form(
    ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = "User-agent: caf\xe9\nUser-agent: *\nDisallow: /".encode("latin-1")
    _, (one,) = ask(rules, "/x", "--all-agents")
    assert [agent["token"] for agent in one["agents"]] == ["caf\ufffd", "*"]
    (tmp_path / "rules").write_bytes(rules)
    command(["/\U0001f600\udce9", "/x", "--file", str(tmp_path / "rules"), "--json"])
    one, other = objects(capsys.readouterr().out)
    assert (one["url"], one["verdict"], other["verdict"]) == ("/\U0001f600\ufffd", "unknown", "refused")


def test_the_first_answer_stands_apart_whether_or_not_its_robots_txt_was_asked(tell: Tell) -> None:
    settings = {"SCOUR_SCOPE_EXCLUDE": ["/out"], "USER_AGENT": BOT}
    whom, blank, *rest = tell(RULES, "http://site.test/out", "http://site.test/in", settings=settings).split("\n")
    assert whom.startswith("asked for")
    assert (blank, rest[0]) == ("", "refused  http://site.test/out")
    assert rest[2] == ""
    whom, blank, name, *_ = tell(RULES, "/in").split("\n")
    assert (blank, name.endswith("robots.txt")) == ("", True)


def test_nothing_that_a_site_writes_reaches_a_terminal_as_a_control(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rules = "User-agent: \x1b[31mred\nUser-agent: *\nDisallow: /x\x1b[2J\u202e\nSitemap: http://a/\x1b]0;t\x07\n"
    (tmp_path / "evil").write_text(rules, encoding="utf-8")
    command(["/x\x1b[2J\u202e", "/y", "--file", str(tmp_path / "evil"), "--all-agents", "--agent", "a"])
    said = capsys.readouterr().out
    assert all(line.isprintable() for line in said.splitlines())
    assert "\\x1b" in said
    assert printable("aé\x1b\u202e") == "aé\\x1b\\u202e"


# --- Bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "no URL was given"),
        (["site.test/x"], "is https:// missing?"),
        (["site.test:8080"], "is https:// missing?"),
        (["mailto:a@b.test"], "this is no http or https URL with a host\n"),
        (["ftp://site.test/x"], "no http or https URL"),
        (["http://user:secret@/x"], "no http or https URL"),
        (["/path/without/file"], "no http or https URL"),
        (["http://a.test/", "--bogus"], "there is no option --bogus"),
        (["http://a.test/", "--agent"], "expected one argument"),
        (["http://a.test/", "--agent", " "], "neither a name nor a User-Agent header"),
        (["http://a.test/", "--agent", "a\r\nCookie: b"], "neither a name nor a User-Agent header"),
        (["http://a.test/", "--file", "not/there"], "not/there: No such file"),
        (["http://a.test/", "--file", ""], "--file takes the name of a file"),
        (["http://a.test/", "--pidfile", "not/there/x"], "--pidfile not/there/x: No such file"),
        (["/x", "--file", os.devnull, "-s", "ROBOTSTXT_PARSER=nope.Parser"], "No module named 'nope'"),
        (["-", "--file", "-"], "standard input (-) can be read once only"),
        (["-", "-"], "standard input (-) can be read once only"),
        (["http://a.test/", "-a", "x=1"], "-a goes with --spider"),
        (["/x", "--file", os.devnull, "--spider", "nobody"], "there is no spider 'nobody'"),
        (["/x", "--file", os.devnull, "-s", "SCOUR_ROBOTSTXT_TTL=x"], "SCOUR_ROBOTSTXT_TTL = 'x': must be"),
    ],
)
def test_bad_input_is_one_line_and_exit_status_2(
    args: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command(args)
    out, err = capsys.readouterr()
    assert ended.value.code == 2
    assert out == ""
    assert says in err
    assert err.count("\n") == 1
    assert "secret" not in err


@pytest.mark.parametrize(
    "settings",
    [
        {"ADDONS": {"nope.Addon": 1}},
        {"DOWNLOADER_MIDDLEWARES": {"nope.Middleware": 1}},
        {"ROBOTSTXT_USER_AGENT": 5},
        {"USER_AGENT": "a\ud800"},
    ],
)
def test_a_project_that_fails_is_one_line_and_exit_status_2(
    settings: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "cannot be asked" in stopped(["/x", "--file", os.devnull], capsys, settings)


def stopped(args: list[str], capsys: pytest.CaptureFixture[str], settings: dict[str, Any] | None = None) -> str:
    """The one line with which the command ends, by status 2 and without an answer."""
    with pytest.raises(SystemExit) as ended:
        command(args, settings)
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1)
    return str(err)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("raise ValueError('no\\nway')", "ValueError: no way"),
        ("import nope_nope", "there is no spider 'mine' here (a module of spiders cannot be imported: Mod"),
        ("def f(:", "there is no spider 'mine' here (a module of spiders cannot be imported: SyntaxError"),
        ("raise SystemExit(7)", "SystemExit: 7"),
        ("class S(scrapy.Spider):\n name = 'mine'\n def __init__(self): raise SystemExit(7)", "cannot be made: System"),
    ],
)
def test_a_spider_that_fails_is_one_line_and_exit_status_2(
    source: str, says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing_spiders.py").write_text(f"import scrapy\n{source}\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        args = ["/x", "--file", os.devnull, "--spider", "mine"]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert says in stopped(args, capsys, {"SPIDER_MODULES": ["failing_spiders"]})
    finally:
        sys.modules.pop("failing_spiders", None)


def test_a_closed_standard_stream_is_one_line_and_exit_status_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    for args in (["-", "--file", os.devnull], ["/x", "--file", "-"], ["-"]):
        assert "standard input is closed" in stopped(args, capsys)
    monkeypatch.setattr(sys, "stdout", None)
    for args in (["/x", "--file", os.devnull], ["http://a.test/"]):
        assert "standard output is closed" in stopped(args, capsys)
    monkeypatch.setattr(sys, "stderr", None)
    with pytest.raises(SystemExit) as ended:
        command(["nonsense"])
    assert ended.value.code == 2


@pytest.mark.skipif(os.name != "posix", reason="closes standard error with a shell")
def test_without_standard_error_the_answers_are_printed_all_the_same(
    environment: dict[str, str], site: Any, tmp_path: Path
) -> None:
    site.robots(RULES)
    (tmp_path / "rules").write_text(RULES)
    for args in (["/private/", "--file", "rules"], [site.url("/private/")]):
        done = subprocess.run(
            ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-m", "scrapy", "robots", *args, "--json"],
            cwd=tmp_path,
            env=process_environment(environment=environment),
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert (done.returncode, [one["line"] for one in objects(done.stdout)]) == (1, [2])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_is_one_line_and_exit_status_2(environment: dict[str, str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "scrapy", "robots", "/x", "--file", os.devnull],
            env=process_environment(environment=environment),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("scrapy robots: standard output: ")


def test_bad_input_and_a_wrong_set_up_end_a_process_with_2_and_one_line(run: Run, site: Any) -> None:
    site.robots(RULES)
    for args, settings in (
        (["nonsense"], {}),
        ([site.url("/")], {"SCOUR_NONSENSE": "1"}),
        ([site.url("/")], {"ASYNCIO_EVENT_LOOP": "nope"}),
        ([site.url("/")], {"SPIDER_LOADER_CLASS": "nope.Loader"}),
        ([site.url("/"), "-L", "LOUD"], {}),
        ([site.url("/")], {"SCHEDULER_PRIORITY_QUEUE": "nope.Queue"}),
        ([site.url("/")], {"SCHEDULER_MEMORY_QUEUE": "nope.Queue"}),
        ([site.url("/")], {"SCHEDULER_PRIORITY_QUEUE": "scrapy.Item"}),
    ):
        done = run(*args, settings=settings)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("scrapy robots: ")
        assert done.stderr.count("\n") == 1
        assert "slot not assigned" not in done.stderr
        assert all(name in done.stderr for name, value in settings.items() if value == "nope.Queue")
    assert site.log == []


@pytest.mark.parametrize("middlewares", ["scrapy.downloadermiddlewares.retry.RetryMiddleware", StockRetry])
def test_a_project_without_the_add_on_may_have_what_the_add_on_replaces(ask: Ask, middlewares: Any) -> None:
    status, (one,) = ask(RULES, "/private/", "--agent", "third", settings={"DOWNLOADER_MIDDLEWARES": {middlewares: 90}})
    assert (status, one["line"]) == (1, 2)


def test_lines_are_split_however_they_come_and_a_line_without_end_is_not_kept() -> None:
    text = "\ufeffhttp://a/\r\n\n  http://b/é \nhttp://c/".encode()
    for size in (1, 2, 3, 7, 100):
        lines = Lines()
        if size < 3:  # the mark is looked for in the first octets only
            text = text.removeprefix(b"\xef\xbb\xbf")
        found = [line for at in range(0, len(text), size) for line in lines.feed(text[at : at + size])]
        assert [*found, *lines.feed(b"")] == ["http://a/", "http://b/é", "http://c/"]
    lines = Lines()
    found = [line for _ in range(50) for line in lines.feed(b"x" * 10_000)]
    assert len(found) == 1
    assert len(found[0]) <= LONGEST_LINE + 10_000
    assert list(lines.feed(b"xx\nhttp://a/\n")) == ["http://a/"]


# --- In a crawler -------------------------------------------------------------------------------------------


def test_outside_a_project_only_robots_txt_is_fetched_and_the_facts_are_told_once(run: Run, site: Any) -> None:
    site.robots(RULES)
    done = run(site.url("/private/1"), site.url("/a"), settings={"USER_AGENT": BOT})
    assert (done.returncode, done.stderr) == (0, "")
    assert [seen.path for seen in site.log] == ["/robots.txt"]
    assert site.log[0].header("User-Agent") == BOT
    for said in (
        f"testbot, from USER_AGENT: {BOT}",
        "status 200 from 127.0.0.1",
        "testbot (the group * does not apply)",
        "10 s between two requests (Request-rate, robots.txt line 8)",
        "http://site.test/map.xml",
        f"allowed  {site.url('/private/1')}",
    ):
        assert done.stdout.count(said) == 1, said
    # The same for a bare name, which is asked about and not sent; and the other reactor.
    done = run(
        site.url("/private/1"),
        "--agent",
        "third",
        "--json",
        settings={"USER_AGENT": BOT, "TWISTED_REACTOR": "twisted.internet.selectreactor.SelectReactor"},
    )
    assert (done.returncode, done.stderr) == (1, "")
    (one,) = objects(done.stdout)
    assert (one["line"], one["group"], one["group_is_own"]) == (2, "*", False)
    assert one["robots"]["fetched_as"] == site.log[1].header("User-Agent") == BOT
    assert 0 <= one["robots"]["age"] < 60


def test_a_header_is_sent_as_it_is_given(run: Run, site: Any) -> None:
    site.robots(RULES)
    done = run(site.url("/bots/"), "--json", "--agent", "Mozilla/5.0 (compatible; other/2)")
    (one,) = objects(done.stdout)
    assert (done.returncode, one["token"], one["line"]) == (1, "other", 7)
    assert site.log[0].header("User-Agent") == "Mozilla/5.0 (compatible; other/2)"


SPIDER = """
import scrapy


class Mine(scrapy.Spider):
    name = "mine"
    custom_settings = {"USER_AGENT": "other/3"}

    def __init__(self, domain, **kwargs):
        super().__init__(**kwargs)
        self.allowed_domains = [domain]
        self.start_urls = ["http://127.0.0.1/never"]
"""
PROJECT = """
USER_AGENT = "testbot/9"
SCOUR_SCOPE_EXCLUDE = ["/secret"]
FEEDS = {"items.json": {"format": "json", "overwrite": True}}
LOG_FILE = "crawl.log"
JOBDIR = "job"
ITEM_PIPELINES = {"project.not_there.Pipeline": 1}
EXTENSIONS = {"project.not_there.Extension": 1}
"""


def test_in_a_project_its_settings_and_scope_hold_and_its_files_stay(run: Run, sites: Sites, tmp_path: Path) -> None:
    site, other = sites(), sites("127.0.0.2")
    site.robots(RULES)
    other.robots(RULES)
    project = write_project(tmp_path / "p", SPIDER, PROJECT)
    (project / "items.json").write_text("kept")
    (project / "crawl.log").write_text("kept")
    done = run(site.url("/secret/1"), site.url("/bots/"), site.url("/a"), "--json", cwd=project)
    out, refused, allowed = objects(done.stdout)
    assert (done.returncode, done.stderr) == (1, "")
    assert (out["verdict"], out["robots"], refused["line"], allowed["verdict"]) == ("refused", None, 7, "allowed")
    assert out["reason"].startswith("out of scope: ")
    assert (allowed["agent"], allowed["agent_from"]) == ("testbot/9", "USER_AGENT")

    # With a spider: its settings and its domains, and the project's own way to have the add-on.
    with (project / "project" / "settings.py").open("a") as settings:
        settings.write('ADDONS = {"scrapy_scour.Addon": 500}\n')
    args = [other.url("/a"), site.url("/a"), "--json", "--spider", "mine"]
    done = run(*args, "-a", "domain=127.0.0.1", cwd=project)
    off, inside = objects(done.stdout)
    assert (done.returncode, done.stderr) == (1, "")
    assert off["reason"] == "out of scope: '127.0.0.2' is not in allowed_domains (allowed_domains)"
    assert (inside["verdict"], inside["agent"]) == ("allowed", "other/3")
    assert other.log == []
    assert [seen.path for seen in site.log] == ["/robots.txt"] * 2
    done = run(*args, cwd=project)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "the spider mine cannot be made" in done.stderr

    assert (project / "items.json").read_text() == (project / "crawl.log").read_text() == "kept"
    assert not (project / "job").exists()


CARELESS = """
import os, scrapy


class Careless(scrapy.Spider):
    name = "careless"
    custom_settings = {
        "SCOUR_REPORT_FILE": "report.html",
        "SCOUR_OUTCOMES_FILE": "outcomes.jsonl",
        "FEEDS": {"items.json": {"format": "json"}},
    }

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.settings.set("USER_AGENT", "other/4", priority="spider")
        spider.settings.set("SCOUR_SCOPE_EXCLUDE", ["/secret"], priority="spider")
        spider.settings.set("FEEDS", {"more.json": {"format": "json"}}, priority="cmdline")
        return spider

    def closed(self, reason):
        open("closed", "w").close()


class Waiting(scrapy.Spider):
    name = "waiting"
    custom_settings = {"SCOUR_ROBOTSTXT_WAITS": "x"}
"""
# What stands beside this package only in a project without it.
BESIDE = """
import scrapy.downloadermiddlewares.retry, scrapy.downloadermiddlewares.httpcache

LOG_STDOUT = True
HTTPCACHE_ENABLED = True


class MyRetry(scrapy.downloadermiddlewares.retry.RetryMiddleware):
    pass


class Late:
    pass


DOWNLOADER_MIDDLEWARES = {
    "scrapy.downloadermiddlewares.retry.RetryMiddleware": 90,
    "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": 600,
    "scrapy.downloadermiddlewares.httpcache.HttpCacheMiddleware": 100,
    MyRetry: 560,
    Late: 20000,
}
"""


def test_a_spider_gives_its_settings_and_nothing_of_it_runs_or_is_written(run: Run, site: Any, tmp_path: Path) -> None:
    site.robots(RULES)
    project = write_project(tmp_path / "p", CARELESS, BESIDE)
    args = [site.url("/secret"), site.url("/bots/"), "--json", "--spider"]
    before = sorted(project.iterdir())
    done = run(*args, "careless", cwd=project)
    assert (done.returncode, done.stderr) == (1, "")
    out, refused = objects(done.stdout)
    assert out["reason"].startswith("out of scope: ")
    assert (refused["line"], refused["agent"], refused["agent_from"]) == (7, "other/4", "USER_AGENT")
    assert sorted(project.iterdir()) == before
    (tmp_path / "rules").write_text(RULES)
    done = run(*args, "waiting", "--file", str(tmp_path / "rules"), cwd=project)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "SCOUR_ROBOTSTXT_WAITS = 'x': must be" in done.stderr


# What an add-on may do after everything else was left out.
MEDDLING = """
import scrapy
from scrapy import signals


def leaves(name):
    class Leaves:
        @classmethod
        def from_crawler(cls, crawler):
            open(f"by-{name}", "w").close()
            return cls()

    return Leaves


class Pages(leaves("spider-middleware")):
    async def process_start(self, start):
        async for one in start:
            yield one
        yield scrapy.Request(PAGE)


class Crawls:
    @classmethod
    def from_crawler(cls, crawler):
        made = cls()
        made.crawler = crawler
        crawler.signals.connect(made.opened, signal=signals.spider_opened)
        return made

    def opened(self):
        self.crawler.engine.crawl(scrapy.Request(PAGE, dont_filter=True))


class Meddling:
    def update_settings(self, settings):
        settings.setdefault_in_component_priority_dict("ITEM_PIPELINES", leaves("pipeline"), 300)
        settings.setdefault_in_component_priority_dict("EXTENSIONS", leaves("extension"), 300)
        settings.setdefault_in_component_priority_dict("SPIDER_MIDDLEWARES", Pages, 300)
        stock = {} if OURS else {"scrapy.downloadermiddlewares.retry.RetryMiddleware": 550}
        middlewares = {**settings.getdict("DOWNLOADER_MIDDLEWARES"), **stock, Crawls: 700 if OURS else 200_000}
        settings.set("DOWNLOADER_MIDDLEWARES", middlewares, 50)
        settings.set("SCOUR_OUTCOMES_FILE", "by-outcomes", "cmdline")
        settings.set("SCOUR_REPORT_FILE", "by-report", 99)
        settings.set("FEEDS", {"by-feed": {"format": "json"}}, "cmdline")
        settings.set("LOG_FILE", "by-log", "cmdline")
        settings.set("LOG_LEVEL", "DEBUG", "cmdline")
        settings.set("JOBDIR", "by-job", 99)
        settings.set("HTTPCACHE_ENABLED", True, 99)
"""


@pytest.mark.parametrize("addons", ["Meddling: 400", "Meddling: 2e9, 'scrapy_scour.Addon': 500"])
def test_an_add_on_of_the_project_adds_nothing_that_runs_and_no_page_is_fetched(
    run: Run, site: Any, tmp_path: Path, addons: str
) -> None:
    site.robots(RULES)
    setting = f"\nPAGE = {site.url('/page')!r}\nOURS = {'scour' in addons}\nADDONS = {{{addons}}}\n"
    project = write_project(tmp_path / "p", SPIDER, MEDDLING + setting)
    done = run(site.url("/bots/"), "--json", cwd=project, settings={"USER_AGENT": BOT})
    assert (done.returncode, done.stderr, [one["line"] for one in objects(done.stdout)]) == (1, "", [7])
    assert [seen.path for seen in site.log] == ["/robots.txt"]
    assert list(project.glob("by-*")) == []


CHATTY = """
import scrapy

print("the module")


class Chatty(scrapy.Spider):
    name = "chatty"
    print("the class")

    def __init__(self):
        print("the spider")
"""
CHATTY_SETTINGS = """
class Prints:
    def __init__(self):
        print("the", type(self).__name__)

    def update_settings(self, settings):
        print("the settings")

    def process_request(self, request):
        print("the request")

ADDONS = {Prints: 1}
DOWNLOADER_MIDDLEWARES = {Prints: 1}
"""


def test_what_a_project_prints_is_no_answer(run: Run, site: Any, tmp_path: Path) -> None:
    site.robots(RULES)
    project = write_project(tmp_path / "p", CHATTY, CHATTY_SETTINGS)
    (project / "rules").write_text(RULES)
    for args, printed in ((["/private/", "--file", "rules"], 5), ([site.url("/private/")], 7)):
        done = run(*args, "--json", "--spider", "chatty", cwd=project)
        assert (done.returncode, [one["line"] for one in objects(done.stdout)]) == (1, [2])
        assert done.stderr.count("the ") == printed, done.stderr


def test_what_cannot_be_told_beats_a_refusal_and_each_dead_host_is_tried_once(run: Run, sites: Sites) -> None:
    fine, broken, silent, walled = sites(), sites("127.0.0.2"), sites("127.0.0.3"), sites("127.0.0.4")
    fine.robots(RULES)
    broken.answer("/robots.txt", Answer("sorry", status=503, headers={"Retry-After": "1"}))
    silent.answer("/robots.txt", hang())
    walled.answer("/robots.txt", Answer("<html>", status=403))
    dead = f"http://127.0.0.5:{unused_port('127.0.0.5')}"
    turning, leaving, closing, cutting = (sites(f"127.0.0.{n}") for n in range(6, 10))
    turning.answer("/robots.txt", redirect(turning.url("/robots.txt")))
    leaving.answer("/robots.txt", redirect("ftp://user:secret@a.test/x"))
    closing.answer("/robots.txt", closed())
    cutting.answer("/robots.txt", truncated(RULES))
    urls = [fine.url("/private/"), *(broken.url(f"/{n}") for n in range(3)), silent.url("/"), walled.url("/"), dead]
    urls += [turning.url("/"), leaving.url("/"), closing.url("/"), cutting.url("/")]
    done = run(*urls, "--json", settings={"SCOUR_ROBOTSTXT_TIMEOUT": 0.5})
    assert (done.returncode, done.stderr) == (2, "")
    said = objects(done.stdout)
    assert [one["url"] for one in said] == urls
    verdicts = [one["verdict"] for one in said]
    assert verdicts == ["refused", "unknown", "unknown", "unknown", "unknown", "allowed", *["unknown"] * 5]
    assert said[5]["reason"] == "robots unavailable: 403, so there are no rules (RFC 9309 2.3.1.3)"
    assert [one["robots"]["state"] for one in said[4:7]] == ["unreachable", "unavailable", "unreachable"]
    problems = [one["robots"]["problem"] for one in said]
    assert (said[1]["robots"]["status"], problems[1]) == (503, "status 503, to be asked again in 1 s (Retry-After)")
    assert problems[6].startswith("the connection failed (Connection was refused")
    assert problems[7] == f"redirects in a circle: {turning.url('/robots.txt')}"
    assert problems[8] == "redirects to an unusable address (scheme 'ftp' is neither http nor https): ftp://a.test/x"
    assert problems[9].startswith("the connection failed (")
    assert problems[10].startswith("the answer is no valid HTTP, or only a part of one")
    assert not any("twisted" in str(problem) for problem in problems)
    assert "longer than" in said[4]["robots"]["problem"]
    assert [len(one.log) for one in (fine, broken, silent, walled)] == [1, 1, 1, 1]


def test_redirects_of_robots_txt_are_followed_and_told(run: Run, sites: Sites) -> None:
    site, other = sites(), sites("127.0.0.2")
    site.answer("/robots.txt", redirect("/r"))
    site.answer("/r", redirect(other.url("/rules"), 301))
    other.page("/rules", RULES)
    done = run(site.url("/private/"), "--json")
    (one,) = objects(done.stdout)
    assert (done.returncode, one["line"], one["origin"]) == (1, 2, site.url("/")[:-1])
    assert one["robots"]["url"] == site.url("/robots.txt")
    assert one["robots"]["redirects"] == [site.url("/r"), other.url("/rules")]
    assert one["robots"]["address"] == "127.0.0.2"
    done = run(site.url("/private/"))
    assert f"-> {other.url('/rules')}" in done.stdout


def started(environment: dict[str, str], cwd: Path, *args: str) -> subprocess.Popen[str]:
    resolver = f"{DNS_RESOLVER_SETTING}={ProcessResolver.__module__}.{ProcessResolver.__qualname__}"
    return subprocess.Popen(
        [sys.executable, "-m", "scrapy", "robots", *args, "-s", resolver],
        cwd=cwd,
        env=process_environment(environment=environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="surrogateescape",
    )


def test_robots_txt_is_fetched_through_the_proxies_of_the_project(
    environment: dict[str, str], sites: Sites, tmp_path: Path
) -> None:
    proxy = sites()
    proxy.route("http*", lambda seen: Answer(RULES))
    middleware = f"""
class SetsProxy:
    def process_request(self, request):
        request.meta["proxy"] = {proxy.url("/")!r}

DOWNLOADER_MIDDLEWARES = {{SetsProxy: 700}}
"""
    for folder, settings, variables in (("a", "", {"http_proxy": proxy.url("/")}), ("b", middleware, {})):
        project = write_project(tmp_path / folder, SPIDER, settings)
        args = ["robots", "http://far.test/private/", "--json"]
        done = run_scrapy(args, project, environment={**environment, **variables})
        assert [one["line"] for one in objects(done.stdout)] == [2]
    assert [seen.path for seen in proxy.log] == ["http://far.test/robots.txt"] * 2


def test_urls_on_standard_input_are_answered_as_they_come_with_one_fetch(
    environment: dict[str, str], tmp_path: Path, site: Any
) -> None:
    site.robots(RULES)
    with started(environment, tmp_path, "-", "--json") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(f"{site.url('/a')}\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["verdict"] == "allowed"  # before the input has ended
        urls = [site.url(f"/private/{n}") for n in range(10_000)]
        rest, _ = process.communicate("\n".join([*urls, "", "no url", f"{site.url('/caf')}\udce9"]), timeout=60)
        *answers, no_url, no_text = objects(rest)
    assert [one["url"] for one in answers] == urls
    assert {(one["verdict"], one["line"]) for one in answers} == {("refused", 2)}
    assert (no_url["verdict"], no_text["verdict"]) == ("unknown", "unknown")
    assert no_text["url"] == site.url("/caf\ufffd")
    assert "is not UTF-8" in no_text["reason"]
    assert process.returncode == 2
    assert [seen.path for seen in site.log] == ["/robots.txt"]


def test_a_reader_that_goes_away_ends_it_in_silence(environment: dict[str, str], tmp_path: Path, site: Any) -> None:
    site.robots(RULES)
    (tmp_path / "rules").write_text(RULES)
    for args in (["-"], ["-", "--file", "rules"]):
        with started(environment, tmp_path, *args, "--json") as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdin.write(f"{site.url('/a')}\n")
            process.stdin.flush()
            assert process.stdout.readline()
            process.stdout.close()
            process.stdin.write(f"{site.url('/a')}\n" * 1000)
            process.stdin.close()
            assert process.stderr.read() == ""
        assert process.returncode == 2


def test_one_interruption_ends_it_however_long_a_host_is_silent(
    environment: dict[str, str], tmp_path: Path, sites: Sites
) -> None:
    silent, other = sites(), sites("127.0.0.2")
    for site in (silent, other):
        site.answer("/robots.txt", hang())
    args = [silent.url("/"), other.url("/"), "--json", "-s", "SCOUR_ROBOTSTXT_TIMEOUT=60"]
    with started(environment, tmp_path, *args) as process:
        until = time.monotonic() + 20
        while len(silent.log) + len(other.log) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        assert [seen.path for seen in silent.log + other.log] == ["/robots.txt"] * 2
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (2, "", "")


# --- Other commands -----------------------------------------------------------------------------------------


def test_the_command_loads_nothing_for_other_scrapy_commands() -> None:
    probe = (
        "import sys, json, scrapy.cmdline; known = set(sys.modules);"
        "from scrapy_scour.commands.robots import Command; Command().short_desc();"
        "print(json.dumps(sorted(set(sys.modules) - known)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], env=process_environment(), capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == ["scrapy_scour", "scrapy_scour.commands", "scrapy_scour.commands.robots"]


def test_the_entry_point_leads_to_the_command() -> None:
    config = configparser.ConfigParser()
    config.read_string(entry_points())
    assert load_object(config["scrapy.commands"]["robots"].replace(":", ".")) is Command
