"""Which input an edge, or the beginning of a pipeline, is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apache_beam.coders.coder_impl import create_InputStream
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.testing.test_stream import WindowedValueHolder
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.graph.environments import is_go, is_java, place_of
from sparkdrain.graph.plan import EdgeKind, TransformId
from sparkdrain.graph.readers import processed_by
from sparkdrain.graph.state_ids import edge_state_id, stable_state_id
from sparkdrain.graph.wire import DELIMITED
from sparkdrain.panes.choose import grouping_for
from sparkdrain.panes.grouping import GroupingTerms
from sparkdrain.rounds.keyed.input import KeyedInput
from sparkdrain.rounds.sides.gate import Gate
from sparkdrain.rounds.sources.restrictions import RestrictionInput
from sparkdrain.rounds.stable import StableInput
from sparkdrain.stages.shards.input import Input
from sparkdrain.stages.shards.inputs import ElementInput, GroupInput, ImpulseInput, begins_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sparkdrain.fnapi.merging import WindowMergers
    from sparkdrain.graph.plan import Edge, PlayedSource, Stage
    from sparkdrain.rounds.context import Context
    from sparkdrain.rounds.sides.sides import Sides
    from sparkdrain.rounds.stable import Coverage
    from sparkdrain.stages.shards.source import Source
    from sparkdrain.stages.shards.turn import Turn


class FeedInput(Input):
    """What the driver plays, see ``driver.test_stream``; one slot takes it.

    Args:
        decode: decodes an element as it is in the script.
        encode: makes of it what the stage takes.
        source: where elements enter the stage.
        mine: whether this is the slot.
    """

    def __init__(
        self,
        decode: Callable[[bytes], Any],
        encode: Callable[[Any], Any],
        source: Source,
        *,
        mine: bool,
    ) -> None:
        self._decode = decode
        self._encode = encode
        self._source = source
        self._mine = mine

    def process(self, turn: Turn) -> None:
        """Send the elements of the round's event, if it has any.

        Raises:
            ValueError: the driver does not play the source.
        """
        if turn.feed is None:
            message = (
                "a TestStream is in the plan, but the driver does not play it: see "
                "test_stream.play_for"
            )
            raise ValueError(message)
        if self._mine:
            self._source.feed_windowed([self._element(*event) for event in turn.feed.elements])

    def _element(self, encoded: bytes, time: int) -> Any:
        value = self._decode(encoded)
        # Beam's TestStream takes an element with windows of its own as a row of this form.
        if isinstance(value, WindowedValueHolder):
            windowed = value.windowed_value
            return windowed.with_value(self._encode(windowed.value))
        return GlobalWindows.windowed_value(self._encode(value), Timestamp(micros=time))


@dataclass(frozen=True, slots=True)
class InputMaker:
    """Makes the inputs of one slot.

    Attributes:
        coverage: what checkpoints have of stable input.
        mergers: merge windows of functions that only an SDK harness has.
        inputs: all inputs of the slot in the order of their turns, once they are made.
    """

    context: Context
    sides: Sides
    coverage: Coverage
    mergers: WindowMergers
    inputs: Callable[[], Iterable[Input]]

    def __call__(
        self, stage: Stage, transform: TransformId, edge: Edge | None, source: Source
    ) -> Input:
        """The input that ``edge`` is for ``stage``, or that a root of the stage is."""
        if edge is None:
            return self._of_root(stage, transform, source)
        input_ = self.sides.gated(
            edge, stage, source, lambda into: self._of_edge(edge, stage, into)
        )
        if not edge.stable:
            return input_
        return StableInput(
            input_,
            self.context.overlay,
            stable_state_id(edge.id),
            self.coverage,
            lambda more: source.tell_more(TransformId(edge.step), more=more),
        )

    def _of_root(self, stage: Stage, transform: TransformId, source: Source) -> Input:
        context = self.context
        mine = begins_in(context.plan.levels[context.level], stage, context.slots) == context.slot
        for played in context.plan.played:
            if played.transform == transform:
                return FeedInput(*self._codecs(stage, played), source, mine=mine)
        return ImpulseInput(source, mine=mine)

    def _codecs(
        self, stage: Stage, played: PlayedSource
    ) -> tuple[Callable[[bytes], Any], Callable[[Any], Any]]:
        """How elements of a script are decoded, and encoded for the stage that takes them."""
        codings = self.context.codings
        if not place_of(codings.components, stage.environment):
            return codings.coder_of(played.coder).decode, _as_it_is
        proto = beam_runner_api_pb2.PTransform.FromString(dict(stage.transforms)[played.transform])
        (pcollection,) = proto.outputs.values()
        coder = codings.components.pcollections[pcollection].coder_id
        environment = codings.components.environments[stage.environment]
        if is_go(environment):
            return codecs_of_go(codings.components.coders[coder])
        if coder == played.coder:
            # It may be one that only the harness knows.
            return _as_it_is, _as_it_is
        # Python's knows what its consumers need, and then has pairs.
        return codings.coder_of(played.coder).decode, codings.coder_of(coder).encode

    def _of_edge(self, edge: Edge, stage: Stage, source: Source) -> Input:
        context = self.context
        codings = context.codings
        match edge.kind:
            case EdgeKind.SPREAD if (
                transform := processed_by(stage, source.transform)
            ) is not None:
                return RestrictionInput(
                    context, edge, source, transform, lambda: _restrictions(self.inputs())
                )
            case EdgeKind.FORWARD | EdgeKind.SPREAD:
                return ElementInput(codings.elements(edge), source)
            case EdgeKind.GROUP:
                coder = codings.coder(edge)
                terms = GroupingTerms(
                    codings.windowing(edge),
                    coder.key_coder(),
                    codings.elements(edge, coder.value_coder()),
                    context.overlay,
                    edge_state_id(edge.id),
                    context.options.memory_bytes,
                    lambda: context.directory,
                    closes_always=closes_always(codings.strategy(edge), codings.components),
                    merge=self.mergers.of(codings.strategy(edge), codings.window_coder(edge)),
                )
                return GroupInput(grouping_for(terms), source, terms.state_id)
            case EdgeKind.KEYED:
                return KeyedInput(context, edge, stage, source)
            case _:
                raise NotImplementedError(edge.kind)


def closes_always(
    strategy: beam_runner_api_pb2.WindowingStrategy, components: beam_runner_api_pb2.Components
) -> bool:
    """Whether windows have a last pane in any case: if Java says so. Python says so of all."""
    always = strategy.closing_behavior == beam_runner_api_pb2.ClosingBehavior.EMIT_ALWAYS
    return always and is_java(components.environments[strategy.environment_id])


def _as_it_is(value: Any) -> Any:
    return value


def codecs_of_go(
    coder: beam_runner_api_pb2.Coder,
) -> tuple[Callable[[bytes], Any], Callable[[Any], Any]]:
    """Go writes the length before what has no end of its own, also where nothing follows."""
    if coder.spec.urn not in DELIMITED:
        return _as_it_is, _as_it_is
    return (lambda data: create_InputStream(data).read_all(True)), _as_it_is


def has_untruncated(inputs: Iterable[Input]) -> bool:
    """Whether restrictions of a slot with these inputs wait for truncation."""
    return any(input_.untruncated for input_ in _restrictions(inputs))


def _restrictions(inputs: Iterable[Input]) -> list[RestrictionInput]:
    """All sources of a slot, in the order in which they have their turns."""
    found = (input_.inner if isinstance(input_, Gate) else input_ for input_ in inputs)
    return [input_ for input_ in found if isinstance(input_, RestrictionInput)]
