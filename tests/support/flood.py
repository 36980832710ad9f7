"""Strangers who connect to listeners, in a process of their own, and say nothing.

Run: ``python -m tests.support.flood SILENT PAUSE HOST:PORT...``. At each address it holds SILENT
connections that stay silent, and one that sends a byte each second. Whichever is closed is opened
again PAUSE seconds later. It ends when its standard input does, and prints what came of it as JSON.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import resource
import selectors
import socket
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT: Final = Path(__file__).parents[2]
_AT_ONCE: Final = 100
"""Connections that are opened before closed ones are looked for."""
_DRIP_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Stranger:
    """A connection.

    Attributes:
        address: where it leads.
        drips: whether it sends a byte now and then.
        number: tells strangers apart.
    """

    address: tuple[str, int]
    drips: bool
    number: int


class Crowd:
    """All strangers."""

    def __init__(self, addresses: Sequence[tuple[str, int]], silent: int, pause: float) -> None:
        self._pause = pause
        self._selector = selectors.DefaultSelector()
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        each = (
            Stranger(address, number == silent, number)
            for number in range(silent + 1)
            for address in addresses
        )
        self._due = [(0.0, at, stranger) for at, stranger in enumerate(each)]
        self._turns = len(self._due)
        self._dripping: dict[socket.socket, Stranger] = {}
        self._next_drip = 0.0
        self.opened: Counter[str] = Counter()

    def stay(self) -> None:
        """Connect, and connect again, until standard input ends."""
        while True:
            self._open(time.monotonic())
            for key, _ in self._selector.select(0.0 if self._is_any_due() else 0.05):
                if key.data is None:
                    return
                self._listen(key.fileobj, key.data)
            self._drip(time.monotonic())

    def _is_any_due(self) -> bool:
        return bool(self._due) and self._due[0][0] <= time.monotonic()

    def _open(self, now: float) -> None:
        for _ in range(_AT_ONCE):
            if not self._due or self._due[0][0] > now:
                return
            stranger = heapq.heappop(self._due)[2]
            connection = socket.socket()
            connection.setblocking(False)
            connection.connect_ex(stranger.address)
            self._selector.register(connection, selectors.EVENT_READ, stranger)
            self.opened[f"{stranger.address[0]}:{stranger.address[1]}"] += 1
            if stranger.drips:
                self._dripping[connection] = stranger

    def _listen(self, connection: socket.socket, stranger: Stranger) -> None:
        with contextlib.suppress(OSError):
            if connection.recv(1 << 16):
                return  # it is asked who it is
        self._close(connection, stranger)

    def _close(self, connection: socket.socket, stranger: Stranger) -> None:
        self._selector.unregister(connection)
        self._dripping.pop(connection, None)
        connection.close()
        self._turns += 1
        heapq.heappush(self._due, (time.monotonic() + self._pause, self._turns, stranger))

    def _drip(self, now: float) -> None:
        if now < self._next_drip:
            return
        self._next_drip = now + _DRIP_SECONDS
        for connection, stranger in list(self._dripping.items()):
            try:
                connection.send(b"\0")
            except BlockingIOError:
                continue
            except OSError:
                self._close(connection, stranger)


@contextlib.contextmanager
def flooded(
    addresses: Sequence[tuple[str, int]], silent: int = 1000, pause: float = 1.0
) -> Iterator[dict[str, int]]:
    """Strangers at these addresses; at the end, how many connections each of them has had."""
    named = [f"{host}:{port}" for host, port in addresses]
    command = [sys.executable, "-m", "tests.support.flood", str(silent), str(pause), *named]
    opened: dict[str, int] = {}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as crowd:
        try:
            yield opened
        finally:
            opened.update(json.loads(crowd.communicate(timeout=60)[0]))


def main(silent: str, pause: str, *named: str) -> None:
    """Be a crowd."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    split = (name.rpartition(":") for name in named)
    crowd = Crowd([(host, int(port)) for host, _, port in split], int(silent), float(pause))
    crowd.stay()
    print(json.dumps(crowd.opened))


if __name__ == "__main__":
    main(*sys.argv[1:])
