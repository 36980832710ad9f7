"""What the DoFns of one process share: connections, and what has been fetched.

The one place with something global: bundles and DoFns come and go, connections stay.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol

from sparkdrain.io.kafka.asking import Asking, Commits, Ends
from sparkdrain.io.kafka.broker_clock import BrokerClock
from sparkdrain.io.kafka.intake import Intake

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from apache_beam.utils.timestamp import Timestamp

    from sparkdrain.io.kafka.client import Catalog, LogClient, Partition

_CLOSING: Final = 5.0


class LogService(Protocol):
    """A service whose records are in partitions; hashable, and the same in another process."""

    def open_client(self) -> LogClient:
        """A client library, where the pipeline runs.

        Raises:
            BadSetup: it is not installed here.
            BadOption: it does not take the settings.
        """


@dataclass(frozen=True)
class Wanted:
    """What is to be connected to; equal ones share.

    Attributes:
        headers: whether records are to have their headers.
        reader: tells transforms apart: each reads for itself.
    """

    service: LogService
    headers: bool
    reader: str


class Shared:
    """Connections of one transform in one process; they are made when they are needed."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._lock = threading.RLock()
        self._catalog: Catalog | None = None
        self._intake: Intake | None = None
        self.asking = threading.Lock()
        """Held while the catalog is asked."""
        self.partitions: Asking[tuple[float, Sequence[Partition]]] = Asking("partitions")
        self._topics: frozenset[str] = frozenset()
        self.reached: dict[Partition, tuple[int, Timestamp | None]] = {}
        """The offset behind what was handed over last of a partition, and the watermark there."""

    @cached_property
    def client(self) -> LogClient:
        """The client library."""
        return self._wanted.service.open_client()

    @property
    def catalog(self) -> Catalog:
        """The catalog to ask, for one thread at a time: see ``asking``."""
        with self._lock:
            if self._catalog is None:
                self._catalog = self.client.catalog()
            return self._catalog

    @property
    def intake(self) -> Intake:
        """The intake that reads; begins with the first use."""
        with self._lock:
            if self._intake is None:
                records = self.client.records(headers=self._wanted.headers)
                self._intake = Intake(records, time.monotonic)
            return self._intake

    @cached_property
    def ends(self) -> Ends:
        """Where partitions end."""
        return Ends(self._latest, time.monotonic)

    @cached_property
    def clock(self) -> BrokerClock:
        """The time of the brokers."""
        return BrokerClock(
            self.client.clock, lambda: sorted(self._topics), time.time, time.monotonic
        )

    @cached_property
    def commits(self) -> Commits:
        """What commits offsets for all readers."""
        return Commits(self._commit)

    def reads(self, topics: Iterable[str]) -> None:
        """These topics are read by this transform, here or in another process."""
        self._topics = self._topics.union(topics)

    def _latest(self) -> dict[Partition, int]:
        followed = self.intake.followed()
        with self.asking:
            return self.catalog.latest(followed)

    def _commit(self, offsets: dict[Partition, int]) -> None:
        with self.asking:
            self.catalog.commit(offsets)

    def close(self) -> None:
        """Let go of everything."""
        if "commits" in self.__dict__:
            self.commits.wait(_CLOSING)
        if "clock" in self.__dict__:
            self.clock.close()
        with self._lock:
            intake, self._intake = self._intake, None
            catalog, self._catalog = self._catalog, None
        if intake is not None:
            intake.close()
        # A thread that asks may wait for a broker that is away: the catalog is left to that thread.
        if catalog is not None and self.asking.acquire(timeout=1.0):
            try:
                catalog.close()
            finally:
                self.asking.release()


class _Process:
    """The connections of a process, and how many use them."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.shared: dict[Wanted, Shared] = {}
        self.users: dict[Wanted, int] = {}


_process = _Process()


def _here() -> _Process:
    global _process  # noqa: PLW0603 - the one of this process, not of that it was forked from
    if _process.pid != os.getpid():
        _process = _Process()
    return _process


def acquire(wanted: Wanted) -> Shared:
    """The connections; to be released as often as they were acquired."""
    here = _here()
    with here.lock:
        here.users[wanted] = here.users.get(wanted, 0) + 1
        return _get(here, wanted)


def borrow(wanted: Wanted) -> Shared:
    """The connections, for a caller that cannot tell when it is done with them.

    They are closed when the last of the others releases them, or with the process.
    """
    here = _here()
    with here.lock:
        return _get(here, wanted)


def _get(here: _Process, wanted: Wanted) -> Shared:
    shared = here.shared.get(wanted)
    if shared is None:
        shared = here.shared[wanted] = Shared(wanted)
    return shared


def release(wanted: Wanted) -> None:
    """Let go of the connections; the last caller that does so closes them."""
    here = _here()
    with here.lock:
        here.users[wanted] = here.users.get(wanted, 1) - 1
        if here.users[wanted] > 0:
            return
        del here.users[wanted]
        shared = here.shared.pop(wanted, None)
    if shared is not None:
        shared.close()


@atexit.register
def _close_all() -> None:
    here = _here()
    with here.lock:
        left, here.shared = list(here.shared.values()), {}
    for shared in left:
        shared.close()
