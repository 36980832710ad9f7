"""How soon a slot with much state makes output again: on its host, from a copy, by download.

Run: ``python -m benchmarks.local_state [megabytes] [times] [--checkpoints DIRECTORY]`` (1024, 3,
and ``/dev/shm``), on Linux. A job with two slots runs on a Spark cluster of two hosts, which are
addresses of this machine. All state is in one slot, and the other host has a copy of its files.
Then, in turns:

- the job is cancelled, its session ends, and it goes on with ``--resume`` on the same hosts;
- the host of the slot is lost, and the job goes on where the copy is;
- the job is cancelled, all files that hosts have are removed, and it goes on with ``--resume``.

Printed are seconds from the assignment of slots to the first output of the slot, and from the loss.
Checkpoints are to be on another disk than the state: on the same one, a download links files. The
exit code is 0 if the medians are at most 2 s with the host's files, and 3 s with a copy.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import apache_beam as beam
from apache_beam.coders import BytesCoder
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.utils.timestamp import Duration

from benchmarks.jobs import numbers
from integration.driver_session import stop_session
from integration.spark_cluster import STATE, SparkCluster
from sparkdrain.checkpoints.local_storage import LocalStorage
from sparkdrain.checkpoints.paths import Paths
from sparkdrain.checkpoints.publish import newest
from sparkdrain.rounds.driver.placement import Placement
from sparkdrain.rounds.driver.tell import FETCHED, LOCAL
from sparkdrain.shuffle.keys import Owners

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sparkdrain.checkpoints.manifest import Manifest
    from sparkdrain.hosts.executor import Executor

AIMS: Final = {"the host's files": 2.0, "a copy": 3.0, "a download": 0.0}
"""Seconds from the assignment to the first output, by the way; 0 if there is no aim."""
JOB: Final = "local-state"
SLOTS: Final = 2
VALUE_BYTES: Final = 4096
BLOCK: Final = 1000
EVERY: Final = 0.05
PATIENCE_SECONDS: Final = 600.0

# Executors cannot import it.
cloudpickle.register_pickle_by_value(numbers)


class Output(NamedTuple):
    """An output of the slot: when, by which process, and where."""

    time: float
    pid: int
    host: str


class Emit(beam.DoFn):
    """Each key once, then one of them again and again; all belong to slot 0.

    Args:
        blocks: of candidates, of which the first slot has its share.
    """

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks

    @beam.DoFn.unbounded_per_element()
    def process(
        self, element: int, tracker: Any = beam.DoFn.RestrictionParam(numbers.Numbers())
    ) -> Iterator[tuple[str, int]]:
        number = tracker.current_restriction().start
        while tracker.try_claim(number):
            first = number % self._blocks * BLOCK
            names = [f"key-{key}" for key in range(first, first + BLOCK)]
            slots = Owners(range(SLOTS)).of(list(map(str.encode, names)))
            keys = [name for name, slot in zip(names, slots, strict=True) if slot == 0]
            is_built = number >= self._blocks
            for key in keys[:1] if is_built else keys:
                yield key, number
            number += 1
            if is_built:
                tracker.defer_remainder(Duration(seconds=EVERY))
                return


class Touch(beam.DoFn):
    """Makes the state of a key; an output if there is one."""

    STATE = ReadModifyWriteStateSpec("state", BytesCoder())

    def __init__(self, told: Path) -> None:
        self._told = str(told)

    def process(
        self, element: tuple[str, int], state: Any = beam.DoFn.StateParam(STATE)
    ) -> Iterator[int]:
        if state.read() is not None:
            with open(self._told, "a", encoding="ascii") as file:
                file.write(f"{time.time()} {os.getpid()} {os.environ['SPARK_LOCAL_IP']}\n")
        state.write(os.urandom(VALUE_BYTES))
        yield from ()


class Job:
    """The job on its cluster, over all of its starts.

    Args:
        cluster: of two hosts.
        home: a folder.
        checkpoints: the folder of checkpoints.
        megabytes: of state.
    """

    def __init__(
        self, cluster: SparkCluster, home: Path, checkpoints: Path, megabytes: int
    ) -> None:
        self._cluster = cluster
        self._told = home / "told"
        self._told.touch()
        self._checkpoints = checkpoints
        self._size = megabytes << 20
        self._result: Any = None
        self._assigned: list[float] = []
        begin = Placement.begin

        def noted(placement: Placement, executors: Sequence[Executor]) -> None:
            self._assigned.append(time.time())
            begin(placement, executors)

        Placement.begin = noted  # type: ignore[method-assign]

    def start(self) -> None:
        """Begin, or go on from the newest checkpoint."""
        options = [
            "--runner=sparkdrain.SparkDrainRunner",
            f"--spark_master_url={self._cluster.url}",
            "--streaming",
            "--progress=off",
            f"--slots={SLOTS}",
            f"--job_name={JOB}",
            "--resume",
            f"--checkpoint_dir={self._checkpoints}",
            "--checkpoint_ms=2000",
            f"--state_dir=${STATE}",
            "--warm_copies=1",
            "--spark_conf=spark.locality.wait=10s",
            # Spark would wait 15 s for a dead executor to come back.
            "--spark_conf=spark.shuffle.io.maxRetries=1",
            "--spark_conf=spark.shuffle.io.retryWait=1s",
        ]
        blocks = SLOTS * self._size // VALUE_BYTES // BLOCK
        pipeline = beam.Pipeline(options=PipelineOptions(options))
        _ = (
            pipeline
            | beam.Create([0], reshuffle=False)
            | beam.ParDo(Emit(blocks)).with_output_types(tuple[str, int])
            | beam.ParDo(Touch(self._told))
        )
        self._result = pipeline.run()

    def stop(self) -> None:
        """Cancel it, and end its session."""
        self._result.cancel()
        stop_session()

    def wait_for_copies(self) -> None:
        """All state is in a checkpoint, and both hosts have its files."""
        wait_until(self._is_copied)

    def _is_copied(self) -> bool:
        found = self._newest()
        shards = () if found is None else found.shards
        files = {file.digest: file.size for each in shards for file in each.files if file.path}
        folders = [folder / "files" for folder in self._cluster.state_folders()]
        is_there = all((at / digest).exists() for at in folders for digest in files)
        return sum(files.values()) > 0.9 * self._size and is_there

    def _newest(self) -> Manifest | None:
        return newest(LocalStorage(), Paths(str(self._checkpoints), JOB))

    def restarted(self, *, empty: bool) -> tuple[float, ...]:
        """Stop it and go on; seconds from the assignment to the first output.

        Args:
            empty: whether hosts lose their files meanwhile.
        """
        old = self._processes()
        self.stop()
        for folder in self._cluster.state_folders() if empty else ():
            shutil.rmtree(folder)
        self.start()
        output = self._first(old)
        local, fetched = self._opened_since((0, 0))
        assert (fetched if empty else local) > 0.9 * self._size, (local, fetched)
        return (output.time - self._assigned[-1],)

    def lost(self) -> tuple[float, ...]:
        """Lose the slot's host; seconds from the assignment to the first output, and from the loss.

        Another host takes its place.
        """
        old, before = self._processes(), self._opened()
        host = self._outputs()[-1].host
        began = time.time()
        self._cluster.lose(host)
        output = self._first(old)
        assert output.host != host
        local, fetched = self._opened_since(before)
        assert local > 0.9 * self._size, (local, fetched)
        seconds = output.time - self._assigned[-1], output.time - began
        assert self._cluster.join() == host
        return seconds

    def _outputs(self) -> list[Output]:
        whole = self._told.read_text(encoding="ascii").rpartition("\n")[0].splitlines()
        split = (line.split() for line in whole)
        return [Output(float(when), int(pid), host) for when, pid, host in split]

    def _processes(self) -> set[int]:
        return {output.pid for output in self._outputs()}

    def _first(self, old: set[int]) -> Output:
        """The first output of a process that is none of ``old``."""
        new: list[Output] = wait_until(lambda: [o for o in self._outputs() if o.pid not in old])
        return new[0]

    def _opened_since(self, before: tuple[int, int]) -> tuple[int, int]:
        """As ``_opened``, of the life that has begun after that."""
        now = wait_until(lambda: (now := self._opened()) > before and now)
        return now[0] - before[0], now[1] - before[1]

    def _opened(self) -> tuple[int, int]:
        """Bytes that hosts had when slots were opened, and those that were fetched."""
        found = self._result.metrics().query()["counters"]
        told = {counter.key.metric.name: counter.committed for counter in found}
        return told.get(LOCAL, 0), told.get(FETCHED, 0)


def wait_until(holds: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE_SECONDS
    while not (found := holds()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.local_state")
    parser.add_argument("megabytes", nargs="?", type=int, default=1024)
    parser.add_argument("times", nargs="?", type=int, default=3)
    parser.add_argument("--checkpoints", default="/dev/shm", help="a folder (/dev/shm)")
    options = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    seconds: dict[str, list[tuple[float, ...]]] = {way: [] for way in AIMS}
    with (
        tempfile.TemporaryDirectory(prefix="local-state-") as home,
        tempfile.TemporaryDirectory(prefix="local-state-", dir=options.checkpoints) as checkpoints,
        SparkCluster(workers=2, cores=1) as cluster,
    ):
        job = Job(cluster, Path(home), Path(checkpoints), options.megabytes)
        job.start()
        ways = (
            lambda: job.restarted(empty=False),
            job.lost,
            lambda: job.restarted(empty=True),
        )
        for _ in range(options.times):
            for way, took in zip(AIMS, ways, strict=True):
                job.wait_for_copies()
                seconds[way].append(took())
                shown = " and ".join(f"{each:.2f} s" for each in seconds[way][-1])
                print(f"  with {way}: {shown}; load {os.getloadavg()[0]:.1f}", flush=True)
        job.stop()
    is_met = True
    for way, aim in AIMS.items():
        median, *lost = map(statistics.median, zip(*seconds[way], strict=True))
        told = "" if not aim else f" (at most {aim:.0f} s: {_met(median <= aim)})"
        told += "".join(f", {each:.2f} s from the loss" for each in lost)
        print(f"with {way}: {median:.2f} s from the assignment to the first output{told}")
        is_met = is_met and (not aim or median <= aim)
    sys.exit(not is_met)


def _met(is_met: bool) -> str:
    return "met" if is_met else "NOT MET"


if __name__ == "__main__":
    main()
