"""Asks each executor something, by a task that prefers to run there."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkdrain.hosts.executor import executor_of, executor_process
from sparkdrain.stages.spark.errors import JOB_FAILED, JVM_LOST
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


def ask_in_group(
    context: SparkContext,
    group: str,
    executors: Sequence[Executor],
    question: Callable[[], Any],
) -> dict[Executor, Any]:
    """As ``ask``, from a thread of its own, so that ``stop_group`` ends what still answers."""
    with contextlib.suppress(*JVM_LOST):
        context.setJobGroup(group, group, interruptOnCancel=True)
        return ask(context, executors, question)
    return {}


def stop_group(context: SparkContext, group: str) -> None:
    """End all jobs of a group."""
    with contextlib.suppress(*JVM_LOST):
        context.cancelJobGroup(group)
