"""From a Beam pipeline to a plan: optimized, placed on levels, cut into stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from sparkdrain.graph import urns
from sparkdrain.graph.environments import settle_environments
from sparkdrain.graph.exchanges import tell_pairs
from sparkdrain.graph.optimize import optimize
from sparkdrain.graph.planner import Planner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apache_beam.portability.api import beam_runner_api_pb2

    from sparkdrain.graph.plan import Plan, TransformId
    from sparkdrain.graph.transform import Transform

K = TypeVar("K")


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
            transform.stable = transform.requires_stable_input
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
    nodes: dict[TransformId, dict[TransformId, int]] = {}
    for transform in ordered:
        inputs = nodes[transform.id] = {}
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
    levels = assign_levels(nodes)
    for transform in ordered:
        transform.level = levels[transform.id]


def assign_levels(nodes: Mapping[K, Mapping[K, int]]) -> dict[K, int]:
    """Give each of ``nodes`` a level, as late as its consumers allow.

    For every input, ``level(node) >= level(producer) + barriers``; no node is deeper than the
    deepest one must be. Late placement keeps data from being written only to be passed on:
    a chain that ends in a Flatten three levels down is run there. A node without consumers
    stays at its earliest level.

    Args:
        nodes: in topological order, each with the barriers (0 or 1) between its producers and it.
    """
    earliest: dict[K, int] = {}
    for node, inputs in nodes.items():
        ways = (earliest[producer] + barriers for producer, barriers in inputs.items())
        earliest[node] = max(ways, default=0)
    latest: dict[K, int] = {}
    for node, inputs in reversed(list(nodes.items())):
        level = latest.setdefault(node, earliest[node])
        for producer, barriers in inputs.items():
            latest[producer] = min(latest.get(producer, level - barriers), level - barriers)
    return latest
