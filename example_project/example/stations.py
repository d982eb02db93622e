"""The stations of the tour: what each site does, where the spider begins, and how the site's log is read.

A sentence of the table is computed from the servers' logs and from nothing else.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from example.sites import Answer, Respond, Seen

Logs = Mapping[str, Sequence[Seen]]
Page = str | Answer | Callable[[Seen], Answer]

SECRETS = {"X-Api-Key": "not-for-others", "Authorization": "Bearer not-for-others"}
COOKIES = {"session": "not-for-others"}
"""What the spider sends to api.test, and means for nobody else."""

RETRY_AFTER_S = 2
"""Seconds for which busy.test asks to be left alone."""


@dataclass(frozen=True)
class Station:
    """``sites()`` makes the responders anew, by name; ``start`` are ``name/path``; ``saw`` reads the logs.

    ``headers`` and ``cookies`` go with the start requests. ``external``: pages ``name/path`` that the callback of the
    start page gets from a provider outside Scrapy.
    """

    title: str
    sites: Callable[[], dict[str, Respond]]
    start: tuple[str, ...]
    saw: Callable[[Logs], str]
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)
    external: tuple[str, ...] = ()


def links(*paths: str) -> str:
    """A page with these links."""
    return "<html><body>" + "".join(f'<a href="{path}">{path}</a> ' for path in paths) + "</body></html>"


def redirect(seen: Seen, host: str, path: str, **headers: str) -> Answer:
    """A redirect to a page of this or another site."""
    return Answer(status=302, headers={"Location": f"http://{host}:{seen.port}{path}", **headers})


def site(robots: str | Answer, found: Mapping[str, Page]) -> Respond:
    """A site of these pages; a path that is not there answers 404."""

    def respond(seen: Seen) -> Answer:
        if seen.path == "/robots.txt":
            return robots if isinstance(robots, Answer) else Answer(robots, headers={"Content-Type": "text/plain"})
        one = found.get(seen.path, Answer("not here", 404))
        if isinstance(one, str):
            return Answer(one)
        return one if isinstance(one, Answer) else one(seen)

    return respond


# Reading a log


def pages(log: Sequence[Seen]) -> list[Seen]:
    """What was asked but robots.txt."""
    return [seen for seen in log if seen.path != "/robots.txt"]


def count(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def below(path: str, host: str) -> Callable[[Logs], str]:
    """How many pages were asked for, and how many of them below a path."""

    def saw(logs: Logs) -> str:
        asked = [seen for seen in pages(logs[host]) if seen.path.startswith(path)]
        return f"{count(len(asked), 'request')} below {path}, {len(pages(logs[host])) - len(asked)} elsewhere"

    return saw


def rests_s(log: Sequence[Seen]) -> list[float]:
    """Seconds between the end of each answer and the next request, in order of arrival; 0 when they overlap."""
    ordered = sorted(log, key=lambda seen: seen.began)
    return [max(0.0, after.began - before.ended) for before, after in itertools.pairwise(ordered)]


# The sites


def _shop() -> dict[str, Respond]:
    robots = "User-agent: *\nDisallow: /admin/\n"
    return {"shop.test": site(robots, {"/": links("/books", "/admin/orders"), "/books": "", "/admin/orders": ""})}


def _museum() -> dict[str, Respond]:
    robots = "User-agent: *\nDisallow:\n\nUser-agent: tourbot\nDisallow: /archive/\n"
    return {"museum.test": site(robots, {"/": links("/rooms", "/archive/1"), "/rooms": "", "/archive/1": ""})}


def _library() -> dict[str, Respond]:
    return {"library.test": site(Answer("out of order", 503), {"/": links("/a", "/b"), "/a": "", "/b": ""})}


def _library_saw(logs: Logs) -> str:
    log = logs["library.test"]
    return f"{count(len(pages(log)), 'page request')}, robots.txt asked {count(len(log) - len(pages(log)), 'time')}"


def _blog() -> dict[str, Respond]:
    return {
        "blog.test": site("", {"/": lambda seen: redirect(seen, "tracker.test", "/landing")}),
        "tracker.test": site("", {"/landing": ""}),
    }


def _blog_saw(logs: Logs) -> str:
    return f"tracker.test: {count(len(logs['tracker.test']), 'request')} of any kind"


def _api() -> dict[str, Respond]:
    return {
        "api.test": site("", {"/report": lambda seen: redirect(seen, "files.test", "/report")}),
        "files.test": site("", {"/report": ""}),
    }


def _api_saw(logs: Logs) -> str:
    arrived = pages(logs["files.test"])
    sent = {name.lower() for seen in arrived for name in seen.headers}
    leaked = [name for name in (*SECRETS, "Cookie") if name.lower() in sent]
    return f"files.test: {count(len(arrived), 'request')}, with {', '.join(leaked) or 'none of the three'}"


def _maze() -> dict[str, Respond]:
    found: dict[str, Page] = {
        "/a": lambda seen: redirect(seen, "maze.test", "/b"),
        "/b": lambda seen: redirect(seen, "maze.test", "/a"),
    }
    return {"maze.test": site("", found)}


def _maze_saw(logs: Logs) -> str:
    return count(len(pages(logs["maze.test"])), "page request")


def _gallery() -> dict[str, Respond]:
    def pictures(seen: Seen) -> Answer:
        if "consent=yes" in seen.headers.get("Cookie", ""):
            return Answer("the pictures")
        return redirect(seen, "gallery.test", "/pictures", **{"Set-Cookie": "consent=yes"})

    return {"gallery.test": site("", {"/": links("/pictures"), "/pictures": pictures})}


def _gallery_saw(logs: Logs) -> str:
    statuses = [str(seen.status) for seen in logs["gallery.test"] if seen.path == "/pictures"]
    return f"/pictures answered {', then '.join(statuses)}" if statuses else "/pictures was not asked for"


def _slow() -> dict[str, Respond]:
    robots = "User-agent: *\nCrawl-delay: 1\n"
    return {"slow.test": site(robots, {"/": links("/1", "/2", "/3"), "/1": "", "/2": "", "/3": ""})}


def _slow_saw(logs: Logs) -> str:
    rests = rests_s(logs["slow.test"])
    return f"{len(logs['slow.test'])} requests, rests of {', '.join(f'{rest:.2f}' for rest in rests)} s"


def _busy() -> dict[str, Respond]:
    closed_until: list[float] = []

    def item(seen: Seen) -> Answer:
        if not closed_until:
            closed_until.append(seen.began + RETRY_AFTER_S)
        if seen.began < closed_until[0]:
            # Late enough that what was sent together with the first has arrived before anyone was told to wait.
            return Answer("later", 429, {"Retry-After": str(RETRY_AFTER_S)}, delay_s=0.5)
        return Answer("an item")

    items = [f"/{number}" for number in range(1, 6)]
    return {"busy.test": site("", {"/": links(*items), **dict.fromkeys(items, item)})}


def _busy_saw(logs: Logs) -> str:
    log = pages(logs["busy.test"])
    refused = [seen for seen in log if seen.status == 429]
    told = min((seen.ended for seen in refused), default=float("inf"))
    too_early = [seen for seen in log if told < seen.began < told + RETRY_AFTER_S]
    served = {seen.path for seen in log if seen.status == 200} - {"/"}
    early = f"{count(len(too_early), 'request')} in the {RETRY_AFTER_S} s after the first 429"
    return f"{early}; {len(served)} of 5 items served"


def _calendar() -> dict[str, Respond]:
    days = [f"/day/{number}" for number in range(1, 61)]
    return {"calendar.test": site("", {"/": links(*days), **dict.fromkeys(days, "a day")})}


def _calendar_saw(logs: Logs) -> str:
    return count(len(pages(logs["calendar.test"])), "page request")


def _studio() -> dict[str, Respond]:
    robots = "User-agent: *\nDisallow: /private/\nCrawl-delay: 0.5\n"
    clips = dict.fromkeys(("/clips/1", "/clips/2", "/private/clip"), "a clip")
    return {"studio.test": site(robots, {"/": "", **clips})}


def _studio_saw(logs: Logs) -> str:
    rests = rests_s(logs["studio.test"])
    return f"{below('/private/', 'studio.test')(logs)}; rests of {', '.join(f'{rest:.2f}' for rest in rests)} s"


STATIONS: tuple[Station, ...] = (
    Station(
        "robots.txt refuses a path",
        _shop,
        ("shop.test/",),
        below("/admin/", "shop.test"),
    ),
    Station(
        "robots.txt refuses the agent that the project's headers name",
        _museum,
        ("museum.test/",),
        below("/archive/", "museum.test"),
    ),
    Station("robots.txt answers 503", _library, ("library.test/",), _library_saw),
    Station("a start URL redirects out of the allowed domains", _blog, ("blog.test/",), _blog_saw),
    Station(
        "an API key, a token and a cookie, and a redirect to another allowed host",
        _api,
        ("api.test/report",),
        _api_saw,
        headers=SECRETS,
        cookies=COOKIES,
    ),
    Station("two pages redirect to each other", _maze, ("maze.test/a",), _maze_saw),
    Station("a page sets a cookie and redirects to itself", _gallery, ("gallery.test/",), _gallery_saw),
    Station("robots.txt asks for `Crawl-delay: 1`", _slow, ("slow.test/",), _slow_saw),
    Station(f"answers 429 with `Retry-After: {RETRY_AFTER_S}`", _busy, ("busy.test/",), _busy_saw),
    Station("61 pages, and a limit of 15 requests per domain", _calendar, ("calendar.test/",), _calendar_saw),
    Station(
        "a callback calls an external provider; robots.txt refuses a path and asks for `Crawl-delay: 0.5`",
        _studio,
        ("studio.test/",),
        _studio_saw,
        external=("studio.test/clips/1", "studio.test/private/clip", "studio.test/clips/2"),
    ),
)
