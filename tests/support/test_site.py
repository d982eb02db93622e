"""The witness and the harness are themselves held to what the tests rely on."""

from __future__ import annotations

import gzip
import http.client
import socket
import ssl
import threading
import time
from typing import Any

import pytest

from tests.support import resolver
from tests.support.crawl import crawl, run_scrapy, write_project
from tests.support.site import (
    Answer,
    Seen,
    Site,
    Sites,
    closed,
    dribble,
    gaps,
    hang,
    max_in_flight,
    raw,
    redirect,
    reset,
    truncated,
    unused_port,
)


def get(site: Site, path: str = "/", timeout: float = 3.0, **options: Any) -> http.client.HTTPResponse:
    if site.tls:
        trusting = ssl._create_unverified_context()
        connection: Any = http.client.HTTPSConnection(site.address, site.port, timeout=timeout, context=trusting)
    else:
        connection = http.client.HTTPConnection(site.address, site.port, timeout=timeout)
    connection.request(options.pop("method", "GET"), path, **options)
    response: http.client.HTTPResponse = connection.getresponse()
    return response


@pytest.mark.parametrize("tls", [False, True])
def test_log_holds_what_was_asked_for(sites: Sites, tls: bool) -> None:
    """Method, raw path, headers, body, times and size of every request are in the log."""
    site = sites(tls=tls)
    site.page("/a", b"body")
    before = time.monotonic()
    response = get(site, "//a%2f?x=/y", method="POST", body=b"sent", headers={"X-Mine": "1"})
    assert response.status == 404
    assert get(site, "/a?q").read() == b"body"
    site.settle()
    first, second = site.requests()
    assert (first.method, first.path, first.body) == ("POST", "//a%2f?x=/y", b"sent")
    assert first.header("x-mine") == "1"
    assert first.host == f"127.0.0.1:{site.port}"
    assert (second.status, second.sent, second.connection) == (200, 4, 2)
    assert before <= first.at <= first.ended <= second.at <= second.ended <= time.monotonic()
    assert site.paths() == ["//a%2f?x=/y", "/a?q"]
    assert site.requests("/a?q") == [second]
    assert site.connections == 2


def test_keep_alive_uses_one_connection(site: Site) -> None:
    """Requests of one connection are told from connections."""
    connection = http.client.HTTPConnection(site.address, site.port, timeout=3)
    for _ in range(3):
        connection.request("GET", "/")
        connection.getresponse().read()
    assert site.connections == 1
    assert [seen.connection for seen in site.log] == [1, 1, 1]


def test_a_connection_without_a_request_is_counted(site: Site) -> None:
    """A host to which nothing may be sent shows even a bare connection."""
    socket.create_connection((site.address, site.port)).close()
    deadline = time.monotonic() + 2
    while not site.connections and time.monotonic() < deadline:
        time.sleep(0.01)
    assert site.connections == 1
    assert site.log == []


def test_sites_share_a_port_on_several_addresses(sites: Sites) -> None:
    """Separate hosts with one port number are separate witnesses."""
    a, b = sites.named("a.test", "b.test")
    assert a.port == b.port
    assert a.address != b.address
    assert a.url("/x") == f"http://a.test:{a.port}/x"
    get(b)
    assert (len(a.log), len(b.log)) == (0, 1)


def test_sequence_repeats_its_last_answer(site: Site) -> None:
    """A sequence answers in order, then the last for ever."""
    site.sequence("/", [Answer(status=503), "fine"])
    assert [get(site).status for _ in range(3)] == [503, 200, 200]


def test_routes_go_from_exact_to_prefix_to_default(site: Site) -> None:
    """Path with query, path, longest prefix, default."""
    site.page("/p?q=1", "query")
    site.page("/p", "path")
    site.page("/*", "short")
    site.page("/p/*", "long")
    asked = ["/p?q=1", "/p?q=2", "/p/1", "/other"]
    assert [get(site, path).read() for path in asked] == [b"query", b"path", b"long", b"short"]


def test_a_broken_route_fails_the_test(sites: Sites) -> None:
    """An exception in a route is not lost in a thread."""
    site = Site()
    site.route("/", lambda seen: 1 / 0)  # type: ignore[arg-type,return-value]
    assert get(site).status == 500
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        site.close()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (reset(), ConnectionResetError),
        (closed(), http.client.RemoteDisconnected),
        (truncated(b"12345", 5), http.client.IncompleteRead),
        (Answer(b"12345", declared=9, end="hang"), TimeoutError),
        (Answer(b"12345", chunked=True, end="reset"), (ConnectionResetError, http.client.IncompleteRead)),
        (raw(b"nonsense\r\n"), http.client.BadStatusLine),
        (hang(), TimeoutError),
    ],
    ids=["reset", "closed", "truncated", "declared more", "chunked reset", "raw", "hang"],
)
@pytest.mark.parametrize("tls", [False, True])
def test_broken_answers_break_as_named(sites: Sites, tls: bool, answer: Answer, error: Any) -> None:
    """Every special answer shows to a client as what it is called."""
    site = sites(tls=tls)
    site.answer("/", answer)
    if tls and error in (ConnectionResetError, http.client.RemoteDisconnected):
        error = (error, ssl.SSLError)
    with pytest.raises(error):
        get(site, timeout=0.3).read()
    assert len(site.log) == 1


def test_hanging_answers_do_not_hold_up_the_close() -> None:
    """Closing drops a connection that never gets an answer, and no thread stays that would hold up the
    exit."""
    others = set(threading.enumerate())
    site = Site()
    site.answer("/", hang())
    client = socket.create_connection((site.address, site.port), timeout=3)
    client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    while not site.log:
        time.sleep(0.01)
    before = time.monotonic()
    site.close()
    assert client.recv(1) == b""
    assert time.monotonic() - before < 1
    assert all(thread.daemon for thread in set(threading.enumerate()) - others)


def test_a_client_that_leaves_ends_the_answer(site: Site) -> None:
    """A dropped connection is seen as aborted, with the octets that had left by then."""
    site.answer("/hang", hang())
    site.answer("/drop", dribble(b"x" * 100, piece=10, pause=0.1))
    site.answer("/late", Answer(b"x" * 1_000_000, body_delay=0.3))
    for path in ("/hang", "/drop", "/late"):
        with socket.create_connection((site.address, site.port), timeout=3) as client:
            client.sendall(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode())
            time.sleep(0.15)
    site.settle()
    assert [seen.aborted for seen in site.requests()] == [True, True, True]
    assert site.requests("/late")[0].sent == 0
    assert 10 <= site.requests("/drop")[0].sent <= 30


def test_encoded_and_chunked_answers_arrive_whole(site: Site) -> None:
    """Compression and chunks are those of HTTP."""
    site.page("/gzip", b"z" * 9000, encoding="gzip")
    site.page("/chunks", b"c" * 9000, chunked=True)
    site.page("/unframed", b"u" * 9000, unframed=True)
    site.page("/big", b"b" * 3_000_000)
    zipped = get(site, "/gzip")
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(zipped.read()) == b"z" * 9000
    assert get(site, "/chunks").read() == b"c" * 9000
    assert get(site, "/unframed").read() == b"u" * 9000
    assert get(site, "/big").read() == b"b" * 3_000_000
    site.settle()
    assert site.requests("/big")[0].sent == 3_000_000


def test_headers_are_sent_as_given(site: Site) -> None:
    """Raw UTF-8 stands, a default can be replaced or dropped, order and repeats are kept."""
    site.answer("/", redirect("/ü/€", headers=[("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("Date", None)]))
    response = get(site)
    assert response.headers["Location"].encode("latin-1") == "/ü/€".encode()
    assert response.headers.get_all("Set-Cookie") == ["a=1", "b=2"]
    assert response.headers["Date"] is None
    assert response.headers["Content-Length"] == "0"


def test_gaps_count_from_the_end_of_the_answer() -> None:
    """A gap is what a host was left alone; overlapping requests have a negative one, also behind a long
    answer."""
    log = [
        Seen(0.0, "GET", "/", ended=5.0),
        Seen(1.0, "GET", "/", ended=2.0),
        Seen(8.0, "GET", "/", ended=9.0),
    ]
    assert gaps(log) == [-4.0, 3.0]
    assert max_in_flight(log) == 2
    assert max_in_flight([Seen(0.0, "GET", "/", ended=1.0), Seen(1.0, "GET", "/", ended=2.0)]) == 1


def test_slow_answers_are_measured(site: Site) -> None:
    """A delay shows as the length of the answer, not as a gap."""
    site.page("/slow", delay=0.2)
    get(site, "/slow").read()
    get(site, "/slow").read()
    site.settle()
    first, second = site.requests()
    assert first.ended is not None
    assert first.ended - first.at >= 0.2
    assert site.gaps()[0] == second.at - first.ended
    assert site.max_in_flight() == 1


# The resolver


def test_names_lead_only_where_the_test_said() -> None:
    """Mapped names, localhost and loopback literals of every spelling resolve; the rest does not, and
    strays are kept."""
    names = resolver.Resolver({"a.test": "127.0.0.5", "10.0.0.1": "127.0.0.6"})
    known = [
        "A.test",
        "a.test.",
        "10.0.0.1",
        "localhost",
        "x.localhost",
        "127.0.0.9",
        "2130706433",
        "0x7f.1",
        "::1",
    ]
    expected = ["127.0.0.5", "127.0.0.5", "127.0.0.6", "127.0.0.1", "127.0.0.1"]
    assert [names.addresses(name) for name in known[:5]] == [[address] for address in expected]
    assert [names.addresses(name) for name in known[5:]] == [
        ["127.0.0.9"],
        ["127.0.0.1"],
        ["127.0.0.1"],
        ["::1"],
    ]
    assert names.strays == []
    for name in ("b.test", "no.invalid", "example.com", "192.0.2.1"):
        assert names.addresses(name) == []
    assert names.strays == ["example.com", "192.0.2.1"]


# The harness


async def test_crawl_reports_pages_errors_and_log(sites: Sites) -> None:
    """Pages reach responses, failures reach errors, and the server saw robots.txt first."""
    a, b = sites.named("a.test", "b.test")
    a.robots("User-agent: *\nDisallow: /no")
    a.page("/yes", "yes")
    b.answer("/", reset())
    result = await crawl(
        [a.url("/yes"), a.url("/no"), b.url("/"), "http://gone.test/"], {"RETRY_ENABLED": False}, stock=True
    )
    assert result.page(a.url("/yes")).body == b"yes"
    assert type(result.error(a.url("/no"))).__name__ == "IgnoreRequest"
    assert len(result.errors) == 3
    assert result.finish_reason == "finished"
    assert result.stats["downloader/request_count"] == a.connections + len(result.errors) + 2
    assert a.paths() == ["/robots.txt", "/yes"]
    assert any("Overridden settings" in record.getMessage() for record in result.log)


async def test_crawl_follows_links_within_domains(sites: Sites) -> None:
    """The generic spider follows links, and leaves those outside its domains."""
    a, b = sites.named("a.test", "b.test")
    a.page("/", f'<a href="/1">1</a> <a href="{b.url("/")}">b</a>')
    a.page("/1", "one")
    result = await crawl(a.url("/"), stock=True, follow=True, domains=["a.test"])
    assert result.urls() == [a.url("/"), a.url("/1")]
    assert b.connections == 0


async def test_a_name_that_no_test_gave_fails_the_crawl() -> None:
    """Nothing leaves the machine unnoticed."""
    with pytest.raises(AssertionError, match=r"example\.com"):
        await crawl("http://example.com/", {"RETRY_ENABLED": False}, stock=True)


async def test_tracebacks_are_kept(site: Site) -> None:
    """An exception in a callback is in the result, with its traceback."""
    import scrapy

    class Broken(scrapy.Spider):
        name = "broken"
        start_urls = (site.url("/"),)
        handle_httpstatus_list = (404,)

        def parse(self, response: Any) -> None:
            raise ZeroDivisionError

    result = await crawl(Broken, stock=True)
    assert [record.exc_info[0] for record in result.tracebacks if record.exc_info] == [ZeroDivisionError]
    assert result.package_tracebacks == []


async def test_bad_set_up_raises() -> None:
    """A crawl that refuses to start raises its reason in the test."""
    with pytest.raises(ModuleNotFoundError):
        await crawl("http://a.test/", {"STATS_CLASS": "no_such_module.Stats"}, stock=True)


SPIDER = """
import scrapy

class One(scrapy.Spider):
    name = "one"

    async def start(self):
        yield scrapy.Request(self.url)

    def parse(self, response):
        yield {"body": response.text}
"""


def test_a_scrapy_process_crawls_named_sites(sites: Sites, tmp_path: Any) -> None:
    """A project of a test runs as a process of its own, over the same names."""
    (a,) = sites.named("a.test")
    a.page("/x", "from the site")
    project = write_project(tmp_path, SPIDER, "ROBOTSTXT_OBEY = True\n")
    done = run_scrapy(["crawl", "one", "-a", f"url={a.url('/x')}", "-O", "out.json"], project)
    assert done.returncode == 0, done.stderr
    assert a.paths() == ["/robots.txt", "/x"]
    assert "from the site" in (project / "out.json").read_text()
    assert run_scrapy(["crawl", "missing"], project).returncode != 0


def test_an_unused_port_refuses() -> None:
    """A closed port is a connection that is refused."""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", unused_port()), timeout=1)


SLOW_TESTS = """
import time
import pytest
from tests.support.crawl import crawl, sleep
from tests.support.site import Site, hang

@pytest.mark.deadline(0.5)
async def test_waits():
    await sleep(20)

@pytest.mark.deadline(0.5)
def test_blocks():
    time.sleep(20)

@pytest.mark.deadline(1)
async def test_hangs():
    with Site() as site:
        site.answer("/", hang())
        await crawl(site.url("/"), {"ROBOTSTXT_OBEY": False}, stock=True)

async def test_after():
    await sleep(0.01)

async def test_fails():
    await sleep(0.01)
    assert 1 == 2
"""


def test_a_test_that_hangs_fails_and_the_next_one_runs(request: pytest.FixtureRequest, tmp_path: Any) -> None:
    """The deadline fails a waiting, a blocking and a crawling test; a failing async test fails."""
    import subprocess
    import sys

    from tests.support.crawl import ROOT, process_environment

    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    (tmp_path / "test_slow.py").write_text(SLOW_TESTS)
    reactor = request.config.getoption("--reactor")
    command = [
        sys.executable,
        "-m",
        "pytest",
        f"--reactor={reactor}",
        "-q",
        "-rA",
        "--rootdir",
        str(tmp_path),
    ]
    began = time.monotonic()
    done = subprocess.run(
        [*command, "-c", "/dev/null", str(tmp_path / "test_slow.py")],
        cwd=ROOT, env=process_environment(), capture_output=True, text=True, timeout=25, check=False,
    )  # fmt: skip
    outcome = {
        line.split("::")[1].split()[0]: line.split()[0]
        for line in done.stdout.splitlines()
        if line.startswith(("PASSED", "FAILED", "ERROR"))
    }
    expected = {
        "waits": "FAILED",
        "blocks": "FAILED",
        "hangs": "FAILED",
        "after": "PASSED",
        "fails": "FAILED",
    }
    assert outcome == {f"test_{name}": verdict for name, verdict in expected.items()}, done.stdout
    assert time.monotonic() - began < 20
