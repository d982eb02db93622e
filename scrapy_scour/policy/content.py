"""Whether an answer's media type is one that the crawl wants (``SCOUR_CONTENT_TYPES``).

Decides on header values alone. Which answers are asked about, the caller says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scrapy_scour.policy.verdict import Verdict

_SOURCE = "SCOUR_CONTENT_TYPES"


def media_type(value: bytes | str) -> str:
    """The media type of a Content-Type value, lower-case and without parameters (RFC 9110 8.3.1); "" for none."""
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    return text.partition(";")[0].partition(",")[0].strip().lower()


def wanted(values: Iterable[bytes | str], patterns: Sequence[str]) -> Verdict:
    """Whether the Content-Type fields ``values`` of one answer fit one of ``patterns``.

    Patterns are lower-case, like ``text/html``, ``text/*`` or ``*/*``; no pattern means no wish. An answer that
    names no type is not known to be what is wanted (RFC 9110 8.3 lets the reader guess, and this reader does not),
    unless ``*/*`` is. Of several fields each must fit.
    """
    if not patterns or "*/*" in patterns:
        return Verdict(True)
    types = [media_type(value) for value in values]
    if not any(types):
        return Verdict(False, "the answer names no content type", _SOURCE)
    for one in types:
        kind = one.partition("/")[0]
        if one not in patterns and f"{kind}/*" not in patterns:
            shown = one if one.isprintable() else ascii(one)
            return Verdict(False, f"the content type is {shown[:100] or 'empty'}", _SOURCE)
    return Verdict(True)
