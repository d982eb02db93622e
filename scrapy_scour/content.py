"""Whether an answer is refused for its media type (``SCOUR_CONTENT_TYPES``).

Gathers the facts; ``policy.content`` decides. Asked about are pages: answers with a 2xx status to requests of the
spider. Not asked about are

- other statuses: a redirect, a 404 or a 429 has its own meaning, whatever its body is written in;
- media requests and whatever else says that it has no callback (``NO_CALLBACK``), and robots.txt;
- HEAD requests and empty answers, which have no body to refuse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.http.request import NO_CALLBACK

from scrapy_scour.exceptions import ContentTypeRefused
from scrapy_scour.policy.content import wanted
from scrapy_scour.policy.urls import without_userinfo

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Headers

    from scrapy_scour.job import Job

#: Statuses whose answers have no body (RFC 9110 15.3.5, 15.3.6).
_EMPTY = (204, 205)


class ContentCheck:
    """The check for one crawl."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def refusal(self, request: Request, headers: Headers, status: int, *, empty: bool) -> ContentTypeRefused | None:
        """The refusal of an answer with these headers, None when it may come. ``empty``: it surely has no body."""
        if empty or status in _EMPTY or request.method == "HEAD":
            return None
        if not 200 <= status <= 299 or request.callback is NO_CALLBACK:
            return None
        verdict = wanted(headers.getlist("Content-Type"), self._job.settings.content_types)
        if verdict:
            return None
        trail = request.meta.get("redirect_urls", ())
        return ContentTypeRefused(
            f"{verdict.reason} ({verdict.source})", url=without_userinfo(self._job.real_url(request)), trail=trail
        )
