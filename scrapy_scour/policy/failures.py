"""What a request that did not become a page is called.

Decides the category of an exception or a status. It does not look at requests, does not count and does not
log; exceptions are recognised by the names of their classes, so that this module needs neither Scrapy nor
Twisted, and a test walks every exception class a download can raise and finds it mapped.
"""

from __future__ import annotations

from enum import Enum


class FailureCategory(str, Enum):
    """Why a request was not fetched, or why its answer is not a page. Stable: scripts may rely on the values."""

    ROBOTS_DISALLOWED = "robots_disallowed"
    ROBOTS_UNREACHABLE = "robots_unreachable"
    OUT_OF_SCOPE = "out_of_scope"
    REDIRECT_REFUSED = "redirect_refused"
    REDIRECT_LOOP = "redirect_loop"
    TOO_MANY_REDIRECTS = "too_many_redirects"
    REQUEST_LIMIT = "request_limit"
    CRAWL_DELAY_TOO_LONG = "crawl_delay_too_long"
    RATE_LIMITED = "rate_limited"
    ACCESS_BLOCKED = "access_blocked"
    AUTHENTICATION = "authentication"
    NOT_FOUND = "not_found"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    DNS = "dns"
    CONNECTION = "connection"
    TLS = "tls"
    BODY_TOO_LARGE = "body_too_large"
    INVALID_RESPONSE = "invalid_response"
    DUPLICATE = "duplicate"
    OTHER = "other"

    def __str__(self) -> str:
        return self.value


_STATUSES = {
    401: FailureCategory.AUTHENTICATION,
    403: FailureCategory.ACCESS_BLOCKED,
    404: FailureCategory.NOT_FOUND,
    407: FailureCategory.AUTHENTICATION,
    410: FailureCategory.NOT_FOUND,
    429: FailureCategory.RATE_LIMITED,
    451: FailureCategory.ACCESS_BLOCKED,
}


def category_of_status(status: int) -> FailureCategory | None:
    """The category of an HTTP status, or None for one that is a page or a redirect (1xx, 2xx, 3xx).

    401 and 407 are ``authentication``, 403 and 451 ``access_blocked`` (RFC 9110 15.5, RFC 7725), 404 and 410
    ``not_found``, 429 ``rate_limited`` (RFC 6585 4), every 5xx ``server_error``, every other 4xx ``other``.
    """
    if status in _STATUSES:
        return _STATUSES[status]
    if 500 <= status <= 599:
        return FailureCategory.SERVER_ERROR
    if 400 <= status <= 499:
        return FailureCategory.OTHER
    return None
