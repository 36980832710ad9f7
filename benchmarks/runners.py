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

from benchmarks.dataflows.arrangement import SAVE_SECONDS, Arrangement
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
        flags: pipeline options of this setting.
        rows: rows in a micro-batch; of Structured Streaming only.
        arrangement: processes and workers; of bytewax only.
        delays: whether the setting gains rate by delay, so that it is no match for a clock.
    """

    name: str
    family: str
    title: str
    needs: Needs = ""
    flags: tuple[str, ...] = ()
    rows: int = 0
    arrangement: Arrangement | None = None
    delays: bool = False

    @property
    def runs_beam(self) -> bool:
        """Whether it runs the job's pipeline, not one written by hand."""
        return self.name != "pyspark" and not self.rows and self.arrangement is None

    def takes(self, job: Job) -> bool:
        """Whether the job is measured on it."""
        if self.family == OURS:
            return True
        return self.family in job.peers and not (self.delays and job.by_clock)


OURS = "sparkdrain"
# Beam's Flink runner ends a bundle of a stream after 1,000 elements, and caches no state.
_BUNDLES = ("--max_bundle_size=100000", "--max_cache_memory_usage_mb=100")
_ROWS = (20_000, 50_000, 100_000, 200_000, 400_000)


def _flink(environment: str, name: str = "", flags: tuple[str, ...] = ()) -> Runner:
    title = f"Beam Flink job server, parallelism {WORKERS}, {environment.upper()} x {WORKERS}"
    return Runner(
        f"beam-flink-{environment}{name}",
        "beam-flink",
        ", ".join([title, *flags]),
        "flink-job-server",
        flags,
        delays=bool(flags),
    )


def _bytewax(name: str, title: str, arrangement: Arrangement) -> Runner:
    state = "saved every second" if arrangement.saves else "in memory"
    return Runner(
        f"bytewax-{name}",
        "bytewax-saved" if arrangement.saves else "bytewax",
        f"hand-written bytewax, {title}, state {state}",
        "bytewax",
        arrangement=arrangement,
    )


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
    _flink("loopback"),
    _flink("external"),
    _flink("loopback", "-bundles", _BUNDLES),
    _flink("external", "-bundles", _BUNDLES),
    Runner("fnapi", "fnapi", "Beam FnApiRunner"),
    Runner("pyspark", "pyspark", f"hand-written RDD, {MASTER}"),
    *(
        Runner(
            f"structured-streaming-{rows // 1000}k",
            "structured-streaming",
            f"hand-written transformWithState, {MASTER}, {rows:,} rows in a micro-batch",
            rows=rows,
            delays=True,
        )
        for rows in _ROWS
    ),
    _bytewax("two", "2 processes that exchange", Arrangement(processes=2)),
    _bytewax("threads", "2 workers in a process", Arrangement(workers=2)),
    _bytewax("one", "1 worker", Arrangement()),
    _bytewax("apart", "2 dataflows, half the shards each", Arrangement(2, apart=True)),
    _bytewax("one-saved", "1 worker", Arrangement(saves=True)),
    _bytewax(
        "apart-saved", "2 dataflows, half the shards each", Arrangement(2, apart=True, saves=True)
    ),
    Runner(
        "sparkdrain-saved",
        "sparkdrain-saved",
        f"SparkDrainRunner, {MASTER}, a checkpoint every second",
        flags=("--checkpoint_dir=OUT/checkpoints", f"--checkpoint_ms={1000 * SAVE_SECONDS:.0f}"),
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
        if runner.arrangement is not None:
            from benchmarks.dataflows.cluster import open_cluster  # noqa: PLC0415

            yield stack.enter_context(open_cluster(runner.arrangement))
        elif not runner.runs_beam:
            from benchmarks.handwritten.context import spark_context  # noqa: PLC0415

            context = stack.enter_context(spark_context(MASTER))

            def by_hand(job: Job, work: Work) -> tuple[float, list[int]]:
                start = time.monotonic()
                rows = (runner.rows,) if runner.rows else ()
                result = job_module("handwritten", job).run(context, work, *rows)
                seconds = time.monotonic() - start
                return seconds, job_module("jobs", job).result(work) if result is None else result

            yield by_hand
        else:
            flags = stack.enter_context(_beam_flags(runner, jars, directory))

            def with_beam(job: Job, work: Work) -> tuple[float, list[int]]:
                own = job.flags if runner.name == OURS else ()
                settings = [flag.replace("OUT", str(work.out)) for flag in (*own, *runner.flags)]
                return run_pipeline([*flags, *settings], job, work)

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
    if not runner.needs and runner.name != "fnapi":
        yield ["--runner=sparkdrain.SparkDrainRunner", f"--spark_master_url={MASTER}"]
    elif runner.name == "fnapi":
        yield ["--runner=FnApiRunner"]
    else:
        assert jars is not None
        with ExitStack() as stack:
            flags = stack.enter_context(_job_server(runner, jars, directory))
            flags.append(f"--sdk_worker_parallelism={WORKERS}")
            if "-loopback" in runner.name:
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
