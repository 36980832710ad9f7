"""A program whose stream runs one round after another on a cluster, with a batch job beside it.

Run: ``python -m tests.support.steady_stream FOLDER FILES FLAG...``. Its processes may have FILES
open files each. In FOLDER, each bundle adds its time to a file, as eight bytes of nanoseconds.
"""

from __future__ import annotations

import array
import contextlib
import os
import resource
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any, Final

import apache_beam as beam
import psutil
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from tests.support.endless import Numbers
from tests.support.listening import own_ports, processes_of
from tests.support.manifests import manifests
from tests.support.restrictions import UpTo
from tests.support.waiting import wait_until

ROOT: Final = Path(__file__).parents[2]
MARK: Final = "SPARKDRAIN_TEST_OF_STEADY_STREAMS"
_BATCH, _OVER, _KEPT, _SAID = "batch", "over", "checkpoints", "said"
_SUFFIX: Final = ".times"
_START_SECONDS: Final = 300


class Counts(beam.DoFn):
    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def setup(self) -> None:
        path = os.path.join(self._folder, f"{os.getpid()}{_SUFFIX}")
        self._times = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def finish_bundle(self) -> None:
        os.write(self._times, time.time_ns().to_bytes(8, sys.byteorder))

    def process(self, element: tuple[int, int], count: Any = beam.DoFn.StateParam(COUNT)) -> None:
        count.write((count.read() or 0) + 1)


class Waits(beam.DoFn):
    """A restriction that is not done before the program is to end."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, element: int, tracker: Any = beam.DoFn.RestrictionParam(UpTo())) -> None:
        while tracker.try_claim(tracker.current_restriction().start):
            Path(self._folder, _BATCH).touch()
            while not Path(self._folder, _OVER).exists():
                time.sleep(0.1)
            return


def main(folder: str, files: str, *flags: str) -> None:
    """Run both jobs."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(files), int(files)))
    given = ["--runner=SparkDrainRunner", "--progress=plain", *flags]
    kept = f"--checkpoint_dir={os.path.join(folder, _KEPT)}"
    stream = beam.Pipeline(
        options=PipelineOptions([*given, "--streaming", "--checkpoint_ms=1000", kept])
    )
    numbers = stream | beam.Create([(0, 10**12, "")], reshuffle=False) | beam.ParDo(Numbers(8, 0))
    keyed = beam.Map(lambda pair: (pair[1] % 8, pair[1])).with_output_types(tuple[int, int])
    _ = numbers | keyed | beam.ParDo(Counts(folder))
    running = stream.run()
    batch = beam.Pipeline(options=PipelineOptions(given))
    _ = batch | beam.Create([1]) | beam.ParDo(Waits(folder))
    batch.run().wait_until_finish()
    running.cancel()


class SteadyStream:
    """The program as a process.

    Args:
        folder: for what it writes; is there.
        files: how many open files each of its processes may have.
        flags: of both jobs.
    """

    def __init__(self, folder: Path, files: int, *flags: str) -> None:
        self._folder = folder
        self._mark = uuid.uuid4().hex
        with (folder / _SAID).open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(folder), str(files), *flags],
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path])),
                    MARK: self._mark,
                },
                stdout=said,
                stderr=subprocess.STDOUT,
            )
        wait_until(self._is_steady, _START_SECONDS, 0.2)

    def _is_steady(self) -> bool:
        assert self.process.poll() is None, self.said()
        is_there = (self._folder / _BATCH).exists()
        return is_there and self.checkpoint() > 0 and len(self.rounds()) > 50

    def said(self) -> str:
        """What it has printed."""
        return (self._folder / _SAID).read_text()

    def rounds(self) -> list[int]:
        """When rounds of the slot that has had most have ended, in nanoseconds since 1970."""
        most: list[int] = []
        for path in self._folder.glob(f"*{_SUFFIX}"):
            found = array.array("q")
            data = path.read_bytes()
            found.frombytes(data[: len(data) // 8 * 8])
            most = max(most, found.tolist(), key=len)
        return most

    def checkpoint(self) -> int:
        """When the newest one was made, in nanoseconds since 1970; 0 if there is none."""
        newest = 0
        for path in manifests(self._folder / _KEPT):
            with contextlib.suppress(FileNotFoundError):  # it was removed
                newest = max(newest, path.stat().st_mtime_ns)
        return newest

    def processes(self) -> list[psutil.Process]:
        """All that belong to it."""
        return processes_of(MARK, self._mark)

    def ports(self) -> list[tuple[str, int]]:
        """The listeners of the project in its processes."""
        return own_ports(self.processes())

    def handles(self) -> int:
        """The most open files of any of these processes; of Java's, too."""
        most = 0
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                most = max(most, process.num_fds())
        return most

    def end(self) -> None:
        """End both jobs, and see that this was no failure."""
        (self._folder / _OVER).touch()
        try:
            code = self.process.wait(120)
            assert code == 0, self.said()
        finally:
            self.process.kill()
            self.process.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
