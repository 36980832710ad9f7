"""The process above a host: it ends with the job, and then so does the host, and nothing stays.

It owns the line to the driver, and does nothing but wait: what user code does in the host, down
to a crash or an endless loop, cannot keep it from its work.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
from typing import TYPE_CHECKING, Final

from sparkdrain.hosts.line import FromLeash, ToLeash
from sparkdrain.hosts.orphans import SHARED, end_orphans
from sparkdrain.hosts.process import how_it_ended, is_alive

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.hosts.lookout import Lookout
    from sparkdrain.hosts.memory_limit import MemoryLimit
    from sparkdrain.lines.line import Line

_GRACE_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 1.0
_LAST_SECONDS: Final = 0.05


class Warden:
    """Waits for the end of a host, and brings it about.

    Made before the host is forked, so that the host's end is noticed, however soon it comes.

    Args:
        line: to the driver; its end is the end of the job.
        keeper: a process that the host must not outlive; 1 or less for none.
        limit: how much memory the host may use.
    """

    def __init__(
        self,
        line: Line,
        keeper: int,
        lookout: Lookout,
        limit: MemoryLimit,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lookout = lookout
        self._limit = limit
        self._excess = ""
        self._child = 0
        self._line = line
        self._keeper = keeper
        self._clock = clock
        self._deadline: float | None = None
        self._reason = ""
        self._selector = selectors.DefaultSelector()
        self._selector.register(line, selectors.EVENT_READ, self._hear)
        self._keeper_is_watched = self._watch_keeper()
        self._waker, self._woken = socket.socketpair()
        for end in (self._waker, self._woken):
            end.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ, self._wake)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)

    def _watch_keeper(self) -> bool:
        if self._keeper <= 1:
            return True
        try:
            descriptor = os.pidfd_open(self._keeper)
        except (AttributeError, OSError):
            return False
        self._selector.register(
            descriptor, selectors.EVENT_READ, lambda: self._lose_keeper(descriptor)
        )
        return True

    def wait(self, child: int) -> str:
        """Wait for the end of the host, which leads its process group; how it came, in words."""
        self._child = child
        while (status := _end_of(child)) is None:
            if not self._keeper_is_watched and not is_alive(self._keeper):
                self._end("the executor is gone")
            if excess := self._limit.exceeded_by(child):
                # At once: a host that tears down may need more memory still.
                self._excess = excess
                os.kill(child, signal.SIGKILL)
            elif self._deadline is not None:
                self._press(child)
            for key, _ in self._selector.select(self._patience()):
                key.data()
        # What user code has started in it, if anything, ends with it. Daemons are this process's
        # children by now.
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        # Other slots may use a JVM that this one has started.
        end_orphans(spared=(SHARED,))
        how = self._excess or how_it_ended(status)
        return f"{self._reason}; {how}" if self._reason else how

    def _patience(self) -> float | None:
        if self._deadline is not None:
            return max(_LAST_SECONDS, min(_POLL_SECONDS, self._deadline - self._clock()))
        return None if self._keeper_is_watched and not self._limit.mib else _POLL_SECONDS

    def _press(self, child: int) -> None:
        assert self._deadline is not None
        late = self._clock() >= self._deadline
        with contextlib.suppress(OSError):
            if late:
                os.killpg(child, signal.SIGKILL)
            else:
                # Again and again: one that came early in the host's life has been lost.
                os.kill(child, signal.SIGTERM)

    def _hear(self) -> None:
        try:
            said = self._line.recv(FromLeash)
        except (EOFError, OSError):
            self._selector.unregister(self._line)
            self._end("the driver is gone")
            return
        if said.close is not None:
            self._end("the driver closed the job", said.close)
        elif said.look is not None:
            sight = self._lookout.sight(said.look, self._child)
            # If the driver is gone, the next look at the line shows it.
            with contextlib.suppress(OSError):
                self._line.send(ToLeash(sight=sight))

    def _lose_keeper(self, descriptor: int) -> None:
        self._selector.unregister(descriptor)
        self._end("the executor is gone")

    def _wake(self) -> None:
        if {signal.SIGTERM, signal.SIGHUP} & set(self._woken.recv(4096)):
            self._end("its warden was told to end")

    def _end(self, reason: str, seconds: float = _GRACE_SECONDS) -> None:
        if self._deadline is None:
            self._reason = reason
            self._deadline = self._clock() + seconds


def _end_of(child: int) -> int | None:
    """How the child ended, as ``os.waitpid`` says; None if it lives. Collects orphans, too."""
    while True:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended in {child, 0}:
            return status if ended else None
