"""The line to one SDK harness: requests go out, answers and elements come in.

State and writers belong to the thread of the slot, which works out in ``wait`` all that a message
means. gRPC's threads only move messages, but for requests for state: a harness waits for each
answer, so gRPC's thread gives it at once while the slot's thread waits for a message.
"""

from __future__ import annotations

import itertools
import math
import queue
import threading
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from apache_beam.portability.api import beam_fn_api_pb2

from sparkdrain.fnapi.errors import DISCONNECTED, HarnessNotStarted, lost, newer_java
from sparkdrain.fnapi.public_name import public_name, thread_group
from sparkdrain.fnapi.short_ids import ShortIds
from sparkdrain.fnapi.sight import waits_for_elements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sparkdrain.fnapi.process import Life

# Messages with elements that may wait to be sent. The harness has a queue of its own.
_AHEAD: Final = 3
# Bytes of output that may wait for the slot's thread.
_OUTPUT_BYTES: Final = 64 << 20
_LOOK_SECONDS: Final = 0.5
_REASON_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.02
# After that time, a connection that says nothing is closed.
_DATA_SECONDS: Final = 60.0
_STATUS_SECONDS: Final = 1.0
_NO_DATA: Final = (
    "it waits for elements, and has no connection for them. Java's harness does not connect again "
    "if the machine has had too much to do. Give the executor fewer slots, or more cores."
)

TORN_DOWN: Final = "sparkdrain.torn-down"
"""The name of the logger that says so, see ``SharedHarness.java``."""


class Listener(Protocol):
    """A bundle that a harness processes."""

    def responded(self, response: beam_fn_api_pb2.InstructionResponse) -> None:
        """The harness has answered the instruction."""

    def progressed(self, answer: beam_fn_api_pb2.ProcessBundleProgressResponse) -> None:
        """The harness has answered a question how far it is."""

    def output(self, data: beam_fn_api_pb2.Elements.Data) -> None:
        """Elements have come out of the bundle."""

    def timers(self, timers: beam_fn_api_pb2.Elements.Timers) -> None:
        """The bundle has set timers."""

    def state(self, request: beam_fn_api_pb2.StateRequest) -> beam_fn_api_pb2.StateResponse:
        """Answer what the bundle asks of state or of side inputs."""


@dataclass(slots=True)
class _Stream:
    """Elements on their way to a harness, in their order.

    Attributes:
        unsent: messages that gRPC has not taken.
        is_fetched: whether the harness has a connection for them.
    """

    elements: queue.SimpleQueue[beam_fn_api_pb2.Elements | None] = field(
        default_factory=queue.SimpleQueue
    )
    unsent: int = 0
    is_fetched: bool = False

    def sent(self) -> None:
        """One message more is sent; told to the slot's thread."""
        self.unsent -= 1


class SdkWorker:
    """One SDK harness.

    Args:
        id: names the harness; no other process can guess it.
        life: what is known of the process behind it.
    """

    def __init__(self, id: str, life: Life) -> None:  # noqa: A002 - Beam's
        self.id = id
        self.life = life
        # Instructions of other slots have other ids: they may be for the same process.
        self._name = public_name(id)
        self.is_lost = False
        self.sampled: dict[str, beam_fn_api_pb2.ProcessBundleDescriptor] = {}
        """Descriptors whose coders the samples have, by PCollection; see ``Samples``."""
        self.short_ids = ShortIds()
        """What it calls metrics. The next harness has other ids, and a worker of its own."""
        self._descriptors: dict[str, beam_fn_api_pb2.ProcessBundleDescriptor] = {}
        self._requests: queue.SimpleQueue[beam_fn_api_pb2.InstructionRequest | None] = (
            queue.SimpleQueue()
        )
        # By name; bundles have the one without a name unless they ask for another one.
        self._streams: defaultdict[str, _Stream] = defaultdict(_Stream)
        self._inbox: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        # The slot's thread holds it unless it waits for a message. Who holds it may answer.
        self._turn = threading.Lock()
        self._turn.acquire()
        self._numbers = itertools.count(1)
        self._listeners: dict[str, Listener] = {}
        self._others: dict[str, queue.SimpleQueue[beam_fn_api_pb2.InstructionResponse | None]] = {}
        # What takes the answers to instructions that are no bundles.
        self._awaited: dict[str, Callable[[beam_fn_api_pb2.InstructionResponse], None]] = {}
        # By the id of a question, the bundle whose progress is asked for.
        self._asked_of: dict[str, str] = {}
        self._status_requests: queue.SimpleQueue[beam_fn_api_pb2.WorkerStatusRequest | None] = (
            queue.SimpleQueue()
        )
        self._statuses: queue.SimpleQueue[str] = queue.SimpleQueue()
        # When to look why no elements are fetched, and how often that was without an excuse.
        self._look_at = 0.0
        self._looks = 0
        self._at_the_end: list[Callable[[], object]] = []
        self._room = threading.Condition()
        self._waiting_bytes = 0
        self._connected = threading.Event()

    # --- the slot's side ----------------------------------------------------------------------

    def register(self, descriptor: beam_fn_api_pb2.ProcessBundleDescriptor) -> None:
        """Know a descriptor, for which the harness asks by its id."""
        self._descriptors[descriptor.id] = descriptor

    def descriptor(self, id_: str) -> beam_fn_api_pb2.ProcessBundleDescriptor | None:
        """The descriptor of that id, if there is one."""
        return self._descriptors.get(id_)

    def step_name(self, transform: str) -> str:
        """The name that a transform has in the pipeline, by its id in a descriptor; else its id."""
        for descriptor in list(self._descriptors.values()):
            if transform in descriptor.transforms:
                return descriptor.transforms[transform].unique_name or transform
        return transform

    @property
    def is_connected(self) -> bool:
        """Whether the harness has asked for instructions."""
        return self._connected.is_set()

    def await_connection(self, seconds: float) -> bool:
        """Wait until the harness asks for instructions; whether it did.

        Raises:
            HarnessLost: its process has ended.
        """
        until = time.monotonic() + seconds
        while not self._connected.wait(_LOOK_SECONDS):
            self._look()
            if time.monotonic() > until:
                return False
        return True

    def expect(self, listener: Listener) -> str:
        """The id for the instruction of a bundle, of which a listener is told from now on."""
        id_ = self._new_id("bundle")
        self._listeners[id_] = listener
        return id_

    def _new_id(self, kind: str) -> str:
        return f"{self._name}-{kind}-{next(self._numbers)}"

    def process(self, id_: str, request: beam_fn_api_pb2.ProcessBundleRequest) -> None:
        """Start a bundle that is expected."""
        self._requests.put(
            beam_fn_api_pb2.InstructionRequest(instruction_id=id_, process_bundle=request)
        )

    def forget(self, instruction: str) -> None:
        """Nothing more is expected of a bundle."""
        self._listeners.pop(instruction, None)

    def ask(
        self, request: beam_fn_api_pb2.InstructionRequest, seconds: float | None = None
    ) -> beam_fn_api_pb2.InstructionResponse | None:
        """Have an instruction carried out beside the bundle; from any thread.

        Returns:
            The answer; None if the harness is lost, or none has come in time.
        """
        self._name_question(request)
        answer: queue.SimpleQueue[beam_fn_api_pb2.InstructionResponse | None] = queue.SimpleQueue()
        self._others[request.instruction_id] = answer
        try:
            if self.is_lost:
                return None
            self._requests.put(request)
            return answer.get(timeout=seconds)
        except queue.Empty:
            return None
        finally:
            del self._others[request.instruction_id]

    def _name_question(self, request: beam_fn_api_pb2.InstructionRequest) -> None:
        """Give an instruction beside bundles an id."""
        request.instruction_id = self._new_id("ask")
        if bundle := request.process_bundle_progress.instruction_id:
            self._asked_of[request.instruction_id] = bundle

    def send(self, elements: beam_fn_api_pb2.Elements, name: str = "") -> None:
        """Send elements. Waits while much is on the way, and takes in what comes meanwhile.

        Args:
            name: the stream that the bundle has (``data_stream_id``).
        """
        stream = self._streams[name]
        self.take()
        while stream.unsent >= _AHEAD:
            self.wait()
        if not stream.unsent:
            self._look_at = time.monotonic() + _DATA_SECONDS
        stream.unsent += 1
        stream.elements.put(elements)

    def take(self) -> None:
        """Take in what has come."""
        while not self._inbox.empty():
            self._inbox.get()()

    def wait(self, seconds: float | None = None) -> None:
        """Wait for a message, and take it in.

        Args:
            seconds: how long to wait at most; None: until one comes.

        Raises:
            HarnessLost: the harness is gone.
        """
        while True:
            message = self._next(_LOOK_SECONDS if seconds is None else seconds)
            if message is not None:
                message()
                return
            self._look()
            if seconds is not None:
                return

    def _next(self, seconds: float) -> Callable[[], object] | None:
        """The next message; None if none comes in time. Others may answer until it comes."""
        with suppress(queue.Empty):
            return self._inbox.get_nowait()
        self._turn.release()
        try:
            with suppress(queue.Empty):
                return self._inbox.get(timeout=seconds)
            return None
        finally:
            self._take_turn()

    def _take_turn(self) -> None:
        try:
            self._turn.acquire()
        except BaseException:  # a signal's handler has raised; the slot goes on with that
            self._turn.acquire()
            raise

    def ask_amid_bundle(
        self, request: beam_fn_api_pb2.InstructionRequest, seconds: float = math.inf
    ) -> beam_fn_api_pb2.InstructionResponse:
        """Have an instruction carried out, and take in what comes meanwhile; its answer.

        Args:
            seconds: how long to wait at most. The answer is an error after that.

        Raises:
            HarnessLost: the harness is gone.
        """
        until = time.monotonic() + seconds
        self._name_question(request)
        answer: queue.SimpleQueue[beam_fn_api_pb2.InstructionResponse] = queue.SimpleQueue()
        self._awaited[request.instruction_id] = answer.put
        try:
            self._requests.put(request)
            while answer.empty():
                left = until - time.monotonic()
                if left <= 0:
                    error = f"the harness has not answered in {seconds:.0f} s"
                    return beam_fn_api_pb2.InstructionResponse(error=error)
                self.wait(min(left, _LOOK_SECONDS))
            return answer.get()
        finally:
            del self._awaited[request.instruction_id]

    def status(self, seconds: float) -> str:
        """What the harness tells of itself; "" if it does not in time. From any thread."""
        while not self._statuses.empty():
            self._statuses.get()  # came too late for who has asked
        id_ = self._new_id("status")
        self._status_requests.put(beam_fn_api_pb2.WorkerStatusRequest(id=id_))
        try:
            return self._statuses.get(timeout=seconds)
        except queue.Empty:
            return ""

    def _look(self) -> None:
        ended = self.life.how_it_ended()
        if not ended and not self.is_lost:
            self._look_for_data()
            return
        self.is_lost = True
        # A process that ends is still there when its connection is not.
        until = time.monotonic() + _REASON_SECONDS
        while not ended and time.monotonic() < until:
            time.sleep(_PAUSE_SECONDS)
            ended = self.life.how_it_ended()
        why = ended or (DISCONNECTED + self.life.last_words()).strip()
        if remedy := newer_java(why):
            message = f"{remedy}\n{why}"
            raise HarnessNotStarted(message)
        raise lost(why)

    def _look_for_data(self) -> None:
        """See whether the harness waits for elements that it never fetches.

        It may do so once, while it connects. Before that, user code may set up its DoFns for hours.
        """
        stream = self._streams[""]
        if stream.is_fetched or not stream.unsent or time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + _DATA_SECONDS
        status = self.status(_STATUS_SECONDS)
        self._looks += waits_for_elements(
            status, thread_group(self.id), is_shared=self.life.is_shared
        )
        if self._looks > 1:
            self.is_lost = True
            raise lost(_NO_DATA)

    def close(self) -> None:
        """Have the harness end, by the end of what it listens to."""
        self.is_lost = True
        self._requests.put(None)
        for stream in list(self._streams.values()):
            stream.elements.put(None)
        # Java's waits a minute for this end before it ends itself.
        self._status_requests.put(None)
        with self._room:
            self._room.notify_all()
        for end in self._at_the_end:
            end()

    def at_the_end(self, end: Callable[[], object]) -> None:
        """Have a function called when the harness is to end."""
        self._at_the_end.append(end)
        if self.is_lost:
            end()

    # --- gRPC's side --------------------------------------------------------------------------

    def requests(self) -> Iterator[beam_fn_api_pb2.InstructionRequest]:
        """What the harness is to do; to its end."""
        self._connected.set()
        self.life.connected()
        while (request := self._requests.get()) is not None:
            yield request

    def responses(self, responses: Iterator[beam_fn_api_pb2.InstructionResponse]) -> None:
        """Take answers in until the connection ends."""
        try:
            for response in responses:
                if response.instruction_id in self._asked_of:
                    # The bundle's own answer, which is yet to come, may leave out what this has.
                    self._inbox.put(partial(self._progressed, response))
                other = self._others.get(response.instruction_id)
                if other is not None:
                    other.put(response)
                else:
                    self._inbox.put(partial(self._responded, response))
        finally:
            # Nothing can be asked for any more.
            self.is_lost = True
            for other in list(self._others.values()):
                other.put(None)
            self._inbox.put(self._look)

    def _progressed(self, response: beam_fn_api_pb2.InstructionResponse) -> None:
        listener = self._listeners.get(self._asked_of.pop(response.instruction_id))
        if listener is not None:
            listener.progressed(response.process_bundle_progress)

    def _responded(self, response: beam_fn_api_pb2.InstructionResponse) -> None:
        listener = self._listeners.get(response.instruction_id)
        awaited = self._awaited.get(response.instruction_id)
        if listener is not None:
            listener.responded(response)
        elif awaited is not None:
            awaited(response)

    def status_requests(self) -> queue.SimpleQueue[beam_fn_api_pb2.WorkerStatusRequest | None]:
        """Where questions how the harness is come from now on; None is to end them.

        Python's harness connects again when its questions end.
        """
        self._status_requests = queue.SimpleQueue()
        return self._status_requests

    def statuses(self, responses: Iterator[beam_fn_api_pb2.WorkerStatusResponse]) -> None:
        """Take its answers in until the connection ends."""
        for response in responses:
            self._statuses.put(response.status_info)

    def to_process(self, name: str = "") -> Iterator[beam_fn_api_pb2.Elements]:
        """The elements for the harness in a stream; to its end."""
        stream = self._streams[name]
        stream.is_fetched = True
        while (elements := stream.elements.get()) is not None:
            yield elements
            self._inbox.put(stream.sent)

    def processed(self, stream: Iterator[beam_fn_api_pb2.Elements]) -> None:
        """Take output in until the connection ends; waits while the slot has much of it."""
        for elements in stream:
            size = elements.ByteSize()
            with self._room:
                self._room.wait_for(lambda: self._waiting_bytes < _OUTPUT_BYTES or self.is_lost)
                self._waiting_bytes += size
            self._inbox.put(partial(self._came, elements, size))

    def _came(self, elements: beam_fn_api_pb2.Elements, size: int) -> None:
        with self._room:
            self._waiting_bytes -= size
            self._room.notify_all()
        for data in elements.data:
            listener = self._listeners.get(data.instruction_id)
            if listener is not None:
                listener.output(data)
        for timers in elements.timers:
            listener = self._listeners.get(timers.instruction_id)
            if listener is not None:
                listener.timers(timers)

    def state_answers(
        self, requests: Iterator[beam_fn_api_pb2.StateRequest]
    ) -> Iterator[beam_fn_api_pb2.StateResponse]:
        """Answers to requests for state, in their order, each while the slot's thread waits."""
        for request in requests:
            while not self._turn.acquire(timeout=_LOOK_SECONDS):
                if self.is_lost:
                    return
            try:
                response = self._asked(request)
            except BaseException as error:  # noqa: BLE001 - the slot's thread fails of it
                self._inbox.put(partial(_raise, error))
                return
            finally:
                self._turn.release()
            yield response

    def _asked(self, request: beam_fn_api_pb2.StateRequest) -> beam_fn_api_pb2.StateResponse:
        listener = self._listeners.get(request.instruction_id)
        if listener is None:
            error = f"No bundle {request.instruction_id!r} is processed."
            return beam_fn_api_pb2.StateResponse(id=request.id, error=error)
        response = listener.state(request)
        response.id = request.id
        return response


def _raise(error: BaseException) -> None:
    raise error
