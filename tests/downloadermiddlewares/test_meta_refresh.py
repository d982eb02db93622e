"""``<meta http-equiv="refresh">`` in real crawls: a hop like any other, or a page when it is none."""

from __future__ import annotations

from typing import Any, Final

import pytest
from scrapy import Request

from scrapy_scour.exceptions import OutOfScope, RedirectLoop
from tests.support.crawl import crawl
from tests.support.site import Answer, Sites, pages


def refresh(content: str, before: str = "") -> str:
    return f'<html><head>{before}<meta http-equiv="refresh" content="{content}"></head><body>text</body></html>'


#: The page, and where on the same site it leads; None: it is a page.
PAGES: Final[list[tuple[str, str, str | None]]] = [
    ("plain", refresh("0;url=/t1"), "/t1"),
    ("order", "<meta content='0; URL=/t2' http-equiv='Refresh'>", "/t2"),
    ("relative", refresh("1;url=t3"), "/dir/t3"),
    ("base", refresh("0;url=t4", before='<base href="/other/">'), "/other/t4"),
    ("spaces", refresh("0;url= /t 5 "), "/t%205"),
    ("quoted", refresh("0;url='/t6'"), "/t6"),
    ("no-script", f"<noscript>{refresh('0;url=/t7')}</noscript>", None),
    ("comment", f"<!-- {refresh('0;url=/t8')} -->", None),
    ("at the longest delay", refresh("100;url=/t9"), None),
    ("below it", refresh("99.5;url=/t10"), "/t10"),
    ("no url", refresh("5"), None),
    ("javascript", refresh("0;url=javascript:void(0)"), None),
    ("mailto", refresh("0;url=mailto:a@a.test"), None),
    ("ftp", refresh("0;url=ftp://a.test/x"), None),
    ("file", refresh("0;url=file:///etc/passwd"), None),
    ("broken address", refresh("0;url=http://[::1/"), None),
    ("broken base", refresh("0;url=t11", before='<base href="http://[">'), None),
    ("bad port", refresh("0;url=http://a.test:99999/"), None),
    ("no number", refresh("soon;url=/t12"), None),
]


async def test_a_refresh_is_a_hop_where_it_leads_and_a_page_where_it_does_not(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    for number, (_, html, _) in enumerate(PAGES):
        a.page(f"/dir/{number}", html)
    a.page("/*", "landed")
    result = await crawl([a.url(f"/dir/{number}") for number in range(len(PAGES))])
    ends = {page.meta.get("redirect_urls", [page.url])[0]: page.url for page in result.responses}
    for number, (name, _, target) in enumerate(PAGES):
        source = a.url(f"/dir/{number}")
        assert ends.get(source) == (source if target is None else a.url(target)), name
    assert set(pages(a)) == {target for _, _, target in PAGES if target} | {
        f"/dir/{number}" for number in range(len(PAGES))
    }
    assert result.errors == []
    assert result.package_tracebacks == []


async def test_the_answer_to_a_post_leads_to_a_get_without_the_body(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    a.page("/own", refresh("0;url=/landed"))
    a.page("/out", refresh(f"0;url={b.url('/landed')}"))
    headers = {"Content-Type": "text/x", "X-API-Key": "secret"}
    starts = [Request(a.url(path), method="POST", body=b"q=1", headers=headers) for path in ("/own", "/out")]
    await crawl(starts, {"HTTPERROR_ALLOW_ALL": True})
    for site, key in ((a, "secret"), (b, None)):
        (seen,) = site.requests("/landed")
        assert (seen.method, seen.body, seen.header("Content-Type")) == ("GET", b"", None)
        assert seen.header("X-API-Key") == key
        assert seen.header("Referer") == (a.url("/own") if site is a else a.url("/"))


async def test_what_is_no_html_page_is_not_read(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    html = refresh("0;url=/landed")
    a.page("/head", html)
    a.page("/text", html, headers={"Content-Type": "text/plain"})
    starts = [Request(a.url("/head"), method="HEAD"), Request(a.url("/text"))]
    result = await crawl(starts)
    assert sorted(result.urls()) == [a.url("/head"), a.url("/text")]
    assert "/landed" not in a.paths()


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_a_compressed_page_is_read(sites: Sites, coding: Any) -> None:
    a, b = sites.named("a.test", "b.test")
    a.answer("/", Answer(refresh(f"0;url={b.url('/')}"), encoding=coding))
    result = await crawl([a.url("/")], domains=["a.test"])
    assert isinstance(result.error(a.url("/")), OutOfScope)
    assert b.connections == 0


async def test_pages_that_refresh_in_a_circle_end_as_a_loop(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    a.page("/1", refresh("0;url=/2"))
    a.page("/2", refresh("0;url=/1"))
    a.redirect("/mixed", "/mixed-2")
    a.page("/mixed-2", refresh("0;url=/mixed"))
    result = await crawl([Request(a.url(path)) for path in ("/1", "/mixed")])
    assert sorted(pages(a)) == ["/1", "/2", "/mixed", "/mixed-2"]
    for source, trail in (
        ("/2", ("/1", "/2", "/1")),
        ("/mixed-2", ("/mixed", "/mixed-2", "/mixed")),
    ):
        error = result.error(a.url(source))
        assert isinstance(error, RedirectLoop)
        assert error.trail == tuple(a.url(path) for path in trail)
    assert result.stats["scour/outcome/redirect_loop"] == 2


async def test_a_refresh_is_seen_in_every_coding_of_the_page(sites: Sites) -> None:
    """Also where the word cannot be read off the octets, in UTF-16."""
    (a,) = sites.named("a.test")
    html = {"Content-Type": "text/html"}
    a.page("/utf-16", refresh("0;url=/2").encode("utf-16"), headers={"Content-Type": "text/html; charset=utf-16"})
    a.page("/upper", refresh("0;url=/3").upper().replace("URL=/3", "url=/3"), headers=html)
    a.page("/far", refresh("0;url=/4").rjust(4096), headers=html)
    for path in ("/2", "/3", "/4"):
        a.page(path, "page")
    result = await crawl([Request(a.url(path)) for path in ("/utf-16", "/upper", "/far")])
    assert sorted(result.urls()) == [a.url(path) for path in ("/2", "/3", "/4")]


async def test_a_page_that_reloads_itself_is_the_page(sites: Sites) -> None:
    """Nothing new is behind such a refresh: it is not asked for again, and the spider gets what there is."""
    (a,) = sites.named("a.test")
    a.page("/self", refresh("30;url=/self"))
    a.page("/empty", refresh("5;url="))  # itself (HTML, "shared declarative refresh steps")
    start = [Request(a.url(path)) for path in ("/self", "/empty")]
    result = await crawl(start)
    assert sorted(result.urls()) == [a.url("/empty"), a.url("/self")]
    assert sorted(pages(a)) == ["/empty", "/self"]
    stock = await crawl(start, stock=True)
    assert stock.urls() == []  # the reload is a duplicate, and so nothing is left


async def test_a_page_that_refreshes_to_itself_after_a_cookie_is_had_once(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    waiting = Answer(refresh("0;url=/self"), headers={"Set-Cookie": "seen=1"})
    a.route("/self", lambda seen: "behind the wall" if seen.header("Cookie") else waiting)
    result = await crawl([Request(a.url("/self"))])
    assert [page.body for page in result.responses] == [b"behind the wall"]
    assert pages(a) == ["/self", "/self"]

    stock = await crawl([Request(a.url("/self"))], stock=True)
    assert (stock.responses, stock.errors) == ([], [])


async def test_the_time_that_the_page_asked_for_is_said(sites: Sites) -> None:
    (a,) = sites.named("a.test")
    a.page("/", refresh("60;url=/landed"))
    a.page("/landed", "page")
    result = await crawl([a.url("/")])
    assert result.responses[0].meta["redirect_reasons"] == ["meta refresh"]
    assert any("meta refresh after 60 s" in text for text in result.messages(0, "scrapy_scour"))


@pytest.mark.parametrize(
    ("values", "followed"),
    [
        ({"METAREFRESH_ENABLED": False}, False),
        ({"METAREFRESH_MAXDELAY": 5}, False),
        ({"METAREFRESH_IGNORE_TAGS": ["head"]}, False),
        ({}, True),
    ],
)
async def test_scrapys_settings_keep_their_meaning(sites: Sites, values: dict[str, Any], followed: bool) -> None:
    (a,) = sites.named("a.test")
    a.page("/", refresh("5;url=/landed"))
    a.page("/landed", "page")
    result = await crawl([a.url("/")], values)
    assert result.urls() == [a.url("/landed" if followed else "/")]
