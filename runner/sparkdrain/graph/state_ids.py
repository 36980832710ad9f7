"""Numbers for everything in a plan that keeps state: part of every key in a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkdrain.graph.plan import EdgeId, Plan, TransformId

_EDGES = 1 << 31


def edge_state_id(edge: EdgeId) -> int:
    """For what waits at the end of an edge."""
    return _EDGES | edge


def transform_state_id(plan: Plan, transform: TransformId) -> int:
    """For the user state of a transform: its rank among all transforms of the plan, by name."""
    names = sorted(id_ for level in plan.levels for stage in level for id_, _ in stage.transforms)
    return names.index(transform)
