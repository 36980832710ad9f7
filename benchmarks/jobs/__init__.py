"""The jobs: what is measured, at which size, and what the ratios should be.

A job's module has `build(pipeline, work)`, `result(work)` and `expected(work)`. It imports Beam
alone, so that any runner's SDK can load it.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType


@dataclass(frozen=True, slots=True)
class Bar:
    """Ratio that the runner should reach against one peer; None where none is set."""

    now: float | None
    later: float | None


@dataclass(frozen=True, slots=True)
class Job:
    """One row of the plan.

    Attributes:
        name: as in `--only`.
        module: in this package, and in `benchmarks.handwritten` where `by_hand`.
        size: n of a full run, in elements, or in MB of text.
        per_key: elements of one key; the number of keys follows n, so that a smaller run has
            the same shape. 0 where the job has no keys, `keys` where their number is fixed.
        keys: fixed number of keys.
        by_hand: whether it is also written in PySpark's RDD API.
        bars: peer family -> bar.
        shares: runner -> share of n that it gets, for peers that would not end in time.
    """

    name: str
    module: str
    size: int
    what: str
    bars: Mapping[str, Bar]
    per_key: int = 0
    keys: int = 0
    by_hand: bool = False
    shares: Mapping[str, float] = field(default_factory=dict)

    @property
    def of_text(self) -> bool:
        """Whether n counts megabytes of text."""
        return self.module == "wordcount"

    def share(self, runner: str) -> float:
        """Share of n that the runner of this name gets."""
        return self.shares.get(runner, 1.0)

    def keys_for(self, n: int) -> int:
        """Number of distinct keys in a run of this size."""
        return max(1, n // self.per_key) if self.per_key else self.keys


def job_module(package: str, job: Job) -> ModuleType:
    """`benchmarks.jobs.<module>` or `benchmarks.handwritten.<module>`."""
    return importlib.import_module(f"benchmarks.{package}.{job.module}")


# At full n these two would need about 40 and 6 minutes a run: the first pays 20 ms for each key.
_STATE_SHARES = {"beam-spark-loopback": 0.01, "beam-spark-external": 0.01, "fnapi": 0.05}
_GROUPING_BARS = {"beam-spark": Bar(2, 5), "fnapi": Bar(6, 15), "pyspark": Bar(None, 0.7)}

JOBS: tuple[Job, ...] = (
    Job(
        name="wordcount",
        module="wordcount",
        size=200,
        what="word count of a text, file to files; n in MB, rates in words",
        bars={"beam-spark": Bar(2, 5), "fnapi": Bar(2, 5), "pyspark": Bar(None, 0.7)},
        by_hand=True,
    ),
    Job(
        name="gbk-few-keys",
        module="gbk",
        size=5_000_000,
        what="Reshuffle + GroupByKey of small pairs, 500 to a key",
        bars=_GROUPING_BARS,
        per_key=500,
        by_hand=True,
    ),
    Job(
        name="gbk-many-keys",
        module="gbk",
        size=5_000_000,
        what="Reshuffle + GroupByKey of small pairs, 2 to a key",
        bars=_GROUPING_BARS,
        per_key=2,
        by_hand=True,
    ),
    Job(
        name="chain",
        module="chain",
        size=5_000_000,
        what="5 maps, Reshuffle, 5 maps over ints",
        bars={"beam-spark": Bar(2, 10), "fnapi": Bar(3, 15), "pyspark": Bar(None, 0.7)},
        by_hand=True,
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

STARTUP = Job(
    name="startup",
    module="trivial",
    size=3,
    what="a trivial pipeline, from a cold process and again in it",
    bars={},
    by_hand=True,
)


def job_named(name: str) -> Job:
    """The job of this name; KeyError where there is none."""
    return {job.name: job for job in (STARTUP, *JOBS)}[name]
