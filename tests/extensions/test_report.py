"""The report of a crawl: its numbers are those of the servers' logs, and it is written whole or not at all."""

from __future__ import annotations

import asyncio
import os
import re
import statistics
from pathlib import Path
from typing import Any

import pytest
from parsel import Selector
from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider

from scrapy_scour import report_file
from scrapy_scour.exceptions import SettingsError
from scrapy_scour.extensions import report
from scrapy_scour.job import job_of
from scrapy_scour.report_file import replace_file
from tests.support.crawl import Result, crawl
from tests.support.site import Answer, Site, Sites, gaps

#: Between what the server and the client call the end of an answer, seconds.
SLACK = 0.05


class Read:
    """A page as a person reads it."""

    def __init__(self, path: Path) -> None:
        self.page = Selector(path.read_text(encoding="utf-8"))
        self.rows = {row.css("th.host bdi::text").get(): row for row in self.page.css("table.hosts tbody tr")}
        self.tiles = {
            " ".join(tile.css("dt ::text").getall()): tile.css("dd::text").get() for tile in self.page.css(".tiles div")
        }

    def cell(self, host: str, name: str) -> str:
        return " ".join(" ".join(self.rows[host].css(f'td[data-is="{name}"] ::text').getall()).split())

    def seconds(self, host: str, name: str) -> float:
        number, unit, *_ = self.cell(host, name).split()
        return float(number) / (1000 if unit == "ms" else 1)

    def groups(self) -> dict[str, list[tuple[int, str, list[str]]]]:
        """By category: number, reason and examples of each row."""
        return {
            group.css("summary span::text").get() or "": [
                (
                    int(row.css("td.n::text").get() or 0),
                    row.css("td.reason bdi::text").get() or "",
                    row.css("li.url::text").getall(),
                )
                for row in group.css("tbody tr")
            ]
            for group in self.page.css("details")
        }


def open_site(site: Site, robots: str = "", page: Answer | None = None) -> Site:
    site.robots(robots)
    site.default = page or Answer("page")
    return site


async def test_its_numbers_are_those_of_the_servers_the_stats_and_the_summary(sites: Sites, tmp_path: Path) -> None:
    slow, later, plain, closed = sites.named("slow.test", "later.test", "plain.test", "closed.test")
    open_site(slow, "User-agent: *\nDisallow: /admin/\nCrawl-delay: 0.3\n", Answer("page", delay=0.1))
    open_site(later)
    later.sequence("/r", [Answer("later", 429, {"Retry-After": "1"}), Answer("page")])
    open_site(plain).page("/gone", status=404)
    open_site(closed, "User-agent: *\nDisallow: /\n")
    hostile = "<script>alert(1)</script>"
    urls = [
        *(slow.url(f"/{n}") for n in range(4)),
        *(slow.url(f"/admin/{n}?q={hostile}") for n in range(2)),
        later.url("/r"),
        *(plain.url(f"/{n}") for n in range(5)),
        plain.url("/gone"),
        *(closed.url(f"/{n}") for n in range(3)),
    ]
    path = tmp_path / "report.html"
    result = await crawl([Request(url) for url in urls], {"SCOUR_REPORT_FILE": str(path)})
    read = Read(path)

    assert set(read.rows) == {site.name for site in sites.opened}
    for site in sites.opened:
        assert site.name
        seen = site.requests()
        good = [one for one in seen if one.status == 200 and one.path != "/robots.txt"]
        assert read.cell(site.name, "pages") == str(len(good))
        assert read.cell(site.name, "requests") == str(len(seen))
    assert read.cell("slow.test", "without a page") == "2 robots_disallowed"
    assert read.cell("closed.test", "without a page") == "3 robots_disallowed"
    assert read.cell("plain.test", "without a page") == "1 not_found"

    kept = gaps(slow.requests())
    assert read.seconds("slow.test", "smallest gap") == pytest.approx(min(kept), abs=SLACK)
    assert read.seconds("slow.test", "median gap") == pytest.approx(statistics.median(kept), abs=SLACK)
    assert read.seconds("slow.test", "smallest gap") >= 0.3
    assert read.cell("slow.test", "asked delay") == f"0.30 s http://slow.test:{slow.port} robots.txt line 3"
    assert read.cell("later.test", "holds") == "1 × Retry-After 1.00 s in all"
    assert read.tiles["gaps below the asked delay"] == "0"

    stats = result.stats
    assert (
        read.tiles["pages"] == str(stats["scour/pages"]) == str(len([p for p in result.responses if p.status == 200]))
    )
    assert read.tiles["requests without a page"] == str(stats["scour/outcomes"])
    assert read.tiles["holds"] == str(stats["scour/hold/retry_after"])
    assert read.tiles["hosts that ask for a delay"] == str(stats["scour/delay/hosts"])
    assert read.tiles["requests sent"] == str(sum(len(site.requests()) for site in sites.opened))
    groups = read.groups()
    assert {name: sum(row[0] for row in rows) for name, rows in groups.items()} == {
        key.removeprefix("scour/outcome/"): value for key, value in stats.items() if key.startswith("scour/outcome/")
    }
    refused = {reason: urls for _, reason, urls in groups["robots_disallowed"]}
    said = "Forbidden by robots.txt: robots.txt line 2 (Disallow: /admin/ (group *)) refuses it for testbot"
    assert len(refused[said]) == 2
    assert all(url.startswith(slow.url("/admin/")) for url in refused[said])
    summary = next(r.getMessage() for r in result.log if "The slowest pace" in r.getMessage())
    assert read.cell("slow.test", "asked delay").split(" ", 2)[2] in summary
    assert f"{sum(row[0] for row in groups['robots_disallowed'])} refused by robots.txt" in summary
    assert read.page.css("script").getall() == []
    assert result.package_tracebacks == []


@pytest.mark.parametrize(("over_max", "shown"), [("skip", "10.0 s, skipped"), ("clamp", "10.0 s, kept as 0.20 s")])
async def test_a_delay_that_is_not_kept_is_shown_beside_what_is(
    sites: Sites, tmp_path: Path, over_max: str, shown: str
) -> None:
    """What the site asks is what it asks, whatever becomes of it; and hosts of hops are in no reason."""
    site, leads = sites.named("slow.test", "leads.test")
    open_site(site, "User-agent: *\nCrawl-delay: 10\n")
    open_site(leads)
    for n in range(3):
        leads.page(f"/{n}", status=302, headers={"Location": f"http://away{n}.test/"})
    path = tmp_path / "report.html"
    settings = {"SCOUR_REPORT_FILE": path, "SCOUR_CRAWL_DELAY_MAX": 0.2, "SCOUR_CRAWL_DELAY_OVER_MAX": over_max}
    requests = [site.url("/"), *(leads.url(f"/{n}") for n in range(3))]
    await crawl([Request(url) for url in requests], settings, domains=["slow.test", "leads.test"])
    read = Read(path)
    assert read.cell("slow.test", "asked delay") == f"{shown} http://slow.test:{site.port} robots.txt line 2"
    reasons = [(number, reason) for number, reason, _ in read.groups()["out_of_scope"]]
    assert [number for number, _ in reasons] == [3], reasons


async def test_what_still_waited_when_the_crawl_was_closed_is_in_it(site: Site, tmp_path: Path) -> None:
    open_site(site, "User-agent: *\nCrawl-delay: 0.2\n")
    path = tmp_path / "report.html"
    settings = {"SCOUR_REPORT_FILE": path, "CLOSESPIDER_PAGECOUNT": 2}
    result = await crawl([Request(site.url(f"/{n}")) for n in range(9)], settings)
    read = Read(path)
    assert result.finish_reason == "closespider_pagecount"
    assert "closespider_pagecount" in (read.page.css("header p bdi::text").get() or "")
    assert int(read.tiles["requests without a page"] or 0) == result.stats["scour/outcomes"] > 0


async def test_its_holds_are_those_of_the_stats_and_no_longer_than_the_crawl(sites: Sites, tmp_path: Path) -> None:
    """Slow bodies, no time at all, a robots.txt that says later, one that cannot be read, and an end in between."""
    slow, zero, later, closed, hang = sites.named("slow.test", "zero.test", "later.test", "closed.test", "hang.test")
    for site in (slow, zero, later, closed, hang):
        open_site(site)
    slow.sequence("/", [Answer(b"x" * 20, 429, {"Retry-After": "0.3"}, piece=1, pause=0.02), Answer("page")])
    zero.sequence("/", [Answer("later", 429), Answer("page")])
    later.sequence("/robots.txt", [Answer("later", 429, {"Retry-After": "1"}), Answer("")])
    closed.sequence("/robots.txt", [Answer("broken", 503), Answer("")])
    hang.sequence("/", [Answer("later", 429, {"Retry-After": "30"})])
    path = tmp_path / "report.html"
    settings = {
        "SCOUR_REPORT_FILE": path,
        "SCOUR_RETRY_WAITS": [0, 0],
        "SCOUR_ROBOTSTXT_WAITS": [0.3],
        "CLOSESPIDER_TIMEOUT": 1.6,
    }
    result = await crawl([Request(site.url("/")) for site in sites.opened], settings)
    read = Read(path)
    counted = {key.rpartition("/")[2]: n for key, n in result.stats.items() if key.startswith("scour/hold/")}
    assert set(counted) == {"retry_after", "retry_wait", "robots_unreachable"}
    words = {"retry_after": "Retry-After", "retry_wait": "refusal for rate", "robots_unreachable": "robots.txt not"}
    shown = " ".join(read.cell(str(site.name), "holds") for site in sites.opened)
    for why, count in counted.items():
        assert sum(map(int, re.findall(rf"(\d+) × {words[why]}", shown))) == count
    assert read.tiles["holds"] == str(sum(counted.values()))
    held = re.search(r"([\d.]+) s in all", read.cell("hang.test", "holds"))
    assert held
    assert 1.0 <= float(held[1]) <= float(str(read.tiles["time"]).split()[0])


async def test_a_hold_of_an_earlier_run_is_shown_and_not_counted_again(site: Site, tmp_path: Path) -> None:
    open_site(site).sequence("/0", [Answer("later", 429, {"Retry-After": "1"}), Answer("page")])
    path = tmp_path / "report.html"
    settings = {"SCOUR_REPORT_FILE": path, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    requests = [Request(site.url(f"/{n}")) for n in range(2)]
    await crawl(requests, {**settings, "CLOSESPIDER_TIMEOUT": 0.4}, jobdir=tmp_path / "job")
    result = await crawl([], settings, jobdir=tmp_path / "job")
    assert len(result.responses) == 2
    assert not [key for key in result.stats if key.startswith("scour/hold/")]
    read = Read(path)
    assert read.tiles["holds"] == "0"
    assert re.fullmatch(r"[\d.]+ (s|ms) in all", read.cell(site.host, "holds"))


async def test_a_host_that_is_given_up_says_so_and_its_holds_are_those_of_the_stats(site: Site, tmp_path: Path) -> None:
    open_site(site).default = Answer("later", 429, {"Retry-After": "0.2"})
    path = tmp_path / "report.html"
    settings = {"SCOUR_REPORT_FILE": path, "SCOUR_RETRY_WAITS": [0.1], "RETRY_TIMES": 1}
    result = await crawl([Request(site.url(f"/{n}")) for n in range(3)], settings)
    read = Read(path)
    assert result.stats["scour/hosts_given_up"] == 1
    assert read.tiles["holds"] == str(result.stats["scour/hold/retry_wait"])
    row = read.rows[site.host]
    assert "is given up: it refused for rate 2 times in a row" in " ".join(row.css("th.host ::text").getall())
    assert read.cell(site.host, "without a page") == "3 rate_limited"


async def test_a_host_that_is_given_up_at_once_was_never_held(site: Site, tmp_path: Path) -> None:
    open_site(site).default = Answer("later", 429, {"Retry-After": "1000"})
    path = tmp_path / "report.html"
    result = await crawl([Request(site.url("/"))], {"SCOUR_REPORT_FILE": path, "SCOUR_RETRY_AFTER_MAX": 60})
    assert result.stats["scour/hosts_given_up"] == 1
    assert Read(path).cell(site.host, "holds") == "none"


async def test_a_crawl_that_is_closed_while_it_opens_has_a_report_too(tmp_path: Path) -> None:
    path = tmp_path / "report.html"

    class Closed(Spider):
        name = "closed"

        @classmethod
        def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Closed:
            spider = super().from_crawler(crawler, *args, **kwargs)
            crawler.signals.connect(spider.opened, signal=signals.spider_opened)
            return spider

        def opened(self) -> None:
            raise CloseSpider("closed at once")

    result = await crawl(Closed, {"SCOUR_REPORT_FILE": path})
    assert [one.getMessage() for one in result.log if one.name == report.__name__] == [
        f"The report of the crawl: {path}"
    ]
    assert "No host was asked for anything." in path.read_text()


async def test_two_crawls_with_one_file_are_warned_of(site: Site, tmp_path: Path) -> None:
    """One page replaces the other, and says nothing of it; one after the other is what it is made for."""
    open_site(site)
    settings = {"SCOUR_REPORT_FILE": tmp_path / "report.html"}
    await crawl(site.url("/0"), settings)
    result = await crawl(site.url("/1"), settings)
    assert "another crawl writes it too" not in "".join(result.messages())
    both = await asyncio.gather(*(crawl(site.url(f"/{n}"), settings) for n in range(2)))
    warned = {record.getMessage() for one in both for record in one.log if "writes it too" in record.getMessage()}
    assert warned == {
        f"SCOUR_REPORT_FILE = {str(tmp_path / 'report.html')!r}: another crawl writes it too; the last to end stays."
    }
    assert report._to_write == []


def refusals(path: Path) -> dict[str, Any]:
    """Paths that cannot be written, or where something is that is no page."""
    (path / "folder").mkdir()
    os.mkfifo(path / "pipe")
    (path / "link").symlink_to(path / "pipe")
    (path / "circle").symlink_to(path / "circle")
    return {
        "no folder": path / "missing" / "report.html",
        "a folder": path / "folder",
        "no place for files": "/proc/report.html",
        "a device": "/dev/null",
        "a pipe": path / "pipe",
        "a link to a pipe": path / "link",
        "a link to itself": path / "circle",
        "too long": path / ("x" * 300),
        "no name at all": f"{path}/a\0b.html",
    }


@pytest.mark.parametrize(
    "which",
    [
        "no folder",
        "a folder",
        "no place for files",
        "a device",
        "a pipe",
        "a link to a pipe",
        "a link to itself",
        "too long",
        "no name at all",
    ],
)
def test_a_path_that_cannot_be_written_is_a_problem(tmp_path: Path, which: str) -> None:
    """Also where writing would work and destroy what is there; nothing is made, and nothing changed."""
    path = refusals(tmp_path)[which]
    before = sorted(tmp_path.iterdir())
    problems = report_file.report_problems(str(path), None)
    assert len(problems) == 1
    assert problems[0].startswith(f"SCOUR_REPORT_FILE = {str(path)!r}: must be a file that can be written; ")
    assert sorted(tmp_path.iterdir()) == before
    if "pipe" in which:
        with pytest.raises(OSError, match="is no regular file"):  # it may have come while the crawl ran
            replace_file(Path(path), "page")
        assert (tmp_path / "pipe").is_fifo()


async def test_a_path_that_cannot_be_written_refuses_the_start(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "missing" / "report.html"
    with pytest.raises(SettingsError, match=r"SCOUR_REPORT_FILE = '.*': must be a file that can be written"):
        await crawl(site.url("/"), {"SCOUR_REPORT_FILE": str(path)})
    assert site.requests() == []
    assert not path.parent.exists()


async def test_the_outcomes_file_is_no_place_for_it(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "one"
    settings = {"SCOUR_REPORT_FILE": str(path), "SCOUR_OUTCOMES_FILE": str(tmp_path / "." / "one")}
    with pytest.raises(SettingsError, match=r"SCOUR_REPORT_FILE = .*: must not be SCOUR_OUTCOMES_FILE"):
        await crawl(site.url("/"), settings)
    assert site.requests() == []


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ModuleNotFoundError("No module named 'jinja2'"), r"needs jinja2; install scrapy-scour\[report\]"),
        (ImportError("cannot import name 'x'"), r"needs jinja2, which cannot be imported; ImportError: cannot import"),
    ],
)
async def test_without_the_extra_the_start_is_refused(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    """Missing or broken: the end of a crawl would be too late."""

    def broken(name: str) -> None:
        raise error

    monkeypatch.setattr(report_file.importlib, "import_module", broken)
    problems = report_file.report_problems(str(tmp_path / "report.html"), None)
    assert len(problems) == 1
    assert re.match(rf"SCOUR_REPORT_FILE = '.*': {said}", problems[0])
    assert list(tmp_path.iterdir()) == []


async def test_a_page_that_cannot_be_made_or_written_is_an_error_line_and_the_old_one_stays(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_site(site)
    path = tmp_path / "report.html"
    path.write_text("the last crawl")

    def broken(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(report, "replace_file", broken)
    result = await crawl(site.url("/"), {"SCOUR_REPORT_FILE": str(path)})
    errors = result.messages(logger="scrapy_scour.extensions.report")
    assert len(errors) == 1
    assert errors[0] == f"SCOUR_REPORT_FILE = {str(path)!r} could not be written: OSError: no space left"
    assert result.finish_reason == "finished"
    assert path.read_text() == "the last crawl"


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    replace_file(path, "one \ud800")
    assert path.read_bytes() == b"one \\ud800"
    path.chmod(0o600)
    link = tmp_path / "link.html"
    link.symlink_to(path)
    replace_file(link, "two")
    assert link.is_symlink()
    assert path.read_text() == "two"
    assert path.stat().st_mode & 0o777 == 0o600  # what was private stays so

    def full(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        replace_file(path, "three")
    assert path.read_text() == "two"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["link.html", "report.html"]


def test_a_file_is_written_whatever_its_name_and_what_a_killed_crawl_left(tmp_path: Path) -> None:
    """The name may be as long as names can be; a leftover of this very process is in nobody's way."""
    path = tmp_path / ("x" * 250 + ".html")
    (tmp_path / f".{path.name[:200]}.{os.getpid()}.tmp").write_text("left")
    short = tmp_path / "report.html"
    (tmp_path / f".{short.name}.{os.getpid()}.tmp").write_text("left")
    for place in (path, short):
        assert report_file.report_problems(str(place), None) == []
        replace_file(place, "page")
        assert place.read_text() == "page"


async def test_without_the_setting_there_is_nothing_of_it(site: Site) -> None:
    """No extension, no listener beyond those of the others, no file."""
    open_site(site)
    off: Result = await crawl(site.url("/"))
    assert not [
        one
        for one in off.crawler.extensions.middlewares  # type: ignore[union-attr]
        if isinstance(one, report.ReportExtension)
    ]
    job = job_of(off.crawler)  # type: ignore[arg-type]
    listeners = [*job.on_dispatched, *job.pace.listeners, *job.outcomes.on_page]
    assert job.outcomes.on_page == []
    assert not [one for one in listeners if isinstance(getattr(one, "__self__", None), report.ReportExtension)]
