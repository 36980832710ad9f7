"""A program that calls hosts from Spark tasks, and prints what it saw, as JSON."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from pyspark import SparkConf, SparkContext

import sparkdrain
from sparkdrain.errors import SparkDrainError
from sparkdrain.hosts.birth import HostDaemon
from sparkdrain.hosts.call import call
from sparkdrain.hosts.executor import executor_process
from sparkdrain.hosts.home import Home
from sparkdrain.hosts.leash import Leash
from sparkdrain.hosts.line import HostId
from sparkdrain.hosts.service import Abandoned
from sparkdrain.lines.server import TcpBind
from sparkdrain.stages.spark.exchange import Exchange, partitioner
from sparkdrain.stages.spark.files import local_directories

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sparkdrain.lines.line import Endpoint

SLOTS = 2
NOWHERE = "executor_nowhere_7"
SOURCES = Path(sparkdrain.__file__).parent.parent


class Counting:
    """Says how often it was called, by whom, and what came in."""

    def __init__(self, _scratch: Path) -> None:
        self.calls = 0

    def run(
        self,
        request: bytes,
        records: Iterator[bytes],
        push: Callable[[tuple[int, bytes]], None],
    ) -> None:
        asked = json.loads(request)
        self.calls += 1
        seen = {"calls": self.calls, "host": os.getpid(), **asked, "records": len(list(records))}
        marks = Path(asked["marks"])
        if asked["linger"]:
            (marks / f"lingering{asked['slot']}").touch()
            try:
                while True:
                    push((0, bytes(1000)))
                    time.sleep(0.001)
            except Abandoned:
                (marks / f"abandoned{asked['slot']}").touch()
                raise
        for partition in range(SLOTS):
            push((partition, json.dumps(seen).encode()))

    def look(self) -> bytes:
        return b""

    def close(self) -> None:
        return


@dataclass(frozen=True)
class Task:
    leash: Endpoint
    marks: str
    fresh: bool
    linger: bool = False

    def __call__(self, slot: int, records: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
        asked = {
            "slot": slot,
            "worker": os.getpid(),
            "executor": executor_process(),
            "marks": self.marks,
            "linger": self.linger,
        }
        host = HostId("job", slot)
        home = Home.of(host, local_directories()[0])
        return call(
            HostDaemon(host, home, self.leash, Counting, lambda error: str(error).encode()),
            json.dumps(asked).encode(),
            iter(()) if self.fresh else records,
            fresh=self.fresh,
            failure=lambda text: SparkDrainError(text.decode()),
        )


def wait_for(*marks: Path) -> None:
    deadline = time.monotonic() + 60
    while not all(mark.exists() for mark in marks):
        assert time.monotonic() < deadline, marks
        time.sleep(0.01)


def ending(leash: Leash, pid: int) -> str:
    deadline = time.monotonic() + 60
    while True:
        (record,) = (record for record in leash.hosts() if record.pid == pid)
        if record.ended:
            return record.ended
        assert time.monotonic() < deadline
        time.sleep(0.01)


def main(master: str, reuse: str, daemon: str, marks: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = SparkConf().setMaster(master).set("spark.ui.enabled", "false")
    conf.set("spark.driver.host", "127.0.0.1").set("spark.driver.bindAddress", "127.0.0.1")
    conf.set("spark.executorEnv.PYTHONPATH", str(SOURCES))
    conf.set("spark.python.worker.reuse", reuse)
    conf.set("spark.python.daemon.module", daemon)
    context = SparkContext(conf=conf)
    leash = Leash(TcpBind("127.0.0.1", "127.0.0.1"))
    parts = partitioner(context, SLOTS, 7)

    def exchange(inputs: list[Exchange], places: tuple[str, ...] = (), **how: bool) -> Exchange:
        task = Task(leash.endpoint, marks, **how)
        return Exchange(context, task, inputs, range(SLOTS), parts, places)

    def seen(exchange: Exchange) -> list[dict[str, Any]]:
        return [json.loads(record) for record in exchange.read([0])]

    first = exchange([], fresh=True)
    rounds = [seen(first)]
    second = exchange([first], fresh=False)
    rounds.append(seen(second))

    def cancelled() -> None:
        context.setJobGroup("doomed", "cancelled in the middle of a call", interruptOnCancel=True)
        try:
            list(exchange([second], fresh=False, linger=True).read([0]))
        except Exception:  # noqa: BLE001 - it is cancelled
            rounds.append([])

    doomed = threading.Thread(target=cancelled)
    doomed.start()
    wait_for(*(Path(marks) / f"lingering{slot}" for slot in range(SLOTS)))
    context.cancelJobGroup("doomed")
    doomed.join()
    wait_for(*(Path(marks) / f"abandoned{slot}" for slot in range(SLOTS)))
    context.setJobGroup("fine", "after the cancelled one")
    homes = sorted(leash.hosts(), key=lambda record: record.id.slot)
    places = tuple(record.executor.place if record.executor else NOWHERE for record in homes)
    visits = leash.visits()
    rounds.append(seen(exchange([second], places, fresh=False)))
    visits = leash.visits() - visits
    lost = []
    if not master.startswith("local"):
        # Where its host was started, wherever later tasks ran.
        os.kill(rounds[0][0]["executor"], signal.SIGKILL)
        lost = [ending(leash, rounds[0][0]["host"])]
        with contextlib.suppress(Exception):
            seen(exchange([], fresh=False))
            lost.append("a call went through")
    pids = [record.pid for record in leash.hosts()]
    unended = leash.close()
    left = [pid for pid in pids if psutil.pid_exists(pid)]
    context.stop()
    outcome = {"rounds": rounds, "unended": len(unended), "left": left, "lost": lost}
    print(json.dumps({**outcome, "visits": visits}))


if __name__ == "__main__":
    main(*sys.argv[1:])
