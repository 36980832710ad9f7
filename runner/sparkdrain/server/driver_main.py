"""The main program of a driver process: a Job service for one job, on a private socket.

Its arguments are the endpoint of the server, and ``warm`` if a session is to be started ahead. Its
standard input has a line for the session, and ends when the server lets the driver go, or dies.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Final

from sparkdrain.jobs.engine import SparkEngine
from sparkdrain.jobs.local import without_fork_support
from sparkdrain.jobs.server import JobServer
from sparkdrain.jobs.service import JobService
from sparkdrain.options import JobSettings
from sparkdrain.server.handover import TakenOver
from sparkdrain.server.session import Session

if TYPE_CHECKING:
    from sparkdrain.jobs.artifacts import StagedFiles
    from sparkdrain.jobs.engine import Engine
    from sparkdrain.jobs.served import ServedJobs

WARM: Final = "warm"


def main(engine: Engine | None = None) -> None:
    """Serve until standard input ends."""
    endpoint, *rest = sys.argv[1:]
    engine = engine or SparkEngine()
    session = Session.decode(sys.stdin.buffer.readline())
    settings = JobSettings(spark_master_url=session.master, spark_conf=session.conf)
    with without_fork_support(os.environ):
        server = JobServer(engine, make_service=service_of_one_job)
        print(server.start(), flush=True)  # noqa: T201 - the server waits for the line
    server.service.endpoint = endpoint
    os.dup2(2, 1)  # what user code prints is not for the server
    if WARM in rest:
        # A job that comes meanwhile waits for the same session.
        threading.Thread(target=engine.warm_up, args=(settings,), daemon=True).start()
    else:
        engine.head_start(settings)
    sys.stdin.buffer.read()
    server.stop()


def service_of_one_job(jobs: ServedJobs, staged: StagedFiles) -> JobService:
    """The service of a driver: the server names its job, and has the files of the job."""
    del staged
    taken_over = TakenOver()
    return JobService(jobs, taken_over, taken_over.job_id_for)


if __name__ == "__main__":
    main()
