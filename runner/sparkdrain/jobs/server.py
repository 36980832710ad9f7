"""A Job service of this process: its jobs, its gRPC server, its directory for staged files."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import grpc
from apache_beam.portability.api import beam_job_api_pb2_grpc
from apache_beam.utils import thread_pool_executor
from typing_extensions import override

from sparkdrain.errors import BadSetup
from sparkdrain.jobs.artifacts import Artifacts
from sparkdrain.jobs.job import Job
from sparkdrain.jobs.messages import now
from sparkdrain.jobs.served import Registry, ServedJobs
from sparkdrain.jobs.service import JobService
from sparkdrain.room import room

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.jobs.artifacts import StagedFiles
    from sparkdrain.jobs.engine import Engine
    from sparkdrain.jobs.served import Submission
    from sparkdrain.options import JobSettings

KEPT_JOBS: Final = 50
"""How many jobs that do not run a server keeps."""

# Pipelines carry user code and data of any size.
UNLIMITED: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)

ALONE: Final = ("grpc.so_reuseport", 0)
"""gRPC would let two servers share one port, and clients would reach either."""

_CANCEL_SECONDS: Final = 10.0
# Streams of jobs that are over are about to end by themselves. gRPC prints a line in the client's
# process, which may be the user's program, for calls that a server breaks off.
_GRACE_SECONDS: Final = 1.0

# The kernel takes socket paths up to 103 (macOS) or 107 (Linux) bytes.
_LONGEST_SOCKET_DIRECTORY: Final = 90


class LocalJobs(ServedJobs):
    """See ``ServedJobs``. Any number of jobs may have one name.

    Args:
        kept: how many jobs stay known that do not run.
    """

    def __init__(self, engine: Engine, kept: int) -> None:
        self._engine = engine
        self._jobs = Registry[Job](kept)

    @override
    def check(self, submission: Submission) -> None:
        self._engine.check(submission.pipeline, submission.settings)

    @override
    def add(self, submission: Submission) -> list[str]:
        return list(self._jobs.add(submission.job_id, Job(submission, self._engine, now)))

    @override
    def get(self, job_id: str) -> Job:
        return self._jobs.get(job_id)

    @override
    def all(self) -> list[Job]:
        return self._jobs.all()


class JobServer:
    """A Job service that listens at one address; ``start`` and ``stop`` once each.

    A program that can reach the address can run code as this user. So the default is a Unix socket
    in a directory that only this user can enter; TCP must be asked for.

    Attributes:
        service: what answers the calls.
    """

    def __init__(
        self,
        engine: Engine,
        address: str = "",
        staged: StagedFiles | None = None,
        job_id_for: Callable[[str, grpc.ServicerContext], str] | None = None,
    ) -> None:
        """Prepare a server.

        Args:
            engine: runs the jobs, in this process.
            address: ``host:port`` to listen at, port 0 for a free one; nothing for a private
                socket.
            staged: the files of jobs; None: clients stage them here.
            job_id_for: see ``JobService``.
        """
        self._homes = [_private_directory()]
        self._address = address or self._private_address()
        self._engine = engine
        self._jobs = LocalJobs(engine, KEPT_JOBS)
        artifacts = Artifacts(self._homes[0] / "staged")
        self.service = JobService(self._jobs, staged or artifacts, job_id_for)
        # Beam's pool, because its threads do not keep a program alive that wants to end.
        self._pool = thread_pool_executor.UnboundedThreadPoolExecutor()
        self._server = grpc.server(self._pool, options=(*UNLIMITED, ALONE))
        beam_job_api_pb2_grpc.add_JobServiceServicer_to_server(self.service, self._server)
        artifacts.serve(self._server)

    @property
    def endpoint(self) -> str:
        """Where clients find the server, once it is started."""
        return self.service.endpoint

    def start(self) -> str:
        """Listen, and return the endpoint.

        Raises:
            BadSetup: nothing can listen at the address.
        """
        try:
            port = self._server.add_insecure_port(self._address)
        except RuntimeError as error:
            message = f"The Job service cannot listen at {self._address}: {error}"
            raise BadSetup(message) from error
        host, colon, _ = self._address.rpartition(":")
        is_socket = self._address.startswith("unix:")
        self.service.endpoint = self._address if is_socket else f"{host}{colon}{port}"
        self._server.start()
        return self.service.endpoint

    def head_start(self, settings: JobSettings) -> None:
        """Has the engine begin what takes long before a first job can run; does not wait."""
        self._engine.head_start(settings)

    def stop(self) -> None:
        """Cancel what still runs, wait a little for it, and leave no files behind."""
        running = [job for job in self.jobs() if job.is_running]
        for job in running:
            job.cancel()
        for job in running:
            job.story.wait(_CANCEL_SECONDS)
        try:
            self._server.stop(_GRACE_SECONDS).wait()
        except RuntimeError:
            # From Python 3.12 on, no thread starts while the interpreter ends; gRPC wants one to
            # count the seconds. It takes no new calls any more.
            self._server.wait_for_termination(_GRACE_SECONDS)
            self._server.stop(None)
        self._pool.shutdown(wait=False)  # gRPC leaves the threads to the owner of the pool
        for home in self._homes:
            shutil.rmtree(home, ignore_errors=True)

    def jobs(self) -> list[Job]:
        """All jobs that are known, oldest first."""
        return self._jobs.all()

    def _private_address(self) -> str:
        if sys.platform == "win32":
            return "localhost:0"  # no Unix sockets in gRPC there
        if len(str(self._homes[0])) > _LONGEST_SOCKET_DIRECTORY:
            self._homes.append(_private_directory("/tmp"))  # noqa: S108 (only this user can enter)
        return f"unix:{self._homes[-1]}/jobs"


def _private_directory(below: str | None = None) -> Path:
    return Path(tempfile.mkdtemp(prefix="sparkdrain-", dir=below or room()))
