"""Fixtures and hooks of the suite: witnesses that close themselves, and ``async def`` tests with a deadline.

An ``async def test_...`` needs no decorator: it runs inside the reactor that ``--reactor`` chose. Every
test has a deadline (:data:`DEADLINE` seconds, or ``@pytest.mark.deadline(seconds)``) after which it fails
instead of hanging.
"""

from __future__ import annotations

import functools
import inspect
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import hypothesis
import pytest
from scrapy.downloadermiddlewares import cookies
from scrapy.utils.defer import deferred_from_coro
from tldextract import TLDExtract
from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as TwistedTimeoutError
from twisted.python.log import PythonLoggingObserver

from tests.support.crawl import PROXY_VARIABLES, STOP_WITHIN
from tests.support.site import Site, Sites

DEADLINE = 30.0

# Other processes share the machine: a slow example is no finding.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "deadline(seconds): fail after this time instead of the default")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Hand an async test to pytest-twisted as a Deferred that is cancelled at the deadline."""
    test = pyfuncitem.obj
    if inspect.iscoroutinefunction(test):
        pyfuncitem.obj = _deferred(test, _deadline(pyfuncitem))


def _deferred(test: Callable[..., Any], seconds: float) -> Callable[..., Deferred[Any]]:
    @functools.wraps(test)
    def run(**fixtures: Any) -> Deferred[Any]:
        from twisted.internet import reactor

        def too_late(failure: Any, timeout: float) -> None:
            raise TwistedTimeoutError(f"the test did not end within {timeout:g} s")

        running: Deferred[Any] = deferred_from_coro(test(**fixtures))
        return running.addTimeout(seconds, reactor, onTimeoutCancel=too_late)  # type: ignore[arg-type]

    # functools.wraps would let inspect see the coroutine function again
    del run.__wrapped__  # type: ignore[attr-defined]
    return run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Interrupt a test that neither ends nor lets the reactor run."""
    if not hasattr(signal, "SIGALRM") or threading.current_thread() is not threading.main_thread():
        return (yield)
    seconds = _deadline(item)
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        seconds += STOP_WITHIN + 5.0

    def interrupt(number: int, frame: FrameType | None) -> None:
        pytest.fail(f"the test was interrupted after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds, 5.0)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _deadline(item: pytest.Item) -> float:
    marker = item.get_closest_marker("deadline")
    return float(marker.args[0]) if marker else DEADLINE


@pytest.fixture(scope="session", autouse=True)
def _surroundings() -> Iterator[None]:
    """No proxy of the machine, no list of suffixes from the net, and Twisted's unhandled errors in the log."""
    for name in list(os.environ):
        if name.lower() in PROXY_VARIABLES:
            del os.environ[name]
    # Scrapy's own would ask the net for the list at the first cookie; the packaged list is as good here.
    cookies._split_domain = TLDExtract(suffix_list_urls=(), include_psl_private_domains=True)
    observer = PythonLoggingObserver("twisted")
    observer.start()
    yield
    observer.stop()


@pytest.fixture
def sites() -> Iterator[Sites]:
    """Opens witnesses: ``sites("127.0.0.2", tls=True)``, ``sites.named("a.test", "b.test")``; closed after
    the test."""
    opener = Sites()
    yield opener
    opener.close()


@pytest.fixture
def site(sites: Sites) -> Site:
    """One witness on 127.0.0.1."""
    return sites()
