"""The core's promises, which surround every crawl and have no off switch, over each of Scrapy's HTTP
handlers.

A body is refused on its declared length, and cut off one byte past the limit where nothing (true) was
declared. The timeout covers the body. A status that nobody wanted is a response; an error means that there
was none.

The limits are Scrapy's own (DOWNLOAD_MAXSIZE, DOWNLOAD_TIMEOUT). Every promise is held with the add-on and
with stock Scrapy, so that a difference shows on which side it is.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pytest
from scrapy import Request
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.utils.reactor import is_asyncio_reactor_installed

import scrapy_scour
from scrapy_scour import compat
from tests.support.crawl import Result, crawl, sleep
from tests.support.site import (
    Answer,
    Seen,
    Sites,
    closed,
    dribble,
    hang,
    pem,
    raw,
    reset,
    truncated,
    unused_port,
)

HANDLERS = "scrapy.core.downloader.handlers"
LIMIT = 1000
TIMEOUT = 0.6


class Witness(Protocol):
    """What these tests need of a server; :class:`tests.support.site.Site` is one."""

    def url(self, path: str = "/") -> str: ...
    def answer(self, path: str, answer: Answer) -> None: ...
    def requests(self, path: str | None = None) -> list[Seen]: ...


@dataclass(frozen=True)
class Way:
    """One handler over one scheme. ``needs``: modules without which it does not run."""

    name: str
    scheme: str
    handler: str
    needs: tuple[str, ...] = ()
    asyncio_only: bool = False

    @property
    def missing(self) -> str | None:
        """Why this way cannot be tried here, None when it can."""
        module = f"{HANDLERS}.{self.handler.rpartition('.')[0]}"
        if importlib.util.find_spec(module) is None:
            return "this Scrapy has no such handler"
        for name in self.needs:
            if not any(importlib.util.find_spec(one) for one in name.split("|")):
                return f"{name} is not installed"
        if self.asyncio_only and not is_asyncio_reactor_installed():
            return "this handler needs the asyncio reactor"
        return None


AIOHTTP = {"handler": "_aiohttp.AiohttpDownloadHandler", "needs": ("aiohttp",), "asyncio_only": True}
HTTPX = {"handler": "_httpx.HttpxDownloadHandler", "needs": ("httpx2|httpx",), "asyncio_only": True}
WAYS = (
    Way("http11", "http", "http11.HTTP11DownloadHandler"),
    Way("http11", "https", "http11.HTTP11DownloadHandler"),
    Way("aiohttp", "http", **AIOHTTP),  # type: ignore[arg-type]
    Way("aiohttp", "https", **AIOHTTP),  # type: ignore[arg-type]
    Way("httpx", "http", **HTTPX),  # type: ignore[arg-type]
    Way("httpx", "https", **HTTPX),  # type: ignore[arg-type]
    Way("h2", "https", "http2.H2DownloadHandler", ("h2", "priority")),
)


@dataclass
class Trial:
    """A server to ask and the crawl that asks it, over one way and with or without the add-on."""

    way: Way
    site: Witness
    stock: bool
    settings: dict[str, Any] = field(default_factory=dict)

    async def crawl(self, *start: str | Request, **settings: Any) -> Result:
        handlers = {self.way.scheme: f"{HANDLERS}.{self.way.handler}"}
        values = {"DOWNLOAD_HANDLERS": handlers, "DOWNLOAD_MAXSIZE": LIMIT, **self.settings, **settings}
        return await crawl(list(start), values, stock=self.stock)

    async def seen(self, path: str) -> list[Seen]:
        """What the server saw of *path*, once every answer is settled."""
        deadline = time.monotonic() + 3
        while not all(one.settled for one in self.site.requests(path)) and time.monotonic() < deadline:
            await sleep(0.01)
        found = self.site.requests(path)
        assert all(one.settled for one in found)
        return found


@pytest.fixture(params=["stock", "addon"])
def stock(request: pytest.FixtureRequest) -> bool:
    if request.param == "addon" and not hasattr(scrapy_scour, "Addon"):
        pytest.skip("the package has no add-on")
    return bool(request.param == "stock")


@pytest.fixture(params=WAYS, ids=lambda way: f"{way.name}-{way.scheme}")
def trial(request: pytest.FixtureRequest, sites: Sites, stock: bool) -> Iterator[Trial]:
    way: Way = request.param
    if way.missing:
        pytest.skip(way.missing)
    if way.name == "h2":
        with_h2 = H2Site()
        yield Trial(way, with_h2, stock)
        with_h2.close()
    else:
        yield Trial(way, sites(tls=way.scheme == "https"), stock)


@pytest.fixture
def short(request: pytest.FixtureRequest, trial: Trial) -> Callable[[bool, str], None]:
    """Say where stock Scrapy falls short of a promise: the test must then fail on stock, and pass with the
    add-on."""

    def falls_short(here: bool, reason: str) -> None:
        if here and trial.stock:
            request.applymarker(pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason))

    return falls_short


def whole(result: Result, url: str, body: bytes) -> None:
    """Assert that this page arrived, once and with this body, and nothing went wrong."""
    assert result.page(url).body == body
    assert result.errors == []


def refused(result: Result, url: str) -> None:
    """Assert that no part of this page arrived and that its request failed once."""
    assert result.responses == []
    assert result.error(url)
    assert len(result.errors) == 1


async def test_a_declared_length_over_the_limit_costs_the_headers(trial: Trial) -> None:
    """A link to a video costs its headers: not one octet of the body leaves the server, and nobody asks
    again."""
    trial.site.answer("/video", Answer(b"v" * 100_000, declared=LIMIT + 99_000, body_delay=0.5))
    url = trial.site.url("/video")
    refused(await trial.crawl(url), url)
    (seen,) = await trial.seen("/video")
    assert seen.aborted
    assert seen.sent == 0


FRAMINGS: dict[str, Callable[[bytes], Answer]] = {
    "length": Answer,
    "chunked": lambda body: Answer(body, chunked=True, piece=300),
    "until close": lambda body: Answer(body, unframed=True),
    "gzip": lambda body: Answer(body, encoding="gzip"),
    "gzip chunked": lambda body: Answer(body, encoding="gzip", chunked=True, piece=7),
    "deflate": lambda body: Answer(body, encoding="deflate"),
    "br": lambda body: Answer(body, encoding="br"),
}


@pytest.mark.parametrize("framing", FRAMINGS)
async def test_exactly_the_limit_passes_and_one_byte_more_does_not(trial: Trial, framing: str) -> None:
    """A body of exactly the limit is a page; one byte more is none, however it is framed or compressed."""
    if framing == "br" and importlib.util.find_spec("brotli") is None:
        pytest.skip("brotli is not installed")
    trial.site.answer("/fits", FRAMINGS[framing](b"f" * LIMIT))
    trial.site.answer("/over", FRAMINGS[framing](b"o" * (LIMIT + 1)))
    fits, over = trial.site.url("/fits"), trial.site.url("/over")
    whole(await trial.crawl(fits), fits, b"f" * LIMIT)
    refused(await trial.crawl(over), over)
    assert len(await trial.seen("/over")) == 1


async def test_no_limit_is_zero(trial: Trial) -> None:
    """DOWNLOAD_MAXSIZE = 0 takes any body: the refusals of these tests come from the limit."""
    trial.site.answer("/", Answer(b"z" * 50_000, chunked=True))
    url = trial.site.url()
    whole(await trial.crawl(url, DOWNLOAD_MAXSIZE=0), url, b"z" * 50_000)


async def test_a_body_without_a_length_is_cut_off_at_the_limit(trial: Trial) -> None:
    """The read is bounded separately: a stream that declares nothing ends a few pieces after the limit."""
    endless = Answer(b"e" * 200_000, chunked=True, piece=200, pause=0.02)
    trial.site.answer("/endless", endless)
    url = trial.site.url("/endless")
    refused(await trial.crawl(url), url)
    (seen,) = await trial.seen("/endless")
    assert seen.aborted
    assert LIMIT < seen.sent < 20 * LIMIT


async def test_a_compressed_body_is_cut_off_at_the_limit(trial: Trial) -> None:
    """What crosses the wire is bounded also when it is compressed, before anything is unpacked."""
    import random

    noise = random.Random(1).randbytes(200_000)
    trial.site.answer("/noise", Answer(noise, encoding="gzip", chunked=True, piece=200, pause=0.02))
    url = trial.site.url("/noise")
    refused(await trial.crawl(url), url)
    (seen,) = await trial.seen("/noise")
    assert seen.aborted
    assert seen.sent < 20 * LIMIT


async def test_a_small_compressed_body_that_unpacks_to_a_large_one_is_refused(trial: Trial) -> None:
    """A hundred thousand times the limit in less than the limit of gzip is refused."""
    trial.site.answer("/bomb", Answer(b"\0" * 900_000, encoding="gzip"))
    url = trial.site.url("/bomb")
    assert len(Answer(b"\0" * 900_000, encoding="gzip").payload) < LIMIT
    refused(await trial.crawl(url), url)
    assert len(await trial.seen("/bomb")) == 1


async def test_a_head_request_is_no_download(trial: Trial, short: Callable[[bool, str], None]) -> None:
    """The length that an answer to HEAD declares is that of a body that never comes: it is a response."""
    short(
        trial.way.name != "http11",
        "the declared length is held against DOWNLOAD_MAXSIZE whatever the method",
    )
    trial.site.answer("/video", Answer(b"v" * (LIMIT * 5)))
    url = trial.site.url("/video")
    result = await trial.crawl(Request(url, method="HEAD"))
    whole(result, url, b"")
    assert result.page(url).response.headers["Content-Length"] == str(LIMIT * 5).encode()


SLOW: dict[str, Answer] = {
    "no answer": hang(),
    "late head": Answer("late", delay=TIMEOUT * 5),
    "late body": Answer("late", body_delay=TIMEOUT * 5),
    "dribbling": dribble(b"d" * 200, piece=5, pause=TIMEOUT / 6),
    "dribbling chunks": dribble(b"d" * 200, piece=5, pause=TIMEOUT / 6, chunked=True),
    "stops half way": Answer(b"half", declared=8, end="hang"),
}


@pytest.mark.parametrize("slow", SLOW)
async def test_the_timeout_covers_the_body(trial: Trial, slow: str, short: Callable[[bool, str], None]) -> None:
    """DOWNLOAD_TIMEOUT runs from the request to the last octet, and what arrived by then is no page."""
    short(
        trial.way.name == "httpx" and slow.startswith("dribbling"),
        "httpx applies its timeout to each read, not to the exchange",
    )
    trial.site.answer("/slow", SLOW[slow])
    url = trial.site.url("/slow")
    result = await trial.crawl(url, DOWNLOAD_TIMEOUT=TIMEOUT, RETRY_ENABLED=False)
    refused(result, url)
    assert "timeout" in type(result.error(url)).__name__.lower()
    (seen,) = await trial.seen("/slow")
    assert seen.aborted
    assert TIMEOUT * 0.9 <= (seen.ended or 0) - seen.at <= TIMEOUT + 1.2


class Untimed(HTTP11DownloadHandler):
    """A handler of the project's own that does not see to the timeout once the connection is there."""

    async def download_request(self, request: Request, *args: Any) -> Any:  # type: ignore[override]
        given, request.meta["download_timeout"] = request.meta["download_timeout"], 60

        def give_back() -> None:
            request.meta["download_timeout"] = given

        compat.later(0.05, give_back)  # by then the handler has read it
        return await super().download_request(request, *args)


@pytest.mark.parametrize("stock", [False, True], ids=["addon", "stock"])
async def test_the_timeout_covers_the_body_also_with_a_handler_that_does_not_see_to_it(
    sites: Sites, stock: bool
) -> None:
    site = sites()
    site.answer("/slow", dribble(b"d" * 13, piece=1, pause=TIMEOUT / 6))
    url = site.url("/slow")
    settings = {"DOWNLOAD_HANDLERS": {"http": Untimed}, "DOWNLOAD_TIMEOUT": TIMEOUT, "RETRY_ENABLED": False}
    result = await crawl(url, settings, stock=stock)
    if stock:
        whole(result, url, b"d" * 13)
        return
    refused(result, url)
    assert "timeout" in type(result.error(url)).__name__.lower()
    (seen,) = site.requests("/slow")
    site.settle()
    assert seen.aborted


async def test_a_slow_body_within_the_timeout_is_a_page(trial: Trial) -> None:
    """The timeouts of these tests come from the setting: the same body passes under a longer one."""
    trial.site.answer("/slow", dribble(b"d" * 10, piece=1, pause=0.05))
    url = trial.site.url("/slow")
    whole(await trial.crawl(url, DOWNLOAD_TIMEOUT=10), url, b"d" * 10)


STATUSES = (200, 201, 206, 304, 400, 401, 403, 404, 405, 406, 410, 418, 451, 500, 501, 502, 504, 599, 999)


async def test_a_status_that_nobody_wanted_is_a_response(trial: Trial) -> None:
    """Any final answer comes back once, with its status, headers and body: whether it is a failure the
    spider says."""
    for status in STATUSES:
        body = b"" if status == 304 else b"body of %d" % status
        trial.site.answer(f"/{status}", Answer(body, status, headers={"X-Status": str(status)}))
    asked = [Request(trial.site.url(f"/{status}"), meta={"handle_httpstatus_all": True}) for status in STATUSES]
    result = await trial.crawl(*asked, RETRY_ENABLED=False)
    assert result.errors == []
    assert {page.url: page.status for page in result.responses} == {
        trial.site.url(f"/{status}"): status for status in STATUSES
    }
    assert len(result.responses) == len(STATUSES)
    for page in result.responses:
        assert page.response.headers["X-Status"] == str(page.status).encode()
        assert page.body == (b"" if page.status == 304 else b"body of %d" % page.status)


BROKEN: dict[str, Answer] = {
    "reset": reset(),
    "closed": closed(),
    "nonsense": raw(b"this is no HTTP\r\n\r\n"),
    "half a head": raw(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "truncated": truncated(b"part", 100),
    "truncated chunks": Answer(b"part" * 20, chunked=True, piece=10, end="reset"),
}


async def test_an_error_means_that_there_was_no_response(trial: Trial) -> None:
    """No connection, no name, no answer, or not all of it: an error, once each, and never part of a page."""
    if trial.way.name == "h2":
        pytest.skip("the HTTP/2 server of these tests breaks no connection")
    for name, answer in BROKEN.items():
        trial.site.answer("/" + name.replace(" ", "-"), answer)
    asked = [trial.site.url("/" + name.replace(" ", "-")) for name in BROKEN]
    scheme = trial.way.scheme
    nowhere = [f"{scheme}://127.0.0.1:{unused_port()}/", f"{scheme}://unknown.test/"]
    result = await trial.crawl(*asked, *nowhere, RETRY_ENABLED=False)
    assert result.responses == []
    # robots.txt of a host that cannot be reached is no leave to ask it, with the add-on; an error in both
    assert sorted(failed.url for failed in result.errors) == sorted([*asked, *nowhere])


class H2Site:
    """A small witness that speaks HTTP/2 (Twisted's server, in the reactor of the test)."""

    def __init__(self) -> None:
        from twisted.internet import reactor, ssl
        from twisted.web.resource import Resource
        from twisted.web.server import NOT_DONE_YET
        from twisted.web.server import Site as TwistedSite

        self.log: list[Seen] = []
        self.routes: dict[str, Answer] = {}
        outer = self

        class Everything(Resource):
            isLeaf = True

            def render(self, request: Any) -> Any:
                outer.respond(request)
                return NOT_DONE_YET

        options = ssl.PrivateCertificate.loadPEM(pem()).options()
        self.listening = reactor.listenSSL(  # type: ignore[attr-defined]
            0, TwistedSite(Everything()), options, interface="127.0.0.1"
        )
        self.port = self.listening.getHost().port

    def url(self, path: str = "/") -> str:
        return f"https://127.0.0.1:{self.port}{path}"

    def answer(self, path: str, answer: Answer) -> None:
        self.routes[path] = answer

    def requests(self, path: str | None = None) -> list[Seen]:
        return [seen for seen in self.log if path is None or seen.path == path]

    def close(self) -> None:
        self.listening.stopListening()

    def respond(self, request: Any) -> None:
        from twisted.internet.defer import ensureDeferred

        seen = Seen(time.monotonic(), request.method.decode(), request.uri.decode())
        assert request.clientproto == b"HTTP/2"
        self.log.append(seen)
        answer = self.routes.get(seen.path) or Answer("not here", 404)

        def gone(_: Any) -> None:
            seen.aborted, seen.ended, seen.settled = True, time.monotonic(), True

        request.notifyFinish().addErrback(gone)
        ensureDeferred(self.write(request, seen, answer))

    async def write(self, request: Any, seen: Seen, answer: Answer) -> None:
        from twisted.internet import reactor
        from twisted.internet.task import deferLater

        async def rest(seconds: float) -> None:
            await deferLater(reactor, seconds)  # type: ignore[arg-type]

        if answer.silent:
            return
        await rest(answer.delay)
        if seen.aborted:
            return
        seen.status = answer.status
        request.setResponseCode(answer.status)
        answer = replace(answer, end="keep")
        for name, value in answer.head_lines():
            if name not in ("Transfer-Encoding", "Connection", "Date"):
                request.responseHeaders.addRawHeader(name.encode(), value)
        if seen.method == "HEAD":
            request.write(b"")
        request.write(b"")
        await rest(answer.body_delay)
        payload = b"" if seen.method == "HEAD" else answer.payload
        size = answer.piece or max(len(payload), 1)
        for at in range(0, len(payload), size):
            if at:
                await rest(answer.pause)
            if seen.aborted:
                return
            request.write(payload[at : at + size])
            seen.sent += len(payload[at : at + size])
        if answer.declared is None or answer.declared == len(payload):
            seen.ended, seen.settled = time.monotonic(), True
            request.finish()
