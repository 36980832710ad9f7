"""The gRPC services that SDK harnesses talk to: one server for all harnesses of a process.

A harness is known by its worker id, which it says with each call. The id is secret: a caller
that does not know it is refused.
"""

from __future__ import annotations

import logging
import os
import threading
from concurrent import futures
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import grpc
from apache_beam.portability.api import (
    beam_artifact_api_pb2,
    beam_artifact_api_pb2_grpc,
    beam_fn_api_pb2,
    beam_fn_api_pb2_grpc,
    beam_provision_api_pb2,
    beam_provision_api_pb2_grpc,
)
from typing_extensions import override

from sparkdrain.fnapi.worker import TORN_DOWN
from sparkdrain.loopback import UNIX
from sparkdrain.own_folder import OwnFolder
from sparkdrain.strangers import (
    OTHER_IMAGE,
    AskForUser,
    OpenCalls,
    is_own_or_of_a_container,
    refusing,
    short_stay,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sparkdrain.fnapi.worker import SdkWorker

_LOGGER = logging.getLogger(__name__)
_THREADS: Final = 256
_CONNECTIONS: Final = 128
# A JVM that starts on a busy machine takes long to say anything, and does not try again. If it
# loses the connection for elements, it does not even end.
_PATIENCE_SECONDS: Final = 60
_LOOPBACK: Final = "127.0.0.1"
_STOP_SECONDS: Final = 1.0
_LEAVE_SECONDS: Final = 10.0
_HANG_UP_SECONDS: Final = 0.5
_CHUNK: Final = 1 << 20
_WORKER_ID: Final = "worker_id"
_STREAM_ID: Final = "data_stream_id"
_SOCKET: Final = "fnapi"
# gRPC refuses messages beyond 4 MB unless told otherwise.
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.max_ping_strikes", 0),
)
_DESCRIPTOR: Final = (
    "/org.apache.beam.model.fn_execution.v1.BeamFnControl/GetProcessBundleDescriptor"
)
_REFUSING: Final = refusing(grpc.StatusCode.PERMISSION_DENIED, "no harness has this worker id")
_LEVELS: Final = {
    beam_fn_api_pb2.LogEntry.Severity.TRACE: logging.DEBUG,
    beam_fn_api_pb2.LogEntry.Severity.DEBUG: logging.DEBUG,
    beam_fn_api_pb2.LogEntry.Severity.INFO: logging.INFO,
    beam_fn_api_pb2.LogEntry.Severity.NOTICE: logging.INFO,
    beam_fn_api_pb2.LogEntry.Severity.WARN: logging.WARNING,
    beam_fn_api_pb2.LogEntry.Severity.ERROR: logging.ERROR,
    beam_fn_api_pb2.LogEntry.Severity.CRITICAL: logging.CRITICAL,
}

# gRPC in Java complains of channels there, which a harness of Java's leaves open when it ends: the
# next harness of a program says so, as an error.
_CHANNELS_LEFT_OPEN: Final = ".io.grpc.internal.ManagedChannelOrphanWrapper"

# Go's client logs the messages of its job there. Over LOOPBACK it is in the process of a harness,
# whose log it shares: told again, each would come back as another message, without an end.
_GO_CLIENT: Final = "/runners/universal/runnerlib/"


@dataclass(frozen=True, slots=True)
class Admitted:
    """A harness that may call.

    Attributes:
        info: what it is told when it starts.
        artifacts: the staged files that it may fetch, by the name in the artifact's payload.
        log: takes the level and the text of each record that a client of the job is to see.
    """

    worker: SdkWorker
    info: beam_provision_api_pb2.ProvisionInfo
    artifacts: dict[bytes, Path]
    log: Callable[[int, str], object] = lambda _level, _text: None


class SdkServices(
    beam_fn_api_pb2_grpc.BeamFnControlServicer,
    beam_fn_api_pb2_grpc.BeamFnDataServicer,
    beam_fn_api_pb2_grpc.BeamFnStateServicer,
    beam_fn_api_pb2_grpc.BeamFnLoggingServicer,
    beam_provision_api_pb2_grpc.ProvisionServiceServicer,
    beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceServicer,
):
    """Serves harnesses on a socket in a private folder, and on ports where one is asked for."""

    def __init__(self) -> None:
        self._clients: dict[str, Admitted] = {}
        # By worker id: set when its harness is admitted, or will not be.
        self._expected: dict[str, threading.Event] = {}
        self._folder = OwnFolder.make()
        self._servers: dict[str, grpc.Server] = {}
        self._here = ""
        self._lock = threading.Lock()
        self._sockets = 0
        self.home = self._folder.path
        """A private folder, which is removed even if this process is killed."""
        self.socket = f"{UNIX}{self.home}/{_SOCKET}"
        """The address for harnesses on this machine and of this user."""
        self._servers[self.socket], _ = self._serving(self.socket)

    def _serving(self, address: str, *, is_for_own_user: bool = False) -> tuple[grpc.Server, int]:
        """A server that listens at an address, and its port."""
        ports: set[int] = set()
        asking: list[grpc.ServerInterceptor] = [
            _AskForWorkerId(lambda id_: id_ in self._clients or id_ in self._expected)
        ]
        if is_for_own_user:
            asking.insert(0, AskForUser(ports, is_own_or_of_a_container, OTHER_IMAGE))
        # A server of its own: none takes further addresses when it has started.
        threads = futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="fnapi")
        server = grpc.server(
            threads,
            interceptors=asking,
            options=(*_OPTIONS, *short_stay(_CONNECTIONS, _PATIENCE_SECONDS, _PATIENCE_SECONDS)),
        )
        for add in (
            beam_fn_api_pb2_grpc.add_BeamFnControlServicer_to_server,
            beam_fn_api_pb2_grpc.add_BeamFnDataServicer_to_server,
            beam_fn_api_pb2_grpc.add_BeamFnStateServicer_to_server,
            beam_fn_api_pb2_grpc.add_BeamFnLoggingServicer_to_server,
            beam_fn_api_pb2_grpc.add_BeamFnWorkerStatusServicer_to_server,
            beam_provision_api_pb2_grpc.add_ProvisionServiceServicer_to_server,
            beam_artifact_api_pb2_grpc.add_ArtifactRetrievalServiceServicer_to_server,
        ):
            add(self, server)
        port: int = server.add_insecure_port(address)
        ports.add(port)
        server.start()
        return server, port

    def here(self) -> str:
        """A port for harnesses of this machine that reach no socket, and are of this user.

        The id of one in a container is an argument of a command, which every user can read. So
        the id is not enough there.
        """
        with self._lock:
            if not self._here:
                self._here = self._listening(_LOOPBACK, is_for_own_user=True)
            return self._here

    def at(self, host: str) -> str:
        """A new address, which a harness elsewhere can reach; ``leave`` it when that has ended.

        Args:
            host: the address of this machine, as the harness sees it.
        """
        with self._lock:
            return self._listening(host, is_for_own_user=False)

    def another_socket(self) -> str:
        """Another address of ``socket``, which no other harness has; ``leave`` it at the end."""
        with self._lock:
            self._sockets += 1
            path = f"{self.home}/{_SOCKET}-{self._sockets}"
        os.symlink(_SOCKET, path)
        return f"{UNIX}{path}"

    def another_port(self) -> str:
        """A port as that of ``here``, which no other harness has; ``leave`` it at the end."""
        with self._lock:
            return self._listening(_LOOPBACK, is_for_own_user=True)

    def leave(self, address: str) -> None:
        """End the connections to a port of ``at`` or ``another_port``; open calls have 10 s.

        An address of ``another_socket`` is not found any more; its connections end with the
        harness.

        Java's harness, in a program that goes on, leaves its connections open when it ends, and a
        stream for state with them.
        """
        with self._lock:
            server = self._servers.pop(address, None)
        if server is not None:
            server.stop(_LEAVE_SECONDS)
        elif address.startswith(UNIX):
            with suppress(FileNotFoundError):
                os.unlink(address.removeprefix(UNIX))

    def _listening(self, host: str, *, is_for_own_user: bool) -> str:
        bound = f"[{host}]" if ":" in host else host
        server, port = self._serving(f"{bound}:0", is_for_own_user=is_for_own_user)
        address = f"{host}:{port}"
        self._servers[address] = server
        return address

    def admit(self, client: Admitted) -> None:
        """Serve a harness from now on."""
        self._clients[client.worker.id] = client
        self.expect_no_more(client.worker.id)

    def admit_also(self, harness_id: str, worker_id: str) -> None:
        """Know a harness that is admitted by the id of a process that has others in it, too.

        The newest one that is admitted so gets what the process says.
        """
        self._clients[harness_id] = self._clients[worker_id]

    def expect(self, worker_id: str) -> None:
        """Let a harness ask what it is to know. It gets the answer when it is admitted."""
        self._expected[worker_id] = threading.Event()

    def expect_no_more(self, worker_id: str) -> None:
        """Answer a harness that was expected."""
        expected = self._expected.pop(worker_id, None)
        if expected is not None:
            expected.set()

    def dismiss(self, worker: SdkWorker) -> None:
        """Serve a harness no longer."""
        for id_, client in list(self._clients.items()):
            if client.worker is worker:
                del self._clients[id_]

    def stop(self) -> None:
        """End. Harnesses in threads have a moment to close their connections, then that is done."""
        for stopped in [server.stop(_STOP_SECONDS) for server in self._servers.values()]:
            stopped.wait()
        self._folder.remove()

    def _client(self, context: Any) -> Admitted:
        client = self._clients.get(_header(context, _WORKER_ID))
        if client is None:  # it was dismissed a moment ago
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "no harness has this worker id")
            raise AssertionError
        return client

    # --- services, named as Beam names them ---------------------------------------------------

    def Control(  # noqa: N802
        self, request_iterator: Iterator[beam_fn_api_pb2.InstructionResponse], context: Any
    ) -> Iterator[beam_fn_api_pb2.InstructionRequest]:
        """Instructions out, answers in."""
        worker = self._client(context).worker
        _in_thread("fnapi-control", worker.responses, request_iterator)
        return worker.requests()

    def GetProcessBundleDescriptor(  # noqa: N802
        self, request: beam_fn_api_pb2.GetProcessBundleDescriptorRequest, context: Any
    ) -> beam_fn_api_pb2.ProcessBundleDescriptor:
        """A stage, by its id, which a caller cannot guess.

        The TypeScript SDK does not say which harness asks.
        """
        wanted = request.process_bundle_descriptor_id
        each = (client.worker.descriptor(wanted) for client in list(self._clients.values()))
        found = next((found for found in each if found is not None), None)
        if found is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "there is no descriptor of this id")
        return found

    def Data(  # noqa: N802
        self, request_iterator: Iterator[beam_fn_api_pb2.Elements], context: Any
    ) -> Iterator[beam_fn_api_pb2.Elements]:
        """Elements, both ways."""
        worker = _ending_with(self._client(context).worker, context, _HANG_UP_SECONDS)
        _in_thread("fnapi-data", worker.processed, request_iterator)
        return worker.to_process(_header(context, _STREAM_ID))

    def State(  # noqa: N802
        self, request_iterator: Iterator[beam_fn_api_pb2.StateRequest], context: Any
    ) -> Iterator[beam_fn_api_pb2.StateResponse]:
        """Answers to requests for state, in their order."""
        return _ending_with(self._client(context).worker, context).state_answers(request_iterator)

    def Logging(  # noqa: N802
        self, request_iterator: Iterator[beam_fn_api_pb2.LogEntry.List], context: Any
    ) -> Iterator[beam_fn_api_pb2.LogControl]:
        """Log what harnesses log. What a transform says, and every warning, the job says too."""
        client = self._client(context)
        for entries in request_iterator:
            for entry in entries.log_entries:
                if entry.log_location == TORN_DOWN:
                    client.worker.life.torn_down.set()
                    continue
                level = _level(entry)
                step = client.worker.step_name(entry.transform_id)
                trace = f"\n{entry.trace}" if entry.trace else ""
                text = f"{step}: {entry.message}{trace}" if step else f"{entry.message}{trace}"
                _LOGGER.log(level, "%s: %s", entry.log_location, text)
                is_echo = _GO_CLIENT in entry.log_location
                if (step or level >= logging.WARNING) and not is_echo:
                    client.log(level, text)
        return iter(())

    def WorkerStatus(  # noqa: N802
        self, request_iterator: Iterator[beam_fn_api_pb2.WorkerStatusResponse], context: Any
    ) -> Iterator[beam_fn_api_pb2.WorkerStatusRequest]:
        """Questions how a harness is, and its answers."""
        worker = self._client(context).worker
        requests = worker.status_requests()
        if not context.add_callback(lambda: requests.put(None)):
            requests.put(None)
        _in_thread("fnapi-status", worker.statuses, request_iterator)
        return iter(requests.get, None)

    def GetProvisionInfo(  # noqa: N802
        self, request: beam_provision_api_pb2.GetProvisionInfoRequest, context: Any
    ) -> beam_provision_api_pb2.GetProvisionInfoResponse:
        """What the caller is to know when it starts."""
        del request
        expected = self._expected.get(_header(context, _WORKER_ID))
        if expected is not None and context.add_callback(expected.set):
            expected.wait()
        return beam_provision_api_pb2.GetProvisionInfoResponse(info=self._client(context).info)

    def ResolveArtifacts(  # noqa: N802
        self, request: beam_artifact_api_pb2.ResolveArtifactsRequest, context: Any
    ) -> beam_artifact_api_pb2.ResolveArtifactsResponse:
        """Artifacts as they can be fetched here."""
        self._client(context)
        return beam_artifact_api_pb2.ResolveArtifactsResponse(replacements=request.artifacts)

    def GetArtifact(  # noqa: N802
        self, request: beam_artifact_api_pb2.GetArtifactRequest, context: Any
    ) -> Iterator[beam_artifact_api_pb2.GetArtifactResponse]:
        """A staged file, piece by piece."""
        path = self._client(context).artifacts.get(request.artifact.type_payload)
        if path is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "there is no staged file of this name")
            raise AssertionError
        with path.open("rb") as file:
            while data := file.read(_CHUNK):
                yield beam_artifact_api_pb2.GetArtifactResponse(data=data)


def _ending_with(worker: SdkWorker, call: Any, seconds: float = 0.0) -> SdkWorker:
    """The same; a call for elements or state ends with it, if the process goes on without it.

    Args:
        seconds: how long the call has to end by itself, which is no error in the harness.
    """

    def hang_up() -> None:
        timer = threading.Timer(seconds, call.cancel)
        timer.daemon = True
        timer.start()

    if worker.life.is_shared:
        worker.at_the_end(hang_up)
    return worker


def _level(entry: beam_fn_api_pb2.LogEntry) -> int:
    if entry.log_location.endswith(_CHANNELS_LEFT_OPEN):
        return logging.DEBUG
    return _LEVELS.get(entry.severity, logging.INFO)


def _header(context: Any, name: str) -> str:
    value: str = dict(context.invocation_metadata()).get(name, "")
    return value


class _AskForWorkerId(grpc.ServerInterceptor):
    """Lets no call in that names no harness, but for the one that TypeScript makes so."""

    def __init__(self, is_known: Callable[[str], bool]) -> None:
        self._is_known = is_known
        self._descriptors = OpenCalls()

    @override
    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        if self._is_known(dict(details.invocation_metadata).get(_WORKER_ID, "")):
            return continuation(details)
        if details.method == _DESCRIPTOR:
            return self._descriptors.handler(continuation(details))
        return _REFUSING


def _in_thread(name: str, work: Callable[..., object], *arguments: Any) -> None:
    def run() -> None:
        # The end of a connection, in whatever way, is the end of the work.
        with suppress(grpc.RpcError, Exception):
            work(*arguments)

    threading.Thread(target=run, name=name, daemon=True).start()
