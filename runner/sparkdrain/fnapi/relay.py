"""Lets the slots of an executor share one SDK harness: it relays their instructions.

A program of its own, in which Beam is not imported. It starts the harness, which finds its services
here, all but those for elements and state: descriptors tell it at which slot these are. Standard
input is a socket that listens. A slot that connects there names itself. Then the relay calls the
services of the slot, as a harness of the slot's own would. The ids of instructions and questions
begin with the name of the slot that they are from. What the harness is to know, and the files that
were staged for it, come from any slot.

The connection of a slot closes when the slot is done with: it has no more instructions, or is gone,
and the harness has answered all that it was asked. If a bundle runs on for a while after that, the
harness ends, and all slots lose it: nothing else ends a bundle. SIGTERM says that no slot is left.
Then the harness has no more instructions, and may tear its DoFns down.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from sparkdrain.strangers import OTHER_IMAGE, is_own_or_of_a_container, refusal, short_stay
from sparkdrain.v1 import relay_pb2

_PATIENCE_SECONDS: Final = 3.0
_STATUS_SECONDS: Final = 1.0
_ANY_PORT: Final = ":0"
# Messages with log entries that may wait for a slot.
_LOGS_AHEAD: Final = 1000
_WORKER_ID: Final = "worker_id"
# Where the code of Go's harness is.
_OF_HARNESS: Final = "/core/runtime/harness/"
_PACKAGE: Final = "/org.apache.beam.model.fn_execution.v1."
_DESCRIPTOR: Final = f"{_PACKAGE}BeamFnControl/GetProcessBundleDescriptor"
_PROVISION: Final = f"{_PACKAGE}ProvisionService/GetProvisionInfo"
_ARTIFACTS: Final = "/org.apache.beam.model.job_management.v1.ArtifactRetrievalService/"
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # SDKs ask each 20 s whether they are heard. gRPC would hang up on them.
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.max_ping_strikes", 0),
)
_CONNECTIONS: Final = 16
_SETUP_SECONDS: Final = 60

_NOTHING: Final[tuple[bytes, ...]] = ()
_Messages = AsyncIterator[bytes]
_Serve = Callable[[_Messages, Any], _Messages]


@dataclass(slots=True)
class _Part:
    """What a slot has of the harness.

    Attributes:
        id: by which its services know the harness.
        name: what its ids begin with.
        unanswered: the ids of its bundles that the harness has not answered.
        is_idle: set while there are none.
        is_leaving: whether it has no more instructions.
    """

    id: str
    name: str
    channel: grpc.aio.Channel
    answers: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)
    logs: asyncio.Queue[bytes | None] = field(default_factory=lambda: asyncio.Queue(_LOGS_AHEAD))
    statuses: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)
    unanswered: set[str] = field(default_factory=set)
    is_idle: asyncio.Event = field(default_factory=asyncio.Event)
    is_leaving: bool = False

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What says for which harness a call is."""
        return ((_WORKER_ID, self.id),)

    def call(self, service: str, outgoing: asyncio.Queue[bytes | None]) -> _Messages:
        """Begin a call with messages in both directions; it ends with None in the queue."""
        method = self.channel.stream_stream(f"{_PACKAGE}{service}")
        call: _Messages = method(_taken(outgoing), metadata=self.metadata)
        return call

    def takes(self, entry: relay_pb2.LoggedEntry) -> bool:
        """Whether a log entry says something to the slot.

        The harness complains of bundles and connections of a slot that leaves.
        """
        return not self.is_leaving or _OF_HARNESS not in entry.log_location


class Relay:
    """Stands between one harness and the slots that use it.

    Args:
        harness_id: what the harness says that it is.
        patience: how many seconds the harness may take to end when no slot is left.
    """

    def __init__(self, harness_id: str, patience: float = 0.0) -> None:
        self._id = harness_id
        self._patience = patience
        self._here = ""
        self._ports: set[int] = set()
        self._met = asyncio.Event()
        self._slots: dict[str, _Part] = {}
        self._by_descriptor: dict[str, _Part] = {}
        self._requests: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._questions: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._connected = asyncio.Event()
        self._over: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def run(self, listener: socket.socket, address: str, command: list[str]) -> int:
        """Serve the harness and slots until the harness ends; how it has ended, as a shell says it.

        Args:
            listener: where slots connect.
            address: where the harness connects; its port is 0 if any port will do.
            command: starts the harness. Arguments that end with the address get the port.
        """
        stay = short_stay(_CONNECTIONS, _SETUP_SECONDS, _SETUP_SECONDS)
        server = grpc.aio.server(options=(*_OPTIONS, *stay))
        server.add_generic_rpc_handlers(tuple(self._services()))
        port = server.add_insecure_port(address)
        self._ports.add(port)
        host = address.removesuffix(_ANY_PORT)
        self._here = address if host == address else f"{host}:{port}"
        command = [_with_port(word, address, self._here) for word in command]
        await server.start()
        slots = await asyncio.start_unix_server(self._serve, sock=listener)
        harness = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL)
        ended = asyncio.ensure_future(harness.wait())
        # The guard's.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._end_in_order)
        await asyncio.wait({ended, self._over}, return_when=asyncio.FIRST_COMPLETED)
        slots.close()
        if self._over.done():
            # A harness that ends is still there when its connection is not.
            await asyncio.wait({ended}, timeout=self._over.result())
        if not ended.done():
            harness.kill()
        status = await ended
        return 128 - status if status < 0 else status

    def _end(self, seconds: float) -> None:
        """Have the harness end, if it does not by itself within so many seconds."""
        if not self._over.done():
            self._over.set_result(seconds)

    def _end_in_order(self) -> None:
        """Have the harness end by the end of what it listens to."""
        self._requests.put_nowait(None)
        self._questions.put_nowait(None)
        self._end(self._patience if self._connected.is_set() else 0.0)

    # --- the harness's side -------------------------------------------------------------------

    def _services(self) -> list[grpc.GenericRpcHandler]:
        found: dict[str, dict[str, _Serve]] = {
            f"{_PACKAGE}BeamFnControl": {
                "Control": self._control,
                "GetProcessBundleDescriptor": self._descriptor,
            },
            f"{_PACKAGE}BeamFnLogging": {"Logging": self._logging},
            f"{_PACKAGE}BeamFnWorkerStatus": {"WorkerStatus": self._worker_status},
            f"{_PACKAGE}ProvisionService": {"GetProvisionInfo": self._provision_info},
            # Artifacts as they can be fetched here, and a staged file, piece by piece.
            _ARTIFACTS: {
                name: partial(self._of_any_slot, f"{_ARTIFACTS}{name}")
                for name in ("ResolveArtifacts", "GetArtifact")
            },
        }
        return [
            grpc.method_handlers_generic_handler(
                service.strip("/"), {name: self._asking(serve) for name, serve in methods.items()}
            )
            for service, methods in found.items()
        ]

    def _asking(self, serve: _Serve) -> grpc.RpcMethodHandler:
        """A handler that asks who calls before it reads a message."""

        async def asked(messages: _Messages, context: Any) -> _Messages:
            why = refusal(context.peer(), self._ports, is_own_or_of_a_container, OTHER_IMAGE)
            if (_WORKER_ID, self._id) not in (context.invocation_metadata() or ()):
                why = why or "no harness has this worker id"
            if why:
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, why)
            async for answer in serve(messages, context):
                yield answer

        return grpc.stream_stream_rpc_method_handler(asked)

    async def _control(self, responses: _Messages, _: Any) -> _Messages:
        """Instructions out, answers in."""
        answers = asyncio.ensure_future(self._take_answers(responses))
        self._connected.set()
        try:
            async for request in _taken(self._requests):
                yield request
        finally:
            answers.cancel()

    async def _take_answers(self, responses: _Messages) -> None:
        try:
            async for response in responses:
                id_ = relay_pb2.Identified.FromString(response).id
                slot = self._slots.get(_named_in(id_))
                if slot is not None:
                    slot.answers.put_nowait(response)
                    slot.unanswered.discard(id_)
                    if not slot.unanswered:
                        slot.is_idle.set()
        finally:
            self._end(_STATUS_SECONDS)

    async def _descriptor(self, requests: _Messages, context: Any) -> _Messages:
        """A stage, by the slot that has bundles of it."""
        async for request in requests:
            slot = self._by_descriptor.get(relay_pb2.Identified.FromString(request).id)
            async for answer in _answers_of(slot, _DESCRIPTOR, request, context):
                yield answer

    async def _provision_info(self, requests: _Messages, context: Any) -> _Messages:
        """What the harness is to know, with this place for its services."""
        async for answer in self._of_any_slot(_PROVISION, requests, context):
            told = relay_pb2.Provisioned.FromString(answer)
            for place in (
                told.info.control_endpoint,
                told.info.logging_endpoint,
                told.info.status_endpoint,
                told.info.artifact_endpoint,
            ):
                place.url = self._here
            told.info.metadata[_WORKER_ID] = self._id
            yield told.SerializeToString()

    async def _of_any_slot(self, method: str, requests: _Messages, context: Any) -> _Messages:
        """The answers of one slot: all have the same files."""
        await self._met.wait()
        async for request in requests:
            slot = next(iter(self._slots.values()), None)
            async for answer in _answers_of(slot, method, request, context):
                yield answer

    async def _logging(self, lists: _Messages, _: Any) -> _Messages:
        """Log entries, each to the slot whose bundle they are from, or else to any."""
        async for entries in lists:
            for entry in relay_pb2.LoggedEntries.FromString(entries).log_entries:
                self._log(entry)
        for nothing in _NOTHING:
            yield nothing

    def _log(self, entry: relay_pb2.LoggedEntry) -> None:
        slot = self._slots.get(_named_in(entry.instruction_id))
        if not entry.instruction_id:
            staying = (each for each in self._slots.values() if not each.is_leaving)
            slot = next(staying, None)
        if slot is not None and slot.takes(entry):
            # If a slot takes nothing, others do not wait for it.
            with contextlib.suppress(asyncio.QueueFull):
                slot.logs.put_nowait(
                    relay_pb2.LoggedEntries(log_entries=[entry]).SerializeToString()
                )

    async def _worker_status(self, statuses: _Messages, _: Any) -> _Messages:
        """Questions how the harness is, and its answers."""
        answers = asyncio.ensure_future(self._take_statuses(statuses))
        try:
            async for question in _taken(self._questions):
                yield question
        finally:
            answers.cancel()

    async def _take_statuses(self, statuses: _Messages) -> None:
        async for status in statuses:
            slot = self._slots.get(_named_in(relay_pb2.Identified.FromString(status).id))
            if slot is not None:
                slot.statuses.put_nowait(status)

    # --- the slots' side ----------------------------------------------------------------------

    async def _serve(self, said: asyncio.StreamReader, connection: asyncio.StreamWriter) -> None:
        """Be the harness of a slot until the slot leaves."""
        try:
            told = (await said.readuntil(b"\n\n")).decode().strip().split("\n")
            await self._serve_slot(dict(line.split("=", 1) for line in told), said)
        except (asyncio.IncompleteReadError, OSError):
            pass  # it is gone before it has said anything
        finally:
            connection.close()

    async def _serve_slot(self, variables: dict[str, str], said: asyncio.StreamReader) -> None:
        gone = asyncio.ensure_future(_to_end(said))
        async with grpc.aio.insecure_channel(variables["ENDPOINT"], options=_OPTIONS) as channel:
            slot = _Part(variables["HARNESS_ID"], variables["NAME"], channel)
            self._slots[slot.name] = slot
            self._met.set()
            try:
                await _first(gone, self._connected.wait())
                await self._instruct(slot, gone)
            finally:
                gone.cancel()
                del self._slots[slot.name]
                for id_ in [id_ for id_, of in self._by_descriptor.items() if of is slot]:
                    del self._by_descriptor[id_]

    async def _instruct(self, slot: _Part, gone: asyncio.Future[None]) -> None:
        """Pass instructions and questions of a slot on until it leaves, and wait for answers."""
        logs = asyncio.ensure_future(_to_last(slot.call("BeamFnLogging/Logging", slot.logs)))
        statuses = slot.call("BeamFnWorkerStatus/WorkerStatus", slot.statuses)
        questions = asyncio.ensure_future(_each(statuses, self._questions.put_nowait))
        control = slot.call("BeamFnControl/Control", slot.answers)
        await _first(gone, _each(control, lambda request: self._ask(slot, request)))
        slot.is_leaving = True
        if slot.unanswered:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(slot.is_idle.wait(), _PATIENCE_SECONDS)
        if slot.unanswered:
            sys.stderr.write("A bundle runs on after its slot is gone. It ends with the harness.\n")
            sys.stderr.flush()
            self._end(0)
        for queue in (slot.answers, slot.statuses, slot.logs):
            with contextlib.suppress(asyncio.QueueFull):
                queue.put_nowait(None)
        await asyncio.wait({logs}, timeout=_STATUS_SECONDS)
        for task in (logs, questions):
            task.cancel()

    def _ask(self, slot: _Part, request: bytes) -> None:
        asked = relay_pb2.AskedInstruction.FromString(request)
        if asked.HasField("process_bundle"):
            self._by_descriptor[asked.process_bundle.process_bundle_descriptor_id] = slot
            slot.unanswered.add(asked.instruction_id)
            slot.is_idle.clear()
        self._requests.put_nowait(request)


def _named_in(id_: str) -> str:
    """The name of the slot that an id is from."""
    return id_.partition("-")[0]


def _with_port(word: str, address: str, here: str) -> str:
    """An argument of a command, in which an address without a port gets one."""
    return word.removesuffix(address) + here if word.endswith(f"={address}") else word


async def _answers_of(slot: _Part | None, method: str, request: bytes, context: Any) -> _Messages:
    """What a slot's services answer, or how they fail."""
    if slot is None:
        await context.abort(grpc.StatusCode.NOT_FOUND, "no slot has this, or it is gone")
        raise AssertionError
    try:
        async for answer in slot.channel.unary_stream(method)(request, metadata=slot.metadata):
            yield answer
    except grpc.aio.AioRpcError as error:
        await context.abort(error.code(), error.details() or "")


async def _taken(queue: asyncio.Queue[bytes | None]) -> _Messages:
    """What is in a queue, to the first None."""
    while (message := await queue.get()) is not None:
        yield message


async def _each(messages: _Messages, take: Callable[[bytes], object]) -> None:
    """Take what comes until a call ends, in whatever way."""
    with contextlib.suppress(grpc.aio.AioRpcError):
        async for message in messages:
            take(message)


async def _to_last(messages: _Messages) -> None:
    await _each(messages, lambda _: None)


async def _to_end(said: asyncio.StreamReader) -> None:
    """Wait until the other end closes."""
    with contextlib.suppress(OSError):
        while await said.read(1):
            pass


async def _first(gone: asyncio.Future[None], other: Coroutine[Any, Any, object]) -> None:
    """Wait until a slot is gone, or for something else that ends then."""
    task: asyncio.Future[Any] = asyncio.ensure_future(other)
    await asyncio.wait({gone, task}, return_when=asyncio.FIRST_COMPLETED)
    task.cancel()


async def _main(harness_id: str, address: str, patience: str, *command: str) -> int:
    relay = Relay(harness_id, float(patience))
    return await relay.run(socket.socket(fileno=0), address, list(command))


def _ordered(file: Path) -> list[str]:
    """Wait until a slot connects; the arguments that it has written down before."""
    select.select([0], [], [])
    order = json.loads(file.read_text("utf-8"))
    file.unlink()
    os.environ.clear()
    os.environ.update(order["variables"])
    os.chdir(order["folder"])
    return list(order["words"])


def main() -> None:
    """Relay as the arguments say: id and address, patience, and the command; see ``Relay``.

    One argument alone is a file, with these arguments when a slot connects; see ``relayed``.
    """
    words = sys.argv[1:]
    status = asyncio.run(_main(*(words if len(words) > 1 else _ordered(Path(*words)))))
    # Nothing is left that gRPC's threads could tell anyone.
    os._exit(status)


if __name__ == "__main__":
    main()
