"""Runs levels of a plan, one Spark job each, and keeps what they have sent."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from sparkdrain.errors import Cancelled
from sparkdrain.stages.cluster.context import local_disks
from sparkdrain.stages.spark.errors import JOB_FAILED, JVM_LOST
from sparkdrain.stages.spark.exchange import Exchange, partitioner
from sparkdrain.stages.spark.files import FileBroadcast
from sparkdrain.stages.spark.session import jvm_ended
from sparkdrain.stages.telling.spark_error import as_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark import SparkContext

    from sparkdrain.graph.plan import Plan
    from sparkdrain.shuffle.outbox import ShuffleLayout
    from sparkdrain.stages.spark.exchange import Task
    from sparkdrain.types import CancelToken


class LevelJobs:
    """Spark jobs of one run, which has a name for Spark; a cancellation of the run ends them."""

    def __init__(
        self,
        context: SparkContext,
        plan: Plan,
        layout: ShuffleLayout,
        run_id: str,
        cancel: CancelToken,
    ) -> None:
        self._context = context
        self._layout = layout
        self._run_id = run_id
        self._cancel = cancel
        self._partitioner = partitioner(context, layout.partitions, hash(run_id) & 0x7FFFFFFF)
        self.plan_file = FileBroadcast(context, lambda file: file.write(plan.encode()))
        self.sent: dict[int, list[Exchange]] = {}
        """What the slots of a level have sent, also those beside the layout's, by level."""
        cancel.on_cancel(self.stop)

    def stop(self) -> None:
        """Have Spark end the jobs that run; from any thread."""
        self._context.cancelJobGroup(self._run_id)

    def name(self, text: str) -> None:
        """Name this thread's Spark jobs; one group for all of a run, to cancel them by."""
        self._context.setJobGroup(self._run_id, text, interruptOnCancel=True)

    def exchange(
        self,
        task: Task,
        level: int,
        producers: Iterable[int],
        slots: int,
        places: Sequence[str] = (),
    ) -> Exchange:
        """A job that has not run yet: ``task`` in so many slots, over what ``producers`` sent."""
        layout = self._layout
        return Exchange(
            self._context,
            task,
            [exchange for producer in producers for exchange in self.sent[producer]],
            [layout.shard(level, slot) for slot in range(slots)],
            self._partitioner,
            places,
        )

    @contextlib.contextmanager
    def running(self, check: Callable[[], object] = lambda: None) -> Iterator[None]:
        """Tell what Spark raises meanwhile as an error of ours.

        Args:
            check: called if a job failed; may raise a better error.

        Raises:
            Cancelled: the run was cancelled.
            SparkDrainError: a job failed.
        """
        try:
            yield
        except JOB_FAILED as error:
            if self._cancel.is_cancelled():
                raise Cancelled(self._run_id) from None
            check()
            raise as_error(
                error, self._context.pythonExec, jvm_ended, lambda: local_disks(self._context)
            ) from None

    def drop(self) -> None:
        """Give shuffle files back."""
        sent, self.sent = self.sent, {}
        # Without a JVM there are none.
        with contextlib.suppress(*JVM_LOST):
            for exchanges in sent.values():
                for exchange in exchanges:
                    exchange.drop()

    def close(self) -> None:
        """Give shuffle files and the plan back."""
        self.drop()
        with contextlib.suppress(*JVM_LOST):
            self.plan_file.drop()
