"""The main program of a driver process: a Job service for one job, on a private socket.

Its arguments are the endpoint of the server, and ``warm`` if a session is to be started ahead. Its
standard input has a line for the session, and ends when the server lets the driver go, or dies. Its
standard output has the address of the service, and ``READY`` in a line when all is warm.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sparkdrain.fnapi.class_paths import CLASS_PATHS, SPARE_JVM
from sparkdrain.fnapi.relayed import SPARE_RELAY, start_spare_relay
from sparkdrain.room import room
from sparkdrain.server.session import Session
from sparkdrain.stages.workers.head_start import head_start

if TYPE_CHECKING:
    from typing import TextIO

    from sparkdrain.fnapi.shared_process import SpareProcess
    from sparkdrain.jobs.engine import Engine

WARM: Final = "warm"
READY: Final = "ready"
# A job that needs the JVM or the relay has taken it by then.
_JOB_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 1.0


def main(engine: Engine | None = None) -> None:
    """Serve until standard input ends."""
    endpoint, *rest = sys.argv[1:]
    session = Session.decode(sys.stdin.buffer.readline())
    if CLASS_PATHS in os.environ:
        # Java and the workers inherit it: slots look there for a JVM and a relay that wait.
        place = room() or tempfile.mkdtemp()
        os.environ[SPARE_JVM] = os.path.join(place, "spare-jvm")
        os.environ[SPARE_RELAY] = os.path.join(place, "spare-relay")
    # Java and a nursery start while this process imports Beam.
    head_start(session)
    from sparkdrain.jobs.engine import SparkEngine  # noqa: PLC0415
    from sparkdrain.jobs.local import without_fork_support  # noqa: PLC0415 (imports Beam)
    from sparkdrain.jobs.server import JobServer  # noqa: PLC0415 (imports Beam)
    from sparkdrain.server.handover import TakenOver  # noqa: PLC0415 (imports Beam)

    engine = engine or SparkEngine()
    taken_over = TakenOver()
    with without_fork_support(os.environ):
        # The server names the one job, and has its files.
        server = JobServer(engine, staged=taken_over, job_id_for=taken_over.job_id_for)
        print(server.start(), flush=True)  # noqa: T201 - the server waits for the line
    server.service.endpoint = endpoint
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what user code prints is not for the server
    if WARM in rest:
        # A job that comes meanwhile waits for the same session.
        given = engine, session, told, taken_over.has_come
        threading.Thread(target=_warm_up, args=given, daemon=True).start()
    sys.stdin.buffer.read()
    server.stop()


def _warm_up(engine: Engine, session: Session, told: TextIO, has_job: threading.Event) -> None:
    """Tells the server when it is done."""
    from sparkdrain.options import JobSettings  # noqa: PLC0415 (imports Beam)

    engine.warm_up(
        JobSettings(
            spark_master_url=session.spark_master_url, spark_conf=session.spark_conf, progress="off"
        )
    )
    with contextlib.suppress(OSError), told:  # the server may have ended
        print(READY, file=told, flush=True)
    if SPARE_JVM in os.environ and not has_job.is_set():
        with contextlib.suppress(OSError):
            _have_processes_wait(has_job)


def _have_processes_wait(has_job: threading.Event) -> None:
    """Start what jobs lately needed for the job to come, and end it if that job does not need it.

    The job before may still run: its class path is known when its harness ends.
    """
    from sparkdrain.fnapi.spare_jvm import start_spare_jvm  # noqa: PLC0415 (imports Beam)

    home = Path(os.environ[CLASS_PATHS])
    missing = {SPARE_RELAY: start_spare_relay, SPARE_JVM: start_spare_jvm}
    spares: list[SpareProcess] = []
    while not has_job.is_set():
        for place, start in list(missing.items()):
            spare = start(home, Path(os.environ[place]), time.time())
            if spare is not None:
                spares.append(spare)
                del missing[place]
        has_job.wait(_LOOK_SECONDS if missing else None)
    if spares:
        time.sleep(_JOB_SECONDS)
    for each in spares:
        each.end_unless_taken()


if __name__ == "__main__":
    main()
