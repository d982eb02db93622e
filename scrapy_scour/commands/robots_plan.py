"""What was asked of ``scrapy robots`` on its command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scrapy.utils.conf import arglist_to_dict

from scrapy_scour.commands.robots_answer import wrong_with
from scrapy_scour.commands.robots_text import printable
from scrapy_scour.policy.urls import origin_of, without_userinfo

if TYPE_CHECKING:
    from argparse import Namespace

STDIN = "-"


class BadInput(Exception):
    """What was asked makes no sense; the message is one line."""


@dataclass(frozen=True)
class Plan:
    """What was asked on the command line. ``agent``, ``file`` and ``spider`` are None when not given."""

    urls: tuple[str, ...]
    agent: str | None = None
    file: str | None = None
    as_json: bool = False
    all_agents: bool = False
    spider: str | None = None
    arguments: dict[str, str] = field(default_factory=dict)


def in_words(error: BaseException) -> str:
    """An error of somebody else's in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")


def plan(args: list[str], opts: Namespace) -> Plan:
    """Read the command line, or raise BadInput."""
    urls = list(args)
    if "--" in urls:
        urls.remove("--")
    if not urls:
        raise BadInput("no URL was given (- reads them from standard input)")
    for url in urls:
        if url != STDIN and url.startswith("-"):
            raise BadInput(f"there is no option {printable(url)}")
    if urls.count(STDIN) + (opts.file == STDIN) > 1:
        raise BadInput("standard input (-) can be read once only, for the URLs or for --file")
    if opts.file == "":
        raise BadInput("--file takes the name of a file (- for standard input)")
    if opts.agent is not None and (not opts.agent.strip() or not opts.agent.isprintable()):
        raise BadInput(f"--agent {opts.agent!r} is neither a name nor a User-Agent header")
    try:
        arguments = arglist_to_dict(opts.spargs)
    except ValueError:
        raise BadInput("-a takes NAME=VALUE") from None
    if arguments and not opts.spider:
        raise BadInput("-a goes with --spider")
    agent = opts.agent.strip() if opts.agent is not None else None
    asked = Plan(tuple(urls), agent, opts.file, opts.json, opts.all_agents, opts.spider, arguments)
    for url in asked.urls:
        path = asked.file is not None and url.startswith("/") and not url.startswith("//")
        if url != STDIN and not path and origin_of(url) is None:
            raise BadInput(f"{printable(without_userinfo(url))}: {wrong_with(url)}")
    return asked
