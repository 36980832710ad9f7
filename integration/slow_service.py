"""An HTTP service that takes its time, and hangs at times: for tests of calls that wait."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

_HANG_SECONDS: Final = 4.0
_HANG_EVERY: Final = 40


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        service, number = self.server.service, int(self.path[1:])
        with service.answering(number) as is_first:
            hangs = is_first and number % _HANG_EVERY == 7
            time.sleep(_HANG_SECONDS if hangs else random.uniform(0, 0.02))
            with suppress(OSError):  # whoever asked is gone
                body = b"%d" % number
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 500
    service: SlowService


class SlowService:
    """Answers ``GET /NUMBER`` with the number; use it as a context manager.

    An answer takes up to 20 ms. The first one to some numbers takes 4 s.

    Attributes:
        asked: how often each number was asked for.
        in_flight: how many calls wait for their answer.
    """

    def __init__(self) -> None:
        self.asked: Counter[int] = Counter()
        self.in_flight = 0
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.service = self

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.server_address[1]

    def answering(self, number: int) -> _Call:
        """A call for a number is answered."""
        return _Call(self, number, self._lock)

    def __enter__(self) -> SlowService:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Call:
    def __init__(self, service: SlowService, number: int, lock: threading.Lock) -> None:
        self._service = service
        self._number = number
        self._lock = lock

    def __enter__(self) -> bool:
        with self._lock:
            self._service.in_flight += 1
            self._service.asked[self._number] += 1
            return self._service.asked[self._number] == 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._service.in_flight -= 1
