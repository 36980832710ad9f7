"""A process that imports everything while Spark's JVM starts; Spark's daemons are forked from it.

Lives as long as its standard input is open: the program that has started it holds the other end.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import sys
from typing import Final

from sparkdrain.own_folder import remove_all
from sparkdrain.stages import daemon
from sparkdrain.stages.workers.handover import Identity, close_all, import_alike, receive

_LEASH: Final = 0
_STALLED_SECONDS: Final = 10.0


class Nursery:
    """Forks a child for each process that offers to be replaced, and tells it how that ends."""

    def __init__(self, listener: socket.socket, prepared: Identity, pyspark: str) -> None:
        """Prepare one.

        Args:
            listener: where offers come in.
            prepared: what this process was when it imported everything.
            pyspark: the directory of the package that it has imported.
        """
        self._listener = listener
        self._prepared = prepared
        self._pyspark = pyspark
        # By child: the process that it stands for.
        self._replaced: dict[int, socket.socket] = {}
        self._endings, self._ended = socket.socketpair()

    def run(self) -> tuple[Identity, list[int]] | None:
        """Serve until the program has ended.

        Returns:
            In each child, who it is to be, and with which streams. None when the program has ended.
        """
        with contextlib.ExitStack() as restored, selectors.DefaultSelector() as selector:
            self._watch_children(restored)
            for source in (_LEASH, self._listener, self._endings):
                selector.register(source, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if self._endings in ready:
                    self._tell_endings()
                if _LEASH in ready:
                    return None
                if self._listener in ready and (replacement := self._answer()):
                    return replacement

    def _watch_children(self, restored: contextlib.ExitStack) -> None:
        self._ended.setblocking(False)
        restored.callback(signal.signal, signal.SIGCHLD, signal.SIG_DFL)
        restored.callback(signal.set_wakeup_fd, -1)
        signal.set_wakeup_fd(self._ended.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _answer(self) -> tuple[Identity, list[int]] | None:
        with contextlib.ExitStack() as closing:
            try:
                connection = closing.enter_context(self._listener.accept()[0])
                connection.settimeout(_STALLED_SECONDS)
                identity, streams = receive(connection)
                alike = import_alike(self._prepared, identity, self._pyspark)
                child = os.fork() if alike else None
            except (OSError, EOFError, ValueError, TypeError):
                return None  # who gets no answer does without
            if child == 0:
                self._let_go()
                return identity, streams
            close_all(streams)
            with contextlib.suppress(OSError):
                connection.sendall(_number(child or daemon.REFUSED))
            if child is not None:
                self._replaced[child] = connection
                closing.pop_all()
        return None

    def _let_go(self) -> None:
        """Close, in a child, all that is the nursery's."""
        for held in (self._listener, self._endings, self._ended, *self._replaced.values()):
            held.close()

    def _tell_endings(self) -> None:
        self._endings.recv(1 << 10)
        for child in list(self._replaced):
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                with self._replaced.pop(child) as connection, contextlib.suppress(OSError):
                    connection.sendall(_number(_exit_code(status)))


def _exit_code(status: int) -> int:
    """As a shell tells it: 128 and the signal for who was killed."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _number(value: int) -> bytes:
    return value.to_bytes(daemon.NUMBER_BYTES, "big")


def _main(home: str, listening: int) -> None:
    prepared = Identity.of_this_process()
    with socket.socket(fileno=listening) as listener:
        daemon.import_all()
        import pyspark  # noqa: PLC0415 - its daemons need it, who starts it does not

        replacement = Nursery(listener, prepared, os.path.dirname(pyspark.__file__)).run()
    if replacement is None:
        # Spark's sockets are in there too. So not if this process fails: then the program lives.
        remove_all(home)
        return
    identity, streams = replacement
    identity.assume(streams)
    daemon.serve()


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
