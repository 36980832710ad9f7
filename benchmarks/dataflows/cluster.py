"""bytewax processes that stay, and run a dataflow when told to."""

from __future__ import annotations

import multiprocessing
import socket
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from benchmarks.dataflows.arrangement import SAVE_SECONDS, Arrangement
from benchmarks.jobs import Job, job_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

    from benchmarks.jobs.work import Work


@contextmanager
def open_cluster(
    arrangement: Arrangement,
) -> Iterator[Callable[[Job, Work], tuple[float, list[int]]]]:
    """The processes of an arrangement; yields what runs a job on all of them."""
    size = arrangement.processes
    context = multiprocessing.get_context("spawn")
    ends: list[Connection] = []
    processes = []
    for number in range(size):
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(arrangement, number, theirs), daemon=True)
        process.start()
        theirs.close()
        ends.append(ours)
        processes.append(process)
    for end in ends:
        end.recv()

    def run(job: Job, work: Work) -> tuple[float, list[int]]:
        addresses = _free_addresses(size) if size > 1 and not arrangement.apart else []
        start = time.monotonic()
        for end in ends:
            end.send((job, work, addresses))
        answers = [end.recv() for end in ends]
        seconds = time.monotonic() - start
        for answer in answers:
            if isinstance(answer, str):
                raise RuntimeError(answer)
        return seconds, [sum(column) for column in zip(*filter(None, answers), strict=True)]

    try:
        yield run
    finally:
        for end in ends:
            end.close()
        for process in processes:
            process.join()


def _serve(arrangement: Arrangement, number: int, orders: Connection) -> None:
    from bytewax._bytewax import cluster_main  # noqa: PLC0415 - it starts threads

    orders.send("ready")
    while True:
        try:
            job, work, addresses = orders.recv()
        except EOFError:
            return
        told: list[list[int]] = []
        try:
            dataflow = job_module("dataflows", job).build(
                work, arrangement.part(number), told.append
            )
            cluster_main(
                dataflow,
                addresses,
                number if addresses else 0,
                worker_count_per_proc=arrangement.workers,
                **(_saving(work, number) if arrangement.saves else {}),
            )
        except BaseException as e:  # noqa: BLE001 - the row's reason, whatever it is
            orders.send(f"{type(e).__name__}: {e}; {e.__cause__}")
        else:
            orders.send([sum(column) for column in zip(*filter(None, told), strict=True)])


def _saving(work: Work, number: int) -> dict[str, Any]:
    """Arguments that make a process save its state, in a directory of its own."""
    from bytewax.recovery import RecoveryConfig, init_db_dir  # noqa: PLC0415 - as above

    directory = work.out / f"recovery-{number}"
    directory.mkdir()
    init_db_dir(directory, 1)
    return {
        "epoch_interval": timedelta(seconds=SAVE_SECONDS),
        "recovery_config": RecoveryConfig(directory),
    }


def _free_addresses(count: int) -> list[str]:
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("localhost", 0))
    addresses = [f"localhost:{s.getsockname()[1]}" for s in sockets]
    for s in sockets:
        s.close()
    return addresses
