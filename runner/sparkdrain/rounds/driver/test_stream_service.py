"""Events of a TestStream that come from a service, one by one, while the job runs.

Beam's interactive notebooks replay recorded sources in this way
(``beam_interactive_api.proto``, ``TestStreamService``).
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Final

import grpc
from apache_beam.portability.api import beam_interactive_api_pb2, beam_interactive_api_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from apache_beam.portability.api import beam_runner_api_pb2

# Seconds. As long as no event comes, the driver looks whether the job was cancelled.
_PATIENCE: Final = 0.1
_ENDS: Final = frozenset({grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE})


def served(
    url: str, tags: Sequence[str]
) -> Iterator[beam_runner_api_pb2.TestStreamPayload.Event | None]:
    """The events of the service at ``url`` for outputs ``tags``; None as long as none comes.

    A service that goes away has given all that it had.

    Raises:
        grpc.RpcError: it refuses.
    """
    events: queue.Queue[beam_runner_api_pb2.TestStreamPayload.Event | Exception | None]
    events = queue.Queue(maxsize=1)
    over = threading.Event()
    with grpc.insecure_channel(url) as channel:
        stub = beam_interactive_api_pb2_grpc.TestStreamServiceStub(channel)
        call = stub.Events(beam_interactive_api_pb2.EventsRequest(output_ids=list(tags)))
        pump = threading.Thread(
            target=_pump, args=(call, events, over), name="test stream", daemon=True
        )
        pump.start()
        try:
            while True:
                try:
                    event = events.get(timeout=_PATIENCE)
                except queue.Empty:
                    yield None
                    continue
                if event is None:
                    return
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            over.set()
            call.cancel()
            # Before the channel is closed, at which its calls raise errors of other kinds.
            pump.join()


def _pump(
    call: Iterable[beam_runner_api_pb2.TestStreamPayload.Event],
    events: queue.Queue[beam_runner_api_pb2.TestStreamPayload.Event | Exception | None],
    over: threading.Event,
) -> None:
    def put(event: beam_runner_api_pb2.TestStreamPayload.Event | Exception | None) -> None:
        while not over.is_set():
            try:
                events.put(event, timeout=_PATIENCE)
            except queue.Full:
                continue
            return

    try:
        for event in call:
            put(event)
        put(None)
    except grpc.RpcError as error:
        put(None if error.code() in _ENDS else error)
