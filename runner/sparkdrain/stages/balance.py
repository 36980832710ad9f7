"""Rebalancing of stragglers: a slot that still has restrictions gives some to an idle core.

The driver asks, the slot answers with a block of restrictions or with nothing; the block becomes
a task of its own beside the running ones. ``choose`` decides; the rest carries messages.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from typing import TYPE_CHECKING, Any

from sparkdrain.door import Door
from sparkdrain.errors import TruncatedInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# A split costs a task, about a tenth of a second: what ends sooner is not worth it.
_PATIENCE_SECONDS = 1.0
_POLL_SECONDS = 0.1
_LONGEST_PATIENCE_SECONDS = 30.0
_END_SECONDS = 1.0
# Said, not shown by closing: a socket stays open while another thread reads from it.
_BYE = "bye"


@dataclass(slots=True)
class Lender:
    """A slot at work on restrictions, as the driver sees it."""

    slot: int
    attempt: int
    since: float
    """When it began, or last answered."""
    patience: float = _PATIENCE_SECONDS
    asked: bool = False


def choose(lenders: Iterable[Lender], idle_cores: int, now: float) -> list[Lender]:
    """Whom to ask now: as many as there are idle cores, those longest at work first.

    A slot is asked when it has been at work for its patience since it began or last answered;
    one that had nothing to give is asked less and less often.
    """
    ready = [
        lender for lender in lenders if not lender.asked and now - lender.since >= lender.patience
    ]
    return sorted(ready, key=lambda lender: lender.since)[: max(0, idle_cores)]


@dataclass(frozen=True, slots=True)
class Address:
    """Where a slot finds the balancer; travels with the task."""

    host: str
    port: int
    key: bytes


@dataclass(frozen=True, slots=True)
class Gift:
    """Restrictions that a slot gave away, to be processed by somebody else."""

    slot: int
    attempt: int
    edge: int
    payload: bytes


class Balancer:
    """The driver's side, for one level.

    Args:
        host: an address of this machine that executors can reach.
        interface: the address to listen at.
        cores: how many tasks can run at a time.
        accept: takes a gift; called in a thread of the balancer's.
    """

    def __init__(
        self,
        host: str,
        interface: str,
        cores: int,
        accept: Callable[[Gift], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._listener = Listener((interface, 0))
        self._bound = interface, self._listener.address[1]
        self.address = Address(host, self._listener.address[1], secrets.token_bytes(16))
        self._door = Door(self.address.key)
        self._cores = cores
        self._accept = accept
        self._clock = clock
        self._lock = threading.Lock()
        self._lenders: dict[Connection, Lender] = {}
        self._unfinished = 0
        # Held while a gift is accepted: none is any more, once this is closed.
        self._accepting = threading.Lock()
        self._closed = threading.Event()
        self._threads = [
            threading.Thread(target=target, name=f"balancer-{target.__name__}", daemon=True)
            for target in (self._listen, self._ask)
        ]
        for thread in self._threads:
            thread.start()

    def expect(self, tasks: int) -> None:
        """That many more tasks will run."""
        with self._lock:
            self._unfinished += tasks

    def _listen(self) -> None:
        # Closed by nobody else: a thread that waits for connections would not notice.
        with self._listener:
            while not self._closed.is_set():
                try:
                    connection = self._listener.accept()
                except OSError:
                    continue
                # In a thread of its own: a stranger may stay silent for a while.
                threading.Thread(
                    target=self._serve, args=(connection,), name="balancer-slot", daemon=True
                ).start()

    def _serve(self, connection: Connection) -> None:
        # Of a worker that is gone.
        with connection, contextlib.suppress(OSError, EOFError):
            if not self._door.admits(connection):
                return
            slot, attempt = connection.recv()
            with self._lock:
                self._lenders[connection] = Lender(slot, attempt, self._clock())
            try:
                while (answer := connection.recv()) != _BYE:
                    self._answered(connection, answer)
            finally:
                with self._lock:
                    del self._lenders[connection]
                    self._unfinished -= 1

    def _answered(self, connection: Connection, answer: tuple[int, bytes] | None) -> None:
        with self._lock:
            lender = self._lenders[connection]
            lender.asked = False
            lender.since = self._clock()
            lender.patience = (
                _PATIENCE_SECONDS if answer else min(2 * lender.patience, _LONGEST_PATIENCE_SECONDS)
            )
        if answer is None:
            return
        with self._accepting:
            if not self._closed.is_set():
                self._accept(Gift(lender.slot, lender.attempt, *answer))

    def _ask(self) -> None:
        while not self._closed.wait(_POLL_SECONDS):
            with self._lock:
                idle = self._cores - self._unfinished
                chosen = choose(self._lenders.values(), idle, self._clock())
                connections = [c for c, lender in self._lenders.items() if lender in chosen]
                for lender in chosen:
                    lender.asked = True
            for connection in connections:
                # Not while it may be closed: the descriptor could be another file's.
                with self._lock, contextlib.suppress(OSError):
                    if connection in self._lenders:
                        # Of what is left, half: the idle core and this one then end together.
                        connection.send(0.5)

    def close(self) -> None:
        """Stop asking; no gift is accepted when this returns."""
        with self._accepting:
            self._closed.set()
        # Nothing else wakes a thread that waits for a connection.
        with contextlib.suppress(OSError):
            socket.create_connection(self._bound, 1.0).close()
        for thread in self._threads:
            thread.join(_END_SECONDS)


class Lending:
    """A slot's side: answers the driver while the slot works.

    Best effort, but for this: what was given away reaches the driver or ``close`` raises.
    """

    def __init__(
        self,
        address: Address,
        slot: int,
        attempt: int,
        give: Callable[[float], tuple[int, bytes] | None],
    ) -> None:
        self._give = give
        self._lock = threading.Lock()
        self._closed = False
        self._connection: Any = None
        self._lost: Exception | None = None
        self.gifts = 0
        try:
            self._connection = Client((address.host, address.port), authkey=address.key)
            self._connection.send((slot, attempt))
        except Exception:  # noqa: BLE001 - then nobody asks
            return
        threading.Thread(target=self._answer, name="lending", daemon=True).start()

    def _answer(self) -> None:
        while True:
            try:
                fraction = self._connection.recv()
            except (OSError, EOFError, TypeError):
                return
            with self._lock:
                if self._closed:
                    return
                self._send(self._give(fraction))

    def _send(self, gift: tuple[int, bytes] | None) -> None:
        if gift is not None:
            self.gifts += 1
        try:
            self._connection.send(gift)
        except OSError as error:
            if gift is not None:
                self._lost = error

    def close(self) -> None:
        """The slot has nothing left.

        Raises:
            TruncatedInput: restrictions were given away and did not arrive.
        """
        with self._lock:
            self._closed = True
            if self._connection is not None:
                with contextlib.suppress(OSError):
                    self._connection.send(_BYE)
        if self._lost is not None:
            msg = f"restrictions that were given away were lost: {self._lost}"
            raise TruncatedInput(msg)
