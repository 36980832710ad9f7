"""What an element of a batch job with state costs, by level, in one process without Spark.

Run: ``python -m benchmarks.batch_cost [job] [elements] [--per-key N] [--slots N]``, by default
``stateful`` with 200,000 elements, ten to a key. Lists stand in for shuffles. Figures are
microseconds of this process's CPU time per element of the job. The job's result is checked.
"""

from __future__ import annotations

import argparse
import gc
import logging
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import environments
from apache_beam.transforms.combiners import CountCombineFn
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.utils.timestamp import Timestamp

from benchmarks.jobs import stateful
from benchmarks.jobs.work import Work
from sparkdrain.graph.translate import translate
from tests.support.in_memory import DEFAULTS, InMemoryRun

if TYPE_CHECKING:
    from collections.abc import Iterator

AT: Final = Timestamp(5)


class InList(beam.DoFn):
    """The ledger of ``stateful`` with an ordered list only."""

    VALUES = OrderedListStateSpec("values", VarIntCoder())
    CLOSE = TimerSpec("close", TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[str, int],
        values: Any = beam.DoFn.StateParam(VALUES),
        close: Any = beam.DoFn.TimerParam(CLOSE),
    ) -> None:
        values.add((AT, element[1]))
        close.set(stateful.FIRES)

    @on_timer(CLOSE)
    def on_close(
        self, key: Any = beam.DoFn.KeyParam, values: Any = beam.DoFn.StateParam(VALUES)
    ) -> Iterator[tuple[str, int, int, int]]:
        found = [value for _, value in values.read()]
        yield key, sum(found), sum(found), len(found)
        values.clear()


def ledger(domain: TimeDomain, tag: str) -> type[beam.DoFn]:
    """The ledger of ``stateful`` with timers of that domain and dynamic tag."""

    class Ledger(beam.DoFn):
        SUM = ReadModifyWriteStateSpec("sum", VarIntCoder())
        VALUES = BagStateSpec("values", VarIntCoder())
        COUNT = CombiningValueStateSpec("count", VarIntCoder(), CountCombineFn())
        CLOSE = TimerSpec("close", domain)

        def process(
            self,
            element: tuple[str, int],
            total: Any = beam.DoFn.StateParam(SUM),
            values: Any = beam.DoFn.StateParam(VALUES),
            count: Any = beam.DoFn.StateParam(COUNT),
            close: Any = beam.DoFn.TimerParam(CLOSE),
        ) -> None:
            value = element[1]
            total.write((total.read() or 0) + value)
            values.add(value)
            count.add(value)
            close.set(stateful.FIRES, dynamic_timer_tag=tag)

        @on_timer(CLOSE)
        def on_close(
            self,
            key: Any = beam.DoFn.KeyParam,
            total: Any = beam.DoFn.StateParam(SUM),
            values: Any = beam.DoFn.StateParam(VALUES),
            count: Any = beam.DoFn.StateParam(COUNT),
        ) -> Iterator[tuple[str, int, int, int]]:
            yield key, total.read(), sum(values.read()), count.read()
            total.clear()
            values.clear()
            count.clear()

    return Ledger


JOBS: Final[dict[str, type[beam.DoFn]]] = {
    "stateful": stateful.Ledger,
    "in-list": InList,
    "by-clock": ledger(TimeDomain.REAL_TIME, ""),
    "tagged": ledger(TimeDomain.WATERMARK, "tag"),
}


def measure(dofn: type[beam.DoFn], work: Work, slots: int) -> list[float]:
    """CPU seconds of each level."""
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    with patch.object(stateful, "Ledger", dofn):
        stateful.build(pipeline, work)
    proto = pipeline.to_runner_api(default_environment=environments.EmbeddedPythonEnvironment())
    run = InMemoryRun(translate(proto), slots, DEFAULTS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)  # as Spark's workers have it
    seconds = []
    for level in range(len(run.plan.levels)):
        began = time.process_time()
        run.run_level(level)
        seconds.append(time.process_time() - began)
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", nargs="?", choices=JOBS, default="stateful")
    parser.add_argument("elements", nargs="?", type=int, default=200_000)
    parser.add_argument("--per-key", type=int, default=10, help="elements of a key")
    parser.add_argument("--slots", type=int, default=1)
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as out:
        work = Work(given.elements, given.elements // given.per_key, Path(out) / "t", Path(out))
        seconds = measure(JOBS[given.job], work, given.slots)
        if stateful.result(work) != stateful.expected(work):
            message = f"{given.job} made {stateful.result(work)}, not {stateful.expected(work)}"
            raise SystemExit(message)
    for level, each in enumerate([*seconds, sum(seconds)]):
        name = f"level {level}" if level < len(seconds) else "all"
        print(f"{name}: {each / given.elements * 1e6:.2f}")


if __name__ == "__main__":
    main()
