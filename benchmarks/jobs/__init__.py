"""The jobs: what is measured, at which size, and what the ratios should be.

A job's module has `build(pipeline, work)`, `result(work)` and `expected(work)`, and `figures(work)`
where the job finds out more than a rate. It imports Beam alone, so that any runner's SDK can load
it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from benchmarks.jobs.job import Bar, Goal, Job
from benchmarks.jobs.kafka_jobs import KAFKA
from benchmarks.jobs.streaming import STREAMING

if TYPE_CHECKING:
    from types import ModuleType

__all__ = [
    "BATCH",
    "JOBS",
    "KAFKA",
    "STARTUP",
    "STREAMING",
    "Bar",
    "Goal",
    "Job",
    "job_module",
    "job_named",
]


def job_module(package: str, job: Job) -> ModuleType:
    """`benchmarks.<package>.<module>`; the packages are `jobs`, `handwritten` and `dataflows`."""
    return importlib.import_module(f"benchmarks.{package}.{job.module}")


_ALSO_BY_HAND = ("beam-spark", "fnapi", "pyspark")
# At full n these two would need about 40 and 6 minutes a run: the first pays 20 ms for each key.
_STATE_SHARES = {"beam-spark": 0.01, "fnapi": 0.05}
_GROUPING_BARS = {"beam-spark": Bar(2, 5), "fnapi": Bar(6, 15), "pyspark": Bar(None, 0.7)}

BATCH: tuple[Job, ...] = (
    Job(
        name="wordcount",
        module="wordcount",
        size=200,
        what="word count of a text, file to files; n in MB, rates in words",
        bars={"beam-spark": Bar(2, 5), "fnapi": Bar(2, 5), "pyspark": Bar(None, 0.7)},
        peers=_ALSO_BY_HAND,
    ),
    Job(
        name="gbk-few-keys",
        module="gbk",
        size=5_000_000,
        what="Reshuffle + GroupByKey of small pairs, 500 to a key",
        bars=_GROUPING_BARS,
        per_key=500,
        peers=_ALSO_BY_HAND,
    ),
    Job(
        name="gbk-many-keys",
        module="gbk",
        size=5_000_000,
        what="Reshuffle + GroupByKey of small pairs, 2 to a key",
        bars=_GROUPING_BARS,
        per_key=2,
        peers=_ALSO_BY_HAND,
    ),
    Job(
        name="chain",
        module="chain",
        size=5_000_000,
        what="5 maps, Reshuffle, 5 maps over ints",
        bars={"beam-spark": Bar(2, 10), "fnapi": Bar(3, 15), "pyspark": Bar(None, 0.7)},
        peers=_ALSO_BY_HAND,
    ),
    Job(
        name="windows",
        module="windows",
        size=1_000_000,
        what="sliding windows (4 to an element), sum per key and window, 100 keys",
        bars={"beam-spark": Bar(2, 5), "fnapi": Bar(2, 5)},
        keys=100,
    ),
    Job(
        name="stateful",
        module="stateful",
        size=1_000_000,
        what="three states and a timer per element, 10 elements to a key",
        bars={"beam-spark": Bar(20, 50), "fnapi": Bar(20, 50)},
        per_key=10,
        shares=_STATE_SHARES,
    ),
)

JOBS = (*BATCH, *STREAMING)

STARTUP = Job(
    name="startup",
    module="trivial",
    size=3,
    what="a trivial pipeline, from a cold process and again in it",
    peers=_ALSO_BY_HAND,
)


def job_named(name: str) -> Job:
    """The job of this name; KeyError where there is none."""
    return {job.name: job for job in (STARTUP, *JOBS, *KAFKA)}[name]
