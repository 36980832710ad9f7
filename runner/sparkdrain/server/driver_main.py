"""The main program of a driver process: a Job service for one job, on a private socket.

Its arguments are the endpoint of the server, and ``warm`` if a session is to be started ahead. Its
standard input has a line for the session, and ends when the server lets the driver go, or dies. Its
standard output has the address of the service, and ``READY`` in a line when all is warm.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Final

from sparkdrain.server.session import Session
from sparkdrain.stages.workers.head_start import head_start

if TYPE_CHECKING:
    from typing import TextIO

    from sparkdrain.jobs.artifacts import StagedFiles
    from sparkdrain.jobs.engine import Engine
    from sparkdrain.jobs.served import ServedJobs
    from sparkdrain.jobs.service import JobService

WARM: Final = "warm"
READY: Final = "ready"


def main(engine: Engine | None = None) -> None:
    """Serve until standard input ends."""
    endpoint, *rest = sys.argv[1:]
    session = Session.decode(sys.stdin.buffer.readline())
    # Java and a nursery start while this process imports Beam.
    head_start(session)
    from sparkdrain.jobs.engine import SparkEngine  # noqa: PLC0415
    from sparkdrain.jobs.local import without_fork_support  # noqa: PLC0415 (imports Beam)
    from sparkdrain.jobs.server import JobServer  # noqa: PLC0415 (imports Beam)

    engine = engine or SparkEngine()
    with without_fork_support(os.environ):
        server = JobServer(engine, make_service=service_of_one_job)
        print(server.start(), flush=True)  # noqa: T201 - the server waits for the line
    server.service.endpoint = endpoint
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what user code prints is not for the server
    if WARM in rest:
        # A job that comes meanwhile waits for the same session.
        threading.Thread(target=_warm_up, args=(engine, session, told), daemon=True).start()
    sys.stdin.buffer.read()
    server.stop()


def _warm_up(engine: Engine, session: Session, told: TextIO) -> None:
    """Tells the server when it is done."""
    from sparkdrain.options import JobSettings  # noqa: PLC0415 (imports Beam)

    engine.warm_up(
        JobSettings(
            spark_master_url=session.spark_master_url, spark_conf=session.spark_conf, progress="off"
        )
    )
    with contextlib.suppress(OSError), told:  # the server may have ended
        print(READY, file=told, flush=True)


def service_of_one_job(jobs: ServedJobs, staged: StagedFiles) -> JobService:
    """The service of a driver: the server names its job, and has the files of the job."""
    from sparkdrain.jobs.service import JobService  # noqa: PLC0415 (imports Beam)
    from sparkdrain.server.handover import TakenOver  # noqa: PLC0415 (imports Beam)

    del staged
    taken_over = TakenOver()
    return JobService(jobs, taken_over, taken_over.job_id_for)


if __name__ == "__main__":
    main()
