"""The witness: a real HTTP server on a loopback address whose own log says what a crawl asked for.

A :class:`Site` answers from threads, so it runs beside a crawl in the same process. 127.0.0.1, 127.0.0.2
and so on are separate hosts on Linux; several sites on different addresses may share one port number.

Times are seconds of :func:`time.monotonic`, comparable between the sites of one process. ``ended`` is taken
just *before* the last bytes go to the kernel: a client cannot react earlier than that, while a clock read
after the call would include the wait of this thread for the interpreter lock and show gaps that are too
short and overlaps that never were.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import gzip
import http
import http.server
import ipaddress
import itertools
import math
import select
import socket
import socketserver
import ssl
import struct
import sys
import tempfile
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from tests.support import resolver

SLICE = 16384
"""Octets handed to the kernel at once; ``Seen.sent`` is exact to one partly written slice."""

SEND_BUFFER = 16384
"""Octets that the kernel may hold for an answer, kept small so that ``Seen.sent`` follows what the client
read."""

Headers = Mapping[str, "str | bytes | None"] | Sequence[tuple[str, "str | bytes | None"]]
Ending = Literal["keep", "close", "reset", "hang"]


@dataclass(frozen=True)
class Answer:
    """What to answer. Every delay is in seconds.

    :param headers: added to the defaults (Date, Content-Type, Content-Length or Transfer-Encoding); one
        that is named here replaces its default, and a value of None drops it. Text goes out as Latin-1, or
        UTF-8 where it does not fit.
    :param delay: before the first byte. :param body_delay: between the head and the body.
    :param piece: octets per write of the body (None: all at once). :param pause: between two pieces.
    :param encoding: compresses the body and says so: gzip, deflate or br.
    :param declared: the Content-Length to claim instead of the true one.
    :param unframed: neither a length nor chunks; the body ends with the connection.
    :param raw: these bytes instead of head and body.
    :param silent: neither head nor body.
    :param end: what happens to the connection afterwards: kept, closed, reset (RST), or held open in silence.
    """

    body: bytes | str = b""
    status: int = 200
    headers: Headers = ()
    delay: float = 0.0
    body_delay: float = 0.0
    piece: int | None = None
    pause: float = 0.0
    chunked: bool = False
    encoding: Literal["gzip", "deflate", "br"] | None = None
    declared: int | None = None
    unframed: bool = False
    raw: bytes | None = None
    silent: bool = False
    reason: str | None = None
    end: Ending = "keep"

    @property
    def payload(self) -> bytes:
        """The body as it goes over the wire, before chunking."""
        body = self.body.encode() if isinstance(self.body, str) else self.body
        return _encoded(body, self.encoding) if self.encoding else body

    def head_lines(self) -> list[tuple[str, bytes]]:
        """The header fields, defaults included."""
        given = list(self.headers.items()) if isinstance(self.headers, Mapping) else list(self.headers)
        named = {name.lower() for name, _ in given}
        lines: list[tuple[str, bytes]] = []

        def default(name: str, value: str) -> None:
            if name.lower() not in named:
                lines.append((name, value.encode("latin-1")))

        default("Date", formatdate(usegmt=True))
        default("Content-Type", "text/html; charset=utf-8")
        if self.encoding:
            default("Content-Encoding", self.encoding)
        if self.chunked:
            default("Transfer-Encoding", "chunked")
        elif not self.unframed and not (100 <= self.status < 200 or self.status in (204, 304)):
            default("Content-Length", str(len(self.payload) if self.declared is None else self.declared))
        if self.end in ("close", "reset") or self.unframed:
            default("Connection", "close")
        lines += [(name, _octets(value)) for name, value in given if value is not None]
        return lines


def hang() -> Answer:
    """Accept the request and never answer; ends when the client or the site gives up."""
    return Answer(silent=True, end="hang")


def reset() -> Answer:
    """Drop the connection with a RST, without an answer."""
    return Answer(silent=True, end="reset")


def closed() -> Answer:
    """Close the connection in good order, without an answer."""
    return Answer(silent=True, end="close")


def raw(data: bytes, end: Ending = "close") -> Answer:
    """Exactly these bytes."""
    return Answer(raw=data, end=end)


def dribble(body: bytes | str, piece: int = 1, pause: float = 0.1, **options: Any) -> Answer:
    """The head at once, then *piece* octets of the body every *pause* seconds."""
    return Answer(body, piece=piece, pause=pause, **options)


def truncated(body: bytes | str, missing: int = 10, **options: Any) -> Answer:
    """Claim *missing* octets more than the body has, then close."""
    answer = Answer(body, end="close", **options)
    return replace(answer, declared=len(answer.payload) + missing)


def redirect(location: str | bytes, status: int = 302, **options: Any) -> Answer:
    """A 3xx with this Location, sent as given."""
    headers = options.pop("headers", ())
    given = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
    return Answer(status=status, headers=[("Location", location), *given], **options)


@dataclass(eq=False)
class Seen:
    """One request as the server saw it, and what became of its answer.

    ``at``: the request line had arrived. ``ended``: the last byte was about to leave, or the connection was
    dropped; None while the answer is under way. ``path``: raw, with the query. ``sent``: octets of the body
    (with chunk framing) handed to the kernel. ``aborted``: the client went away before the end.
    ``connection``: 1 for the first connection of the site. ``status``: None when no status line was sent.
    ``settled``: nothing here changes any more; ``sent`` and ``aborted`` may lag behind the client until then.
    """

    at: float
    method: str
    path: str
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    ended: float | None = None
    status: int | None = None
    sent: int = 0
    aborted: bool = False
    connection: int = 0
    settled: bool = False

    @property
    def host(self) -> str | None:
        """The Host header."""
        return self.header("Host")

    def header(self, name: str) -> str | None:
        """The first value of a header, None when absent."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


SeenRequest = Seen
Route = Callable[[Seen], "Answer | str | bytes"]


def gaps(seen: Iterable[Seen]) -> list[float]:
    """Seconds from the end of each answer to the next request; negative when they overlap, -inf after an
    open one."""
    ordered = sorted(seen, key=lambda one: one.at)
    latest = -math.inf
    result = []
    for one, following in itertools.pairwise(ordered):
        latest = max(latest, math.inf if one.ended is None else one.ended)
        result.append(following.at - latest)
    return result


def starts(seen: Iterable[Seen]) -> list[float]:
    """Seconds from each request to the next one."""
    ordered = sorted(one.at for one in seen)
    return [b - a for a, b in itertools.pairwise(ordered)]


def max_in_flight(seen: Iterable[Seen]) -> int:
    """The most requests whose answers were under way at the same time."""
    steps = [(one.at, 1) for one in seen]
    steps += [(one.ended, -1) for one in seen if one.ended is not None]
    most = now = 0
    for _, step in sorted(steps):
        now += step
        most = max(most, now)
    return most


class Site:
    """An HTTP/1.1 server on one loopback address.

    :param address: the loopback address to listen on. :param port: 0 takes a free one.
    :param tls: speak TLS with a self-signed certificate. :param name: a ``*.test`` name that the test
        resolver maps to the address while the site is open; ``url()`` then uses it.

    Routes are found by the raw path with query, then without the query, then by the longest prefix given as
    ``/some/prefix*``, then ``default`` (404). A route that raises answers 500 and is kept in ``errors``,
    which ``close()`` turns into a failure.
    """

    def __init__(
        self, address: str = "127.0.0.1", port: int = 0, *, tls: bool = False, name: str | None = None
    ) -> None:
        self.address = address
        self.tls = tls
        self.name = name
        self.log: list[Seen] = []
        self.errors: list[str] = []
        self.connections = 0
        self.default: Answer | Route = Answer("not here", status=404)
        self._routes: dict[str, Route] = {}
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._closing = False
        self._server = _Server(self, (address, port))
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        if name is not None:
            resolver.NAMES[name] = address

    def __enter__(self) -> Site:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(check=kind is None)

    def close(self, *, check: bool = True) -> None:
        """Stop listening and drop every connection, also one whose answer hangs; fail if a route of the
        test broke."""
        if not self._closing:
            self._closing = True
            if self.name is not None:
                resolver.NAMES.pop(self.name, None)
            self._server.shutdown()
            self._server.server_close()
            with self._lock:
                still_open = list(self._open)
            for connection in still_open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        if check and self.errors:
            raise AssertionError("a route of this site failed:\n" + "\n".join(self.errors))

    # Addresses

    @property
    def scheme(self) -> str:
        return "https" if self.tls else "http"

    @property
    def netloc(self) -> str:
        """Host and port as they stand in a URL."""
        host = self.name or (f"[{self.address}]" if ":" in self.address else self.address)
        return f"{host}:{self.port}"

    @property
    def host(self) -> str:
        """The host alone: the name, or the address where there is none."""
        return self.name or self.address

    def url(self, path: str = "/") -> str:
        return f"{self.scheme}://{self.netloc}{path}"

    # Routes

    def page(self, path: str, body: bytes | str = b"page", status: int = 200, **options: Any) -> None:
        """Answer *path* always the same; *options* are those of :class:`Answer`."""
        self.answer(path, Answer(body, status, **options))

    def answer(self, path: str, answer: Answer) -> None:
        self._routes[path] = lambda seen: answer

    def route(self, path: str, answering: Route) -> None:
        """Answer *path* by calling *answering* with what was seen, in a thread of the server."""
        self._routes[path] = answering

    def robots(self, text: bytes | str = b"", status: int = 200, **options: Any) -> None:
        """Answer /robots.txt with this text, as text/plain."""
        headers = options.pop("headers", ())
        given = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
        if not any(name.lower() == "content-type" for name, _ in given):
            given.insert(0, ("Content-Type", "text/plain"))
        self.page("/robots.txt", text, status, headers=given, **options)

    def redirect(self, path: str, location: str | bytes, status: int = 302, **options: Any) -> None:
        self.answer(path, redirect(location, status, **options))

    def sequence(self, path: str, answers: Sequence[Answer | str | bytes]) -> None:
        """Answer *path* with these one after the other; the last one repeats."""
        waiting = list(answers)
        lock = threading.Lock()

        def following(seen: Seen) -> Answer | str | bytes:
            with lock:
                return waiting.pop(0) if len(waiting) > 1 else waiting[0]

        self._routes[path] = following

    def _route(self, path: str) -> Route:
        for key in (path, path.partition("?")[0]):
            if key in self._routes:
                return self._routes[key]
        prefixes = [key for key in self._routes if key.endswith("*") and path.startswith(key[:-1])]
        if prefixes:
            return self._routes[max(prefixes, key=len)]
        default = self.default
        return (lambda seen: default) if isinstance(default, Answer) else default

    def _answer(self, seen: Seen) -> Answer:
        try:
            answer = self._route(seen.path)(seen)
        except Exception:
            self.errors.append(traceback.format_exc())
            return Answer("the route failed", status=500)
        return answer if isinstance(answer, Answer) else Answer(answer)

    # The witness

    def requests(self, path: str | None = None) -> list[Seen]:
        """What was asked for, in order of arrival; only *path* (raw, with query) when given."""
        ordered = sorted(self.log, key=lambda one: one.at)
        return [one for one in ordered if path is None or one.path == path]

    def paths(self) -> list[str]:
        """The raw paths that were asked for, in order of arrival."""
        return [one.path for one in self.requests()]

    def gaps(self) -> list[float]:
        """:func:`gaps` of the whole log, robots.txt included."""
        return gaps(list(self.log))

    def max_in_flight(self) -> int:
        """:func:`max_in_flight` of the whole log."""
        return max_in_flight(list(self.log))

    def settle(self, timeout: float = 2.0) -> None:
        """Wait until every answer is settled; in async code rather wait with ``crawl.sleep``."""
        deadline = time.monotonic() + timeout
        while open_answers := [seen.path for seen in list(self.log) if not seen.settled]:
            if time.monotonic() > deadline:
                raise AssertionError(f"answers still under way: {open_answers}")
            time.sleep(0.005)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 2048
    allow_reuse_address = True

    def __init__(self, site: Site, address: tuple[str, int]) -> None:
        self.site = site
        self.numbers: dict[Any, int] = {}
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # HTTPServer asks the resolver for the machine's name here; the witness needs none.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        self.site.connections += 1
        self.numbers[client_address] = self.site.connections
        super().process_request(request, client_address)

    def finish_request(self, request: Any, client_address: Any) -> None:
        site = self.site
        number = self.numbers.pop(client_address)
        if site.tls:
            request = certificate().wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        with site._lock:
            site._open.add(request)
        try:
            if not site._closing:
                _Handler(request, client_address, self, number)
        finally:
            with site._lock:
                site._open.discard(request)
            if site.tls:  # the wrapped socket owns the descriptor; the plain one is empty by now
                with contextlib.suppress(OSError, ValueError):
                    request.settimeout(0.2)
                    request.unwrap()
                request.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep a failure of the server itself; what the client did to the connection is none."""
        if not self.site._closing and not isinstance(sys.exc_info()[1], OSError):
            self.site.errors.append(traceback.format_exc())


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def __init__(self, request: Any, client_address: Any, server: _Server, number: int) -> None:
        self.number = number
        super().__init__(request, client_address, server)

    def log_message(self, format: str, *args: Any) -> None:
        """The witness keeps its own log."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """A request that is no HTTP is part of what was seen."""
        words = self.requestline.split(" ")
        seen = Seen(self.arrived, words[0], " ".join(words[1:]), connection=self.number, status=code)
        self.server.site.log.append(seen)
        self.close_connection = True
        self._send(seen, Answer(message or "", status=code, end="close"))
        seen.settled = True

    def handle_one_request(self) -> None:
        self.close_connection = True
        try:
            self.raw_requestline = self.rfile.readline(65537)
            self.arrived = time.monotonic()
            if not self.raw_requestline or not self.parse_request():
                return
            # self.path has leading slashes folded; the witness keeps what stood there
            seen = Seen(self.arrived, self.command, self.requestline.split()[1], connection=self.number)
            seen.headers = [(name, str(value)) for name, value in self.headers.items()]
            self.server.site.log.append(seen)
            try:
                seen.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self._send(seen, self.server.site._answer(seen))
            finally:
                if seen.ended is None:
                    seen.ended = time.monotonic()
                seen.settled = True
        except OSError:
            self.close_connection = True

    def _send(self, seen: Seen, answer: Answer) -> None:
        if not self._wait(answer.delay):
            seen.aborted, seen.ended = True, time.monotonic()
            return
        try:
            if not answer.silent:
                self._write(seen, answer)
        except OSError:
            seen.aborted, seen.ended = True, time.monotonic()
        if seen.aborted:
            self.close_connection = True
        elif answer.end == "hang":
            seen.aborted = not self._wait(math.inf)
        elif answer.end == "reset":
            seen.ended = time.monotonic()
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.rfile.close()
            self.connection.close()
        if answer.end != "keep" or answer.unframed:
            self.close_connection = True
        if answer.end == "hang" or seen.ended is None:
            seen.ended = time.monotonic()

    def _write(self, seen: Seen, answer: Answer) -> None:
        if answer.raw is not None:
            head, pieces = b"", [answer.raw]
        else:
            seen.status = answer.status
            head = _head(answer)
            pieces = [] if self.command == "HEAD" else _pieces(answer)
        if head and (not pieces or answer.body_delay or answer.pause):
            self._push(seen, head, last=not pieces and answer.end != "hang", body=False)
            if not self._wait(answer.body_delay):
                seen.aborted = True
                return
            head = b""
        for index, piece in enumerate(pieces):
            if index and not self._wait(answer.pause):
                seen.aborted = True
                return
            last = index == len(pieces) - 1 and answer.end != "hang"
            self._push(seen, head + piece, last=last, body=True, skip=len(head))
            head = b""

    def _push(self, seen: Seen, data: bytes, *, last: bool, body: bool, skip: int = 0) -> None:
        view = memoryview(data)
        while view:
            if last and len(view) <= SLICE:
                seen.ended = time.monotonic()
            written = self.connection.send(view[:SLICE])
            view = view[written:]
            if body:
                seen.sent += max(0, written - skip)
                skip = max(0, skip - written)

    def _wait(self, seconds: float) -> bool:
        """Wait; False as soon as the client is gone or the site closes."""
        if not seconds:
            return True
        gone = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)
        watch = select.poll()
        watch.register(self.connection, gone | (select.POLLIN if self.server.site.tls else 0))
        deadline = time.monotonic() + seconds
        while not self.server.site._closing:
            left = deadline - time.monotonic()
            if left <= 0:
                return True
            if any(event & gone or self._goodbye() for _, event in watch.poll(min(left, 0.5) * 1000)):
                return False
        return False

    def _goodbye(self) -> bool:
        """What came in over TLS while an answer is under way is the client's goodbye (no client pipelines): a
        server that does not read it would keep the connection of a client that waits for an answer to it."""
        self.connection.settimeout(0)
        try:
            stray = self.connection.recv(1)
        except ssl.SSLWantReadError:
            return False
        except OSError:
            return True
        finally:
            with contextlib.suppress(OSError):
                self.connection.settimeout(None)
        if stray:
            self.server.site.errors.append("a client sent more before its answer came")
        return True


def _head(answer: Answer) -> bytes:
    try:
        standard = http.HTTPStatus(answer.status).phrase
    except ValueError:
        standard = "Unnamed"
    reason = standard if answer.reason is None else answer.reason
    lines = [f"HTTP/1.1 {answer.status} {reason}".encode("latin-1")]
    lines += [name.encode("latin-1") + b": " + value for name, value in answer.head_lines()]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _pieces(answer: Answer) -> list[bytes]:
    payload = answer.payload
    size = answer.piece or (4096 if answer.chunked else max(len(payload), 1))
    pieces = [payload[i : i + size] for i in range(0, len(payload), size)]
    if answer.chunked:
        pieces = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
        if answer.end not in ("reset", "hang"):
            pieces.append(b"0\r\n\r\n")
    return pieces


def _octets(value: str | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode()


@functools.lru_cache(maxsize=16)
def _encoded(body: bytes, encoding: str) -> bytes:
    if encoding == "gzip":
        return gzip.compress(body, 6)
    if encoding == "deflate":
        return zlib.compress(body)
    import brotli

    compressed: bytes = brotli.compress(body)
    return compressed


@functools.lru_cache(maxsize=1)
def pem() -> bytes:
    """Key and self-signed certificate for ``*.test``, localhost and 127.0.0.1."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "witness.test")])
    now = datetime.datetime.now(datetime.timezone.utc)
    names: list[x509.GeneralName] = [x509.DNSName("*.test"), x509.DNSName("localhost")]
    names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoded = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(*encoded) + signed.public_bytes(serialization.Encoding.PEM)


@functools.lru_cache(maxsize=1)
def certificate() -> ssl.SSLContext:
    """A server context with the certificate of :func:`pem`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "witness.pem"
        path.write_bytes(pem())
        context.load_cert_chain(path)
    return context


def unused_port(address: str = "127.0.0.1") -> int:
    """A port on which nothing listens: a connection to it is refused."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


class Sites:
    """Opens sites and closes them all at the end of a test."""

    def __init__(self) -> None:
        self.opened: list[Site] = []

    def __call__(
        self, address: str = "127.0.0.1", port: int = 0, *, tls: bool = False, name: str | None = None
    ) -> Site:
        """Open one :class:`Site`."""
        site = Site(address, port, tls=tls, name=name)
        self.opened.append(site)
        return site

    def named(self, *names: str, tls: bool = False) -> tuple[Site, ...]:
        """One site for each ``*.test`` name, each on an address of its own, all on one port number."""
        for _ in range(50):
            port = unused_port()
            group: list[Site] = []
            try:
                for number, name in enumerate(names, start=len(self.opened) + 1):
                    group.append(Site(f"127.0.1.{number}", port, tls=tls, name=name))
            except OSError:  # somebody has this port on one of the addresses
                for site in group:
                    site.close()
                continue
            self.opened += group
            return tuple(group)
        raise RuntimeError("no port is free on every address")

    def close(self) -> None:
        """Close all, then raise what a failing route left behind."""
        with contextlib.ExitStack() as closing:
            for site in self.opened:
                closing.callback(site.close)


def pages(site: Site) -> list[str]:
    """The paths that were asked for, but for /robots.txt."""
    return [path for path in site.paths() if path != "/robots.txt"]


def page_requests(site: Site) -> list[Seen]:
    """The requests that were seen, but for /robots.txt."""
    return [seen for seen in site.requests() if seen.path != "/robots.txt"]
