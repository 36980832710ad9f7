"""``sparkdrain jobs``: which jobs there are, and how they are."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

import grpc
from apache_beam.portability.api import beam_job_api_pb2
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sparkdrain.cli import drain_by_service, drain_by_store
from sparkdrain.cli.drain import add_places
from sparkdrain.drain import records, runs
from sparkdrain.errors import SparkDrainError
from sparkdrain.jobs.access import Access
from sparkdrain.jobs.states import name
from sparkdrain.standby import drivers
from sparkdrain.standby.drivers import set_name

if TYPE_CHECKING:
    import argparse

    from sparkdrain.drain.notification import DrainNotification
    from sparkdrain.drain.runs import Run

_MOVES: Final = 5
"""How many moves of slots are shown for a job."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What can be said."""
    add_places(parser)


def jobs(arguments: argparse.Namespace, console: Console | None = None) -> int:
    """Print a table, the newest first; 0 if it could be made."""
    console = console or Console()
    moves: list[str] = []
    try:
        if arguments.job_endpoint:
            with drain_by_service.connected(
                arguments.job_endpoint, access=Access.read(vars(arguments))
            ) as service:
                infos = service.GetJobs(beam_job_api_pb2.GetJobsRequest()).job_info
                table = Table("job", "name", "state", "phase of the drain")
                for info in reversed(infos):
                    phase = drain_by_service.phase(service, info)
                    row = info.job_id, info.job_name, name(info.state), phase
                    table.add_row(*map(escape, row))
        else:
            table, moves = _of_store(arguments)
    except SparkDrainError as error:
        console.print(f"[red]{escape(str(error))}")
        return 1
    except grpc.RpcError as error:
        console.print(f"[red]The job service does not answer: {escape(str(error.details()))}")
        return 1
    console.print(table if table.row_count else "There are no jobs.")
    for line in moves:
        console.print(escape(line))
    return 0


def _of_store(arguments: argparse.Namespace) -> tuple[Table, list[str]]:
    """The runs, and the newest moves of slots of each that goes on."""
    address = drain_by_store.address_of(arguments.metadata_store, arguments.checkpoint_dir)
    table = Table(
        "run",
        "name",
        "state",
        "began",
        "asked to drain",
        "phase of the drain",
        "can be drained",
        "drivers",
    )
    moves: list[str] = []
    with drain_by_store.opened(address, new=False) as store:
        asked = records.read(store, lambda error: None)
        for run in runs.known(store):
            of_job = set_name(run.job_name, run.checkpoints)
            standing = "" if run.is_over else drivers.told(store, of_job, time.time_ns() // 1000)
            table.add_row(*_row(run, records.first_for(run.run_id, asked)), escape(standing))
            if not run.is_over:
                moves += [f"{run.run_id}: {line}" for line in run.moves[-_MOVES:]]
    return table, moves


def _row(run: Run, asked: DrainNotification | None) -> list[str]:
    began = datetime.fromtimestamp(run.began / 1e6, timezone.utc)
    return [
        escape(run.run_id),
        escape(run.job_name),
        run.state,
        f"{began:%Y-%m-%d %H:%M:%S} UTC",
        "" if asked is None else f"{asked.time:%Y-%m-%d %H:%M:%S} UTC",
        escape(run.phase),
        "yes" if run.drain else "no",
    ]
