"""From a Beam pipeline to a plan: optimized, placed on levels, cut into stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkdrain.graph import urns
from sparkdrain.graph.environments import settle_environments
from sparkdrain.graph.levels import Node, assign_levels
from sparkdrain.graph.optimize import optimize
from sparkdrain.graph.planner import Planner
from sparkdrain.graph.transform import requires_stable_input
from sparkdrain.graph.untyped_pairs import tell_pairs

if TYPE_CHECKING:
    from apache_beam.portability.api import beam_runner_api_pb2

    from sparkdrain.graph.plan import Plan
    from sparkdrain.graph.transform import Transform


def translate(pipeline: beam_runner_api_pb2.Pipeline, *, streaming: bool = False) -> Plan:
    """The plan of ``pipeline``, which must have passed ``check``. Pure; keeps its argument.

    Args:
        streaming: make a plan for rounds: whatever waits between two rounds (restrictions, main
            inputs of transforms with side inputs) stands at the beginning of a stage.
    """
    components, transforms = optimize(pipeline, streaming=streaming)
    if streaming:
        for transform in transforms:
            transform.restrictions = transform.proto.spec.urn == urns.PROCESS_RESTRICTIONS
            transform.gated = bool(transform.side_tags)
            transform.stable = requires_stable_input(transform.proto)
    ordered = _topological(transforms)
    settle_environments(components, ordered)
    tell_pairs(pipeline, components, ordered)
    _set_levels(ordered)
    return Planner(components, ordered).plan()


def _topological(transforms: list[Transform]) -> list[Transform]:
    producer = {output: t for t in transforms for output in t.outputs}
    ordered: list[Transform] = []
    seen: set[str] = set()
    for root in transforms:
        stack = [(root, False)]
        while stack:
            transform, expanded = stack.pop()
            if expanded:
                ordered.append(transform)
            elif transform.id not in seen:
                seen.add(transform.id)
                stack.append((transform, True))
                stack.extend((producer[pcollection], False) for _, pcollection in transform.inputs)
    return ordered


def _set_levels(ordered: list[Transform]) -> None:
    """Set every level. A runner transform has the level of the stage that writes to it."""
    producer = {output: t for t in ordered for output in t.outputs}
    nodes = []
    for transform in ordered:
        inputs: dict[str, int] = {}
        for tag, pcollection in transform.inputs:
            source = producer[pcollection]
            barrier = int(
                source.is_runner
                or tag in transform.side_tags
                or source.place != transform.place
                # A key partitioning stands before a stateful DoFn, restrictions are dealt out.
                or transform.cut
            )
            inputs[source.id] = max(inputs.get(source.id, 0), barrier)
        nodes.append(Node(transform.id, inputs))
    levels = assign_levels(nodes)
    for transform in ordered:
        transform.level = levels[transform.id]
