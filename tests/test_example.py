"""The example's tour: what its servers saw, from their own logs and from the table that it prints."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.crawl import ROOT, process_environment, run_scrapy
from tests.support.site import Sites

PROJECT = ROOT / "example_project"
WIDTH = 100


@dataclass
class Tour:
    """One tour. ``report`` is what it wrote as JSON."""

    code: int
    out: str
    err: str
    report: dict[str, Any]

    def saw(self, host: str) -> str:
        """The sentence of the station that a site belongs to."""
        found = [saw for _, sites, saw in self.report["rows"] if host in sites.split(", ")]
        assert len(found) == 1, (host, self.report["rows"])
        return str(found[0])

    def log(self, host: str) -> list[dict[str, Any]]:
        """What a server logged, in order of arrival."""
        found: list[dict[str, Any]] = self.report["logs"][host]
        return found

    def pages(self, host: str) -> list[str]:
        """The paths that a server was asked for, but robots.txt."""
        return [seen["path"] for seen in self.log(host) if seen["path"] != "/robots.txt"]


def run(folder: Path, *arguments: str) -> Tour:
    report = folder / "report.json"
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", "crawl", "tour", "-a", f"report={report}", *arguments],
        cwd=PROJECT,
        env=process_environment(environment={"http_proxy": "http://127.0.0.1:9/"}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert report.exists(), done.stdout + done.stderr
    return Tour(done.returncode, done.stdout, done.stderr, json.loads(report.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Tour:
    return run(tmp_path_factory.mktemp("tour"))


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Tour:
    return run(tmp_path_factory.mktemp("stock"), "-a", "stock=1")


def readme_rows() -> Iterator[list[str]]:
    """The cells of the README's before/after table."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    inside = text.partition("<!-- tour: begin -->")[2].partition("<!-- tour: end -->")[0]
    for line in inside.strip().splitlines()[2:]:
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def masked(saw: str) -> str:
    """A sentence without the digits that measuring changes."""
    return re.sub(r"\d+\.\d+", "#", saw)


def test_the_tour_ends_well_and_says_nothing_on_the_way_that_is_no_warning(tour: Tour) -> None:
    assert tour.code == 0
    assert tour.report["finish_reason"] == "finished"
    assert "Traceback" not in tour.err
    assert " ERROR: " not in tour.err


def test_the_printed_table_has_every_station_and_fits_a_terminal(tour: Tour) -> None:
    assert max(len(line) for line in tour.out.splitlines()) <= WIDTH
    flat = " ".join(tour.out.split())
    for _, sites, saw in tour.report["rows"]:
        assert sites.split(", ")[0] in flat
        assert saw.split()[0] in flat
    assert tour.out.count("-" * WIDTH) == len(tour.report["rows"])


def test_a_refused_path_is_not_asked_for(tour: Tour) -> None:
    assert sorted(tour.pages("shop.test")) == ["/", "/books"]
    assert tour.saw("shop.test") == "no requests below /admin/, 2 elsewhere"


def test_rules_for_the_agent_that_is_sent_are_obeyed(tour: Tour) -> None:
    assert sorted(tour.pages("museum.test")) == ["/", "/rooms"]
    assert all(seen["headers"]["User-Agent"].startswith("tourbot/") for seen in tour.log("museum.test"))


def test_a_site_whose_robots_txt_answers_503_sees_no_page_request(tour: Tour) -> None:
    assert tour.pages("library.test") == []
    assert len(tour.log("library.test")) == 3
    assert tour.saw("library.test") == "no page requests, robots.txt asked 3 times"


def test_the_target_of_a_redirect_out_of_scope_sees_nothing(tour: Tour) -> None:
    assert tour.pages("blog.test") == ["/"]
    assert tour.log("tracker.test") == []


def test_credentials_reach_the_site_they_were_meant_for_and_no_other(tour: Tour) -> None:
    (sent,) = [seen["headers"] for seen in tour.log("api.test") if seen["path"] == "/report"]
    assert sent["X-Api-Key"] == "not-for-others"
    assert sent["Authorization"] == "Bearer not-for-others"
    assert "session=not-for-others" in sent["Cookie"]
    assert tour.pages("files.test") == ["/report"]
    assert "not-for-others" not in json.dumps(tour.log("files.test"))


def test_a_loop_is_left_at_the_first_repetition(tour: Tour) -> None:
    assert tour.pages("maze.test") == ["/a", "/b"]
    assert [name for url, name in tour.report["failures"] if "//maze.test" in url] == ["RedirectLoop"]


def test_a_page_behind_a_cookie_wall_is_reached(tour: Tour) -> None:
    assert [seen["status"] for seen in tour.log("gallery.test") if seen["path"] == "/pictures"] == [302, 200]


def test_rests_of_the_crawl_delay_lie_between_all_requests(tour: Tour) -> None:
    log = tour.log("slow.test")
    assert [seen["path"] for seen in log][:2] == ["/robots.txt", "/"]
    assert sorted(seen["path"] for seen in log[2:]) == ["/1", "/2", "/3"]
    rests = [after["began"] - before["ended"] for before, after in itertools.pairwise(log)]
    assert min(rests) >= 0.98
    assert ", ".join(f"{rest:.2f}" for rest in rests) in tour.saw("slow.test")


def test_a_host_that_says_later_is_left_alone_and_then_served_to_the_end(tour: Tour) -> None:
    log = tour.log("busy.test")
    told = min(seen["ended"] for seen in log if seen["status"] == 429)
    assert [seen for seen in log if told < seen["began"] < told + 1.98] == []
    served = [seen["path"] for seen in log if seen["status"] == 200 and seen["path"] not in ("/", "/robots.txt")]
    assert sorted(served) == ["/1", "/2", "/3", "/4", "/5"]


def test_the_limit_of_requests_per_domain_is_exact(tour: Tour) -> None:
    assert len(tour.pages("calendar.test")) == 15


def test_an_external_provider_is_called_only_for_what_is_permitted_and_in_turn(tour: Tour) -> None:
    log = tour.log("studio.test")
    assert [seen["path"] for seen in log] == ["/robots.txt", "/", "/clips/1", "/clips/2"]
    assert "urllib" not in json.dumps(log)
    assert min(after["began"] - before["ended"] for before, after in itertools.pairwise(log)) >= 0.48
    assert [name for url, name in tour.report["failures"] if "//studio.test" in url] == ["RobotsDisallowed"]


def test_the_readme_shows_what_this_tour_saw(tour: Tour) -> None:
    shown = [(title, masked(ours)) for title, _, ours in readme_rows()]
    assert shown == [(title, masked(saw)) for title, _, saw in tour.report["rows"]]


def test_stock_scrapy_does_otherwise_at_the_stations_that_show_a_difference(stock: Tour) -> None:
    assert stock.code == 0
    assert stock.report["finish_reason"] == "finished"
    assert "stock Scrapy" in stock.out
    assert sorted(stock.pages("museum.test")) == ["/", "/archive/1", "/rooms"]
    assert sorted(stock.pages("library.test")) == ["/", "/a", "/b"]
    assert stock.pages("tracker.test") == ["/landing"]
    assert "not-for-others" in json.dumps(stock.log("files.test"))
    assert len(stock.pages("maze.test")) > 2
    assert [seen["status"] for seen in stock.log("gallery.test") if seen["path"] == "/pictures"] == [302]
    log = stock.log("busy.test")
    told = min(seen["ended"] for seen in log if seen["status"] == 429)
    assert [seen for seen in log if told < seen["began"] < told + 1.98]
    assert len(stock.pages("calendar.test")) == 61
    assert stock.pages("studio.test") == ["/", "/clips/1", "/private/clip", "/clips/2"]


def test_the_polite_spider_stays_on_its_site_and_says_what_was_refused_and_why(sites: Sites) -> None:
    site = sites()
    site.robots("User-agent: examplebot\nDisallow: /no\n")
    links = (
        f'<a href="/yes">y</a> <a href="/no">n</a> <a href="{site.url("/gone")}">g</a> <a href="http://b.test/">b</a>'
    )
    site.page("/", f"<html><body>{links}</body></html>")
    site.page("/yes", "<html><title>yes</title></html>")
    done = run_scrapy(["crawl", "polite", "-a", f"url={site.url('/')}"], PROJECT)
    assert done.returncode == 0, done.stderr
    assert sorted(seen.path for seen in site.log) == ["/", "/gone", "/robots.txt", "/yes"]
    assert f"{site.url('/')}: 2 pages (finished)" in done.stdout
    assert f"{site.url('/no')}: Forbidden by robots.txt: robots.txt line 2 (Disallow: /no" in done.stdout
    for category in ("robots_disallowed", "out_of_scope", "not_found"):
        assert f"     1  {category}" in done.stdout


@pytest.mark.parametrize("url", ["", "ftp://a.test/", "http://["])
def test_the_polite_spider_says_what_is_wrong_with_its_url(url: str) -> None:
    done = run_scrapy(["crawl", "polite", "-a", f"url={url}"], PROJECT)
    assert done.returncode != 0
    assert f"url={url!r}: say which site" in done.stderr
    assert "Traceback" not in done.stderr
