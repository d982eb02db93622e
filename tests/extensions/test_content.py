"""Answers of other media types end on their headers; what is no page of the spider, and no 2xx, is let alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from scrapy import Request, Spider, signals
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.pipelines.files import FilesPipeline

from scrapy_scour import FailureCategory, compat, failure_category
from scrapy_scour.exceptions import ContentTypeRefused
from scrapy_scour.job import job_of
from scrapy_scour.policy.content import media_type, wanted
from tests.support.crawl import Result, crawl, sleep
from tests.support.site import Answer, Site, Sites
from tests.test_core_promises import HANDLERS, WAYS, Way

HTML: Final = {"SCOUR_CONTENT_TYPES": ["text/html"]}
VIDEO: Final = {"Content-Type": "video/mp4"}
HUGE: Final = b"x" * 20_000_000

#: Content-Type fields, patterns, whether the answer is wanted. RFC 9110 8.3.
WANTED: Final[list[tuple[list[bytes], tuple[str, ...], bool]]] = [
    ([b"text/html"], ("text/html",), True),
    ([b"text/html; charset=utf-8"], ("text/html",), True),
    ([b"Text/HTML;charset=utf-8"], ("text/html",), True),
    ([b" text/html "], ("text/html",), True),
    ([b"text/html"], ("text/*",), True),
    ([b"text/html"], ("application/json", "text/*"), True),
    ([b"text/html"], ("application/json",), False),
    ([b"text/htmlx"], ("text/html",), False),
    ([b"textual/html"], ("text/*",), False),
    ([b"application/xhtml+xml"], ("text/html",), False),
    ([b"text/html, text/html"], ("text/html",), True),
    ([b"text/html", b"text/html"], ("text/html",), True),
    ([b"text/html", b"video/mp4"], ("text/html",), False),
    ([], ("text/html",), False),
    ([b""], ("text/html",), False),
    ([b";charset=utf-8"], ("text/*",), False),
    ([b"\xff\xfe\x00"], ("text/html",), False),
    ([], ("*/*",), True),
    ([b"video/mp4"], ("*/*",), True),
    ([], (), True),
    ([b"video/mp4"], (), True),
]


@pytest.mark.parametrize(("values", "patterns", "allowed"), WANTED)
def test_a_media_type_is_wanted_as_its_patterns_say(
    values: list[bytes], patterns: tuple[str, ...], allowed: bool
) -> None:
    verdict = wanted(values, patterns)
    assert bool(verdict) is allowed
    assert bool(verdict.reason) is not allowed
    assert len(verdict.reason) < 200
    assert verdict.reason.isprintable()


def test_a_media_type_is_read_without_its_parameters() -> None:
    assert media_type(b"Text/HTML ; charset=x") == "text/html"
    assert media_type("application/json") == "application/json"


async def read_of(site: Site, path: str) -> tuple[int, bool]:
    """How much of the body the server got rid of, and whether the client went away before the end."""
    for _ in range(100):
        (seen,) = site.requests(path)
        if seen.settled:
            break
        await sleep(0.02)
    return seen.sent, seen.aborted


#: Over HTTP/2 the witness cannot be asked; there the check is the same, on the headers of a stream.
WITNESSED: Final = [way for way in WAYS if way.name != "h2"]


@pytest.mark.parametrize("chunked", [False, True], ids=["declared", "chunked"])
@pytest.mark.parametrize("way", WITNESSED, ids=lambda way: f"{way.name}-{way.scheme}")
async def test_another_type_costs_the_headers(sites: Sites, way: Way, chunked: bool) -> None:
    if way.missing:
        pytest.skip(way.missing)
    site = sites(tls=way.scheme == "https")
    site.answer("/video", Answer(HUGE, headers=VIDEO, chunked=chunked))
    site.page("/page")
    settings = {**HTML, "DOWNLOAD_MAXSIZE": 0, "DOWNLOAD_HANDLERS": {way.scheme: f"{HANDLERS}.{way.handler}"}}
    result = await crawl([site.url("/video"), site.url("/page")], settings)
    sent, aborted = await read_of(site, "/video")
    assert aborted
    assert sent < len(HUGE) / 4
    error = result.error(site.url("/video"))
    assert isinstance(error, ContentTypeRefused)
    assert error.reason == "the content type is video/mp4 (SCOUR_CONTENT_TYPES)"
    assert error.url == site.url("/video")
    assert error.response is not None
    assert error.response.status == 200
    assert error.response.body == b""
    assert failure_category(error) is FailureCategory.INVALID_RESPONSE
    assert result.urls() == [site.url("/page")]
    assert result.stats["scour/outcome/invalid_response"] == 1 == result.stats["scour/outcomes"]
    assert len(site.requests("/video")) == 1
    assert result.tracebacks == []


async def test_stock_reads_all_of_it(site: Site) -> None:
    site.answer("/video", Answer(HUGE, headers=VIDEO))
    result = await crawl([site.url("/video")], {"DOWNLOAD_MAXSIZE": 0, "DOWNLOAD_WARNSIZE": 0}, stock=True)
    assert await read_of(site, "/video") == (len(HUGE), False)
    assert len(result.page(site.url("/video")).body) == len(HUGE)


async def test_other_statuses_redirects_heads_and_empty_answers_keep_their_meaning(site: Site) -> None:
    site.robots("User-agent: *\nDisallow: /no\n")  # text/plain
    json = {"Content-Type": "application/json"}
    site.page("/json", "{}", headers=json)
    site.redirect("/moved", "/json?2", headers=json)
    site.page("/gone", "<p>gone</p>", status=404, headers=VIDEO)
    site.sequence("/busy", [Answer("later", 429, {**VIDEO, "Retry-After": "0.2"}), Answer("{}", headers=json)])
    site.page("/head", headers=VIDEO)
    site.page("/empty", "", headers={"Content-Type": None})
    site.page("/void", "", status=204, headers={"Content-Type": None})
    site.page("/unnamed", "<p>x</p>", headers={"Content-Type": None})
    urls = [site.url(path) for path in ("/json", "/moved", "/gone", "/busy", "/empty", "/void", "/unnamed", "/no")]
    result = await crawl(
        [*urls, Request(site.url("/head"), method="HEAD")],
        {"SCOUR_CONTENT_TYPES": "application/json", "SCOUR_RETRY_WAITS": [0.2], "HTTPERROR_ALLOW_ALL": True},
    )
    assert set(result.urls()) == {
        site.url(path) for path in ("/json", "/json?2", "/gone", "/busy", "/empty", "/void", "/head")
    }
    assert result.page(site.url("/gone")).body == b"<p>gone</p>"
    assert len(site.requests("/busy")) == 2
    assert result.stats["scour/hold/retry_wait"] == 1
    assert isinstance(result.error(site.url("/unnamed")), ContentTypeRefused)
    assert failure_category(result.error(site.url("/no"))) is FailureCategory.ROBOTS_DISALLOWED


class Files(FilesPipeline):
    """Gets the files of an item; nothing is stored."""

    def get_media_requests(self, item: Any, info: Any) -> Iterator[Request]:
        for url in item["file_urls"]:
            yield Request(url)

    def media_downloaded(self, response: Any, request: Any, info: Any, *, item: Any = None) -> dict[str, Any]:
        return {"url": request.url, "path": "", "checksum": str(len(response.body)), "status": "downloaded"}


async def test_media_requests_are_of_any_type(site: Site, tmp_path: Path) -> None:
    site.page("/page")
    site.page("/film", b"film", headers=VIDEO)
    site.page("/direct", b"direct", headers=VIDEO)
    page, film, direct = (site.url(path) for path in ("/page", "/film", "/direct"))
    got: list[bytes] = []

    class Page(Spider):
        name = "page"

        async def start(self) -> AsyncIterator[Any]:
            yield Request(page)

        async def parse(self, response: Response) -> Any:
            answer = await self.crawler.engine.download_async(Request(direct, callback=NO_CALLBACK))
            got.append(answer.body)
            yield {"file_urls": [film]}

    result = await crawl(Page, {**HTML, "ITEM_PIPELINES": {Files: 1}, "FILES_STORE": str(tmp_path)})
    assert got == [b"direct"]
    assert [file["checksum"] for item in result.items for file in item["files"]] == ["4"]
    assert "scour/outcomes" not in result.stats


async def test_an_answer_from_a_cache_is_no_page_either(site: Site, tmp_path: Path) -> None:
    site.page("/video", b"film", headers=VIDEO)
    cache = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(tmp_path)}
    first = await crawl([site.url("/video")], cache)
    assert first.urls() == [site.url("/video")]
    second = await crawl([site.url("/video")], {**cache, **HTML})
    assert len(site.requests("/video")) == 1
    assert isinstance(second.error(site.url("/video")), ContentTypeRefused)
    assert second.stats["scour/outcome/invalid_response"] == 1


async def test_where_the_status_is_not_known_the_answer_is_judged_when_it_is_there(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compat, "status_of_headers", lambda: None)
    site.page("/video", b"film", headers=VIDEO)
    site.page("/gone", b"gone", status=404, headers=VIDEO)
    result = await crawl([site.url("/video"), site.url("/gone")], {**HTML, "HTTPERROR_ALLOW_ALL": True})
    error = result.error(site.url("/video"))
    assert isinstance(error, ContentTypeRefused)
    assert error.response is not None
    assert result.page(site.url("/gone")).body == b"gone"
    assert result.stats["scour/outcomes"] == 2


async def test_a_refused_type_is_no_failure_of_the_host(site: Site) -> None:
    site.page("/video", b"film" * 10_000, headers=VIDEO)
    site.sequence("/busy", [Answer("later", 429), Answer("yes")])
    site.page("/page*")
    result = await crawl(
        [site.url("/busy"), *(site.url(f"/video?{n}") for n in range(3)), *(site.url(f"/page{n}") for n in range(3))],
        {**HTML, "SCOUR_RETRY_WAITS": [0.2], "SCOUR_RETRY_BACKOFF": 30},
    )
    assert len(result.urls()) == 4
    assert result.stats["scour/outcome/invalid_response"] == 3
    assert "scour/hold/backoff" not in result.stats
    assert result.elapsed < 5


async def test_a_refused_type_is_answer_enough_after_a_hold(site: Site) -> None:
    site.page("/busy", status=429)
    site.page("/video*", b"film" * 10_000, headers=VIDEO)
    busy, videos = site.url("/busy"), [site.url(f"/video{n}") for n in range(2)]

    class AfterBusy(Spider):
        name = "after"

        async def start(self) -> AsyncIterator[Any]:
            yield Request(busy, meta={"dont_retry": True}, errback=self.go_on)

        def go_on(self, failure: Any) -> Iterator[Request]:
            yield from (Request(url, callback=self.parse) for url in videos)

        def parse(self, response: Response) -> None:
            raise AssertionError("none of them is a page")

    result = await crawl(AfterBusy, {**HTML, "SCOUR_RETRY_WAITS": [0.2]})
    assert result.stats["scour/outcome/invalid_response"] == len(videos)
    assert result.crawler is not None
    clock = job_of(result.crawler).pace.known("127.0.0.1")
    assert clock is not None
    assert clock.held_until > 0
    assert not clock.probing


def listeners(result: Result, signal: object) -> list[str]:
    assert result.crawler is not None
    said = result.crawler.signals.send_catch_log(
        signal, headers={}, body_length=0, request=Request("http://a.test/", callback=NO_CALLBACK), spider=result.spider
    )
    return [receiver.__qualname__ for receiver, _ in said]


async def test_without_the_setting_nothing_listens(site: Site) -> None:
    site.page("/page")
    ours = "ContentTypeExtension.headers_received"
    assert ours not in listeners(await crawl([site.url("/page")]), signals.headers_received)
    assert ours in listeners(await crawl([site.url("/page")], HTML), signals.headers_received)


async def test_the_transfer_of_several_sites_goes_on(sites: Sites) -> None:
    one, two = sites("127.0.0.1"), sites("127.0.0.2")
    for site in (one, two):
        site.answer("/video*", Answer(b"x" * 300_000, headers=VIDEO))
        site.page("/page*")
    urls = [site.url(f"/{kind}{n}") for n in range(10) for kind in ("video", "page") for site in (one, two)]
    result = await crawl(urls, HTML)
    assert sorted(result.urls()) == sorted(url for url in urls if "page" in url)
    assert result.stats["scour/outcome/invalid_response"] == 20 == result.stats["scour/outcomes"]
