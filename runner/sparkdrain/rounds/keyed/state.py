"""Which DoFns of a stage keep state, under which number, and for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.transforms.window import GlobalWindows

from sparkdrain.graph.plan import EdgeKind
from sparkdrain.graph.state_ids import edge_state_id
from sparkdrain.graph.stateful import stateful_behind
from sparkdrain.harness.harness import KeyedEdge, StateTerms
from sparkdrain.panes.times import end_of
from sparkdrain.rounds.keyed.input import KeyedInput
from sparkdrain.rounds.keyed.time_sorted import SortedWait
from sparkdrain.shuffle.keyed_blocks import KeyedBlocks
from sparkdrain.shuffle.keys import key_codec
from sparkdrain.watermarks.frontier import END

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.graph.plan import Edge, Plan, Stage
    from sparkdrain.rounds.context import Context
    from sparkdrain.stages.shards.codings import Codings
    from sparkdrain.stages.shards.input import Source
    from timers_state import Overlay


def keyed_input_for(context: Context, edge: Edge, stage: Stage, source: Source) -> KeyedInput:
    """The input that a KEYED edge is."""
    coder = context.codings.coder(edge)
    coding = context.codings.elements(edge, coder.value_coder())
    _, decode_key = key_codec(coder.key_coder())
    windowing = context.codings.windowing(edge)
    stateful = stateful_behind(context.plan, stage, edge)
    wait = None
    if edge.time_sorted:
        lateness = windowing.allowed_lateness.micros
        wait = SortedWait(context.overlay, edge_state_id(edge.id), coding, lateness)
    return KeyedInput(
        source.shard,
        KeyedEdge(source.transform, [one.transform for one in stateful], coding, decode_key),
        stateful,
        expiry_for(windowing),
        context.overlay,
        KeyedBlocks(context.options.memory_bytes, lambda: context.directory),
        wait,
    )


def state_terms(
    plan: Plan, stage: Stage, codings: Codings, overlay: Overlay
) -> dict[str, StateTerms]:
    """Where and how long each stateful DoFn of a stage keeps its state, by transform."""
    edges = {edge.id: edge for edge in plan.edges}
    return {
        one.transform: StateTerms(overlay, one.state_id, expiry_for(codings.windowing(edges[id_])))
        for _, id_ in stage.sources
        if id_ is not None and edges[id_].kind is EdgeKind.KEYED
        for one in stateful_behind(plan, stage, edges[id_])
    }


def expiry_for(windowing: Any) -> Callable[[Any], int] | None:
    """Tells the time at which nothing more is kept of a window; None if windows last for ever."""
    if windowing.windowfn == GlobalWindows():
        return None
    lateness = windowing.allowed_lateness.micros
    return lambda window: min(end_of(window) + lateness, END)
