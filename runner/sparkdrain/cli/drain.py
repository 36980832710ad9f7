"""``sparkdrain drain``: asks a job to drain, and follows it to its end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import grpc
from rich.console import Console
from rich.markup import escape

from sparkdrain.cli import drain_by_service, drain_by_store
from sparkdrain.drain import records, runs
from sparkdrain.drain.notification import DrainNotification
from sparkdrain.errors import BadOption, SparkDrainError
from sparkdrain.jobs.access import FLAGS, Access

if TYPE_CHECKING:
    import argparse

    from sparkdrain.coordination.metadata import MetadataStore

_GOOD: Final = ("DRAINED", "DONE")

EPILOG: Final = (
    "Exit code: 0 if the job has ended as DRAINED or DONE (with --no-wait: if it was asked), 1 if "
    "it ended otherwise or could not be asked."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What can be said."""
    parser.epilog = EPILOG
    parser.add_argument("job", metavar="JOB", help="a job id, a run id, or the name of a job")
    add_places(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--dry-run", action="store_true", help="only tell what a drain would find inside"
    )
    what.add_argument(
        "--ahead",
        action="store_true",
        help="JOB is the --run_id of a run that has not started: it will drain from its start",
    )
    what.add_argument(
        "--withdraw",
        action="store_true",
        help="remove the requests for the run JOB, so that it does not drain if it is taken up",
    )
    parser.add_argument(
        "--no-wait", action="store_true", help="ask, and do not wait for the end of the job"
    )


def add_places(parser: argparse.ArgumentParser) -> None:
    """Where jobs are looked for."""
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--job_endpoint", metavar="HOST:PORT", help="the job service that the job was submitted to"
    )
    where.add_argument(
        "--metadata_store",
        metavar="STORE",
        help="the job's own --metadata_store",
    )
    where.add_argument(
        "--checkpoint_dir",
        metavar="DIRECTORY",
        help="the job's own --checkpoint_dir, if that is a directory of this machine and the job "
        "was given no --metadata_store",
    )
    for flag, takes in FLAGS.items():
        parser.add_argument(f"--{flag}", metavar="FILE", help=f"with --job_endpoint: {takes}")


def drain(arguments: argparse.Namespace, console: Console | None = None) -> int:
    """Do what the arguments say; the answer is the exit code."""
    console = console or Console()
    if not arguments.job.strip():
        console.print("[red]JOB is blank: name a job or a run.")
        return 1
    try:
        return (_by_service if arguments.job_endpoint else _by_store)(arguments, console)
    except SparkDrainError as error:
        console.print(f"[red]{escape(str(error))}")
    except grpc.RpcError as error:
        console.print(f"[red]The job service does not answer: {escape(str(error.details()))}")
    except KeyboardInterrupt:
        console.print("No longer waiting. What was asked for stays so: the job goes on draining.")
    return 1


def _by_service(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.ahead or arguments.withdraw:
        message = (
            "--ahead and --withdraw write to a store: give --metadata_store or --checkpoint_dir "
            "instead."
        )
        raise BadOption(message)
    access = Access.read(vars(arguments))
    with drain_by_service.connected(arguments.job_endpoint, access=access) as service:
        job_id = drain_by_service.find(service, arguments.job)
        if arguments.dry_run:
            console.print(escape(drain_by_service.dry_run(service, job_id)))
            return 0
        state = drain_by_service.request(service, job_id)
        console.print(f"Job {escape(job_id)} is {state}.")
        if state == "DRAINING" and not arguments.no_wait:
            state = drain_by_service.follow(service, job_id, lambda text: _line(console, text))
            console.print(f"Job {escape(job_id)} is {state}.")
    return 0 if state in (*_GOOD, "DRAINING") else 1


def _by_store(arguments: argparse.Namespace, console: Console) -> int:
    address = drain_by_store.address_of(arguments.metadata_store, arguments.checkpoint_dir)
    job, now = arguments.job, time.time_ns() // 1000
    with drain_by_store.opened(address, new=arguments.ahead) as store:
        if arguments.withdraw:
            count = records.clean_up(store, job) or records.clean_up(
                store, runs.find(store, job).run_id
            )
            console.print(f"Removed {count} requests for the run {escape(job)}.")
            return 0
        if arguments.ahead:
            asked = DrainNotification.create(job, now)
            records.write(store, asked)
            console.print(f"The run {escape(job)} will drain when it starts ({asked.id}).")
            return 0
        if arguments.dry_run:
            console.print(escape(drain_by_store.dry_run(store, job)))
            return 0
        return _request(store, arguments, now, console)


def _request(
    store: MetadataStore, arguments: argparse.Namespace, now: int, console: Console
) -> int:
    run, request = runs.request(store, arguments.job, now)
    asked = f", and was asked to drain (notification {request.id})" if request else ""
    console.print(f"The run {escape(run.run_id)} is {run.state}{asked}.")
    state: str = run.state
    if request and arguments.no_wait:
        return 0
    if request:
        state = drain_by_store.follow(
            store, run.run_id, time.sleep, lambda text: _line(console, text)
        )
        console.print(f"The run {escape(run.run_id)} is {state}.")
    return 0 if state in _GOOD else 1


def _line(console: Console, text: str) -> None:
    console.print(escape(text), highlight=False, soft_wrap=True)
