"""The runners that are measured, and how each is opened inside a session.

Opening starts what the runner needs (a Spark context, a job server, a worker pool); what comes out
runs one job and returns the seconds it took and its result. Beam and PySpark are imported only
where they are used: the SDK of Beam's Spark runner has no PySpark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from benchmarks.jobs import Job, job_module
from benchmarks.jobs.work import Work

if TYPE_CHECKING:
    from pathlib import Path

MASTER = "local[2]"
WORKERS = 2

Run = Callable[[Job, Work], tuple[float, list[int]]]
"""Runs a job once: seconds from run() to the end of waiting, and the job's result."""

Needs = Literal["", "spark-job-server", "flink-job-server", "bytewax"]
"""What is fetched for a runner, if anything."""


@dataclass(frozen=True, slots=True)
class Runner:
    """A way to run a job.

    Attributes:
        name: as in `--runners`.
        family: the peer that bars are set against; its settings compete, the fastest counts.
        title: for tables.
        needs: what it needs that this venv has not; it runs in a Python of its own then.
    """

    name: str
    family: str
    title: str
    needs: Needs = ""

    @property
    def runs_beam(self) -> bool:
        """Whether it runs the job's pipeline, not one written by hand."""
        return self.name not in ("pyspark", "bytewax")

    def takes(self, job: Job) -> bool:
        """Whether the job is measured on it."""
        return self.family == OURS or self.family in job.peers


OURS = "sparkdrain"
RUNNERS: tuple[Runner, ...] = (
    Runner(OURS, OURS, f"SparkDrainRunner, {MASTER}"),
    Runner(
        "beam-spark-loopback",
        "beam-spark",
        f"Beam Spark job server, LOOPBACK x {WORKERS}",
        "spark-job-server",
    ),
    Runner(
        "beam-spark-external",
        "beam-spark",
        f"Beam Spark job server, EXTERNAL x {WORKERS}",
        "spark-job-server",
    ),
    Runner(
        "beam-flink-loopback",
        "beam-flink",
        f"Beam Flink job server, parallelism {WORKERS}, LOOPBACK x {WORKERS}",
        "flink-job-server",
    ),
    Runner(
        "beam-flink-external",
        "beam-flink",
        f"Beam Flink job server, parallelism {WORKERS}, EXTERNAL x {WORKERS}",
        "flink-job-server",
    ),
    Runner("fnapi", "fnapi", "Beam FnApiRunner"),
    Runner(
        "pyspark",
        "pyspark",
        f"hand-written RDD or, in streams, transformWithState, {MASTER}",
    ),
    Runner(
        "bytewax",
        "bytewax",
        f"hand-written bytewax, {WORKERS} processes, state in memory",
        "bytewax",
    ),
)


def runner_named(name: str) -> Runner:
    """The runner of this name; KeyError where there is none."""
    return {runner.name: runner for runner in RUNNERS}[name]


@contextmanager
def open_runner(runner: Runner, jars: Path | None, directory: Path) -> Iterator[Run]:
    """The runner, ready; what it started ends with the block.

    Args:
        runner: one of `RUNNERS`.
        jars: of the job server; None where the runner needs none.
        directory: for its logs and files.
    """
    with ExitStack() as stack:
        if runner.name == "bytewax":
            from benchmarks.dataflows.cluster import open_cluster  # noqa: PLC0415

            yield stack.enter_context(open_cluster(WORKERS))
        elif runner.name == "pyspark":
            from benchmarks.handwritten.context import spark_context  # noqa: PLC0415

            context = stack.enter_context(spark_context(MASTER))

            def by_hand(job: Job, work: Work) -> tuple[float, list[int]]:
                start = time.monotonic()
                result = job_module("handwritten", job).run(context, work)
                seconds = time.monotonic() - start
                return seconds, job_module("jobs", job).result(work) if result is None else result

            yield by_hand
        else:
            flags = stack.enter_context(_beam_flags(runner, jars, directory))

            def with_beam(job: Job, work: Work) -> tuple[float, list[int]]:
                own = job.flags if runner.name == OURS else ()
                return run_pipeline([*flags, *own], job, work)

            yield with_beam


def run_pipeline(flags: list[str], job: Job, work: Work) -> tuple[float, list[int]]:
    """Builds the job's pipeline, runs it, waits; the time of building is not counted."""
    import apache_beam as beam  # noqa: PLC0415
    from apache_beam.options.pipeline_options import PipelineOptions  # noqa: PLC0415

    module = job_module("jobs", job)
    flags = [*flags, "--streaming"] if job.streaming else flags
    pipeline = beam.Pipeline(options=PipelineOptions(flags))
    module.build(pipeline, work)
    start = time.monotonic()
    state = pipeline.run().wait_until_finish()
    seconds = time.monotonic() - start
    if str(state).rsplit(".", 1)[-1] != "DONE":
        msg = f"the pipeline ended in state {state}"
        raise RuntimeError(msg)
    return seconds, module.result(work)


@contextmanager
def _beam_flags(runner: Runner, jars: Path | None, directory: Path) -> Iterator[list[str]]:
    if runner.name == OURS:
        yield ["--runner=sparkdrain.SparkDrainRunner", f"--spark_master_url={MASTER}"]
    elif runner.name == "fnapi":
        yield ["--runner=FnApiRunner"]
    else:
        assert jars is not None
        with ExitStack() as stack:
            flags = stack.enter_context(_job_server(runner, jars, directory))
            flags.append(f"--sdk_worker_parallelism={WORKERS}")
            if runner.name.endswith("-loopback"):
                flags.append("--environment_type=LOOPBACK")
            else:
                from benchmarks.peers.servers import sdk_worker_pool  # noqa: PLC0415

                pool = stack.enter_context(sdk_worker_pool(directory))
                flags += ["--environment_type=EXTERNAL", f"--environment_config={pool}"]
            yield flags


@contextmanager
def _job_server(runner: Runner, jars: Path, directory: Path) -> Iterator[list[str]]:
    from benchmarks.peers.servers import flink_job_server, spark_job_server  # noqa: PLC0415

    if runner.needs == "flink-job-server":
        with flink_job_server(jars, directory) as endpoint:
            parallel = f"--parallelism={WORKERS}"
            yield ["--runner=PortableRunner", f"--job_endpoint={endpoint}", parallel]
    else:
        with spark_job_server(jars, directory, MASTER) as endpoint:
            yield ["--runner=PortableRunner", f"--job_endpoint={endpoint}"]
