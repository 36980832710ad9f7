"""Elements that came too late: how many were dropped, and where, as a metric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apache_beam.metrics import monitoring_infos

from sparkdrain.graph.plan import EdgeId

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from apache_beam.portability.api import metrics_pb2

    from sparkdrain.graph.plan import Edge
    from sparkdrain.rounds.sides.sides import Sides
    from sparkdrain.stages.shards.shard import Shard

NAMESPACE: Final = "sparkdrain"
NAME: Final = "droppedDueToLateness"
"""What Beam's runners in Java call it."""


def take_dropped(shards: Iterable[Shard], sides: Sides, edges: Mapping[EdgeId, Edge]) -> int:
    """How many elements a slot has dropped since the last call; their steps count them."""
    total, by_side = 0, sides.take_dropped()
    for shard in shards:
        found = [(edge, input_.take_dropped()) for edge, input_ in shard.inputs]
        read = {side.edge for side in shard.stage.side_inputs}
        found += [(edge, by_side.pop(edge)) for edge in read & by_side.keys()]
        for edge, dropped in found:
            if dropped and edge is not None:
                shard.count(_info(edges[EdgeId(edge)].step, dropped))
                total += dropped
    return total


def _info(step: str, dropped: int) -> metrics_pb2.MonitoringInfo:
    return monitoring_infos.int64_user_counter(NAMESPACE, NAME, dropped, step)
