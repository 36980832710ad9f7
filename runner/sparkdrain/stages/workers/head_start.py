"""Begins what a first job will wait for while the program still makes its pipeline ready.

Imports neither Beam's nor Spark's modules: it is in the way of what it is to speed up.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Final

from sparkdrain.stages.cluster.masters import runs_here

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sparkdrain.types import SparkAsked

_SOCKET: Final = "nursery"
_LOCK: Final = threading.Lock()
# What Spark sets for its Python workers when it starts them, and what an import may look at.
_AS_SPARK: Final = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "YES"}


class _Started:
    """What this process has begun: each once."""

    jvm: bool = False
    process: subprocess.Popen[bytes] | None = None
    home: str | None = None


def head_start(settings: SparkAsked) -> None:
    """Start a JVM, and a nursery if tasks will run on this machine, if a job will need these."""
    if sys.platform == "win32" or "PYSPARK_GATEWAY_PORT" in os.environ or _spark_is_there():
        return
    local = runs_here(settings.spark_master_url or "")
    with _LOCK:
        if not _Started.jvm:
            _Started.jvm = True
            # Not a daemon: Python waits for it, so that it leaves no file behind.
            threading.Thread(target=_launch, args=(settings,), name="sparkdrain-jvm").start()
        if local and _Started.process is None:
            # It is a matter of speed only: without a nursery the daemon does the same work later.
            with contextlib.suppress(OSError):
                from sparkdrain.own_folder import own_folder  # noqa: PLC0415 (POSIX only)

                home = own_folder()
                _Started.process = start_nursery(home, _environment(os.environ))
                _Started.home = home
                # If it is killed, it is to be no zombie.
                waits = _Started.process.wait
                threading.Thread(target=waits, name="sparkdrain-nursery", daemon=True).start()


def nursery_address() -> str | None:
    """Where the nursery of this process listens, or will; None if there is none."""
    home = _Started.home
    return None if home is None else os.path.join(home, _SOCKET)


def importable() -> Iterator[str]:
    """The places in which this program finds modules, for a process that is to find the same."""
    for entry in dict.fromkeys(map(os.path.abspath, sys.path)):
        if os.path.exists(entry):
            yield entry


def _spark_is_there() -> bool:
    if "pyspark" not in sys.modules:
        return False
    from sparkdrain.stages.spark.driver import has_jvm  # noqa: PLC0415 - PySpark is there already

    return has_jvm()


def _launch(settings: SparkAsked) -> None:
    from sparkdrain.stages.cluster.context import launch_ahead  # noqa: PLC0415 - takes long: PySpark

    launch_ahead(settings)


def start_nursery(home: str, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a nursery that listens in the directory ``home``, and removes that when it ends.

    It ends when its standard input is closed. It need not have begun to serve: who connects
    waits until it has.

    Raises:
        OSError: it cannot be started.
    """
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.join(home, _SOCKET))
        listener.listen()
        listening = listener.fileno()
        return subprocess.Popen(  # noqa: S603 - this very Python
            [sys.executable, "-m", "sparkdrain.stages.nursery", home, str(listening)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environ,
            pass_fds=[listening],
            start_new_session=True,
        )


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment that Spark's daemon will have, as far as it matters to imports."""
    path = os.pathsep.join(importable())
    return {"PYTHONHASHSEED": "0", **environ, **_AS_SPARK, "PYTHONPATH": path}
