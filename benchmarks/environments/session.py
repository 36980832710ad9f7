"""Child process: keeps a runner with one environment warm, and runs jobs as ``child`` says.

An order has the job's name beside the work. Standard output and error are the log.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.environments.programs import submit
from benchmarks.environments.ways import way_named
from benchmarks.jobs import job_module
from benchmarks.jobs.outside import outside_named
from benchmarks.jobs.work import Work
from benchmarks.own_server import served
from benchmarks.runners import MASTER, OURS, WORKERS, Run, run_pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.environments.ways import Way
    from benchmarks.jobs import Job

_ERROR_LENGTH = 2000
# Beam's Python harness keeps no state unless it is told how much it may; this runner tells it so.
_CACHE = "--max_cache_memory_usage_mb=100"


def main() -> None:
    """Serves orders until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--way", required=True)
    parser.add_argument("--jars", type=Path, help="of the peer")
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--reply", type=int, required=True, help="file descriptor")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    with os.fdopen(options.reply, "w", buffering=1, encoding="utf-8") as reply:

        def say(**message: Any) -> None:
            reply.write(json.dumps(message) + "\n")

        try:
            with _opened(options) as run:
                say(ready=True)
                for line in sys.stdin:
                    order = json.loads(line)
                    job = outside_named(order["job"])
                    seconds, result = run(job, _work(order))
                    say(seconds=seconds, result=result)
        except BaseException as e:  # whatever ends the session is its row's reason
            logging.exception("the session ends")
            say(error=f"{type(e).__name__}: {e}"[-_ERROR_LENGTH:])
            sys.exit(1)


def _work(order: dict[str, Any]) -> Work:
    return Work(order["n"], order["keys"], Path(order["text"]), Path(order["out"]))


@contextmanager
def _opened(options: argparse.Namespace) -> Iterator[Run]:
    way = way_named(options.way)
    with ExitStack() as stack:
        if way.language == "python":
            flags = stack.enter_context(_flags(way, options))

            def python(job: Job, work: Work) -> tuple[float, list[int]]:
                return run_pipeline(flags, job, work)

            yield python
        else:
            endpoint = stack.enter_context(_job_service(way, options))
            home = options.programs / way.language
            run = submit(way.language, way.where, home, endpoint, options.directory)

            def program(job: Job, work: Work) -> tuple[float, list[int]]:
                seconds = run(job, work)
                return seconds, job_module("jobs", job).result(work)

            yield program


@contextmanager
def _flags(way: Way, options: argparse.Namespace) -> Iterator[list[str]]:
    """The flags of Python's jobs."""
    from benchmarks.peers.servers import boot_of_worker, sdk_worker_pool  # noqa: PLC0415

    if way.family == OURS:
        flags = ["--runner=sparkdrain.SparkDrainRunner", f"--spark_master_url={MASTER}"]
        command = f"{sys.executable} -m sparkdrain.cli.main worker"
    else:
        command = str(boot_of_worker(options.directory))
    with ExitStack() as stack:
        if way.family != OURS:
            endpoint = stack.enter_context(_job_service(way, options))
            flags = ["--runner=PortableRunner", f"--job_endpoint={endpoint}", _CACHE]
            flags += [f"--sdk_worker_parallelism={WORKERS}"]
        if way.where == "process":
            config = json.dumps({"command": command})
            flags += ["--environment_type=PROCESS", f"--environment_config={config}"]
        elif way.where == "external":
            pool = stack.enter_context(sdk_worker_pool(options.directory))
            flags += ["--environment_type=EXTERNAL", f"--environment_config={pool}"]
        yield flags


@contextmanager
def _job_service(way: Way, options: argparse.Namespace) -> Iterator[str]:
    """A Job service with a Spark of two slots; its endpoint."""
    from benchmarks.peers.servers import spark_job_server  # noqa: PLC0415

    service = (
        served(f"--spark-master-url={MASTER}")
        if way.family == OURS
        else spark_job_server(options.jars, options.directory, MASTER)
    )
    with service as endpoint:
        yield endpoint


if __name__ == "__main__":
    main()
