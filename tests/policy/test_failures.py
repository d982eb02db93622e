"""Every exception and every status has its category; none that a download can raise is unknown."""

from __future__ import annotations

import asyncio
import builtins
import importlib
import inspect
import socket
import ssl
import zlib
from collections.abc import Iterator
from concurrent.futures import CancelledError as FutureCancelledError
from types import SimpleNamespace
from typing import Final

import pytest
import scrapy.exceptions
import scrapy.spidermiddlewares.httperror
from hypothesis import given
from hypothesis import strategies as st
from OpenSSL import SSL
from scrapy.core.downloader.handlers.http11 import TunnelError
from scrapy.exceptions import IgnoreRequest, NotSupported, StopDownload
from scrapy.http import Response
from service_identity.exceptions import VerificationError
from twisted.internet.defer import CancelledError
from twisted.internet.error import (
    ConnectionDone,
    ConnectionLost,
    ConnectionRefusedError,
    DNSLookupError,
    TCPTimedOutError,
    TimeoutError,
)
from twisted.python.failure import Failure
from twisted.web._newclient import ParseError, ResponseFailed, ResponseNeverReceived

import scrapy_scour.exceptions
from scrapy_scour import FailureCategory as Category
from scrapy_scour import failure_category
from scrapy_scour.exceptions import ContentTypeRefused, Outcome, RobotsDisallowed
from scrapy_scour.extensions.download import BodyTimeout
from scrapy_scour.policy.failures import category_of_class, category_of_status, failure_in_words

STATUSES: Final[list[tuple[int, Category | None]]] = [
    (100, None),
    (200, None),
    (204, None),
    (299, None),
    (301, None),
    (304, None),
    (399, None),
    (400, Category.OTHER),
    (401, Category.AUTHENTICATION),  # RFC 9110 15.5.2
    (403, Category.ACCESS_BLOCKED),  # RFC 9110 15.5.4
    (404, Category.NOT_FOUND),
    (405, Category.OTHER),
    (407, Category.AUTHENTICATION),  # RFC 9110 15.5.8
    (408, Category.OTHER),
    (410, Category.NOT_FOUND),
    (418, Category.OTHER),
    (429, Category.RATE_LIMITED),  # RFC 6585 4
    (451, Category.ACCESS_BLOCKED),  # RFC 7725 3
    (499, Category.OTHER),
    (500, Category.SERVER_ERROR),
    (503, Category.SERVER_ERROR),
    (520, Category.SERVER_ERROR),
    (599, Category.SERVER_ERROR),
    (600, Category.OTHER),
    (999, Category.OTHER),
]


@pytest.mark.parametrize(("status", "category"), STATUSES)
def test_a_status_has_the_category_of_its_meaning(status: int, category: Category | None) -> None:
    assert category_of_status(status) is category
    assert failure_category(Response("http://a.test/", status=status)) is category


def behind(error: BaseException, cause: BaseException) -> BaseException:
    """*error*, raised because of *cause*."""
    error.__cause__ = cause
    return error


def during(error: BaseException, context: BaseException, *, suppress: bool = False) -> BaseException:
    """*error*, raised while *context* was handled."""
    error.__context__ = context
    error.__suppress_context__ = suppress
    return error


def http_error(status: int) -> BaseException:
    return scrapy.spidermiddlewares.httperror.HttpError(Response("http://a.test/", status=status), "Ignoring")


def tls() -> SSL.Error:
    return SSL.Error([("SSL routines", "", "certificate verify failed")])


EXCEPTIONS: Final[list[tuple[str, BaseException, Category]]] = [
    ("ours says it itself", RobotsDisallowed("no"), Category.ROBOTS_DISALLOWED),
    ("ours is believed before its parents", ContentTypeRefused("no"), Category.INVALID_RESPONSE),
    ("ours with a category of the instance", Outcome("x", category=Category.DNS), Category.DNS),
    ("Twisted's timeout", TimeoutError(), Category.TIMEOUT),
    ("TCP timeout", TCPTimedOutError(), Category.TIMEOUT),
    ("Python's timeout", builtins.TimeoutError(), Category.TIMEOUT),
    ("no such name", DNSLookupError("no results"), Category.DNS),
    ("no such name, from the system", socket.gaierror(-2, "Name or service not known"), Category.DNS),
    ("refused", ConnectionRefusedError(), Category.CONNECTION),
    ("refused, from the system", OSError(111, "refused"), Category.CONNECTION),
    ("lost", ConnectionLost(), Category.CONNECTION),
    ("no answer", ResponseNeverReceived([Failure(ConnectionLost())]), Category.CONNECTION),
    ("no answer, closed in order", ResponseNeverReceived([Failure(ConnectionDone())]), Category.CONNECTION),
    ("no answer, since TLS failed", ResponseNeverReceived([Failure(tls())]), Category.TLS),
    ("TLS is found behind what came first", ResponseFailed([Failure(ConnectionLost()), Failure(tls())]), Category.TLS),
    ("no HTTP", ResponseFailed([Failure(ParseError("bad", b"x"))]), Category.INVALID_RESPONSE),
    ("TLS, Python's", ssl.SSLCertVerificationError("self-signed"), Category.TLS),
    ("TLS, the wrong name", VerificationError([]), Category.TLS),
    ("a connection refused because of TLS", behind(OSError("x"), ssl.SSLError("y")), Category.TLS),
    ("a proxy that refuses", TunnelError("Could not open CONNECT tunnel [{'status': 502}]"), Category.CONNECTION),
    ("a proxy's login", TunnelError("Could not open [{'status': 407, 'reason': b'x'}]"), Category.AUTHENTICATION),
    ("cancelled in silence: the body grew too large", CancelledError(), Category.BODY_TOO_LARGE),
    (
        "cancelled on the declared length",
        CancelledError("expected response size (9) larger than download max size (5)."),
        Category.BODY_TOO_LARGE,
    ),
    ("cancelled for something else", CancelledError("the user left"), Category.OTHER),
    ("a cancelled task", asyncio.CancelledError(), Category.OTHER),
    ("a cancelled future", FutureCancelledError(), Category.OTHER),
    ("a status that the spider does not handle", http_error(404), Category.NOT_FOUND),
    ("another such status", http_error(503), Category.SERVER_ERROR),
    ("a redirect that was not followed", http_error(304), Category.REDIRECT_REFUSED),
    ("a status that no RFC knows", http_error(999), Category.OTHER),
    ("somebody's drop", IgnoreRequest("not today"), Category.OTHER),
    ("somebody's drop while a timeout was handled", during(IgnoreRequest(), TimeoutError()), Category.TIMEOUT),
    ("a context that is hidden says nothing", during(IgnoreRequest(), TimeoutError(), suppress=True), Category.OTHER),
    ("somebody's stop", StopDownload(), Category.OTHER),
    ("a timeout that stops the download", BodyTimeout(), Category.TIMEOUT),
    ("a scheme without a handler", NotSupported("Unsupported URL scheme 'gopher'"), Category.OTHER),
    ("no such file", FileNotFoundError(2, "x"), Category.NOT_FOUND),
    ("a file that may not be read", PermissionError(13, "x"), Category.ACCESS_BLOCKED),
    ("a fault in a middleware", ZeroDivisionError(), Category.OTHER),
    ("a broken stream", zlib.error("x"), Category.OTHER),
]


@pytest.mark.parametrize(("error", "category"), [pytest.param(*row[1:], id=row[0]) for row in EXCEPTIONS])
def test_an_exception_has_the_category_of_what_went_wrong(error: BaseException, category: Category) -> None:
    assert failure_category(error) is category
    assert failure_category(Failure(error)) is category


def test_what_is_no_failure_has_no_category() -> None:
    for nothing in (None, "text", 404, SimpleNamespace(status="404"), SimpleNamespace(value=3)):
        assert failure_category(nothing) is None


def test_a_circle_of_causes_ends() -> None:
    one, two = ValueError(1), ValueError(2)
    one.__cause__, two.__cause__ = two, one
    assert failure_category(one) is Category.OTHER


@given(st.lists(st.sampled_from([row[1] for row in EXCEPTIONS]), min_size=1, max_size=100))
def test_an_exception_always_has_a_category(errors: list[BaseException]) -> None:
    assert isinstance(failure_category(ResponseFailed([Failure(error) for error in errors])), Category)


# Every class that a download can raise

#: Modules whose exceptions may come out of a download, some only in newer versions or with more installed.
MODULES: Final = (
    "scrapy.exceptions",
    "scrapy.spidermiddlewares.httperror",
    "scrapy.core.downloader.handlers.http11",
    "scrapy.core.http2.protocol",
    "scrapy.core.http2.stream",
    "scrapy.core._http2.protocol",
    "scrapy.core._http2.stream",
    "scrapy.utils._compression",
    "twisted.internet.error",
    "twisted.internet.defer",
    "twisted.web._newclient",
    "twisted.web.client",
    "twisted.web.error",
    "service_identity.exceptions",
    "httpx",
    "httpx2",
    "aiohttp",
    "h2.exceptions",
)

#: Those of them that no download raises, and why.
NOT_OF_A_DOWNLOAD: Final[dict[str, str]] = {
    **dict.fromkeys(
        (
            "NotConfigured",
            "DontCloseSpider",
            "CloseSpider",
            "DropItem",
            "UsageError",
            "ContractFail",
        ),
        "Scrapy's, of other matters",
    ),
    **dict.fromkeys(
        (
            "ReactorAlreadyInstalledError",
            "ReactorAlreadyRunning",
            "ReactorNotRestartable",
            "ReactorNotRunning",
            "ProcessExitedAlready",
            "AlreadyCalled",
            "AlreadyCancelled",
            "NotConnectingError",
            "NotListeningError",
            "AlreadyListened",
            "MulticastJoinError",
            "UnsupportedSocketType",
            "ProcessDone",
            "ProcessTerminated",
        ),
        "the reactor's, about timers, processes and ports that listen",
    ),
    **dict.fromkeys(
        (
            "AlreadyCalledError",
            "AlreadyTryingToLockError",
            "FailureGroup",
            "FirstError",
            "NotACoroutineError",
            "QueueOverflow",
            "QueueUnderflow",
            "_DefGen_Return",
            "_InternalInlineCallbacksCancelledError",
        ),
        "misuse of Deferreds",
    ),
    **dict.fromkeys(
        (
            "Error",
            "InfiniteRedirection",
            "PageRedirect",
            "RedirectWithNoLocation",
            "FlattenerError",
            "MissingRenderMethod",
            "MissingTemplateLoader",
            "RenderError",
            "UnexposedMethodError",
            "UnfilledSlot",
            "UnsupportedMethod",
            "UnsupportedSpecialHeader",
            "UnsupportedType",
        ),
        "of Twisted's web server, templates and old page getter",
    ),
    **dict.fromkeys(("ResponseDone", "_WrapperException"), "the good end of a body; a base class"),
    **dict.fromkeys(
        (
            "HTTPError",
            "HTTPStatusError",
            "InvalidURL",
            "CookieConflict",
            "StreamError",
            "StreamConsumed",
            "StreamClosed",
            "ResponseNotRead",
            "RequestNotRead",
            "RequestError",
            "TooManyRedirects",
            "NonHttpUrlClientError",
            "ClientError",
            "WebSocketError",
            "InvalidUrlClientError",
            "InvalidUrlRedirectClientError",
            "NonHttpUrlRedirectClientError",
            "RedirectClientError",
            "EofStream",
            "WSMessageTypeError",
        ),
        "of HTTP libraries: bases, misuse, web sockets, and what Scrapy's handlers turn into their own",
    ),
}


def classes() -> Iterator[type[BaseException]]:
    seen: set[type] = set()
    for name in MODULES:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if issubclass(cls, BaseException) and not issubclass(cls, (Failure, Warning)) and cls not in seen:
                seen.add(cls)
                yield cls


def test_every_exception_class_that_a_download_can_raise_is_mapped() -> None:
    found = list(classes())
    unknown = [
        f"{cls.__module__}.{cls.__name__}"
        for cls in found
        if category_of_class(cls) is None and cls.__name__ not in NOT_OF_A_DOWNLOAD and cls.__module__ != "builtins"
    ]
    assert not unknown
    assert len(found) > 60  # the modules were really looked into


def test_every_exception_of_ours_has_a_category_of_its_own() -> None:
    ours = [
        cls
        for _, cls in inspect.getmembers(scrapy_scour.exceptions, inspect.isclass)
        if issubclass(cls, Outcome) and cls.__module__ == "scrapy_scour.exceptions"
    ]
    assert len(ours) > 10
    for cls in ours:
        assert isinstance(cls("why", url="http://a.test/").category, Category)


def test_the_walk_would_find_a_new_class() -> None:
    class BrandNewDownloadError(Exception):
        pass

    assert category_of_class(BrandNewDownloadError) is None
    assert "BrandNewDownloadError" not in NOT_OF_A_DOWNLOAD


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            ResponseNeverReceived([Failure(ConnectionDone())]),
            "the connection failed (Connection was closed cleanly)",
        ),
        (DNSLookupError("no such name"), "the name of the host cannot be resolved (DNS lookup failed: no such name)"),
        (
            ResponseFailed([Failure(tls())]),
            "no secure connection could be made (certificate verify failed)",
        ),
        (ResponseFailed([Failure(ParseError("bad", b"x"))]), "the answer is no valid HTTP, or only a part of one"),
        (RuntimeError("of a\n middleware."), "RuntimeError: of a middleware"),
        (RuntimeError(), "RuntimeError"),
    ],
)
def test_a_failed_download_is_told_in_words_and_not_as_objects_of_python(error: Exception, words: str) -> None:
    """Whoever reads why a site could not be asked need not know what Scrapy is made of."""
    assert failure_in_words(error) == words
