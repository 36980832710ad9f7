"""The Job service at an address: it listens, and hands jobs to driver processes."""

from __future__ import annotations

import fcntl
import logging
import shutil
import socket
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import grpc
from apache_beam.portability.api import (
    beam_artifact_api_pb2,
    beam_expansion_api_pb2,
    beam_expansion_api_pb2_grpc,
    beam_job_api_pb2_grpc,
)
from apache_beam.portability.api import beam_job_api_pb2 as api
from apache_beam.utils import thread_pool_executor

from sparkdrain import access
from sparkdrain.coordination.address import StoreAddress
from sparkdrain.coordination.stores import STORES
from sparkdrain.errors import BadSetup
from sparkdrain.fnapi.class_paths import CLASS_PATHS
from sparkdrain.jobs import described_options
from sparkdrain.jobs.artifacts import Artifacts
from sparkdrain.jobs.engine import SparkEngine
from sparkdrain.jobs.server import ALONE, UNLIMITED
from sparkdrain.jobs.service import JobService
from sparkdrain.room import room
from sparkdrain.server.driven_jobs import DrivenJobs
from sparkdrain.server.driver import DriverProcess
from sparkdrain.server.drivers import Drivers
from sparkdrain.server.job_store import JobStore
from sparkdrain.server.security import PROBE
from sparkdrain.server.session import Session
from sparkdrain.strangers import AskForUser, is_own, short_stay

if TYPE_CHECKING:
    from typing import IO

    from sparkdrain.coordination.metadata import MetadataStore
    from sparkdrain.jobs.engine import Engine
    from sparkdrain.server.driver import Driver, Launch
    from sparkdrain.server.settings import ServerSettings

_LOGGER = logging.getLogger(__name__)

_KEPT_JOBS: Final = 1000
_ANY: Final = ("0.0.0.0", "::")  # noqa: S104 - only compared with
_PREFIX: Final = "sparkdrain-server-"
_CONNECTIONS: Final = 512
_FOR_OTHERS: Final = (
    "To let others in, start `sparkdrain server` with --token-file, or with --insecure."
)
_TICK_SECONDS: Final = 1.0
_GRACE_SECONDS: Final = 1.0
_CANCEL_SECONDS: Final = 40.0

# A client that is gone holds a thread, and one of the server's connections, for 50 seconds. A
# network that is down for less than 20 seconds breaks no call. Firewalls and balancers forget
# connections that are silent for minutes.
_PING_SECONDS: Final = 30.0
_ANSWER_SECONDS: Final = 20.0
# Clients in Go and Java ping every 10 seconds at most, and Beam's Python client every 20. A server
# of gRPC breaks off with clients that ping more often than every 5 minutes, if it is not told.
_APART_SECONDS: Final = 5.0

_ARTIFACT_SERVICES: Final = beam_artifact_api_pb2.DESCRIPTOR.services_by_name

_JOBS: Final[str] = api.DESCRIPTOR.services_by_name["JobService"].full_name
_ARTIFACTS: Final[tuple[str, ...]] = (
    _ARTIFACT_SERVICES["ArtifactStagingService"].full_name,
    _ARTIFACT_SERVICES["ArtifactRetrievalService"].full_name,
)
_EXPANSION: Final[str] = beam_expansion_api_pb2.DESCRIPTOR.services_by_name[
    "ExpansionService"
].full_name


class StandingServer:
    """A Job service that stays up; ``start`` and ``stop`` once each.

    Args:
        settings: where to listen, and how many jobs run.
        engine: checks pipelines, and is never asked to run one.
        launch: starts driver processes.

    Raises:
        BadSetup: the store of jobs cannot be opened; another server may have it.
        BadOption: the Spark master is empty.
    """

    def __init__(
        self,
        settings: ServerSettings,
        engine: Engine | None = None,
        launch: Launch | None = None,
    ) -> None:
        self._settings = settings
        self.expansion_endpoint = ""
        """Where other SDKs ask for transforms, once it is started; empty: nowhere."""
        master = settings.spark_master_url
        defaults = {} if master is None else {described_options.MASTER_URN: master}
        self._drivers = Drivers(
            launch or self._launch,
            Session.of(described_options.settings({"spark_master_url": master})),
            is_warm=settings.is_warm,
        )
        self._home = Path(settings.directory or tempfile.mkdtemp(prefix=_PREFIX, dir=room()))
        access.prepare(self._home, group=False)
        self._lock = _locked(self._home)
        self._files = self._home / "staged"
        self._class_paths = self._home / "class-paths"
        access.make_folder(self._class_paths)
        self._artifacts = Artifacts(self._files)
        self._store = self._open_store()
        self._jobs = DrivenJobs(
            engine or SparkEngine(),
            JobStore(self._store),
            self._artifacts,
            self._files,
            self._drivers,
            settings.max_jobs,
            _KEPT_JOBS,
        )
        self._service = JobService(self._jobs, self._artifacts, defaults=defaults)
        self._ports: set[int] = set()
        self._stopped = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="sparkdrain-server", daemon=True)
        # Beam's pool, because its threads do not keep a program alive that wants to end.
        self._pool = thread_pool_executor.UnboundedThreadPoolExecutor()
        # One that serves artifacts alone comes last.
        artifacts = _ARTIFACTS if settings.artifact_port is None else ()
        self._servers = [self._grpc(_JOBS, *artifacts)]
        beam_job_api_pb2_grpc.add_JobServiceServicer_to_server(self._service, self._servers[0])
        if settings.artifact_port is not None:
            self._servers.append(self._grpc(*_ARTIFACTS))
        self._artifacts.serve(self._servers[-1])
        self._expansion = None if settings.expansion_port is None else self._serve_expansion()

    @property
    def endpoint(self) -> str:
        """Where clients find the Job service, once it is started."""
        return self._service.endpoint

    def start(self) -> str:
        """Listen, and return the endpoint.

        Raises:
            BadSetup: a port is in use, or cannot be listened at.
            StoreDown: the jobs of another life cannot be read.
        """
        settings = self._settings
        self._service.endpoint = self._listen(self._servers[0], settings.job_port, "--job-port")
        if settings.artifact_port is not None:
            port = settings.artifact_port
            self._service.staging_endpoint = self._listen(
                self._servers[-1], port, "--artifact-port"
            )
        if self._expansion is not None and settings.expansion_port is not None:
            self.expansion_endpoint = self._listen(
                self._expansion, settings.expansion_port, "--expansion-port"
            )
            self._servers.append(self._expansion)
        self._jobs.restore(self.endpoint)
        self._remove_files_of_no_job()
        for server in self._servers:
            server.start()
        self._ticker.start()
        self._drivers.watch()
        return self.endpoint

    def stop(self) -> None:
        """End all drivers; leave what a server to come goes on with, and nothing else."""
        self._stopped.set()
        running = [job for job in self._jobs.all() if job.is_running]
        self._jobs.leave()
        for job in running:
            if job.state.state == api.JobState.CANCELLING:
                job.story.wait(_CANCEL_SECONDS)
        for stopping in [server.stop(_GRACE_SECONDS) for server in self._servers]:
            stopping.wait()
        self._pool.shutdown(wait=False)  # gRPC leaves the threads to the owner of the pool
        self._drivers.close()
        self._artifacts.close()
        self._store.close()
        self._lock.close()
        if not self._settings.directory:
            shutil.rmtree(self._home, ignore_errors=True)

    def _open_store(self) -> MetadataStore:
        address = self._settings.store or StoreAddress("rocksdb", str(self._home / "jobs"))
        for complaint in STORES.prepare(address, group=False):
            _LOGGER.warning("--metadata-store: %s", complaint)
        return STORES.open(address)

    def _remove_files_of_no_job(self) -> None:
        """Remove what jobs have left that ended, or were never run, in another life."""
        running = {job.info.job_id for job in self._jobs.all() if job.is_running}
        for folder in self._files.glob("*"):
            if folder.name not in running:
                shutil.rmtree(folder, ignore_errors=True)

    def _tick(self) -> None:
        while not self._stopped.wait(_TICK_SECONDS):
            self._jobs.tick()

    def _launch(self, session: Session, *, warm: bool) -> Driver:
        variables = {CLASS_PATHS: str(self._class_paths)} if self._settings.is_warm else {}
        return DriverProcess(session, self.endpoint, warm=warm, variables=variables)

    def _serve_expansion(self) -> grpc.Server:
        # Most servers have none.
        from sparkdrain.server.expansion import Expansion  # noqa: PLC0415

        server = self._grpc(_EXPANSION)
        beam_expansion_api_pb2_grpc.add_ExpansionServiceServicer_to_server(Expansion(), server)
        return server

    def _grpc(self, *served: str) -> grpc.Server:
        interceptors = self._settings.security.interceptors()
        if self._settings.is_for_own_user:
            interceptors = (AskForUser(self._ports, is_own, _FOR_OTHERS, PROBE),)
        server = grpc.server(
            self._pool,
            interceptors=interceptors,
            options=(*UNLIMITED, ALONE, *short_stay(_CONNECTIONS), *keepalive()),
        )
        _serve_health(server, *served)
        return server

    def _listen(self, server: grpc.Server, port: int, flag: str) -> str:
        host = self._settings.host
        name = f"[{host}]" if ":" in host else host
        credentials = self._settings.security.credentials()
        try:
            if credentials is None:
                bound = server.add_insecure_port(f"{name}:{port}")
            else:
                bound = server.add_secure_port(f"{name}:{port}", credentials)
        except RuntimeError as error:
            message = (
                f"Nothing can listen at {name}:{port}: the port is in use, or the address is not "
                f"of this machine. Give another {flag} or --host; {flag} 0 takes a free port."
            )
            raise BadSetup(message) from error
        self._ports.add(bound)
        # Clients are to use the name that they are told, so no wildcard.
        return f"{socket.gethostname() if host in _ANY else name}:{bound}"


def keepalive(
    every: float = _PING_SECONDS, answer: float = _ANSWER_SECONDS, apart: float = _APART_SECONDS
) -> tuple[tuple[str, int], ...]:
    """Options of a server: it pings its clients, and lets clients ping it.

    So the server finds out that a client is gone without a word: power, cable, or a stopped
    machine. TCP alone does not tell, and the server would wait for ever. A ping is answered by the
    client's gRPC, however busy the program is. The private sockets of drivers need no pings: the
    system tells each end when the other one is gone.

    Args:
        every: seconds without a word of the client after which the server pings.
        answer: seconds that the answer may take. Then the connection, and its calls, end.
        apart: seconds between two pings of a client that the server puts up with.
    """
    return (
        ("grpc.keepalive_time_ms", round(every * 1000)),
        ("grpc.keepalive_timeout_ms", round(answer * 1000)),
        # Newer releases of gRPC take this for the limit, and wait for a minute without it.
        ("grpc.http2.ping_timeout_ms", round(answer * 1000)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),  # no limit
        ("grpc.http2.min_ping_interval_without_data_ms", round(apart * 1000)),
    )


def _serve_health(server: grpc.Server, *served: str) -> None:
    """Offer health and reflection beside the services of these names, which are healthy."""
    # Only a server at an address needs these packages.
    from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # noqa: PLC0415
    from grpc_reflection.v1alpha import reflection  # noqa: PLC0415

    health_pb2_grpc.add_HealthServicer_to_server(servicer := health.HealthServicer(), server)
    for name in ("", *served):
        servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
    names = (*served, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)


def _locked(directory: Path) -> IO[str]:
    """The lock of a directory, which no other server has while the file is open."""
    lock = (directory / "lock").open("w", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        message = f"Another server has {directory}. Give this one another --server-dir."
        raise BadSetup(message) from error
    return lock
