"""A service for tests, and a task process that calls it: ``python hosted.py`` is one task.

A task reads its orders, pickled, from stdin and answers to stdout, where it dies last.
"""

from __future__ import annotations

import itertools
import mmap
import os
import pickle
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sparkdrain.hosts.birth import HostDaemon
from sparkdrain.hosts.call import call
from sparkdrain.hosts.home import Home
from sparkdrain.hosts.service import Abandoned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sparkdrain.hosts.line import HostId
    from sparkdrain.lines.line import Endpoint


class Recorder:
    """Does what the request says, and leaves marks in a directory that tests look into."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        (scratch / "store").write_text("state")
        self.calls = 0
        self.marks = scratch.parent.parent

    def mark(self, name: str) -> None:
        (self.marks / name).write_text(str(os.getpid()))

    def run(
        self,
        request: bytes,
        records: Iterator[bytes],
        push: Callable[[tuple[int, bytes]], None],
    ) -> None:
        self.calls += 1
        verb, _, argument = request.decode().partition(" ")
        getattr(self, f"_{verb}")(argument, records, push)

    def _count(self, _argument, _records, push) -> None:
        push((0, str(self.calls).encode()))

    def _pid(self, _argument, _records, push) -> None:
        push((0, str(os.getpid()).encode()))

    def _echo(self, _argument, records, push) -> None:
        for record in records:
            push((len(record), record))

    def _fail(self, argument, _records, _push) -> None:
        raise ValueError(argument)

    def _exit(self, argument, _records, _push) -> None:
        os._exit(int(argument))

    def _kill(self, argument, _records, _push) -> None:
        os.kill(os.getpid(), getattr(signal, argument))

    def _sleep(self, _argument, _records, _push) -> None:
        self.mark("asleep")
        time.sleep(600)

    def _finalize(self, _argument, _records, _push) -> None:
        class Slow:
            def __del__(late) -> None:
                self.mark("finalizing")
                time.sleep(600)

        late = Slow()
        del late

    def _resist(self, _argument, _records, _push) -> None:
        self.mark("resisting")
        while True:
            try:
                time.sleep(600)
            except BaseException:  # noqa: BLE001 - like a loop in C
                continue

    def _flood(self, argument, _records, push) -> None:
        self.mark("flooding")
        try:
            for number in range(int(argument)):
                push((number, b"f" * 1000))
        except Abandoned:
            self.mark("abandoned")
            raise

    def _drip(self, _argument, _records, push) -> None:
        self.mark("dripping")
        try:
            while True:
                push((0, b"drop"))
                time.sleep(0.001)
        except Abandoned:
            self.mark("abandoned")
            raise

    def _take(self, _argument, records, _push) -> None:
        self.mark("taking")
        try:
            for _ in records:
                pass
        except Abandoned:
            self.mark("abandoned")
            raise

    def _ignore(self, _argument, _records, push) -> None:
        push((0, b"ignored"))

    def _ticket(self, argument, _records, push) -> None:
        self.mark("waiting")
        while not (self.marks / argument).exists():
            time.sleep(0.005)
        push((0, argument.encode()))

    def _breed(self, _argument, _records, push) -> None:
        child = os.fork()
        if child == 0:
            time.sleep(600)
        push((0, str(child).encode()))

    def _daemonize(self, argument, _records, push) -> None:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.setsid()
            if daemon := os.fork():
                os.write(writing, str(daemon).encode())
                os._exit(0)
            os.setsid()
            os.execvp("sleep", ["sleep", argument])
        os.waitpid(child, 0)
        push((0, os.read(reading, 20)))

    def _grow(self, argument, _records, _push) -> None:
        self.mark("growing")
        self.grown = bytearray(b"x") * (int(argument) << 20)
        time.sleep(600)

    def _map_file(self, argument, _records, push) -> None:
        """Have pages of a file in memory, as state stores do."""
        size = int(argument) << 20
        with (self.scratch / "mapped").open("w+b") as file:
            file.truncate(size)
            self.mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        touched = sum(self.mapped[at] for at in range(0, size, mmap.PAGESIZE))
        time.sleep(2.5)
        push((touched, b"mapped"))

    def _keep_lock(self, _argument, _records, _push) -> None:
        self.mark("keeping")
        # C code that keeps the interpreter's lock, and looks at no signal for a long time.
        sum(itertools.repeat(0, 10**12))

    def look(self) -> bytes:
        return b"the service says"

    def close(self) -> None:
        self.mark("closed")


class Unmakeable:
    def __init__(self, scratch: Path) -> None:
        message = "no setup today"
        raise RuntimeError(message)


def use_rocksdb() -> None:
    import rocksdict  # noqa: PLC0415 - it is slow, and few tests need it

    with tempfile.TemporaryDirectory() as directory:
        rocksdict.Rdict(directory).close()


def forget_pidfd() -> None:
    """Be on a system that has no such thing."""
    if hasattr(os, "pidfd_open"):
        del os.pidfd_open


def told(error: BaseException) -> bytes:
    return f"{type(error).__name__} of the service: {error}".encode()


@dataclass
class Orders:
    """What one task is to do."""

    host: HostId
    request: bytes
    leash: Endpoint
    directory: Path
    keeper: int
    records: list[bytes] = field(default_factory=list)
    fresh: bool = True
    service: Any = Recorder
    stuck: bool = False
    """Whether more records are to come, but never do."""

    memory_mib: int = 0
    before: Callable[[], None] | None = None
    """What the task does first."""

    def all_records(self) -> Iterator[bytes]:
        yield from self.records
        if self.stuck:
            time.sleep(600)

    def run(self) -> Iterator[tuple[int, bytes]]:
        daemon = HostDaemon(
            self.host,
            Home.of(self.host, self.directory),
            self.leash,
            self.service,
            told,
            lambda: self.keeper,
            self.memory_mib,
        )
        return call(
            daemon,
            self.request,
            self.all_records(),
            fresh=self.fresh,
            failure=lambda text: ValueError(text.decode()),
        )


def main() -> None:
    orders = pickle.load(sys.stdin.buffer)
    try:
        if orders.before is not None:
            orders.before()
        answer: Any = list(orders.run())
    except Exception as error:  # noqa: BLE001 - the test looks at it
        answer = error
    sys.stdout.buffer.write(pickle.dumps(answer))


if __name__ == "__main__":
    main()
