"""What a request that did not become a page is called.

Decides the category of an exception or a status. It does not look at requests, does not count and does not
log; exceptions are recognised by the names of their classes, so that this module needs neither Scrapy nor
Twisted, and a test walks every exception class a download can raise and finds it mapped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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
    ``not_found``, 429 ``rate_limited`` (RFC 6585 4), every 5xx ``server_error``, every other 4xx and what no RFC knows
    (600 and above) ``other``.
    """
    if status in _STATUSES:
        return _STATUSES[status]
    if 500 <= status <= 599:
        return FailureCategory.SERVER_ERROR
    return FailureCategory.OTHER if status >= 400 else None


#: By class name, the module before it where the name alone says too little. The first class of an exception's MRO that
#: stands here decides.
CATEGORIES: dict[str, FailureCategory] = {
    **dict.fromkeys(
        (
            "DownloadTimeoutError",
            "TimeoutError",  # Python's, asyncio's, and both of Twisted's
            "TCPTimedOutError",
            "TimeoutException",  # httpx
            "ServerTimeoutError",  # aiohttp
        ),
        FailureCategory.TIMEOUT,
    ),
    **dict.fromkeys(
        ("CannotResolveHostError", "DNSLookupError", "UnknownHostError", "gaierror", "ClientConnectorDNSError"),
        FailureCategory.DNS,
    ),
    **dict.fromkeys(
        (
            "OpenSSL.SSL.Error",
            "SSLError",  # Python's and Twisted's
            "VerifyError",
            "CertificateError",
            "VerificationError",  # service_identity
            "ClientSSLError",  # aiohttp
            "ClientConnectorCertificateError",
        ),
        FailureCategory.TLS,
    ),
    **dict.fromkeys(
        (
            "DownloadConnectionRefusedError",
            "DownloadFailedError",
            "ResponseFailed",
            "RequestTransmissionFailed",
            "RequestNotSent",
            "ConnectError",
            "ConnectBindError",
            "ConnectionClosed",
            "ConnectionAborted",
            "ConnectingCancelledError",
            "ConnectInProgressError",
            "BindError",
            "CannotListenError",
            "NoProtocol",
            "UnsupportedAddressFamily",
            "TunnelError",
            "OSError",
            "twisted.internet.error.InvalidAddressError",
            "InvalidNegotiatedProtocol",
            "RemoteTerminatedConnection",
            "InactiveStreamClosed",
            "TransportError",  # httpx
            "ClientConnectionError",  # aiohttp
            "UploadAbortedError",
        ),
        FailureCategory.CONNECTION,
    ),
    **dict.fromkeys(("_DecompressionMaxSizeExceeded",), FailureCategory.BODY_TOO_LARGE),
    **dict.fromkeys(
        (
            "ResponseDataLossError",
            "_DataLoss",
            "PotentialDataLoss",
            "PartialDownloadError",
            "ParseError",
            "BadHeaders",
            "MessageLengthError",
            "ExcessiveBufferingError",
            "H2Error",
            "ProtocolError",  # h2
            "RemoteProtocolError",  # httpx
            "DecodingError",
            "ClientPayloadError",  # aiohttp
            "ClientResponseError",
            "BadHttpMessage",
        ),
        FailureCategory.INVALID_RESPONSE,
    ),
    "FileNotFoundError": FailureCategory.NOT_FOUND,
    "PermissionError": FailureCategory.ACCESS_BLOCKED,
    **dict.fromkeys(
        (
            "IgnoreRequest",  # a drop by somebody else's component
            "StopDownload",
            "UnsupportedURLSchemeError",
            "SchemeNotSupported",
            "NotSupported",
            "RequestGenerationFailed",  # the request's own body broke
            "WrongBodyLength",
            "ExcessWrite",
            "InvalidHostname",
            "MethodNotAllowed405",
            "_InvalidOutput",
            "DownloadCancelledError",
            "CancelledError",
        ),
        FailureCategory.OTHER,
    ),
}

# How a download was ended, not why: another parent of the class says more, such as a timeout.
_SAY_HOW = ("IgnoreRequest", "StopDownload")

# Scrapy's handlers cancel a download for one reason of their own: the body is over DOWNLOAD_MAXSIZE. On the way they
# say so, or nothing at all; a timeout also cancels, but is raised as one.
_CANCELLED = ("DownloadCancelledError", "twisted.internet.defer.CancelledError")
_TOO_LARGE = re.compile(r"max ?size|larger than", re.IGNORECASE)
_TUNNEL_STATUS = re.compile(r"'status': (\d{3})")
#: What a more exact word further in is preferred to, the vaguest last.
_VAGUE = (FailureCategory.CONNECTION, FailureCategory.OTHER)
_DEEPEST = 50


def category_of_class(cls: type) -> FailureCategory | None:
    """The category of an exception class by its name or a parent's, None when none is known."""
    fallback = None
    for parent in cls.__mro__:
        for name in (f"{parent.__module__}.{parent.__name__}", parent.__name__):
            if name in _SAY_HOW:
                fallback = CATEGORIES[name]
            elif name in CATEGORIES:
                return CATEGORIES[name]
    return fallback


def failure_category(what: object) -> FailureCategory | None:
    """The category of a failure, an exception or a response; None for a response that is no failure, and for None.

    A Twisted ``Failure`` is taken for its exception. Of an exception, what caused it counts too: a connection that
    failed because of a certificate is ``tls``. An exception of no known kind is ``other``, never None.
    """
    value = getattr(what, "value", None)
    error = what if isinstance(what, BaseException) and not isinstance(value, BaseException) else value
    if isinstance(error, BaseException):
        return _category_of_exception(error)
    status = getattr(what, "status", None)
    return category_of_status(status) if isinstance(status, int) else None


#: What went wrong, for people; an exception of another category speaks for itself.
_WORDS = {
    FailureCategory.TIMEOUT: "no answer in time",
    FailureCategory.DNS: "the name of the host cannot be resolved",
    FailureCategory.CONNECTION: "the connection failed",
    FailureCategory.TLS: "no secure connection could be made",
    FailureCategory.INVALID_RESPONSE: "the answer is no valid HTTP, or only a part of one",
}


def failure_in_words(error: BaseException) -> str:
    """What a failed download is told as: its category in words, and what the nearest cause with a text of its own says.

    An exception that is of no such category is named by its class: it is no word of the network's.
    """
    said = next(filter(None, map(_own_text, _causes(error))), "")
    words = _WORDS.get(_category_of_exception(error))
    if words is None:
        return f"{type(error).__name__}: {said}".rstrip(": ")
    return f"{words} ({said})" if said else words


def _own_text(error: BaseException) -> str:
    """What an exception says in a sentence; "" for one that only shows the Python objects that it holds."""
    first = error.args[0] if error.args else None
    if isinstance(first, list) and first and isinstance(first[-1], tuple) and first[-1]:
        return str(first[-1][-1])  # OpenSSL's: library, function, reason
    text = " ".join(str(error).split()).rstrip(".")
    return "" if text.startswith(("[", "(", "<")) else text


def _category_of_exception(error: BaseException) -> FailureCategory:
    found = FailureCategory.OTHER
    for one in _causes(error):
        category = _own_category(one)
        if category is not None and category not in _VAGUE:
            return category
        if category is FailureCategory.CONNECTION:
            found = category
    return found


def _own_category(error: BaseException) -> FailureCategory | None:
    given = getattr(error, "category", None)
    if isinstance(given, FailureCategory):
        return given
    names = {name for cls in type(error).__mro__ for name in (cls.__name__, f"{cls.__module__}.{cls.__name__}")}
    if not names.isdisjoint(_CANCELLED):
        text = str(error)
        return FailureCategory.BODY_TOO_LARGE if not text or _TOO_LARGE.search(text) else FailureCategory.OTHER
    if "HttpError" in names:
        status = getattr(getattr(error, "response", None), "status", 0)
        if 300 <= status <= 399:
            return FailureCategory.REDIRECT_REFUSED  # one that was not followed and that nobody asked for
        return category_of_status(status) or FailureCategory.OTHER
    if "TunnelError" in names:
        said = _TUNNEL_STATUS.search(str(error))
        if said and said[1] == "407":
            return FailureCategory.AUTHENTICATION
    return category_of_class(type(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The exception and what lies behind it, nearest first: causes, Twisted's ``reasons`` and wrapped failures."""
    waiting, seen = [error], {id(error)}
    for one in waiting:
        yield one
        reasons = getattr(one, "reasons", None)
        behind: list[object] = [one.__cause__, getattr(one, "subFailure", None)]
        behind += reasons if isinstance(reasons, (list, tuple)) else ()
        if not one.__suppress_context__:
            behind.append(one.__context__)
        for thing in behind:
            value = getattr(thing, "value", None)
            cause = value if isinstance(value, BaseException) else thing
            if isinstance(cause, BaseException) and id(cause) not in seen and len(seen) < _DEEPEST:
                seen.add(id(cause))
                waiting.append(cause)
