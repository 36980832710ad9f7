"""The coders and windowings of PCollections, as their edges need them.

Of window functions of other SDKs a slot knows how their windows are encoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apache_beam import coders
from apache_beam.coders.coders import LengthPrefixCoder, TimestampPrefixingOpaqueWindowCoder
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners import pipeline_context
from apache_beam.transforms.window import WindowFn
from google.protobuf.message import Message
from typing_extensions import override

from sparkdrain.graph.environments import place_of
from sparkdrain.graph.window_fns import has_own_windows, is_foreign, merges
from sparkdrain.graph.wire import has_pairs
from sparkdrain.shuffle.coding import ElementCoding
from sparkdrain.shuffle.values import EncodedCoder, JoinedCoder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from apache_beam.coders import Coder
    from apache_beam.transforms.window import BoundedWindow

    from sparkdrain.graph.plan import Edge, EdgeId, Plan

_URN: Final = "sparkdrain:window_fn:foreign:v1"


class Codings:
    """The coders of PCollections, as the shuffle needs them, at one end of their edges.

    An edge between stages of which one runs outside of the slot's process is *wired*: its elements
    are length-prefixed bytes, which a slot passes on unread. A stage in the slot's process reads
    and writes them with the PCollection's own coder.

    Args:
        context: Beam's, of the pipeline.
        wired: the wired edges, each with what its writer and its reader see: bytes or not.
        writing: whether this is the end that writes.
    """

    def __init__(
        self,
        context: Any,
        components: beam_runner_api_pb2.Components,
        wired: Mapping[EdgeId, tuple[bool, bool]],
        *,
        writing: bool = False,
    ) -> None:
        self.context = context
        """Beam's, of the pipeline."""
        self.components = components
        self._wired = wired
        self._writing = writing

    @staticmethod
    def of(plan: Plan) -> Codings:
        """The codings of a plan, at the end that reads edges."""
        components = beam_runner_api_pb2.Components.FromString(plan.components)
        context = pipeline_context.PipelineContext(with_foreign_windows(components))
        return Codings(context, components, _wired(plan, components))

    @property
    def of_writers(self) -> Codings:
        """The same at the end that writes edges."""
        return Codings(self.context, self.components, self._wired, writing=True)

    def coder(self, edge: Edge) -> coders.Coder:
        """The element coder of the PCollection that the edge carries."""
        id_ = self.components.pcollections[edge.pcollection].coder_id
        if edge.id not in self._wired:
            return self.context.coders.get_by_id(id_)
        pairs = has_pairs(edge, self.components)
        if self._wired[edge.id][0 if self._writing else 1]:
            whole = coders.BytesCoder()
            return coders.TupleCoder([whole, EncodedCoder()]) if pairs else whole
        coder = self.context.coders.get_by_id(id_)
        if not pairs:
            return LengthPrefixCoder(coder)
        parts = coder.key_coder(), coder.value_coder()
        return coders.TupleCoder([LengthPrefixCoder(part) for part in parts])

    def coder_of(self, id_: str) -> coders.Coder:
        """The coder of that id."""
        return self.context.coders.get_by_id(id_)

    def producer(self, edge: Edge) -> str:
        """The name of the transform whose output it carries, as people know it."""
        name = self.components.pcollections[edge.pcollection].unique_name
        # Python's own are the length of the transform's name, that name, and the output's.
        for digits in range(1, len(name)):
            if not name[:digits].isdecimal():
                break
            start, end = digits, digits + int(name[:digits])
            if name[end : end + 1] == ".":
                return name[start:end]
        return name

    def windowed(self, pcollection: str) -> coders.WindowedValueCoder:
        """The coder of a PCollection's elements with timestamp, windows and pane."""
        proto = self.components.pcollections[pcollection]
        windowing = self.context.windowing_strategies.get_by_id(proto.windowing_strategy_id)
        window_coder = windowing.windowfn.get_window_coder()
        return coders.WindowedValueCoder(self.coder_of(proto.coder_id), window_coder)

    def windowing(self, edge: Edge) -> Any:
        """The windowing of that PCollection."""
        return self.context.windowing_strategies.get_by_id(self._strategy_id(edge))

    def strategy(self, edge: Edge) -> beam_runner_api_pb2.WindowingStrategy:
        """The same as its SDK has written it."""
        return self.components.windowing_strategies[self._strategy_id(edge)]

    def _strategy_id(self, edge: Edge) -> str:
        return self.components.pcollections[edge.pcollection].windowing_strategy_id

    def window_coder(self, edge: Edge) -> coders.Coder:
        """The coder of its windows."""
        return self.windowing(edge).windowfn.get_window_coder()

    def elements(self, edge: Edge, coder: coders.Coder | None = None) -> ElementCoding:
        """How its elements are encoded (or only a part of them, that ``coder`` is for)."""
        return ElementCoding.of(coder or self.coder(edge), self.window_coder(edge))

    def groups(self, edge: Edge) -> ElementCoding:
        """How what a GroupByKey hands out is encoded, given its edge with what it hands out."""
        if edge.id in self._wired and self._wired[edge.id][1]:
            return self.elements(edge, coders.TupleCoder([coders.BytesCoder(), JoinedCoder()]))
        return self.elements(edge)


def _wired(
    plan: Plan, components: beam_runner_api_pb2.Components
) -> dict[EdgeId, tuple[bool, bool]]:
    """The wired edges, each with whether writer and reader are outside of the slot's process."""
    written: set[EdgeId] = set()
    read: set[EdgeId] = set()
    for level in plan.levels:
        for stage in level:
            if place_of(components, stage.environment):
                written.update(id_ for _, id_ in stage.sinks)
                read.update(id_ for _, id_ in stage.sources if id_ is not None)
                read.update(side.edge for side in stage.side_inputs)
    return {id_: (id_ in written, id_ in read) for id_ in written | read}


class ForeignWindows(WindowFn):
    """Windows that only an SDK harness can assign, and merge.

    Args:
        merging: whether they merge.
    """

    def __init__(self, coder: Coder, *, merging: bool) -> None:
        self._coder = coder
        self._merging = merging

    @override
    def is_merging(self) -> bool:
        return self._merging

    @override
    def merge(self, merge_context: WindowFn.MergeContext) -> None:
        """See ``fnapi.merging``, which stands in for this."""
        raise NotImplementedError

    @override
    def assign(self, assign_context: WindowFn.AssignContext) -> Iterable[BoundedWindow]:
        raise NotImplementedError

    @override
    def get_window_coder(self) -> Coder:
        return self._coder


def with_foreign_windows(
    components: beam_runner_api_pb2.Components,
) -> beam_runner_api_pb2.Components:
    """The same, so that Beam's Python SDK can read it.

    ``ForeignWindows`` stand where it would not know the function, and each trigger of processing
    time has a delay, which Java leaves out if it is 0.
    """
    known = beam_runner_api_pb2.Components()
    known.CopyFrom(components)
    for strategy in known.windowing_strategies.values():
        _add_delays(strategy.trigger)
        if is_foreign(strategy):
            coder = "" if has_own_windows(strategy, known) else strategy.window_coder_id
            strategy.window_fn.payload = f"{merges(strategy):d}{coder}".encode()
            strategy.window_fn.urn = _URN
    return known


def _add_delays(message: Message) -> None:
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in [value] if isinstance(value, Message) else value:
            if isinstance(part, beam_runner_api_pb2.Trigger.AfterProcessingTime):
                if not part.timestamp_transforms:
                    part.timestamp_transforms.add().delay.delay_millis = 0
            else:
                _add_delays(part)


def _foreign_windows(payload: bytes, context: Any) -> ForeignWindows:
    merging, coder = payload[:1] == b"1", payload[1:].decode()
    own = TimestampPrefixingOpaqueWindowCoder()
    return ForeignWindows(context.coders.get_by_id(coder) if coder else own, merging=merging)


WindowFn.register_urn(_URN, bytes, _foreign_windows)
