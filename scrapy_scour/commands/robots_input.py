"""URLs from standard input, as they come: however many there are, only a few are held."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from scrapy.utils.asyncio import is_asyncio_available
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

_CHUNK = 65_536
#: A longer line, in octets, is no URL; what of it was read stands for it.
LONGEST_LINE = 100_000


class Lines:
    """Splits octets into lines without space around them; empty ones are left out."""

    def __init__(self) -> None:
        self._rest = b""
        self._skipping = False
        self._began = False

    def feed(self, octets: bytes) -> Iterator[str]:
        """The lines that are complete now; no octets are the end of the input, which completes the last."""
        if not self._began:
            self._began = True
            octets = octets.removeprefix(b"\xef\xbb\xbf")
        at_end = not octets
        *complete, rest = (self._rest + octets).split(b"\n")
        if at_end:
            complete, rest = [*complete, rest], b""
        for line in complete:
            if not self._skipping and (text := line.decode("utf-8", "surrogateescape").strip()):
                yield text
            self._skipping = False
        if len(rest) > LONGEST_LINE:
            if not self._skipping:
                yield rest.decode("utf-8", "surrogateescape").strip()
            self._skipping, rest = True, b""
        self._rest = rest


def lines_now(descriptor: int) -> Iterator[str]:
    """The lines that can be read from a file descriptor, waiting for each."""
    lines = Lines()
    while octets := os.read(descriptor, _CHUNK):
        yield from lines.feed(octets)
    yield from lines.feed(b"")


async def chunks_of_lines(descriptor: int) -> AsyncIterator[list[str]]:
    """The same, a few at a time as they come, while the loop goes on."""
    lines = Lines()
    while octets := await _in_thread(lambda: os.read(descriptor, _CHUNK)):
        yield list(lines.feed(octets))
    yield list(lines.feed(b""))


async def _in_thread(function: Callable[[], bytes]) -> bytes:
    """Wait for the function in a thread that keeps nobody from ending, as one of a thread pool would."""
    done: Deferred[bytes] = Deferred()
    call: Callable[..., Any]
    if is_asyncio_available():
        call = asyncio.get_running_loop().call_soon_threadsafe
    else:
        from twisted.internet import reactor

        call = reactor.callFromThread  # type: ignore[attr-defined]

    def settle(result: bytes | Exception) -> None:
        if not done.called:
            done.callback(result) if isinstance(result, bytes) else done.errback(result)

    def read() -> None:
        try:
            result: bytes | Exception = function()
        except Exception as error:
            result = error
        call(settle, result)

    threading.Thread(target=read, daemon=True).start()
    return await maybe_deferred_to_future(done)
