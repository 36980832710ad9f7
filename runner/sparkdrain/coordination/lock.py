"""A lock that processes of many machines share. It renews itself for as long as it is held."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from sparkdrain.coordination.pulse import Pulse
from sparkdrain.errors import Fenced, SparkDrainError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sparkdrain.coordination.lease import StoredLease

_RENEWALS: Final = 3
_LOOKS: Final = 6


class LockTaken(SparkDrainError):
    """A lock was not free in time; names who has it."""


class StoredLock:
    """A lock on what a lease stands for. Held by one thread at a time; made anew for each hold.

    Args:
        lease: what makes the lock; its name is that of the lock.
        wait: waits for so many seconds.
    """

    def __init__(self, lease: StoredLease, wait: Callable[[float], object] = time.sleep) -> None:
        self._lease = lease
        self._wait = wait

    @contextmanager
    def held(self, timeout: float) -> Iterator[int]:
        """Hold the lock: ``with lock.held(30) as token``. Look at ``check`` before effects.

        Args:
            timeout: how many seconds to wait for it.

        Raises:
            LockTaken: another process had it for all that time.
            StoreDown: the store cannot be used now.
        """
        token = self.acquire(timeout)
        renewal = Pulse(f"lock-{self._lease.name}", self.renew)
        renewal.start()
        try:
            yield token
        finally:
            if renewal.close():
                self._lease.release()

    def acquire(self, timeout: float) -> int:
        """See ``held``; the caller renews and releases. Returns the fencing token."""
        pause = self._lease.seconds / _LOOKS
        waited = 0.0
        while True:
            self._lease.acquire()
            if (token := self._lease.token()) is not None:
                return token
            if waited >= timeout:
                message = (
                    f"The lock {self._lease.name!r} was not free for {timeout:g} s: "
                    f"{self._lease.other or 'another process'} has it"
                )
                raise LockTaken(message)
            step = min(pause, timeout - waited)
            self._wait(step)
            waited += step

    def renew(self) -> float:
        """Renew the lock; returns the seconds until it is to be renewed again."""
        self._lease.renew()
        return self._lease.seconds / _RENEWALS

    def release(self) -> None:
        """Let others have the lock, if this process has it."""
        self._lease.release()

    def check(self) -> None:
        """Make sure that the lock is still held.

        Raises:
            Fenced: it was lost, because the store did not answer for too long.
        """
        if self._lease.token() is None:
            message = f"The lock {self._lease.name!r} was lost: it could not be renewed in time"
            raise Fenced(message)
