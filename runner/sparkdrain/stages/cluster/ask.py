"""Asks each executor something, by a task that prefers to run there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkdrain.hosts.call import executor_process
from sparkdrain.hosts.executor import executor_of
from sparkdrain.stages.spark.errors import JOB_FAILED
from sparkdrain.stages.spark.exchange import Exchange, partitioner
from sparkdrain.stages.spark.notes import Notes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark import SparkContext

    from sparkdrain.hosts.executor import Executor


@dataclass(frozen=True, slots=True)
class _Asked:
    question: Callable[[], Any]
    answers: Notes

    def __call__(self, index: int, records: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
        executor = executor_of(executor_process())
        if executor is not None:
            self.answers.tell(json.dumps([executor.id, self.question()]).encode())
        return iter(())


def ask(
    context: SparkContext, executors: Sequence[Executor], question: Callable[[], Any]
) -> dict[Executor, Any]:
    """What each executor answers. One that is busy, or lost meanwhile, may not.

    Args:
        context: of the job.
        executors: those that are asked; none on a local master.
        question: runs in a Python worker; its answer becomes JSON.
    """
    if not executors:
        return {}
    answers = Notes(context)
    try:
        task = _Asked(question, answers)
        places = [one.place for one in executors]
        exchange = Exchange(
            context,
            task,
            [],
            1,
            range(len(places)),
            partitioner(context, 1, id(task) & 0x7FFFFFFF),
            places,
        )
        exchange.run()
        exchange.drop()
        told = dict(json.loads(answer) for answer in answers.take())
        return {one: told[one.id] for one in executors if one.id in told}
    except JOB_FAILED:
        return {}  # what is wrong with Spark, the first round tells
    finally:
        answers.close()
