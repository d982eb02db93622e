"""A fast HTTP server in a process of its own, every host of 127.0.0.0/8 at once, that logs what it saw.

Hosts are addresses: ``fast(n)`` and ``slow(n)`` name them. Every page is the same few octets, answered after
``latency_s``. robots.txt permits everything; that of slow hosts asks for ``crawl_delay_s`` when there is one. Times are
of ``time.monotonic``, which the processes of one machine share. Only loopback peers are answered.

    with Server(latency_s=0.03) as server:
        ...
        report = server.report()   # what was seen since the last report
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

MOST_OPEN = 4096


def fast(number: int) -> str:
    """The address of a fast host."""
    return f"127.1.{number // 250}.{number % 250 + 1}"


def slow(number: int) -> str:
    """The address of a slow host."""
    return f"127.2.{number // 250}.{number % 250 + 1}"


@dataclass(frozen=True)
class HostReport:
    """One host: ``requests`` seen, the shortest time from one arrival to the next (``start_gap_s``) and from the end of
    an answer to the next arrival (``end_gap_s``; negative when two were in flight), the most in flight, the last end.
    Gaps are None when there were fewer than two requests.
    """

    requests: int
    start_gap_s: float | None
    end_gap_s: float | None
    most_in_flight: int
    last_end: float


class Server:
    """The process; ``port`` is where it listens on every loopback address. ``closes``: a connection after each answer,
    so that very many hosts do not run out of open files."""

    def __init__(
        self, *, latency_s: float = 0.0, crawl_delay_s: float = 0.0, body_octets: int = 200, closes: bool = False
    ) -> None:
        command = [sys.executable, __file__, str(latency_s), str(crawl_delay_s), str(body_octets), str(int(closes))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self._line())

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the server has ended")
        return line

    def url(self, host: str, path: str = "/") -> str:
        return f"http://{host}:{self.port}{path}"

    def report(self) -> dict[str, HostReport]:
        """What was seen since the last report, by host."""
        assert self._process.stdin is not None
        self._process.stdin.write("report\n")
        self._process.stdin.flush()
        return {host: HostReport(**facts) for host, facts in json.loads(self._line()).items()}


class _Log:
    """Arrival and end of every request, by host."""

    def __init__(self) -> None:
        self.seen: dict[str, list[list[float]]] = {}

    def arrived(self, host: str) -> list[float]:
        times = [time.monotonic(), 0.0]
        self.seen.setdefault(host, []).append(times)
        return times

    def report(self) -> dict[str, dict[str, Any]]:
        seen, self.seen = self.seen, {}
        return {host: self._host(times) for host, times in seen.items()}

    @staticmethod
    def _host(times: list[list[float]]) -> dict[str, Any]:
        times.sort()
        starts = [later[0] - earlier[0] for earlier, later in itertools.pairwise(times)]
        ends, latest = [], 0.0
        for earlier, later in itertools.pairwise(times):
            latest = max(latest, earlier[1])
            ends.append(later[0] - latest)
        steps = sorted([(at, 1) for at, _ in times] + [(at, -1) for _, at in times])
        most = now = 0
        for _, step in steps:
            now += step
            most = max(most, now)
        return {
            "requests": len(times),
            "start_gap_s": min(starts, default=None),
            "end_gap_s": min(ends, default=None),
            "most_in_flight": most,
            "last_end": max(at for _, at in times),
        }


class _Connection(asyncio.Protocol):
    def __init__(self, log: _Log, page: bytes, latency_s: float, crawl_delay_s: float, closes: bool) -> None:
        self.log, self.page, self.latency_s, self.crawl_delay_s = log, page, latency_s, crawl_delay_s
        self.closes = closes
        self.pending = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if not transport.get_extra_info("peername")[0].startswith("127."):
            transport.abort()
        self.host = transport.get_extra_info("sockname")[0]

    def data_received(self, data: bytes) -> None:
        self.pending += data
        while b"\r\n\r\n" in self.pending:
            head, self.pending = self.pending.split(b"\r\n\r\n", 1)
            times = self.log.arrived(self.host)
            answer = self.page
            if head.startswith(b"GET /robots.txt "):
                slow_one = self.crawl_delay_s and self.host.startswith("127.2.")
                rules = f"User-agent: *\nCrawl-delay: {self.crawl_delay_s}\n" if slow_one else ""
                answer = _answer(rules, self.closes)
            if self.latency_s:
                asyncio.get_running_loop().call_later(self.latency_s, self.send, answer, times)
            else:
                self.send(answer, times)

    def send(self, answer: bytes, times: list[float]) -> None:
        times[1] = time.monotonic()  # before: a client cannot have it earlier
        self.transport.write(answer)
        if self.closes:
            self.transport.close()


def _answer(body: str, closes: bool) -> bytes:
    last = "Connection: close\r\n" if closes else ""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n{last}\r\n"
    return (head + body).encode()


async def _serve(latency_s: float, crawl_delay_s: float, body_octets: int, closes: bool) -> None:
    with contextlib.suppress(OSError):  # a witness that waits for a processor sees gaps that are too short
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    log = _Log()
    page = _answer("x" * body_octets, closes)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: _Connection(log, page, latency_s, crawl_delay_s, closes), "0.0.0.0", 0, backlog=MOST_OPEN
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        assert line == "report\n"
        print(json.dumps(log.report()), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog=Path(__file__).name)
    parser.add_argument("latency_s", type=float)
    parser.add_argument("crawl_delay_s", type=float)
    parser.add_argument("body_octets", type=int)
    parser.add_argument("closes", type=int)
    given = parser.parse_args()
    asyncio.run(_serve(given.latency_s, given.crawl_delay_s, given.body_octets, bool(given.closes)))
