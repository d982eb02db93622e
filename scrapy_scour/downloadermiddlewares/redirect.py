"""Redirects: every hop is judged before it is taken, and takes along only what may go where it leads.

Each hop becomes a new request for the scheduler, so dedup, scope, robots and pacing see it again. What a Location
means, which method and headers follow and what a loop is, ``policy.redirects`` says; scope is ``policy.scope``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy import Request, signals
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware
from scrapy.exceptions import NotConfigured
from scrapy.http import HtmlResponse
from scrapy.spidermiddlewares.referer import RefererMiddleware
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.response import get_meta_refresh
from w3lib.url import canonicalize_url

from scrapy_scour import compat, stats
from scrapy_scour.downloadermiddlewares.redirect_chain import CAME_BY, TRAIL, check_meta, trail_of, wants_status
from scrapy_scour.exceptions import OutOfScope, RedirectLoop, RedirectRefused, TooManyRedirects
from scrapy_scour.job import REAL_URL, job_of
from scrapy_scour.permission import CHECKED_AGENT, ROBOTS_TRIES
from scrapy_scour.policy.redirects import (
    REDIRECT_STATUSES,
    headers_to_keep,
    is_loop,
    next_method,
    resolve_location,
    shorten_trail,
    trail_key,
)
from scrapy_scour.policy.urls import origin_of, same_host, without_userinfo

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

logger = logging.getLogger(__name__)

#: What does not travel to another host: exemptions, and what belongs to the first host's robots check.
_OF_ONE_HOST = ("allow_offsite", "dont_obey_robotstxt", ROBOTS_TRIES, CHECKED_AGENT, "http_user", "http_pass")


class _Hops:
    """What both middlewares do with a hop."""

    enabled_setting = "REDIRECT_ENABLED"

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        if not settings.getbool(self.enabled_setting):
            raise NotConfigured
        self.crawler = crawler
        self.job = job_of(crawler)
        self.max_redirect_times = settings.getint("REDIRECT_MAX_TIMES")
        self.priority_adjust = settings.getint("REDIRECT_PRIORITY_ADJUST")
        self.cookies_enabled = settings.getbool("COOKIES_ENABLED")
        self._referer: RefererMiddleware | None = None
        self._cookies: CookiesMiddleware | None = None
        crawler.signals.connect(self._engine_started, signal=signals.engine_started)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def _engine_started(self) -> None:
        self._referer = self.crawler.get_spider_middleware(RefererMiddleware)
        self._cookies = self.crawler.get_downloader_middleware(CookiesMiddleware)

    def follow(
        self,
        request: Request,
        response: Response,
        target: str,
        *,
        method: str,
        keep_body: bool,
        reason: Any,
        detail: str = "",
    ) -> Request:
        """The request of the next hop, or the exception that ends the chain.

        ``reason`` is kept in ``redirect_reasons``; ``detail`` stands in its place in the log.

        Raises OutOfScope, RedirectRefused, RedirectLoop or TooManyRedirects.
        """
        check_meta(request)
        urls = [*request.meta.get("redirect_urls", ()), without_userinfo(request.url)]
        chain: dict[str, Any] = {"url": without_userinfo(request.url), "trail": [*urls, without_userinfo(target)]}
        stays = same_host(request.url, target)
        verdict = self.job.judge_hop(request, target)
        if not verdict:
            logger.debug(
                "Redirect out of scope: %(request)s -> %(target)s: %(reason)s",
                {"request": _shown(request), "target": without_userinfo(target), "reason": verdict.reason},
                extra={"spider": self.crawler.spider},
            )
            reason = f"redirect {len(urls)} leads out of scope: {verdict.reason} ({verdict.source})"
            raise self.job.lost(request, OutOfScope(reason, **chain))
        trail = trail_of(request)
        cookies = trail[-1][2] + self._new_cookies(request, response, target)
        shown = " -> ".join(shorten_trail(chain["trail"]))
        if is_loop(trail, method, target, cookies):
            raise RedirectLoop(f"redirects in a circle: {shown}", **chain)
        times = request.meta.get("redirect_times", 0) + 1
        ttl = request.meta.get("redirect_ttl", self.max_redirect_times)
        if ttl < 1 or times > self.max_redirect_times:
            raise TooManyRedirects(f"more than {min(times - 1, self.max_redirect_times)} redirects: {shown}", **chain)
        if not stays and keep_body and request.body and not self.job.settings.redirect_body_off_host:
            raise RedirectRefused("the body of the request may not go to another host", **chain)

        hop = self._request(request, response, target, method=method, keep_body=keep_body, stays=stays)
        hop.meta.update(
            {
                "redirect_times": times,
                "redirect_ttl": ttl - 1,
                "redirect_urls": urls,
                "redirect_reasons": [*request.meta.get("redirect_reasons", ()), reason],
                TRAIL: [*trail, [method, trail_key(target), cookies]],
            }
        )
        # A page that set a cookie and sends to itself, or to another spelling of itself, is in the duplicate filter
        # already; only members of this very chain pass it.
        there = canonicalize_url(target)
        wanted = request.dont_filter and not (len(trail) > 1 and request.meta.get(CAME_BY))
        came_by = any(entry[0] == method and canonicalize_url(entry[1]) == there for entry in trail)
        hop.dont_filter = wanted or came_by
        hop.meta.pop(CAME_BY, None)
        if came_by and not wanted:
            hop.meta[CAME_BY] = True
        hop.priority = request.priority + self.priority_adjust
        self.job.count.add(stats.HOP)
        logger.debug(
            "Redirecting (%(reason)s) to %(redirected)s from %(request)s",
            {"reason": detail or reason, "redirected": _shown(hop), "request": _shown(request)},
            extra={"spider": self.crawler.spider},
        )
        return hop

    def _request(
        self, request: Request, response: Response, target: str, *, method: str, keep_body: bool, stays: bool
    ) -> Request:
        body = request.body if keep_body else b""
        hop: Request = request.replace(url=target, method=method, body=body, cookies=None)
        names = [name.decode("latin-1") for name in hop.headers]
        kept = headers_to_keep(
            names, same_host=stays, body_kept=bool(body), safe=self.job.settings.redirect_safe_headers
        )
        if stays:
            kept.append("Host")  # one that the user set names the site that is asked here
        for name in set(names) - set(kept):
            if not (name.lower() == "proxy-authorization" and hop.meta.get("proxy")):
                del hop.headers[name]
        self._leave_proxy(hop)
        if not stays:
            for key in _OF_ONE_HOST:
                hop.meta.pop(key, None)
        hop.meta.update(self.job.off_host_mark(request, target))
        if self.job.slot_is_default(request):
            hop.meta.pop(compat.DOWNLOAD_SLOT, None)
        self._set_referer(request, hop, response, stays=stays)
        return hop

    @staticmethod
    def _leave_proxy(hop: Request) -> None:
        """A proxy that Scrapy chose for the URL (``http_proxy``, ``no_proxy``) is chosen anew, its credentials too."""
        if compat.PROXY_BY_SCHEME in hop.meta:
            for key in (compat.PROXY_BY_SCHEME, compat.PROXY_CREDENTIALS, "proxy"):
                hop.meta.pop(key, None)
            hop.headers.pop("Proxy-Authorization", None)

    def _set_referer(self, request: Request, hop: Request, response: Response, *, stays: bool) -> None:
        """Referer by the project's referrer policy, evaluated for this hop; to another host at most the origin."""
        hop.headers.pop("Referer", None)
        if self._referer is None:
            return
        self._referer.get_processed_request(hop, response)
        value = hop.headers.get("Referer")
        if value is not None and not stays:
            origin = origin_of(request.url)
            downgrade = urlsplit(hop.url).scheme == "http" and urlsplit(request.url).scheme == "https"
            hop.headers.pop("Referer")
            if origin is not None and not downgrade:
                hop.headers["Referer"] = f"{origin}/"

    def _new_cookies(self, request: Request, response: Response, target: str) -> int:
        """1 when the answer sets a cookie that the request did not carry and a later one will, else 0."""
        if not self.cookies_enabled or request.meta.get("dont_merge_cookies"):
            return 0
        given = {line.partition(b";")[0].strip() for line in response.headers.getlist("Set-Cookie")}
        new = given - _cookies_of(request)
        if new and self._cookies is not None:
            # What the jar did not take (another site's, or one that has expired) changes nothing.
            jar = self._cookies.jars[request.meta.get("cookiejar")]
            kept = set()
            for url in (request.url, target):
                later = Request(url)
                jar.add_cookie_header(later)
                kept |= _cookies_of(later)
            new &= kept
        return int(bool(new))


def _cookies_of(request: Request) -> set[bytes]:
    return {pair.strip() for line in request.headers.getlist("Cookie") for pair in line.split(b";")}


def _may_refresh(body: bytes) -> bool:
    """Whether the part of a page in which a refresh is looked for (4,096 characters) can hold one.

    Most pages cannot, and need not be decoded and searched for it. The word stands there as it is, or with NULs between
    its letters (UTF-16, UTF-32).
    """
    head = body[: 4 * 4096]
    return b"refresh" in head.lower() or b"\0" in head


def _shown(request: Request) -> str:
    """The request for a log line, without user name and password."""
    return f"<{request.method} {without_userinfo(request.url)}>"


class RedirectMiddleware(_Hops):
    """Redirects by status 301, 302, 303, 307 and 308. ``REDIRECT_MAX_TIMES = 0`` hands them back."""

    def process_response(self, request: Request, response: Response) -> Request | Response:
        if response.status not in REDIRECT_STATUSES or "Location" not in response.headers:
            return response
        meta = request.meta
        if (
            not self.max_redirect_times
            or meta.get("dont_redirect", False)
            or REAL_URL in meta  # the answer of a service, not of the site
            or wants_status(response.status, getattr(self.crawler.spider, "handle_httpstatus_list", ()))
            or wants_status(response.status, meta.get("handle_httpstatus_list", ()))
            or meta.get("handle_httpstatus_all", False)
        ):
            return response
        method, keep_body = next_method(response.status, request.method)
        return self.follow(
            request,
            response,
            self._target(request, response),
            method=method,
            keep_body=keep_body,
            reason=response.status,
        )

    def _target(self, request: Request, response: Response) -> str:
        check_meta(request)
        locations = set(response.headers.getlist("Location"))
        if len(locations) == 1:
            target = resolve_location(request.url, locations.pop())
            if target.url is not None and not target.problem:
                return target.url
            problem = target.problem
        else:
            problem = "it has several Locations"
        raise RedirectRefused(
            f"the redirect (status {response.status}) cannot be followed: {problem}",
            url=without_userinfo(request.url),
            trail=[*request.meta.get("redirect_urls", ()), without_userinfo(request.url)],
        )


class MetaRefreshMiddleware(_Hops):
    """Redirects by ``<meta http-equiv="refresh">``: the same gate, the same count of hops."""

    enabled_setting = "METAREFRESH_ENABLED"

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._ignore_tags: list[str] = crawler.settings.getlist("METAREFRESH_IGNORE_TAGS")
        self._max_delay = crawler.settings.getint("METAREFRESH_MAXDELAY")

    def process_response(self, request: Request, response: Response) -> Request | Response:
        if (
            not isinstance(response, HtmlResponse)
            or not self.max_redirect_times
            or request.method == "HEAD"
            or request.meta.get("dont_redirect", False)
            or REAL_URL in request.meta
            or urlparse_cached(request).scheme not in ("http", "https")
        ):
            return response
        if not _may_refresh(response.body):
            return response
        try:
            interval, url = get_meta_refresh(response, ignore_tags=self._ignore_tags)
        except ValueError:  # what stands there, or in <base>, is no URL
            return response
        if not url or interval is None or interval >= self._max_delay:
            return response
        target = resolve_location(request.url, url.encode("utf-8", "surrogateescape"))
        if target.url is None or target.problem:
            return response  # a refresh to another scheme, or to nowhere, is no hop: the page goes to the spider
        itself = request.method == "GET" and trail_key(target.url) == trail_key(request.url)
        if itself and not self._new_cookies(request, response, target.url):
            return response  # a page that reloads itself leads nowhere else: it is what it has to show
        return self.follow(
            request,
            response,
            target.url,
            method="GET",
            keep_body=False,
            reason="meta refresh",
            detail=f"meta refresh after {interval:g} s",
        )
