"""PySpark's worker daemon with everything imported before it forks.

A worker then starts in milliseconds, not in the seconds that importing Beam takes. Where there is
a nursery, which has imported all that ahead, this process hands its place to a child of it, and
only waits for that to end.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import logging
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.hosts.orphans import SHARED, WARDEN, adopt_orphans, end_orphans
from sparkdrain.spark_needs import alike, spark_version
from sparkdrain.stages.workers.handover import (
    NURSERY_VARIABLE,
    PYSPARK_VARIABLE,
    STREAMS,
    Identity,
    read,
    send,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

NEEDED: Final = ("sparkdrain.stages.spark.python_daemon", "sparkdrain.stages.batch.task")
"""The modules from which everything is imported that a task needs."""

REFUSED: Final = 0
"""What the nursery answers in the place of a process id."""

NUMBER_BYTES: Final = 4

_STDOUT: Final = 1
_STDERR: Final = 2


def import_all() -> None:
    """Import what tasks need, and have the garbage collector leave it alone."""
    # The program that made the pipeline has imported the same, and has heard the warnings.
    logging.disable(logging.WARNING)
    for name in NEEDED:
        importlib.import_module(name)
    logging.disable(logging.NOTSET)
    gc.collect()
    # The imported modules are never garbage; PySpark collects after every task.
    gc.freeze()


def serve() -> None:
    """Be PySpark's daemon until Spark ends it.

    Wardens are orphans that it adopts; PySpark has the system collect all children that end.
    """
    from sparkdrain.stages.spark import python_daemon  # noqa: PLC0415

    _print_whole_lines()
    adopt_orphans()
    try:
        python_daemon.run(_without_complaints)
    finally:
        # Wardens end by themselves, when their hosts have torn down with the JVM that they share.
        end_orphans(spared=(WARDEN, SHARED))


def _print_whole_lines() -> None:
    """Have user code's output come in lines, as in a terminal.

    Spark asks for no buffers at all, by which each part of a ``print`` is a write of its own: what
    several workers print would come in shreds.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)


def _without_complaints(serve_task: Callable[[socket.socket, bool], int]) -> Any:
    """Serves tasks, and tells of no closed connection, which a cancelled task leaves behind."""

    def quietly(connection: socket.socket, authenticated: bool) -> int:
        # Spark puts both streams into one, in parts that end anywhere: what is one from the start
        # is not mixed. Not before: the daemon tells Spark its port by its standard output.
        os.dup2(_STDERR, _STDOUT)
        try:
            return serve_task(connection, authenticated)
        except (BrokenPipeError, ConnectionResetError):
            return 1
        finally:
            # A line without an end; and the process may leave without any ceremony.
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()

    return quietly


def check_worker(environ: Mapping[str, str]) -> None:
    """Return if this Python has the program's PySpark, or if the program has not said which.

    PySpark's worker would fail at the first message of another version, and could not say why.

    Raises:
        SystemExit: names both versions; Spark tells the driver what a daemon prints that ends.
    """
    wanted, found = environ.get(PYSPARK_VARIABLE), spark_version()
    if wanted and found and not alike(wanted, found):
        message = (
            f"The executors have pyspark {found}, but this program has {wanted}. Install the same "
            f"version on both. The executors' Python is {sys.executable}."
        )
        raise SystemExit(message)


def _use_packages() -> None:
    """Install what the job brings before Beam is imported, so that the job's versions win."""
    from pathlib import Path  # noqa: PLC0415 - not needed where a nursery is

    from sparkdrain.stages.workers.packages import ARCHIVE_VARIABLE, use_packages  # noqa: PLC0415

    archive = os.environ.get(ARCHIVE_VARIABLE)
    scratch = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    if archive and scratch:
        # A failure comes again in the first task, which can tell the driver.
        with contextlib.suppress(Exception):
            use_packages(Path(archive).absolute(), Path(scratch))


def _replaced() -> int | None:
    """Let a child of the nursery be the daemon; its exit code, or None if there is no such child.

    Any failure means that this process does its work itself.
    """
    address = os.environ.get(NURSERY_VARIABLE)
    if not address:
        return None
    try:
        with socket.socket(socket.AF_UNIX) as nursery, _sigterm_waits():
            nursery.connect(address)
            send(nursery, Identity.of_this_process())
            child = _number(nursery)
            return None if child == REFUSED else _wait_for(child, nursery)
    except (OSError, EOFError):
        return None


@contextlib.contextmanager
def _sigterm_waits() -> Iterator[None]:
    """Hold SIGTERM back: it may come when a child is at work and its number is not yet here."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _wait_for(child: int, nursery: socket.socket) -> int:
    """Stand for ``child`` until it ends: Spark knows this process only."""
    signal.signal(signal.SIGTERM, lambda *_: _terminate(child))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    # The streams are the child's: a reader must see them closed when the child has ended.
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in STREAMS:
        os.dup2(nothing, stream)
    try:
        return _number(nursery)
    except (OSError, EOFError):
        # The nursery ends when the program does; no daemon must outlive it unseen.
        _terminate(child)
        return 1


def _terminate(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGTERM)


def _number(nursery: socket.socket) -> int:
    return int.from_bytes(read(nursery, NUMBER_BYTES), "big")


def _main() -> None:
    code = _replaced()
    if code is not None:
        sys.exit(code)
    check_worker(os.environ)
    _use_packages()
    import_all()
    serve()


if __name__ == "__main__":
    _main()
