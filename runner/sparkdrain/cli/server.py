"""``sparkdrain server``: a Job service that stays up until it is told to stop."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from sparkdrain.coordination.address import parse
from sparkdrain.errors import SparkDrainError
from sparkdrain.jobs.local import without_fork_support
from sparkdrain.server.security import read_security
from sparkdrain.server.server import StandingServer
from sparkdrain.server.settings import ServerSettings, jobs_that_fit, this_machine, usual_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_HIGHEST_PORT = 65535


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What can be said."""
    plain = ServerSettings()
    parser.add_argument(
        "--job-port",
        type=_port,
        default=plain.job_port,
        metavar="PORT",
        help=f"where clients reach the Job service (default {plain.job_port}; 0: a free port)",
    )
    parser.add_argument(
        "--host",
        default=plain.host,
        metavar="ADDRESS",
        help=f"the address to listen at (default {plain.host}, for programs of this machine)",
    )
    parser.add_argument(
        "--artifact-port",
        type=_port,
        metavar="PORT",
        help="a port of its own for staged files (default: they go to --job-port)",
    )
    parser.add_argument(
        "--expansion-port",
        type=_port,
        metavar="PORT",
        help="where programs in other SDKs get this package's Kafka transforms (default: nowhere)",
    )
    parser.add_argument(
        "--max-jobs",
        type=_at_least_one,
        default=jobs_that_fit(*this_machine()),
        metavar="N",
        help="how many jobs run at a time; others wait (default: one for each core and 3 GB of "
        "memory, %(default)s on this machine)",
    )
    parser.add_argument(
        "--spark-master-url",
        metavar="MASTER",
        help="the Spark master of jobs that name none, such as local[4] or spark://host:7077 "
        "(default: what spark-defaults.conf says, else local[*])",
    )
    parser.add_argument(
        "--warm",
        choices=("on", "off"),
        default="on",
        help="whether a driver process waits with its Spark session ready, so that the next job "
        "starts at once (default on; takes about 700 MB)",
    )
    parser.add_argument(
        "--server-dir",
        metavar="DIRECTORY",
        help="where staged files and known jobs are, for this user only (default: "
        "~/.local/state/sparkdrain/server-PORT; with --job-port 0, one that goes with the server)",
    )
    for flag, takes in (
        ("--tls-cert", "PEM file with the server's certificate; turns TLS on"),
        ("--tls-key", "PEM file with the private key of that certificate"),
        ("--tls-client-ca", "PEM file with the authority of certificates that clients must show"),
        ("--token-file", "file whose first line is a token that clients must show"),
    ):
        parser.add_argument(flag, default="", metavar="FILE", help=takes)
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="let in every client that reaches the address, although clients show neither a "
        "certificate nor a token: they can run code as this user. On loopback, all users of this "
        "machine reach it",
    )
    parser.add_argument(
        "--metadata-store",
        metavar="STORE",
        help="where known jobs are (default: a RocksDB database in --server-dir)",
    )


def server(arguments: argparse.Namespace, console: Console | None = None) -> int:
    """Serve until Ctrl-C or SIGTERM; 1 if it cannot be started."""
    console = console or Console(soft_wrap=True)
    stop = threading.Event()
    with without_fork_support(os.environ), _on_signals(stop.set):
        try:
            settings = _settings(arguments)
            service = StandingServer(settings)
            endpoint = service.start()
        except SparkDrainError as error:
            console.print(f"[red]{escape(str(error))}")
            return 1
        for warning in settings.security.warnings(settings.host):
            console.print(f"[yellow]{escape(warning)}")
        console.print(escape(f"The Job service listens at {endpoint}. Ctrl-C ends it."))
        if service.expansion_endpoint:
            where = service.expansion_endpoint
            console.print(escape(f"The expansion service listens at {where}."))
        stop.wait()
        console.print(
            "The Job service ends; streaming jobs with checkpoints and jobs that wait go on "
            "with the next one; other jobs are cancelled."
        )
        service.stop()
    return 0


def _settings(arguments: argparse.Namespace) -> ServerSettings:
    return ServerSettings(
        job_port=arguments.job_port,
        host=arguments.host,
        artifact_port=arguments.artifact_port,
        expansion_port=arguments.expansion_port,
        max_jobs=arguments.max_jobs,
        is_warm=arguments.warm == "on",
        spark_master_url=arguments.spark_master_url,
        directory=arguments.server_dir or usual_directory(arguments.job_port, os.environ),
        security=read_security(
            arguments.tls_cert, arguments.tls_key, arguments.tls_client_ca, arguments.token_file
        ),
        is_insecure=arguments.insecure,
        store=None if arguments.metadata_store is None else parse(arguments.metadata_store),
    )


@contextlib.contextmanager
def _on_signals(act: Callable[[], object]) -> Iterator[None]:
    """Call ``act`` at the first Ctrl-C or SIGTERM; the second one ends the process."""

    def handle(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        act()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > _HIGHEST_PORT:
        message = f"{text!r} is no port: give a number from 0 to {_HIGHEST_PORT}"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def _at_least_one(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        message = f"{text!r} is no number of jobs: give 1 or more"
        raise argparse.ArgumentTypeError(message)
    return int(text)
