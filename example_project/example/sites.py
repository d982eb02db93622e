"""Small web sites on loopback, each with a log of what it was asked.

One server of Python's own, in threads, so that the crawl in the same process is not held up; it tells its sites apart
by the name that they are asked under, as servers on the web do. The logs are the witness: nothing in them comes from
the crawler.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ADDRESS = "127.0.0.1"


@dataclass(frozen=True)
class Answer:
    """What a site answers. ``delay_s``: seconds before the first byte."""

    body: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0


@dataclass
class Seen:
    """One request as the site saw it. Times are seconds of ``time.monotonic``.

    ``port`` is the server's own. ``ended`` is taken just before the answer goes out, so the gap from there to the next
    request is what the site had as rest. ``status`` is what was answered.
    """

    host: str
    port: int
    method: str
    path: str
    headers: dict[str, str]
    began: float
    ended: float = 0.0
    status: int = 0


Respond = Callable[[Seen], Answer]


class Server:
    """All sites of a tour. ``logs`` holds, by site, every request in order of arrival; ``port`` is known at once."""

    def __init__(self, sites: Mapping[str, Respond]) -> None:
        self._sites = dict(sites)
        self.logs: dict[str, list[Seen]] = {name: [] for name in self._sites}
        self._lock = threading.Lock()
        self._http = _Http((ADDRESS, 0), _handler_for(self))
        self.port: int = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), name="sites", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop listening; what was logged stays."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(5.0)

    def answer(self, seen: Seen) -> Answer:
        """Log the request, then find its answer: one request at a time, so that a site's state needs no care."""
        with self._lock:
            self.logs.setdefault(seen.host, []).append(seen)
            respond = self._sites.get(seen.host)
            return Answer("no such site", 421) if respond is None else respond(seen)


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128


def _handler_for(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1
        timeout = 30

        def do_GET(self) -> None:
            host = self.headers.get("Host", "").partition(":")[0]
            headers = dict(self.headers.items())
            seen = Seen(host, server.port, self.command, self.path, headers, time.monotonic())
            found = server.answer(seen)
            time.sleep(found.delay_s)
            body = found.body.encode()
            self.send_response(found.status)
            for name, value in found.headers.items():
                self.send_header(name, value)
            if "Content-Type" not in found.headers:
                self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            seen.status = found.status
            self.end_headers()
            self.wfile.write(body)
            seen.ended = time.monotonic()
            self.wfile.flush()

        def log_message(self, format: str, *args: Any) -> None:
            """The site keeps its own log."""

    return Handler
