"""Starts SDK harnesses: a process with a command, or one of a pool that runs elsewhere."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import secrets
import shlex
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import grpc
from apache_beam.portability.api import (
    beam_fn_api_pb2,
    beam_fn_api_pb2_grpc,
    beam_runner_api_pb2,
)
from typing_extensions import override

from sparkdrain.fnapi import guard
from sparkdrain.fnapi.descriptor import descriptor_of
from sparkdrain.fnapi.docker import docker_command, removal
from sparkdrain.fnapi.errors import HarnessNotStarted
from sparkdrain.fnapi.go import go_command
from sparkdrain.fnapi.java import java_command
from sparkdrain.graph.environments import DOCKER, EXTERNAL, PROCESS, STAGED_GO, STAGED_JAVA
from sparkdrain.graph.staged import GO_WORKER
from sparkdrain.loopback import UNIX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from sparkdrain.fnapi.services import SdkServices

Command: TypeAlias = tuple[list[str], dict[str, str]]
"""A command, and the environment variables that it needs beside those of this process."""

_POOL_SECONDS: Final = 30
_STOP_SECONDS: Final = 10.0
_LAST_WORDS_BYTES: Final = 64_000
_LAST_WORDS_SHOWN: Final = 4000
_FRAMES_OF_JAVA: Final = re.compile(r"((?:^\tat .*\n){3})(?:^\tat .*\n)+", re.MULTILINE)


class Life(Protocol):
    """An SDK harness from its start to its end."""

    @property
    def endpoint(self) -> str:
        """Where the harness finds the slot's services."""

    def start(self, worker_id: str) -> None:
        """Start the harness.

        Raises:
            HarnessNotStarted: it cannot be started; says what to do.
        """

    def how_it_ended(self) -> str:
        """How the harness has ended; "" while it runs, or if that cannot be known here."""

    def last_words(self) -> str:
        """What the harness wrote last, as the end of a sentence; "" if that is unknown here."""

    def stop(self, *, at_once: bool = False) -> None:
        """End it.

        Args:
            at_once: whether it has nothing to do before.
        """


def life_of(
    environment: beam_runner_api_pb2.Environment,
    services: SdkServices,
    folder: Path,
    options: Mapping[str, Any],
    files: Mapping[str, Path],
) -> Life:
    """How harnesses of an environment live.

    Args:
        environment: one of ``graph.environments.OUTSIDE``.
        services: what the harness talks to.
        folder: for what it writes.
        options: of the pipeline, by plain name.
        files: those that were staged for it, by name.
    """
    if environment.urn == EXTERNAL:
        pool = beam_runner_api_pb2.ExternalPayload.FromString(environment.payload)
        return PooledHarness(pool, services)
    if environment.urn == STAGED_JAVA:
        # Java reaches a Unix socket only with a library of its own.
        here = services.here()

        def java(worker_id: str) -> Command:
            return java_command(files, options, worker_id, here, folder)

        return HarnessProcess("Java's SDK harness", java, here, folder)
    if environment.urn == STAGED_GO:

        def go(worker_id: str) -> Command:
            return go_command(files[GO_WORKER], options, worker_id, services.socket, folder)

        name = "Go's worker binary"
        return HarnessProcess(name, go, services.socket, folder, ends_itself=False)
    if environment.urn == DOCKER:
        image = beam_runner_api_pb2.DockerPayload.FromString(environment.payload).container_image
        here = services.here()
        name = f"sparkdrain-{secrets.token_hex(8)}"

        def container(worker_id: str) -> Command:
            return docker_command(image, _arguments(worker_id, here), name), {}

        return HarnessProcess(
            f"docker run {image}", container, here, folder, at_the_end=removal(name)
        )
    assert environment.urn == PROCESS, environment.urn
    process = beam_runner_api_pb2.ProcessPayload.FromString(environment.payload)

    def given(worker_id: str) -> Command:
        return _given_command(process, worker_id, services.socket)

    return HarnessProcess(process.command, given, services.socket, folder)


def _given_command(
    payload: beam_runner_api_pb2.ProcessPayload, worker_id: str, here: str
) -> Command:
    """The user's own command, with the arguments of Beam's containers."""
    return [*shlex.split(payload.command), *_arguments(worker_id, here)], dict(payload.env)


def _arguments(worker_id: str, here: str) -> list[str]:
    """What Beam's containers are told: who they are, and where the services are."""
    kinds = ("provision", "logging", "artifact", "control")
    return [f"--id={worker_id}", *(f"--{kind}_endpoint={here}" for kind in kinds)]


class HarnessProcess(Life):
    """A process that the slot's process starts, and that does not outlive it.

    Args:
        name: what messages call it.
        command: the command for a worker id, and variables.
        endpoint: of the slot's services.
        folder: for what it writes.
        ends_itself: whether it ends when it has nothing more to do; else it is ended then.
        at_the_end: a command that is run when it has ended, however that was.
    """

    def __init__(
        self,
        name: str,
        command: Callable[[str], Command],
        endpoint: str,
        folder: Path,
        *,
        ends_itself: bool = True,
        at_the_end: Sequence[str] = (),
    ) -> None:
        self._name = name
        self._command = command
        self._endpoint = endpoint
        self._output = folder / "output"
        self._at_the_end = at_the_end
        self._patience = _STOP_SECONDS if ends_itself else 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    @override
    def endpoint(self) -> str:
        return self._endpoint

    @override
    def start(self, worker_id: str) -> None:
        command, variables = self._command(worker_id)
        program = [sys.executable, "-I", "-S", "-c", inspect.getsource(guard)]
        guarded = [*program, json.dumps(self._at_the_end), *command]
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - the user's own command
                guarded,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **variables},
                start_new_session=True,
            )

    @override
    def how_it_ended(self) -> str:
        status = None if self._process is None else self._process.poll()
        if status is None:
            return ""
        # The guard ends with 128 and the number of the signal, as a shell does.
        number = -status if status < 0 else status - 128
        known = number in {each.value for each in signal.Signals}
        how = f"the signal {signal.Signals(number).name}" if known else f"status {status}"
        return f"The process of {self._name!r} ended with {how}. {self.last_words()}"

    @override
    def last_words(self) -> str:
        words = b""
        with contextlib.suppress(OSError), self._output.open("rb") as output:
            output.seek(max(0, self._output.stat().st_size - _LAST_WORDS_BYTES))
            words = output.read(_LAST_WORDS_BYTES)
        said = _FRAMES_OF_JAVA.sub(r"\1\t...\n", words.decode(errors="replace"))
        said = said.strip()[-_LAST_WORDS_SHOWN:]
        return f"The last that it wrote:\n{said}" if said else "It wrote nothing."

    @override
    def stop(self, *, at_once: bool = False) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        # It was told to end by the end of its requests, and tears its DoFns down now.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.0 if at_once else self._patience)
        with contextlib.suppress(OSError):
            process.stdin.close()
        # Who kills the guard before it has run its last command leaves behind what that removes.
        last = guard.AT_THE_END_SECONDS if self._at_the_end else 0.0
        try:
            process.wait(_STOP_SECONDS + last)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.returncode < 0:
            # The guard was killed, and has run nothing at the end.
            guard.run_last(self._at_the_end)


class PooledHarness(Life):
    """A harness that a pool of workers starts, see ``BeamFnExternalWorkerPool``."""

    def __init__(self, payload: beam_runner_api_pb2.ExternalPayload, services: SdkServices) -> None:
        self._payload = payload
        self._services = services
        self._id = ""
        self._channel: grpc.Channel | None = None
        self._endpoint = ""

    @property
    def _address(self) -> str:
        return self._payload.endpoint.url

    @property
    @override
    def endpoint(self) -> str:
        if not self._endpoint:
            if self._address.startswith(UNIX):
                self._endpoint = self._services.socket
            else:
                self._endpoint = self._services.at(self._seen_from_pool())
        return self._endpoint

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
    def how_it_ended(self) -> str:
        return ""

    @override
    def last_words(self) -> str:
        return ""

    @override
    def stop(self, *, at_once: bool = False) -> None:
        if self._channel is None:
            return
        stub = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(self._channel)
        with contextlib.suppress(grpc.RpcError):
            request = beam_fn_api_pb2.StopWorkerRequest(worker_id=self._id)
            stub.StopWorker(request, timeout=_STOP_SECONDS)
        self._channel.close()
