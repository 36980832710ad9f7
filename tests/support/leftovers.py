"""A program whose processes are marked, to see what is left of it after a kill."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

import sparkdrain
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SOURCES: Final = Path(sparkdrain.__file__).parent.parent
MARK: Final = "SPARKDRAIN_TEST_OF_LEFTOVERS"
SECONDS: Final = 10
"""How long processes may take to end after the kill, on a machine that has time for them."""

PROGRAM: Final = """
import os, sys, time
kind, folder, *flags = sys.argv[1:]
import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

def mark(name):
    open(os.path.join(folder, name), "w").close()

class Slow(beam.DoFn):
    def process(self, element):
        mark("batch")
        time.sleep(600)

class Count(beam.DoFn):
    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        count.write((count.read() or 0) + 1)
        mark("stream")

own = ["--runner=SparkDrainRunner", "--progress=off"]
if kind == "stream":
    own += ["--streaming", "--checkpoint_ms=500", "--checkpoint_dir=" + folder + "/checkpoints"]
if kind == "starting":
    # Spark never comes to be: the driver is killed while its JVM makes folders.
    import sparkdrain.stages.cluster.context as cluster
    cluster.new_context = lambda conf: (mark(kind), time.sleep(600))
pipeline = beam.Pipeline(options=PipelineOptions([*own, *flags]))
if kind == "stream":
    pipeline | PeriodicImpulse(fire_interval=0.1) | beam.WithKeys(1) | beam.ParDo(Count())
elif kind == "batch":
    pipeline | beam.Create([1]) | beam.Reshuffle() | beam.ParDo(Slow())
else:
    pipeline | beam.Create([1])
pipeline.run().wait_until_finish()
"""


class Place:
    """Folders of one test, and the programs that use them.

    Args:
        folder: a new one.
        master: Spark's.
        flags: more of them, for every program.
    """

    def __init__(self, folder: Path, master: str = "local[2]", flags: Sequence[str] = ()) -> None:
        self.temporary, self.local, self.marks = folder / "t", folder / "l", folder / "m"
        for each in (self.temporary, self.local, self.marks):
            each.mkdir(exist_ok=True)
        self.program = folder / "program.py"
        self.program.write_text(PROGRAM)
        self.mark = uuid.uuid4().hex
        self._flags = (
            f"--spark_master_url={master}",
            f"--spark_conf=spark.local.dir={self.local}",
            f"--spark_conf=spark.executorEnv.{MARK}={self.mark}",
            *flags,
        )

    def start(self, kind: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, str(self.program), kind, str(self.marks), *self._flags],
            env={
                **os.environ,
                "PYTHONPATH": str(SOURCES),
                "TMPDIR": str(self.temporary),
                MARK: self.mark,
            },
        )

    def processes(self) -> list[psutil.Process]:
        return [each for each in psutil.process_iter() if self._is_ours(each)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            alive = process.status() != psutil.STATUS_ZOMBIE
            return alive and process.environ().get(MARK) == self.mark
        except psutil.Error:
            return False

    def wait_for_none(self) -> None:
        """Until no process is left; else the error says which are."""
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not self.processes(), SECONDS, 0.1)
        left = [describe(process) for process in self.processes()]
        assert left == [], f"after {SECONDS} s: {left}"

    def named(self, part: str) -> list[psutil.Process]:
        return [each for each in self.processes() if part in " ".join(each.cmdline())]

    def own_of_jvm(self) -> list[Path]:
        """The JVM's folder, whose lock it has inherited."""
        return [
            Path(file.path).parent
            for jvm in self.named("java")
            for file in jvm.open_files()
            if "sparkdrain-own-" in file.path and file.path.endswith("lock")
        ]


def describe(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return f"{process.ppid()} > {process.pid} {process.status()} {process.cmdline()}"
    return "has ended"


def kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)


def hosts(place: Place) -> list[psutil.Process]:
    """The processes that lead a group in a session whose first process has ended."""
    found = []
    for process in place.processes():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            leads = os.getpgid(process.pid) == process.pid
            if leads and not psutil.pid_exists(os.getsid(process.pid)):
                found.append(process)
    return found


def driver(place: Place, program: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return [psutil.Process(program.pid)]


VICTIMS: Final[dict[str, Callable[[Place, subprocess.Popen[bytes]], list[psutil.Process]]]] = {
    "driver": driver,
    "driver and JVM": lambda place, program: driver(place, program) + place.named("java"),
    "nursery": lambda place, program: place.named("sparkdrain.stages.nursery")[:1],
    "daemon": lambda place, program: place.named("sparkdrain.stages.daemon"),
    "everything": lambda place, program: place.processes(),
}
