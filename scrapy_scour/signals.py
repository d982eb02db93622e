"""Signals of scrapy-scour, for code that wants to know how requests end."""

from __future__ import annotations

#: A request has ended without becoming a page, for whatever reason; sent once for each. Arguments: ``request``,
#: ``outcome`` (an :class:`~scrapy_scour.exceptions.Outcome` with category, url, reason, trail and status; its
#: ``__cause__`` is the exception where it was somebody else's), ``spider``. Handlers are plain functions.
request_refused = object()
