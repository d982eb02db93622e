"""What a redirect takes along: everything on the same host, nothing that is meant for one host to another."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest
import scrapy
from scrapy import Request, Spider
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.http import Response

from scrapy_scour.exceptions import RedirectRefused
from tests.support.crawl import Result, crawl
from tests.support.site import Answer, Seen, Site, Sites, redirect

SECRETS = {
    "Authorization": "Bearer secret",
    "Cookie": "s=secret",
    "X-Api-Key": "secret",
    "X-Auth-Token": "secret",
    "Api-Key": "secret",
    "Origin": "http://secret.test",
}
HARMLESS = {"Accept": "text/x", "Accept-Language": "eo", "User-Agent": "OwnBot/2.0"}
#: A Cookie header of the request's own is sent only where Scrapy's jar is out of it.
OWN_COOKIE = {"dont_merge_cookies": True}
HAS_AUTH_SETTINGS = hasattr(scrapy.settings.default_settings, "HTTPAUTH_DOMAIN")


def secrets_in(seen: Seen) -> dict[str, str]:
    """The headers (and the path) in which something secret came."""
    found = {name: value for name, value in seen.headers if "secret" in value}
    return {**found, "path": seen.path} if "secret" in seen.path else found


def only(site: Site, path: str) -> Seen:
    found = site.requests(path)
    assert len(found) == 1, site.paths()
    return found[0]


# Headers


async def test_only_harmless_headers_go_to_another_host(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    other_port = sites("127.0.0.9")
    for number, status in enumerate((301, 302, 303, 307, 308)):
        a.redirect(f"/{status}", b.url(f"/{status}"), status)
        b.redirect(f"/{status}", f"/again-{status}", status)
        b.page(f"/again-{status}", str(number))
    a.redirect("/port", f"http://a.test:{other_port.port}/port")
    other_port.page("/*", "port")
    starts = [Request(a.url(f"/{status}"), headers={**SECRETS, **HARMLESS}, meta=OWN_COOKIE)
              for status in (301, 302, 303, 307, 308)]  # fmt: skip
    result = await crawl(starts)
    assert len(result.responses) == 5
    assert all(set(secrets_in(a_page)) == set(SECRETS) for a_page in a.requests() if a_page.path != "/robots.txt")
    for seen in b.requests():
        assert secrets_in(seen) == {}, seen.path
    for status in (301, 302, 303, 307, 308):
        for path in (f"/{status}", f"/again-{status}"):
            seen = only(b, path)
            assert {name: seen.header(name) for name in HARMLESS} == HARMLESS

    stock = await crawl(starts[:1], stock=True)
    assert stock.responses
    assert {"X-Api-Key", "Api-Key"} <= {name.title() for name in secrets_in(b.requests("/301")[-1])}


async def test_another_port_or_plain_http_is_another_host(sites: Sites) -> None:
    a = sites("127.0.3.1", tls=True, name="a.test")
    plain, secure = sites("127.0.3.1"), sites("127.0.3.1", tls=True)
    a.redirect("/plain", f"http://a.test:{plain.port}/x")
    a.redirect("/port", f"https://a.test:{secure.port}/x")
    for site in (plain, secure):
        site.page("/x", "x")
    starts = [Request(a.url(path), headers={**SECRETS, "Referer": "https://secret.test/"}, meta=OWN_COOKIE)
              for path in ("/plain", "/port")]  # fmt: skip
    result = await crawl(starts, {"REFERRER_POLICY": "unsafe-url"})
    assert len(result.responses) == 2
    for site in (plain, secure):
        assert secrets_in(only(site, "/x")) == {}
    assert only(plain, "/x").header("Referer") is None  # from https to http (RFC 9110 10.1.3)

    await crawl(starts, stock=True)
    assert "Api-Key" in secrets_in(plain.requests("/x")[-1])


async def test_on_the_same_host_everything_is_kept(sites: Sites) -> None:
    """Or a login would not survive the redirect that every login ends with."""
    (a,) = sites.named("a.test")
    a.redirect("/in", "/home")
    a.redirect("/307", "/take", 307)
    a.page("/home", "home")
    a.page("/take", "took")
    headers = {**SECRETS, **HARMLESS, "Host": "virtual.test", "Content-Type": "text/x"}
    starts = [
        Request(a.url("/in"), headers=headers, meta=OWN_COOKIE),
        Request(a.url("/307"), method="POST", body=b"b=1", headers=headers, meta=OWN_COOKIE),
    ]
    await crawl(starts)
    home, take = only(a, "/home"), only(a, "/take")
    assert set(secrets_in(home)) == set(secrets_in(take)) == set(SECRETS)
    assert home.host == take.host == "virtual.test"
    assert home.header("Accept-Language") == "eo"
    assert (take.method, take.body, take.header("Content-Type")) == ("POST", b"b=1", "text/x")


class Gateway(HTTP11DownloadHandler):
    """Takes the default ports of a.test to where the test's sites really listen."""

    plain: Site
    secure: Site

    async def download_request(self, request: Request, *args: Any) -> Response:  # type: ignore[override]
        site = self.secure if request.url.startswith("https://a.test/") else self.plain
        path = request.url.partition("a.test")[2]
        response: Response = await super().download_request(request.replace(url=site.url(path)), *args)
        return response.replace(url=request.url)


async def test_from_http_to_https_on_the_default_ports_is_the_same_host_and_back_is_not(sites: Sites) -> None:
    plain, secure = sites("127.0.3.1"), sites("127.0.3.1", tls=True)
    plain.redirect("/up", "https://a.test/up")
    secure.page("/up", "up")
    secure.redirect("/down", "http://a.test/down")
    plain.page("/down", "down")

    class Here(Gateway):
        pass

    Here.plain, Here.secure = plain, secure
    settings = {"DOWNLOAD_HANDLERS": {"http": Here, "https": Here}}
    starts = [Request(url, headers=SECRETS, meta=OWN_COOKIE) for url in ("http://a.test/up", "https://a.test/down")]
    result = await crawl(starts, settings, domains=["a.test"])
    assert sorted(result.urls()) == ["http://a.test/down", "https://a.test/up"]
    assert set(secrets_in(only(secure, "/up"))) == set(SECRETS)
    assert secrets_in(only(plain, "/down")) == {}


async def test_what_the_project_adds_to_every_request_stays_off_hosts_that_a_redirect_chose(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    a.redirect("/", b.url("/1"))
    a.page("/robots.txt", "")
    b.redirect("/1", "/2")
    b.page("/2", "page")
    b.page("/asked", "page")
    headers = {"X-API-Key": "secret", "Api-Key": "secret", "Accept-Language": "eo"}
    settings = {"DEFAULT_REQUEST_HEADERS": headers}
    await crawl([a.url("/")], settings)
    assert len(secrets_in(only(a, "/"))) == 2
    assert b.paths() == ["/robots.txt", "/1", "/2"]
    assert [secrets_in(seen) for seen in b.requests()] == [{}, {}, {}]
    assert only(b, "/1").header("Accept-Language") == "eo"

    asked = await crawl([b.url("/asked")], settings)
    assert asked.responses
    assert len(secrets_in(only(b, "/asked"))) == 2  # the spider itself chose this host

    await crawl([a.url("/")], settings, stock=True)
    assert len(secrets_in(b.requests("/1")[-1])) == 2


async def test_a_robots_txt_that_lives_elsewhere_gets_nothing_of_the_projects_headers(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    a.redirect("/robots.txt", b.url("/r.txt"))
    a.page("/", "page")
    b.page("/r.txt", "User-agent: *\nDisallow: /none")
    settings = {"DEFAULT_REQUEST_HEADERS": {"X-API-Key": "secret"}}
    result = await crawl([a.url("/")], settings)
    assert result.urls() == [a.url("/")]
    assert secrets_in(only(b, "/r.txt")) == {}
    assert len(secrets_in(only(a, "/robots.txt"))) == 1


async def test_the_headers_that_may_leave_the_host_are_a_setting(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    a.redirect("/", b.url("/1"))
    b.page("/1", "page")
    settings = {"SCOUR_REDIRECT_SAFE_HEADERS": ["X-Team", "User-Agent"], "DEFAULT_REQUEST_HEADERS": {"X-Team": "blue"}}
    await crawl([Request(a.url("/"), headers={**SECRETS, "Accept-Language": "eo"})], settings)
    seen = only(b, "/1")
    assert seen.header("X-Team") == "blue"
    assert seen.header("Accept-Language") is None
    assert secrets_in(seen) == {}


# Meta that is copied, and exemptions


class Copier(Spider):
    """Asks both hosts for more, with the meta of the page that a redirect led to."""

    name = "copier"

    def __init__(self, a: Site, b: Site, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.a, self.b = a, b

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.a.url("/out"))

    def parse(self, response: Response) -> Any:
        yield Request(self.a.url("/api"), meta=response.meta, callback=self.done, dont_filter=True)

    def done(self, response: Response) -> None:
        """Nothing more."""


async def test_meta_that_a_callback_copies_takes_no_headers_from_its_own_requests(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    a.redirect("/out", b.url("/"))
    a.redirect("/api", "/out-2")
    a.page("/out-2", "page")
    b.page("/", "page")
    await crawl(Copier, {"DEFAULT_REQUEST_HEADERS": {"X-API-Key": "secret"}}, spider_args={"a": a, "b": b})
    assert len(secrets_in(only(a, "/api"))) == 1
    assert len(secrets_in(only(a, "/out-2"))) == 1
    assert secrets_in(only(b, "/")) == {}


async def test_exemptions_from_robots_txt_stay_on_the_host_they_were_given_for(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    for site in (a, b):
        site.robots("User-agent: *\nDisallow: /")
    a.redirect("/own", "/landed")
    a.page("/landed", "page")
    a.redirect("/out", b.url("/x"))
    requests = [Request(a.url(path), meta={"dont_obey_robotstxt": True}) for path in ("/own", "/out")]
    result = await crawl(requests)
    assert result.urls() == [a.url("/landed")]
    assert b.paths() == ["/robots.txt"]
    await crawl(requests, {"ROBOTSTXT_OBEY": True}, stock=True)
    assert len(b.requests("/x")) == 1


# Credentials of Scrapy's own


class Authenticated(Spider):
    """Spider-wide basic auth, as a class attribute."""

    name = "authenticated"
    http_user = "user"
    http_pass = "secret"

    def __init__(self, urls: list[str], domain: str | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.urls = urls
        self.http_auth_domain = domain

    async def start(self) -> AsyncIterator[Any]:
        for url in self.urls:
            yield Request(url, dont_filter=True)

    def parse(self, response: Response) -> None:
        """Nothing more."""


BASIC = "Basic " + base64.b64encode(b"user:secret").decode()


@pytest.mark.filterwarnings("ignore::scrapy.exceptions.ScrapyDeprecationWarning")
@pytest.mark.parametrize("for_everybody", [False, True])
async def test_spider_wide_basic_auth_never_goes_where_a_redirect_leads(sites: Sites, for_everybody: bool) -> None:
    a, b = sites.named("a.test", "b.test")
    domain = None if for_everybody else a.netloc  # Scrapy compares it with the port
    a.redirect("/", b.url("/1"))
    a.redirect("/own", "/2")
    a.page("/2", "page")
    b.redirect("/1", "/2")
    b.page("/2", "page")
    await crawl(Authenticated, spider_args={"urls": [a.url("/"), a.url("/own")], "domain": domain})
    assert [only(a, path).header("Authorization") for path in ("/", "/own", "/2")] == [BASIC] * 3
    assert b.paths() == ["/robots.txt", "/1", "/2"]
    assert [seen.header("Authorization") for seen in b.requests()] == [None] * 3

    if for_everybody:
        await crawl(Authenticated, spider_args={"urls": [a.url("/")], "domain": None}, stock=True)
        assert b.requests("/1")[-1].header("Authorization") == BASIC
        await crawl(Authenticated, spider_args={"urls": [b.url("/asked")], "domain": None})
        assert only(b, "/asked").header("Authorization") == BASIC  # the spider itself asked


@pytest.mark.filterwarnings("ignore::scrapy.exceptions.ScrapyDeprecationWarning")
async def test_basic_auth_for_a_domain_goes_to_every_host_of_that_domain(sites: Sites) -> None:
    a, b = sites.named("a.own.test", "b.own.test")
    a.redirect("/", b.url("/1"))
    b.page("/1", "page")
    await crawl(Authenticated, spider_args={"urls": [a.url("/")], "domain": f"own.test:{a.port}"})
    assert only(b, "/1").header("Authorization") == BASIC


@pytest.mark.skipif(not HAS_AUTH_SETTINGS, reason="this Scrapy has no HTTPAUTH_* settings")
@pytest.mark.parametrize("for_everybody", [False, True])
async def test_basic_auth_from_the_settings_never_goes_where_a_redirect_leads(
    sites: Sites, for_everybody: bool
) -> None:
    a, b = sites.named("a.test", "b.test")
    a.redirect("/", b.url("/1"))
    b.page("/1", "page")
    domain = None if for_everybody else a.netloc
    settings = {"HTTPAUTH_USER": "user", "HTTPAUTH_PASS": "secret", "HTTPAUTH_DOMAIN": domain}
    await crawl([a.url("/")], settings)
    assert only(a, "/").header("Authorization") == BASIC
    assert [seen.header("Authorization") for seen in b.requests()] == [None, None]
    meta = {"http_user": "user", "http_pass": "secret"}
    again = await crawl([Request(a.url("/"), meta=meta)])
    assert again.responses
    assert a.requests("/")[-1].header("Authorization") == BASIC
    assert b.requests("/1")[-1].header("Authorization") is None


# Cookies


async def test_cookies_of_the_first_host_stay_there_and_those_of_the_target_go(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    b.page("/first", "page", headers={"Set-Cookie": "b=own"})
    b.page("/landed", "page")
    a.redirect("/", b.url("/landed"), headers={"Set-Cookie": "new=secret"})

    class InOrder(Spider):
        name = "in_order"

        async def start(self) -> AsyncIterator[Any]:
            yield Request(b.url("/first"))

        def parse(self, response: Response) -> Any:
            if response.url == b.url("/first"):
                yield Request(a.url("/"), cookies={"a": "secret"}, headers={"Cookie": "c=secret"})

    await crawl(InOrder)
    assert only(a, "/").header("Cookie") == "a=secret"
    assert only(b, "/landed").header("Cookie") == "b=own"


async def test_a_cookie_that_the_user_gave_for_https_is_not_sent_over_http(sites: Sites) -> None:
    secure = sites("127.0.3.1", tls=True, name="a.test")
    plain = sites("127.0.3.1")
    secure.redirect("/", f"http://a.test:{plain.port}/x")
    plain.page("/x", "x")
    await crawl([Request(secure.url("/"), cookies={"a": "1"})])
    assert only(secure, "/").header("Cookie") == "a=1"
    assert only(plain, "/x").header("Cookie") is None


# The body


async def test_a_body_never_goes_to_another_host(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    cases = [(status, method) for status in (301, 302, 303, 307, 308) for method in ("POST", "PUT")]
    for status, method in cases:
        a.redirect(f"/{status}{method}", b.url(f"/{status}{method}"), status)
    b.page("/*", "page")
    starts = [Request(a.url(f"/{status}{method}"), method=method, body=b"token=secret",
                      headers={"Content-Type": "text/x", "Digest": "secret"})
              for status, method in cases]  # fmt: skip
    result = await crawl(starts)
    assert sorted(seen.path for seen in b.requests() if seen.path != "/robots.txt") == sorted(
        f"/{status}{method}" for status, method in cases if status < 307
    )
    for seen in b.requests():
        assert (seen.method, seen.body) == ("GET", b""), seen.path
        assert seen.header("Content-Type") is seen.header("Content-Length") is seen.header("Digest") is None
    refused = [failed.error for failed in result.errors]
    assert [type(error) for error in refused] == [RedirectRefused] * 4
    assert all("body" in str(error) for error in refused)
    assert result.stats["scour/outcome/redirect_refused"] == 4

    await crawl([Request(a.url("/307POST"), method="POST", body=b"token=secret")], stock=True)
    assert b.requests("/307POST")[-1].body == b"token=secret"


async def test_a_body_goes_to_another_host_where_the_project_says_so(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    a.redirect("/", b.url("/1"), 307)
    b.page("/1", "page")
    start = Request(a.url("/"), method="POST", body=b"q=1", headers={**SECRETS, "Content-Type": "text/x"})
    await crawl([start], {"SCOUR_REDIRECT_BODY_OFF_HOST": True})
    seen = only(b, "/1")
    assert (seen.method, seen.body, seen.header("Content-Type")) == ("POST", b"q=1", "text/x")
    assert secrets_in(seen) == {}


# Referer


async def referers(sites: Sites, settings: dict[str, Any] | None = None, answer: dict[str, str] | None = None) -> Any:
    a, b = sites.named("a.test", "b.test")
    headers = answer or {}
    a.answer("/p?token=1", redirect(b.url("/1"), headers=headers))
    a.answer("/own?token=1", redirect("/2", headers=headers))
    a.page("/2", "page")
    b.page("/1", "page")
    starts = [
        Request(a.url(path), headers={"Referer": "http://secret.test/"}) for path in ("/p?token=1", "/own?token=1")
    ]
    await crawl(starts, settings)
    return a, only(b, "/1").header("Referer"), only(a, "/2").header("Referer")


async def test_across_hosts_the_referer_is_at_most_the_origin(sites: Sites) -> None:
    a, across, own = await referers(sites)
    assert across == a.url("/")
    assert own == a.url("/own?token=1")


@pytest.mark.parametrize(
    ("settings", "answer", "across"),
    [
        ({"REFERRER_POLICY": "no-referrer"}, None, None),
        ({"REFERRER_POLICY": "same-origin"}, None, None),
        ({"REFERRER_POLICY": "unsafe-url"}, None, "origin"),
        ({}, {"Referrer-Policy": "no-referrer"}, None),
        ({}, {"Referrer-Policy": "unsafe-url"}, "origin"),
        ({}, {"Referrer-Policy": "what?"}, "origin"),
        ({"REFERER_ENABLED": False}, None, None),
    ],
)
async def test_the_referrer_policy_is_kept_for_each_hop(
    sites: Sites, settings: dict[str, Any], answer: dict[str, str] | None, across: str | None
) -> None:
    a, found, _ = await referers(sites, settings, answer)
    assert found == (a.url("/") if across else None)


# User names and passwords in URLs


async def test_a_password_in_a_location_is_neither_sent_nor_said(sites: Sites) -> None:
    a, b = sites.named("a.test", "b.test")
    a.redirect("/", f"http://u:secret@{b.netloc}/1")
    b.redirect("/1", f"//u:secret@{a.netloc}/2")
    a.page("/2", "page")
    a.redirect("/out", "http://u:secret@c.test/")
    a.redirect("/bad", "http://u:secret@c.test:x/")
    a.redirect("/ftp", "ftp://u:secret@c.test/")
    result: Result = await crawl([a.url(p) for p in ("/", "/out", "/bad", "/ftp")], domains=["a.test", "b.test"])
    assert result.urls() == [a.url("/2")]
    assert result.responses[0].meta["redirect_urls"] == [a.url("/"), b.url("/1")]
    assert [secrets_in(seen) for site in (a, b) for seen in site.requests()] == [{}] * (len(a.log) + len(b.log))
    assert len(result.errors) == 3
    assert not [text for text in result.messages(0) if "secret" in text]
    assert not [failed for failed in result.errors if "secret" in str(failed.error) + str(failed.error.__dict__)]


class WithoutUserinfo(HTTP11DownloadHandler):
    """Asks for a URL with a user name as other HTTP clients do; Scrapy's own handler cannot."""

    async def download_request(self, request: Request, *args: Any) -> Response:  # type: ignore[override]
        bare = request.replace(url=request.url.replace("u:secret@", ""))
        response: Response = await super().download_request(bare, *args)
        return response.replace(url=request.url)


@pytest.mark.parametrize("handler", [WithoutUserinfo, HTTP11DownloadHandler])
async def test_a_password_in_the_first_url_does_not_travel(sites: Sites, handler: type) -> None:
    a, b = sites.named("a.test", "b.test")
    a.redirect("/x", "/y")
    a.page("/y", "page")
    a.redirect("/out", b.url("/1"))
    b.page("/1", "page")
    starts = [f"http://u:secret@{a.netloc}{path}" for path in ("/x", "/out")]
    result = await crawl(starts, {"DOWNLOAD_HANDLERS": {"http": handler}})
    if handler is WithoutUserinfo:
        assert sorted(result.urls()) == sorted([a.url("/y"), b.url("/1")])
        assert [page.meta["redirect_urls"] for page in result.responses if page.url == a.url("/y")] == [[a.url("/x")]]
        assert only(a, "/y").header("Referer") == a.url("/x")
        assert "secret" not in str([page.meta for page in result.responses])
    else:
        assert len(result.errors) == 2
    assert [secrets_in(seen) for site in (a, b) for seen in site.requests()] == [{}] * (len(a.log) + len(b.log))
    assert not [text for text in result.messages(0, "scrapy_scour") if "secret" in text]
    assert result.package_tracebacks == []


# Proxies


def lay_proxy(proxy: Site, location: str) -> None:
    """A proxy over which ``http://a.test/`` redirects to ``location``; all else is a page of its own."""

    def answer(seen: Seen) -> Answer:
        if seen.path.endswith("/robots.txt"):
            return Answer(status=404)
        return redirect(location) if seen.path == "http://a.test/" else Answer("page")

    proxy.default = answer


PROXY_AUTH = "Basic " + base64.b64encode(b"user:secret").decode()


async def test_the_same_proxy_is_used_for_the_next_hop_with_its_credentials(sites: Sites) -> None:
    proxy = sites()
    lay_proxy(proxy, "http://b.test/1")
    meta = {"proxy": f"http://user:secret@{proxy.netloc}"}
    result = await crawl([Request("http://a.test/", meta=meta)])
    assert result.urls() == ["http://b.test/1"]
    assert proxy.paths() == [
        "http://a.test/robots.txt", "http://a.test/", "http://b.test/robots.txt", "http://b.test/1",
    ]  # fmt: skip
    assert [seen.header("Proxy-Authorization") for seen in proxy.requests()] == [PROXY_AUTH] * 4


async def test_credentials_for_a_proxy_never_reach_a_site(sites: Sites, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand without a proxy; and from the environment, where the target needs none or its scheme has none."""
    proxy = sites()
    (b,) = sites.named("b.test")
    secure = sites("127.0.3.1", tls=True, name="s.test")
    b.page("/1", "page")
    secure.page("/1", "page")
    b.redirect("/hand", "/1")
    hand = Request(b.url("/hand"), headers={"Proxy-Authorization": PROXY_AUTH})
    await crawl([hand])
    await crawl([hand], {"HTTPPROXY_ENABLED": False})
    assert [seen.header("Proxy-Authorization") for seen in b.requests()] == [None] * 6
    await crawl([hand], {"HTTPPROXY_ENABLED": False}, stock=True)
    assert b.requests()[-1].header("Proxy-Authorization") == PROXY_AUTH

    monkeypatch.setenv("http_proxy", f"http://user:secret@{proxy.netloc}")
    monkeypatch.setenv("no_proxy", "b.test")
    for site in (b, secure):
        proxy.log.clear()
        site.log.clear()
        lay_proxy(proxy, site.url("/1"))
        result = await crawl(["http://a.test/"])
        assert result.urls() == [site.url("/1")]
        assert proxy.paths() == ["http://a.test/robots.txt", "http://a.test/"]
        assert [seen.header("Proxy-Authorization") for seen in proxy.requests()] == [PROXY_AUTH] * 2
        assert only(site, "/1").header("Proxy-Authorization") is None
        assert only(site, "/robots.txt").header("Proxy-Authorization") is None
