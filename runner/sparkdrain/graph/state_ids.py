"""Numbers for everything in a plan that keeps state: part of every key in a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkdrain.graph.plan import EdgeId, Plan, TransformId

_EDGES = 1 << 31
_SIDES = 1 << 30
_PARKED = _EDGES | _SIDES
_TRUNCATED = _EDGES | 1 << 29
_OF_DRAIN = _TRUNCATED | 1 << 28
_STABLE = _PARKED | 1 << 29
_CARRIED = 1 << 29
DRAIN_STATE_ID = _SIDES | 1 << 29
"""The id of what a slot remembers of a drain."""
FINALIZERS_STATE_ID = _SIDES | 1 << 28
"""The id of the bundle finalizers that are still to run."""


def edge_state_id(edge: EdgeId) -> int:
    """The id of what waits at the end of an edge."""
    return _EDGES | edge


def side_state_id(edge: EdgeId) -> int:
    """The id of the content of a side input."""
    return _SIDES | edge


def parked_state_id(edge: EdgeId) -> int:
    """The id of elements that came on an edge and wait for side inputs."""
    return _PARKED | edge


def stable_state_id(edge: EdgeId) -> int:
    """The id of elements that came on an edge and wait for a checkpoint."""
    return _STABLE | edge


def truncated_state_ids(edge: EdgeId) -> tuple[int, int]:
    """The ids of restrictions that came on an edge and were truncated.

    The second id is for restrictions of elements that are there because the job is drained.
    """
    return _TRUNCATED | edge, _OF_DRAIN | edge


def carried_state_id(plan: Plan, transform: TransformId) -> int:
    """The id of elements of a transform that are in flight when a round ends."""
    return _CARRIED | transform_state_id(plan, transform)


def transform_state_id(plan: Plan, transform: TransformId) -> int:
    """The id of a transform's user state: its rank among the transforms of the plan, by name."""
    names = sorted(id_ for level in plan.levels for stage in level for id_, _ in stage.transforms)
    return names.index(transform)
