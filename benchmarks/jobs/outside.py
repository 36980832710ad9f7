"""The jobs that are run in every environment. Programs in Java and Go have them too."""

from __future__ import annotations

from typing import Final

from benchmarks.jobs.job import Job

OUTSIDE: Final = (
    Job(name="read", module="read", size=3_000_000, what="numbers are made and added up"),
    Job(
        name="group",
        module="gbk",
        size=1_200_000,
        what="Reshuffle + GroupByKey of small pairs, 500 to a key",
        per_key=500,
    ),
    Job(name="chain", module="chain", size=1_200_000, what="5 maps, Reshuffle, 5 maps over ints"),
    Job(
        name="state",
        module="keyed_state",
        size=100_000,
        what="each element reads and writes a value state, 10 elements to a key",
        per_key=10,
    ),
    Job(
        name="timers",
        module="keyed_timers",
        size=100_000,
        what="the same, and each element sets its key's timer",
        per_key=10,
    ),
)


def outside_named(name: str) -> Job:
    """The job of this name; KeyError where there is none."""
    return {job.name: job for job in OUTSIDE}[name]
