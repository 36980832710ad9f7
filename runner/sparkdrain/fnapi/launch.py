"""Starts SDK harnesses: a process with a command, or one of a pool that runs elsewhere."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shlex
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

import grpc
from apache_beam.portability.api import (
    beam_fn_api_pb2,
    beam_fn_api_pb2_grpc,
    beam_runner_api_pb2,
)
from typing_extensions import override

from sparkdrain.fnapi.class_paths import SPARE_JVM
from sparkdrain.fnapi.descriptor import descriptor_of
from sparkdrain.fnapi.docker import docker_command
from sparkdrain.fnapi.errors import HarnessNotStarted
from sparkdrain.fnapi.go import go_command
from sparkdrain.fnapi.java import (
    JAVA_HARNESS,
    JAVA_MAIN,
    JavaProcess,
    can_share,
    java_class_path,
    java_program,
    java_variables,
)
from sparkdrain.fnapi.process import (
    STOP_SECONDS,
    TOLD,
    Command,
    HarnessProcess,
    HarnessProgram,
    Life,
)
from sparkdrain.fnapi.relayed import SPARE_RELAY, RelayedHarness
from sparkdrain.fnapi.shared_process import SharedPlace
from sparkdrain.graph.environments import (
    DOCKER,
    EXTERNAL,
    PROCESS,
    STAGED_GO,
    STAGED_JAVA,
    is_for_several_slots,
    is_java,
)
from sparkdrain.graph.staged import GO_WORKER, staged_name, told_sha256
from sparkdrain.loopback import UNIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sparkdrain.fnapi.harness_job import HarnessJob
    from sparkdrain.fnapi.services import SdkServices

# Checked by ``JobSettings``.
_WORKERS: Final = "sdk_worker_parallelism"
_EACH_SLOT: Final = (0, "0")
_POOL_SECONDS: Final = 30


def life_of(
    environment: beam_runner_api_pb2.Environment,
    services: SdkServices,
    folder: Path,
    job: HarnessJob,
    files: Mapping[str, Path],
) -> Life:
    """How harnesses of an environment live.

    Args:
        environment: one of ``graph.environments.OUTSIDE``.
        folder: for what it writes.
        files: those that were staged for it, by name.

    Raises:
        HarnessNotStarted: a pool does not answer; says what to do.
    """
    if environment.urn == EXTERNAL:
        pool = beam_runner_api_pb2.ExternalPayload.FromString(environment.payload)
        return PooledHarness(pool, services)
    if environment.urn == STAGED_JAVA:
        return _java_life(environment, services.here(), folder, job, files)
    program = _program_of(environment, job, files)
    # SDKs keep samples of all slots together, each in the coder of the stage that it is from.
    is_shared = is_for_several_slots(environment) and job.slots > 1 and job.samples is None
    if is_shared and (place := _where_slots_meet(environment, job)) is not None:
        return RelayedHarness(program, place, services, _where_waits(SPARE_RELAY))
    here = services.here() if program.needs_port else services.socket
    return HarnessProcess(program, here, folder)


def _program_of(
    environment: beam_runner_api_pb2.Environment, job: HarnessJob, files: Mapping[str, Path]
) -> HarnessProgram:
    """What runs a harness in a process of its own."""
    if environment.urn == STAGED_GO:

        def staged(worker_id: str, endpoint: str, folder: Path) -> Command:
            return go_command(files[GO_WORKER], job.options, worker_id, endpoint, folder)

        return HarnessProgram("Go's worker binary", staged, ends_itself=False)
    if environment.urn == DOCKER:
        image = beam_runner_api_pb2.DockerPayload.FromString(environment.payload).container_image

        def container(worker_id: str, endpoint: str, _: Path) -> Command:
            name = f"sparkdrain-{secrets.token_hex(8)}"
            return docker_command(image, _arguments(worker_id, endpoint), name)

        return HarnessProgram(f"docker run {image}", container, needs_port=True)
    assert environment.urn == PROCESS, environment.urn
    process = beam_runner_api_pb2.ProcessPayload.FromString(environment.payload)

    def given(worker_id: str, endpoint: str, _: Path) -> Command:
        words = [*shlex.split(process.command), *_arguments(worker_id, endpoint)]
        return Command(words, dict(process.env))

    # Java reaches a Unix socket only with a library of its own.
    return HarnessProgram(process.command, given, needs_port=is_java(environment))


def _where_slots_meet(
    environment: beam_runner_api_pb2.Environment, job: HarnessJob
) -> SharedPlace | None:
    """Where slots find what they share; None if each has its own."""
    if job.executor is None or job.options.get(_WORKERS) in _EACH_SLOT:
        return None
    key = hashlib.sha256(job.id.encode() + environment.SerializeToString(deterministic=True))
    return SharedPlace(job.executor, key.hexdigest()[:32])


def _java_life(
    environment: beam_runner_api_pb2.Environment,
    here: str,
    folder: Path,
    job: HarnessJob,
    files: Mapping[str, Path],
) -> Life:
    """A harness in the JVM that the slots of the executor share, where there can be one."""

    def variables(worker_id: str) -> Mapping[str, str]:
        return java_variables(job.options, worker_id, here, folder)

    java = java_program()
    place = _where_slots_meet(environment, job)
    if place is None or not can_share(java):

        def command(worker_id: str, _: str, folder: Path) -> Command:
            words = [java, "-cp", java_class_path(files, folder), JAVA_MAIN]
            return Command(words, variables(worker_id))

        return HarnessProcess(HarnessProgram(JAVA_HARNESS, command), here, folder)
    hashes = {staged_name(file): told_sha256(file) for file in environment.dependencies}
    return JavaProcess(files, hashes, variables, here, place, _where_waits(SPARE_JVM))


def _where_waits(variable: str) -> Path | None:
    """The folder in which a process of this slot's driver waits; None if none ever does."""
    waiting = os.environ.get(variable)
    return Path(waiting) if waiting else None


def _arguments(worker_id: str, here: str) -> list[str]:
    """What Beam's containers are told: who they are, and where the services are."""
    kinds = ("provision", "logging", "artifact", "control")
    return [f"--id={worker_id}", *(f"--{kind}_endpoint={here}" for kind in kinds)]


class PooledHarness(Life):
    """A harness that a pool of workers starts, see ``BeamFnExternalWorkerPool``."""

    def __init__(self, payload: beam_runner_api_pb2.ExternalPayload, services: SdkServices) -> None:
        self._payload = payload
        self._services = services
        self._id = ""
        self._channel: grpc.Channel | None = None
        self._address: str = payload.endpoint.url
        if self._address.startswith(UNIX):
            # Only of a pool in the program itself is it known that all of it is one process.
            told = Path(f"{self._address.removeprefix(UNIX)}.{TOLD}")
            super().__init__(services.socket, told)
        else:
            super().__init__(services.at(self._seen_from_pool()))

    def _seen_from_pool(self) -> str:
        """The address of this machine on its way to the pool."""
        host, _, port = self._address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _POOL_SECONDS) as line:
                found: str = line.getsockname()[0]
                return found
        except (OSError, ValueError) as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: object) -> HarnessNotStarted:
        message = (
            f"The worker pool at {self._address!r} does not answer: {error}. Give the address of "
            "a pool that every executor reaches as --environment_config; with LOOPBACK, which "
            "runs the pool in the program itself, executors must be on the program's machine, and "
            "of its user."
        )
        return HarnessNotStarted(message)

    @override
    def start(self, worker_id: str) -> None:
        self._id, here = worker_id, descriptor_of(self.endpoint)
        self._channel = grpc.insecure_channel(self._address)
        request = beam_fn_api_pb2.StartWorkerRequest(
            worker_id=worker_id,
            control_endpoint=here,
            logging_endpoint=here,
            artifact_endpoint=here,
            provision_endpoint=here,
            params=self._payload.params,
        )
        stub = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(self._channel)
        try:
            answer = stub.StartWorker(request, timeout=_POOL_SECONDS)
        except grpc.RpcError as error:
            raise self._unreachable(error.details()) from error
        if answer.error:
            message = f"The worker pool at {self._address!r} started no worker: {answer.error}"
            raise HarnessNotStarted(message)

    @override
    def stop(self, *, at_once: bool = False) -> None:
        if self._channel is not None:
            stub = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(self._channel)
            with contextlib.suppress(grpc.RpcError):
                request = beam_fn_api_pb2.StopWorkerRequest(worker_id=self._id)
                stub.StopWorker(request, timeout=STOP_SECONDS)
            self._channel.close()
        if self.endpoint != self._services.socket:
            self._services.leave(self.endpoint)
