"""The one Job service of this process."""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import sys
import threading
from typing import TYPE_CHECKING, Final

from sparkdrain.jobs.engine import SparkEngine
from sparkdrain.jobs.server import JobServer

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping

_LOGGER = logging.getLogger(__name__)

_CANCEL_SECONDS: Final = 30.0
_FORK_SUPPORT: Final = "GRPC_ENABLE_FORK_SUPPORT"


def local_server() -> JobServer:
    """The server of this process, started on first use and stopped when the process ends."""
    return _server_of(os.getpid())


@functools.cache
def _server_of(process: int) -> JobServer:
    # By process: a forked child inherits the cache, but not the server's threads.
    with without_fork_support(os.environ):
        server = JobServer(SparkEngine())
        server.start()
    atexit.register(server.stop)
    # Not a daemon: Python waits for such threads when the program's own code has ended.
    threading.Thread(target=_see_jobs_through, args=(server,), name="sparkdrain-exit").start()
    return server


@contextlib.contextmanager
def without_fork_support(environ: MutableMapping[str, str]) -> Iterator[None]:
    """Have gRPC ignore forks; it asks for that when the first server or channel is made.

    Starting Java forks. gRPC would prepare for that, cannot while calls are under way, and prints
    so; the child never uses gRPC. Programs that this one starts must not inherit the setting: a
    forked child of theirs could not use gRPC.
    """
    given = _FORK_SUPPORT in environ
    environ.setdefault(_FORK_SUPPORT, "false")
    try:
        yield
    finally:
        if not given:
            del environ[_FORK_SUPPORT]


def _see_jobs_through(server: JobServer) -> None:
    """Let jobs that the program did not wait for end well; if it has crashed, cancel them."""
    threading.main_thread().join()
    crashed = getattr(sys, "last_value", None) is not None
    for job in server.jobs():
        if not job.is_running:
            continue
        if crashed:
            job.leave()
            job.story.wait(_CANCEL_SECONDS)
        else:
            text = "The program has ended; waiting for job %s. Ctrl-C cancels it."
            _LOGGER.warning(text, job.submission.job_id)
            job.story.wait()
