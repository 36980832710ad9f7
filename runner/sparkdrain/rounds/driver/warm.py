"""Has workers of this machine load what rounds need, before there is a round."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkdrain.graph.environments import place_of
from sparkdrain.graph.plan import Plan
from sparkdrain.harness.drain_hook import loaded_dofns
from sparkdrain.rounds.slots import service  # noqa: F401 - workers load it with this module
from sparkdrain.stages.cluster.context import is_local
from sparkdrain.stages.shards.codings import Codings
from sparkdrain.stages.spark.exchange import Exchange, partitioner
from sparkdrain.stages.workers.worker import worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkContext

    from sparkdrain.stages.workers.preparation import Preparation


def warm_workers(context: SparkContext, slots: int, plan: Plan, preparation: Preparation) -> None:
    """Start a worker for each slot, where tasks run in the driver's own JVM; else do nothing.

    Workers load the job's DoFns, and read and write a shuffle. Hosts are forked from them. A driver
    that waits must not hold executors of a cluster, and has none to warm.
    """
    if not is_local(context):
        return
    task = WarmUp(plan.encode(), preparation)
    parts = partitioner(context, slots, id(task))
    sent = Exchange(context, task, (), range(slots), parts)
    sent.run()
    received = Exchange(context, task, [sent], range(slots), parts)
    received.run()
    for exchange in (received, sent):
        exchange.drop()


@dataclass(frozen=True, slots=True)
class WarmUp:
    """A task that loads what the slots of a job load, and sets nothing up.

    What fails here is left to the first round, which tells it as any failure of a round.

    Attributes:
        plan: the job's, encoded.
        preparation: of the job's workers.
    """

    plan: bytes
    preparation: Preparation

    def __call__(self, slot: int, records: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
        """Load; passes one record on to the slot itself."""
        with contextlib.suppress(Exception):
            worker().prepare(self.preparation)
            plan = Plan.decode(self.plan)
            codings = Codings.of(plan)
            for stage in (stage for level in plan.levels for stage in level):
                if not place_of(codings.components, stage.environment):
                    with contextlib.suppress(Exception):
                        list(loaded_dofns(stage, codings.context))
        for _ in records:
            pass
        yield slot, b"warm"
