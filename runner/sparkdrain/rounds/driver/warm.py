"""Has workers of this machine load what rounds need, before there is a round."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sparkdrain.graph.environments import place_of
from sparkdrain.graph.plan import Plan
from sparkdrain.harness.drain_hook import loaded_dofns
from sparkdrain.rounds.slots import service  # noqa: F401 - workers load it with this module
from sparkdrain.stages.cluster.ask import ask_in_group, stop_group
from sparkdrain.stages.cluster.masters import runs_here
from sparkdrain.stages.shards.codings import Codings
from sparkdrain.stages.spark.exchange import Exchange, partitioner
from sparkdrain.stages.workers.worker import worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark import SparkContext

    from sparkdrain.hosts.executor import Executor
    from sparkdrain.stages.workers.preparation import Preparation

_WARM_SECONDS: Final = 30.0


def warm_workers(context: SparkContext, slots: int, plan: Plan, preparation: Preparation) -> None:
    """Start a worker for each slot, where tasks run in the driver's own JVM; else do nothing.

    Workers load the job's DoFns, and read and write a shuffle. Hosts are forked from them. A driver
    that waits must not hold executors of a cluster, and has none to warm.
    """
    if not runs_here(context.master):
        return
    task = WarmUp(plan.encode(), preparation)
    parts = partitioner(context, slots, id(task))
    sent = Exchange(context, task, (), range(slots), parts)
    sent.run()
    received = Exchange(context, task, [sent], range(slots), parts)
    received.run()
    for exchange in (received, sent):
        exchange.drop()


@contextlib.contextmanager
def warming(
    context: SparkContext, plan: Plan, preparation: Preparation, group: str
) -> Iterator[Callable[[Sequence[Executor]], None]]:
    """Have executors of a cluster start and load workers as they come, while others are awaited.

    Args:
        group: what Spark calls the jobs for that.

    Returns:
        What takes executors that have come. The end of the context waits for their workers, which
        the first round needs, and not for ever.
    """
    task = WarmUp(plan.encode(), preparation)
    threads: list[threading.Thread] = []

    def came(executors: Sequence[Executor]) -> None:
        asked = (context, group, executors, task.load)
        thread = threading.Thread(target=ask_in_group, args=asked, name="warming", daemon=True)
        threads.append(thread)
        thread.start()

    try:
        yield came
        end = time.monotonic() + _WARM_SECONDS
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
    finally:
        stop_group(context, group)


@dataclass(frozen=True, slots=True)
class WarmUp:
    """A task that loads what the slots of a job load, and sets nothing up.

    What fails here is left to the first round, which tells it as any failure of a round.

    Attributes:
        plan: the job's, encoded.
        preparation: what the job's workers do before all else.
    """

    plan: bytes
    preparation: Preparation

    def __call__(self, slot: int, records: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
        """Load; passes one record on to the slot itself."""
        self.load()
        for _ in records:
            pass
        yield slot, b"warm"

    def load(self) -> None:
        """Load what a slot loads."""
        with contextlib.suppress(Exception):
            worker().prepare(self.preparation)
            plan = Plan.decode(self.plan)
            codings = Codings.of(plan)
            for stage in (stage for level in plan.levels for stage in level):
                if not place_of(codings.components, stage.environment):
                    with contextlib.suppress(Exception):
                        list(loaded_dofns(stage, codings.context))
