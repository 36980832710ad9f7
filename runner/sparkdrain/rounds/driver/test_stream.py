"""TestStream (``beam:transform:teststream:v1``): the driver plays its script, event by event.

An event is given when everything before it has been worked off, so a pipeline meets it in a state
that the script decides, whatever the number of slots. Processing time is the script's too: it
begins at 0 and stands still but for the script. When the script is over, watermarks go to the end
of time, and the clock leaps to whatever is due next.

Events may also come from a service, one by one, while the job runs. Beam's interactive notebooks
replay recorded sources in this way (``beam_interactive_api.proto``, ``TestStreamService``).
"""

from __future__ import annotations

import logging
import queue
import re
import threading
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

import grpc
from apache_beam.portability.api import (
    beam_interactive_api_pb2,
    beam_interactive_api_pb2_grpc,
    beam_runner_api_pb2,
)
from google.protobuf.json_format import MessageToJson
from typing_extensions import override

from sparkdrain.errors import SparkDrainError
from sparkdrain.graph.environments import is_go
from sparkdrain.rounds.clock import Clock
from sparkdrain.rounds.driver.loop import Play
from sparkdrain.stages.shards.turn import Feed
from sparkdrain.watermarks.frontier import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sparkdrain.graph.plan import Plan, PlayedSource
    from sparkdrain.rounds.clock import Interrupt

_LOGGER = logging.getLogger(__name__)
# Scripts are in milliseconds; what services send, like all else, is in microseconds.
_MILLISECOND: Final = 1000
_MICROSECOND: Final = 1
# Triggers that can tell one element from two.
_COUNTING: Final = re.compile('"(always|elementCount)"')
# Seconds. As long as no event comes, the driver looks whether the job was cancelled.
_PATIENCE: Final = 0.1
_ENDS: Final = frozenset({grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE})


def play_for(plan: Plan, clock: Clock) -> tuple[Play, Clock]:
    """The sources of ``plan`` that the driver plays, and the clock of the job.

    Args:
        clock: the clock of a job without TestStream.
    """
    if not plan.played:
        return Play(), clock
    script = ScriptClock()
    return TestStreamPlay(plan.played, script, one_by_one=comes_one_by_one(plan)), script


class ScriptClock(Clock):
    """Processing time that moves when the script says so; a ``Clock``."""

    def __init__(self) -> None:
        self._now = 0
        self.is_over = False
        """The script has ended: time leaps to where it is waited for."""

    @override
    def now(self) -> int:
        return self._now

    def advance(self, micros: int) -> None:
        """The script moves time on, to its end at most."""
        self._now = min(self._now + micros, END)

    def wait_until(self, then: int | None, interrupt: Interrupt) -> None:
        """See ``Clock``; while the script goes on, it is what one waits for.

        Raises:
            SparkDrainError: nothing can happen any more, and yet the job is not over.
        """
        if not self.is_over:
            return
        if then is None:
            message = "the script of TestStream is over, but something waits for what never comes"
            raise SparkDrainError(message)
        self._now = max(self._now, then)


@dataclass(frozen=True, slots=True)
class _Event:
    """One step of a script: feeds by transform id, then a leap of processing time."""

    elements: tuple[tuple[bytes, int], ...] = ()
    frontier: int | None = None
    to: tuple[str, ...] = ()
    micros: int = 0
    is_last: bool = False


class TestStreamPlay(Play):
    """Plays all TestStreams of a job, one after the other; a ``Play``.

    Args:
        sources: the outputs of all TestStreams.
        clock: processing time, which is moved by the scripts.
        one_by_one: each element of an event is an event of its own.
    """

    __test__ = False  # for pytest, which takes the name for that of a test

    def __init__(
        self, sources: Sequence[PlayedSource], clock: ScriptClock, *, one_by_one: bool
    ) -> None:
        self._clock = clock
        self._standing: dict[str, Feed] = {source.transform: Feed((), BEGIN) for source in sources}
        self._events = _one_by_one(_script(sources)) if one_by_one else _script(sources)
        self._pending: Mapping[str, Feed] | None = None
        self._all_given = False
        self._is_cut = False
        self._last = _end_of_time(sources)
        self._position = 0

    @property
    @override
    def position(self) -> int:
        return self._position

    def go_to(self, position: int) -> None:
        """Go on where another play of the same script was; what it gave is not given again.

        Raises:
            SparkDrainError: the script is not as long, or it comes from a service.
        """
        while self._position < position:
            self.next(quiet=True)
            if self._pending is None:
                message = (
                    f"the script of TestStream cannot be taken up after {position} events: it has "
                    f"only {self.position} so far"
                )
                raise SparkDrainError(message)
            self.committed()

    def cut(self) -> None:
        """See ``Play``; what is left of the scripts is never read."""
        if not self._is_cut:
            self._is_cut = True
            self._events = iter([self._last])

    @override
    def next(self, *, quiet: bool) -> Mapping[str, Feed]:
        if self._pending is not None:
            return self._pending
        if self._all_given or not (quiet or self._is_cut):
            return {}
        event = next(self._events, None)
        if event is None:
            return {}  # it is still to come
        self._clock.advance(event.micros)
        self._all_given = event.is_last
        self._pending = {transform: self._feed(transform, event) for transform in event.to}
        return self._pending

    def _feed(self, transform: str, event: _Event) -> Feed:
        before = self._standing[transform].frontier
        after = before if event.frontier is None else event.frontier
        if after < before:
            _LOGGER.warning(
                "%s: the script takes the watermark back from %d to %d (microseconds); it stays",
                transform,
                before,
                after,
            )
        return Feed(event.elements, max(before, after), before)

    @override
    def standing(self) -> Mapping[str, Feed]:
        return dict(self._standing)

    @override
    def committed(self) -> None:
        if self._pending is None:
            return
        for transform, feed in self._pending.items():
            self._standing[transform] = replace(feed, elements=(), before=feed.frontier)
        self._pending = None
        self._position += 1
        self._clock.is_over = self.is_over

    @property
    @override
    def is_over(self) -> bool:
        return self._all_given and self._pending is None


def _script(sources: Sequence[PlayedSource]) -> Iterator[_Event | None]:
    """The events of all streams, each stream's from beginning to end, then the end of time.

    None stands for an event that is still to come.
    """
    streams: dict[str, list[PlayedSource]] = defaultdict(list)
    for source in sources:
        streams[source.stream].append(source)
    for stream, outputs in streams.items():
        payload = beam_runner_api_pb2.TestStreamPayload.FromString(outputs[0].payload)
        by_tag = {source.tag: source.transform for source in outputs}
        for proto in payload.events:
            yield _event(proto, stream, by_tag, _MILLISECOND)
        if payload.endpoint.url:
            for served_proto in served(payload.endpoint.url, sorted(by_tag)):
                yield served_proto and _event(served_proto, stream, by_tag, _MICROSECOND)
    yield _end_of_time(sources)


def _one_by_one(events: Iterable[_Event | None]) -> Iterator[_Event | None]:
    for event in events:
        if event is None or not event.elements:
            yield event
        else:
            yield from (replace(event, elements=(element,)) for element in event.elements)


def _end_of_time(sources: Sequence[PlayedSource]) -> _Event:
    return _Event(frontier=END, to=tuple(source.transform for source in sources), is_last=True)


def _event(
    proto: beam_runner_api_pb2.TestStreamPayload.Event,
    stream: str,
    by_tag: Mapping[str, str],
    unit: int,
) -> _Event:
    match proto.WhichOneof("event"):
        case "element_event":
            elements = tuple(
                (element.encoded_element, element.timestamp * unit)
                for element in proto.element_event.elements
            )
            return _Event(elements, to=_targets(proto.element_event.tag, stream, by_tag))
        case "watermark_event":
            event = proto.watermark_event
            time = min(max(event.new_watermark * unit, BEGIN), END)
            return _Event(frontier=time, to=_targets(event.tag, stream, by_tag))
        case "processing_time_event":
            duration = proto.processing_time_event.advance_duration
            return _Event(micros=duration * unit)
        case kind:
            message = f"{stream!r}: a TestStream event of a kind that is not known: {kind}"
            raise ValueError(message)


def _targets(tag: str, stream: str, by_tag: Mapping[str, str]) -> tuple[str, ...]:
    if tag in by_tag:
        return (by_tag[tag],)
    if len(by_tag) == 1:
        # Other SDKs do not name the only output.
        return tuple(by_tag.values())
    message = f"{stream!r}: an event is for output {tag!r}; there are {', '.join(sorted(by_tag))}"
    raise ValueError(message)


def comes_one_by_one(plan: Plan) -> bool:
    """Whether the scripts of ``plan`` are given so.

    In the runners of Python's and Java's SDK all elements of an event are in one bundle, after
    which triggers are asked once. Go's runner asks after each element.
    """
    components = beam_runner_api_pb2.Components.FromString(plan.components)
    played = {source.transform for source in plan.played}
    return any(
        is_go(components.environments[stage.environment])
        for stage in chain.from_iterable(plan.levels)
        if not played.isdisjoint(dict(stage.transforms))
    ) and any(
        _COUNTING.search(MessageToJson(strategy.trigger))
        for strategy in components.windowing_strategies.values()
    )


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
