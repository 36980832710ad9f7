"""Which DoFns of a stage keep state, under which number, and for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.transforms.window import GlobalWindows

from sparkdrain.graph.plan import EdgeKind, TransformId
from sparkdrain.graph.state_ids import edge_state_id
from sparkdrain.harness.keyed_state import KeyedState
from sparkdrain.keyed.blocks import KeyedBlocks
from sparkdrain.keyed.stateful import stateful_behind
from sparkdrain.rounds.keyed.input import KeyedInput
from sparkdrain.rounds.keyed.time_sorted import SortedWait
from sparkdrain.shuffle.keys import key_codec
from sparkdrain.watermarks.frontier import END

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.graph.plan import Edge, Plan, Stage
    from sparkdrain.harness.factory import MakeState
    from sparkdrain.rounds.context import Context
    from sparkdrain.stages.codings import Codings
    from sparkdrain.stages.shard import Source
    from timers_state import Overlay


def keyed_input_for(context: Context, edge: Edge, stage: Stage, source: Source) -> KeyedInput:
    """The input that a KEYED edge is."""
    coder = context.codings.coder(edge)
    coding = context.codings.elements(edge, coder.value_coder())
    _, decode_key = key_codec(coder.key_coder())
    windowing = context.codings.windowing(edge)
    wait = None
    if edge.time_sorted:
        lateness = windowing.allowed_lateness.micros
        wait = SortedWait(context.overlay, edge_state_id(edge.id), coding, lateness)
    return KeyedInput(
        source,
        stateful_behind(context.plan, stage, edge),
        coding,
        decode_key,
        expiry_for(windowing),
        context.overlay,
        KeyedBlocks(context.options.memory_bytes, lambda: context.directory),
        wait,
    )


def state_maker(plan: Plan, stage: Stage, codings: Codings, overlay: Overlay) -> MakeState:
    """Makes what the stateful DoFns of a stage see of their state."""
    edges = {edge.id: edge for edge in plan.edges}
    made = {
        one.transform: (one.state_id, expiry_for(codings.windowing(edges[id_])))
        for _, id_ in stage.sources
        if id_ is not None and edges[id_].kind is EdgeKind.KEYED
        for one in stateful_behind(plan, stage, edges[id_])
    }

    def make(transform_id: str, window_coder: Any) -> KeyedState:
        state_id, expiry_of = made[TransformId(transform_id)]
        return KeyedState(transform_id, state_id, window_coder, overlay, expiry_of)

    return make


def expiry_for(windowing: Any) -> Callable[[Any], int] | None:
    """Tells the time at which nothing more is kept of a window; None if windows last for ever."""
    if windowing.windowfn == GlobalWindows():
        return None
    # At the frontier that follows its last moment, nothing on time can come for a window.
    after = 1 + windowing.allowed_lateness.micros
    return lambda window: min(window.max_timestamp().micros + after, END)
