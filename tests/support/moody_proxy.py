"""A proxy before a server of HTTP that is slow, hangs, breaks off or refuses, as it is told."""

from __future__ import annotations

import socket
import struct
import threading
import time
from enum import Enum, auto
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 300.0
_TOO_MUCH = b"<Error><Code>SlowDown</Code><Message>Please ask less.</Message></Error>"
_OF_ONE_CONNECTION = {"connection", "keep-alive", "transfer-encoding", "content-length"}


class Mood(Enum):
    """What becomes of a request."""

    WELL = auto()
    SLOW = auto()  # it takes `seconds` longer
    REFUSES = auto()  # 503, as stores answer that are asked too much
    BREAKS = auto()  # the connection is reset, and the server hears nothing
    MUTE = auto()  # the server does what it is asked, and the answer is lost
    HANGS = auto()  # until `release`; the server hears of it then


class MoodyProxy:
    """Stands before the server at ``to``, until ``close``.

    ``ask`` says what becomes of each request, such as ``GET /bucket/name``. ``heard`` counts moods.
    """

    def __init__(self, to: tuple[str, int], ask: Callable[[str], Mood], seconds=0.2) -> None:
        self.to = to
        self.ask = ask
        self.seconds = seconds
        self.heard: dict[Mood, int] = dict.fromkeys(Mood, 0)
        self._lock = threading.Lock()
        self._released = threading.Event()
        handler = type("Handler", (_Handler,), {"proxy": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host}:{port}"

    def mood(self, what: str) -> Mood:
        with self._lock:
            mood = self.ask(what)
            self.heard[mood] += 1
        return mood

    def hang(self) -> None:
        assert self._released.wait(_LONGEST), "nobody let it go on"

    def release(self) -> None:
        """Let go on what hangs; what comes later hangs anew."""
        self._released.set()
        self._released = threading.Event()

    def close(self) -> None:
        self.ask = lambda what: Mood.WELL
        self.release()
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Callers go away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: MoodyProxy

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        mood = self.proxy.mood(f"{self.command} {self.path}")
        match mood:
            case Mood.SLOW:
                time.sleep(self.proxy.seconds)
            case Mood.HANGS:
                self.proxy.hang()
            case Mood.BREAKS:
                return self._break()
            case Mood.REFUSES:
                return self._answer(
                    503, {"Content-Type": "application/xml"}, _TOO_MUCH, len(_TOO_MUCH)
                )
        server = HTTPConnection(*self.proxy.to, timeout=60)
        server.request(self.command, self.path, body, dict(self.headers))
        answer = server.getresponse()
        data = answer.read()
        server.close()
        if mood is Mood.MUTE:
            return self._break()
        size = answer.headers.get("Content-Length", len(data))
        return self._answer(answer.status, dict(answer.headers), data, size)

    def _answer(self, status: int, headers: dict[str, str], data: bytes, size: object) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in _OF_ONE_CONNECTION:
                self.send_header(name, value)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(data)

    def _break(self) -> None:
        self.close_connection = True
        # Closed with time to linger of 0, a connection is reset.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def log_message(self, *_: object) -> None:
        """Nothing is said."""

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass
