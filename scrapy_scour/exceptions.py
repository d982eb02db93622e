"""What scrapy-scour raises, and when.

Two families, as Scrapy tells them apart: a *drop* (``IgnoreRequest``: the ordinary end of a request that
politeness or scope refuses) and an *error* (something is broken or was given up). Each instance carries
``category``, ``url``, ``reason`` and ``trail``; ``SettingsError`` stands alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scrapy.exceptions import IgnoreRequest, StopDownload

from scrapy_scour.policy.failures import FailureCategory

if TYPE_CHECKING:
    from scrapy.http import Response


class SettingsError(ValueError):
    """The set-up is wrong; the crawl does not start. The message names setting, value and rule."""


class Outcome(Exception):
    """Common part: how one request ended that did not become a page.

    ``category``: a :class:`FailureCategory`. ``url``: the URL that was refused or failed, without userinfo.
    ``reason``: a plain sentence part. ``trail``: the URLs that led here by redirects, first one first.
    ``status``: the HTTP status that is the failure, None when it is not one.
    """

    category: FailureCategory = FailureCategory.OTHER

    def __init__(
        self,
        reason: str = "",
        *,
        url: str = "",
        trail: Sequence[str] = (),
        category: FailureCategory | None = None,
        status: int | None = None,
    ) -> None:
        Exception.__init__(self, reason)  # not super(): of the other parents' own arguments none is ours
        self.status = status
        self.reason = reason
        self.url = url
        # What a user put into meta in place of a list is no trail.
        self.trail = tuple(trail) if isinstance(trail, (list, tuple)) else ()
        if category is not None:
            self.category = category


class Refused(Outcome, IgnoreRequest):
    """A drop: the request was not made, by decision."""


class RobotsDisallowed(Refused):
    """A rule in the site's robots.txt refuses the URL for the agent (RFC 9309 2.2.2)."""

    category = FailureCategory.ROBOTS_DISALLOWED


class RobotsUnreachable(Refused):
    """The site could not say what it permits (RFC 9309 2.3.1.4), so nothing is permitted."""

    category = FailureCategory.ROBOTS_UNREACHABLE


class OutOfScope(Refused):
    """The URL is outside the job's boundary (allowed domains, patterns, private addresses)."""

    category = FailureCategory.OUT_OF_SCOPE


class RequestLimitReached(Refused):
    """``SCOUR_MAX_REQUESTS_PER_DOMAIN`` requests were made to the host already."""

    category = FailureCategory.REQUEST_LIMIT


class CrawlDelayTooLong(Refused):
    """The site asks for a longer delay than ``SCOUR_CRAWL_DELAY_MAX``, and such hosts are skipped."""

    category = FailureCategory.CRAWL_DELAY_TOO_LONG


class ContentTypeRefused(Refused, StopDownload):
    """The answer's media type is not among ``SCOUR_CONTENT_TYPES``; its body was not read.

    ``response``: the answer with its headers, None before there is one. A ``StopDownload``: that is how it is cut off.
    """

    category = FailureCategory.INVALID_RESPONSE
    fail = True
    response: Response | None = None


class RateLimited(Refused):
    """The host asked to be left alone for longer than the crawl will wait (RFC 9110 10.2.3)."""

    category = FailureCategory.RATE_LIMITED


class Duplicate(Refused):
    """The URL was requested before, and the request did not ask for another visit (``dont_filter``)."""

    category = FailureCategory.DUPLICATE


class RedirectRefused(Refused):
    """A redirect that cannot or must not be followed: unusable Location, or a scheme that is not http(s)."""

    category = FailureCategory.REDIRECT_REFUSED


class RedirectError(Outcome):
    """An error, not a drop: the site's redirects lead nowhere. ``trail`` names the way."""


class RedirectLoop(RedirectError):
    """The same method and URL again, with no new cookie since (RFC 9110 15.4)."""

    category = FailureCategory.REDIRECT_LOOP


class TooManyRedirects(RedirectError):
    """More hops than ``REDIRECT_MAX_TIMES``."""

    category = FailureCategory.TOO_MANY_REDIRECTS


class PolicyCheckFailed(Refused):
    """A check of ours broke; the request was not made, since what cannot be decided is not allowed."""

    category = FailureCategory.OTHER
