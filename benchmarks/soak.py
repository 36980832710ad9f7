"""What a streaming job takes after thousands of rounds: nothing may grow with their number.

Run: ``python -m benchmarks.soak [rounds] [seconds between looks]`` (6000 and 10 if not told), on
Linux. A job with state, windows, a shuffle and checkpoints every second runs in rounds as short as
they get. What its processes and folders hold is looked at all the time, and told thousand by
thousand. The exit code is 0 if all of it is flat, see ``growth``.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.userstate import CombiningValueStateSpec
from apache_beam.transforms.window import FixedWindows
from pyspark import SparkContext

from benchmarks.process_tree import VARIABLE, Tree
from sparkdrain.checkpoints.beam_storage import storage_at
from sparkdrain.checkpoints.paths import Paths
from sparkdrain.checkpoints.publish import newest
from sparkdrain.errors import SparkDrainError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

KEYS = 200
EVERY_SECONDS = 0.05
JOB = "soak"
WARM_UP = 1500
"""Rounds before which nothing is compared: Spark keeps a thousand jobs, Python's arenas fill."""
TOLERANCE = 0.01
"""What a figure may grow by in a thousand rounds, in proportion."""
AT_LEAST = {
    "driver_rss": 512,
    "hosts_rss": 512,
    "jvm_heap": 512,
    "store_size": 64,
    # A checkpoint more or less is being made at any moment; a thousand rounds make a hundred.
    "kept_files": 10,
    "kept_size": 64,
}
"""What it may grow by in any case: KiB, else numbers, for which it is one."""


class Count(beam.DoFn):
    """Counts the elements of a key for ever."""

    COUNT = CombiningValueStateSpec("count", VarIntCoder(), sum)

    def process(self, element: Any, count: Any = beam.DoFn.StateParam(COUNT)) -> Iterable[Any]:
        count.add(1)
        yield element[0] % 10, count.read()


@dataclass(frozen=True, slots=True)
class Look:
    """What is held at one time. Sizes in KiB.

    Attributes:
        rounds: that the newest checkpoint covers.
        driver_rss: memory of the driver's Python.
        hosts_rss: memory of all other Python processes.
        jvm_heap: what is in use after a full collection.
        spark_jobs: that Spark remembers.
        threads: of all processes.
        open_files: of all processes.
        shuffle_files: on disk.
        store_size: state on disk, with the snapshots beside it.
        kept_files: in the checkpoints' folder.
        kept_size: of the checkpoints' folder.
    """

    rounds: float
    driver_rss: float
    hosts_rss: float
    jvm_heap: float
    spark_jobs: float
    threads: float
    open_files: float
    shuffle_files: float
    store_size: float
    kept_files: float
    kept_size: float


def main() -> None:
    """Runs the job and prints what it holds."""
    rounds, every = (float(text) for text in (*sys.argv[1:], *("6000", "10")[len(sys.argv) - 1 :]))
    mark = os.environ[VARIABLE] = f"soak-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="soak-") as directory:
        local, kept = Path(directory) / "local", Path(directory) / "checkpoints"
        result = start(local, kept)
        looks: list[Look] = []
        try:
            while not looks or looks[-1].rounds < rounds:
                time.sleep(every)
                if newest(storage_at(str(kept)), Paths(str(kept), JOB)) is None:
                    continue  # it has not begun
                looks.append(look(Tree(mark), local, kept))
                print(f"{looks[-1].rounds:,.0f} rounds", end="\r", file=sys.stderr, flush=True)
        finally:
            result.cancel()
            with suppress(SparkDrainError):
                result.wait_until_finish()
            print("\n".join(table(looks)))
    sys.exit(bool(tell(looks)))


def start(local: Path, kept: Path) -> Any:
    """The job, running."""
    options = PipelineOptions(
        [
            "--runner=sparkdrain.SparkDrainRunner",
            "--spark_master_url=local[2]",
            "--progress=off",
            "--slots=1",
            "--round_ms=10",
            f"--job_name={JOB}",
            f"--spark_conf=spark.local.dir={local}",
            f"--checkpoint_dir={kept}",
            "--checkpoint_ms=1000",
        ]
    )
    pipeline = beam.Pipeline(options=options)
    _ = (
        pipeline
        | PeriodicImpulse(fire_interval=EVERY_SECONDS)
        | "Keys"
        >> beam.FlatMap(lambda now: [(key, now) for key in range(KEYS)]).with_output_types(
            tuple[int, Any]
        )
        | beam.ParDo(Count())
        | beam.WindowInto(FixedWindows(1))
        | beam.CombinePerKey(max)
    )
    return pipeline.run()


def look(tree: Tree, local: Path, kept: Path) -> Look:
    """What is held now."""
    tree.look()
    gc.collect()
    context = SparkContext._active_spark_context  # noqa: SLF001
    jvm = context._jvm  # noqa: SLF001
    jvm.System.gc()
    runtime = jvm.Runtime.getRuntime()
    newest_one = newest(storage_at(str(kept)), Paths(str(kept), JOB))
    processes = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    ours = [pid for pid in processes if _has_mark(pid)]
    state = [path for path in local.rglob("*-*") if path.name.startswith(("state-", "versions-"))]
    kept_files, kept_size = _held(kept)
    return Look(
        newest_one.round if newest_one else 0,
        _rss(os.getpid()),
        sum(_rss(pid) for pid in ours if pid != os.getpid() and "java" not in _command(pid)),
        (runtime.totalMemory() - runtime.freeMemory()) >> 10,
        context._jsc.sc().statusStore().jobsList(None).size(),  # noqa: SLF001
        sum(_count(f"/proc/{pid}/task") for pid in ours),
        sum(_count(f"/proc/{pid}/fd") for pid in ours),
        sum(1 for _ in local.rglob("shuffle_*")),
        sum(_held(folder)[1] for folder in state),
        kept_files,
        kept_size,
    )


def table(looks: Sequence[Look]) -> Iterator[str]:
    """A line for each thousand rounds, of means."""
    yield " ".join(f"{field.name:>13}" for field in fields(Look))
    for thousand in sorted({int(one.rounds // 1000) for one in looks}):
        rows = [astuple(one) for one in looks if one.rounds // 1000 == thousand]
        means = [sum(values) / len(rows) for values in zip(*rows, strict=True)]
        yield " ".join(f"{mean:>13,.0f}" for mean in means)


def growth(looks: Sequence[Look], name: str) -> tuple[float, float]:
    """What a thousand rounds add to a figure, and what they may.

    That is the slope of a straight line through all looks after ``WARM_UP``, by Theil and Sen: the
    median of the slopes between any two of them, which single high or low ones do not move. It may
    be ``TOLERANCE`` of the figure's mean, or the figure's entry in ``AT_LEAST`` if that is more.
    """
    points = [(one.rounds, getattr(one, name)) for one in looks if one.rounds >= WARM_UP]
    slopes = sorted(
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for number, earlier in enumerate(points)
        for later in points[number + 1 :]
        if later[0] > earlier[0]
    )
    if not slopes:
        return 0.0, 0.0
    mean = sum(value for _, value in points) / len(points)
    return 1000 * slopes[len(slopes) // 2], max(TOLERANCE * mean, AT_LEAST.get(name, 1))


def tell(looks: Sequence[Look]) -> list[str]:
    """Prints what a thousand rounds add to each figure; those that are not flat."""
    grown = []
    print(f"\na thousand rounds added, after the first {WARM_UP:,}:")
    for field in fields(Look)[1:]:
        added, allowed = growth(looks, field.name)
        verdict = "flat" if added <= allowed else "GROWS"
        print(f"  {field.name:>13} {added:>+10,.1f}  of {allowed:,.1f} that it may: {verdict}")
        if added > allowed:
            grown.append(field.name)
    return grown


def _has_mark(pid: int) -> bool:
    entry = f"{VARIABLE}={os.environ[VARIABLE]}".encode()
    try:
        return pid == os.getpid() or entry in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


def _rss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS")), 0)


def _count(folder: str) -> int:
    try:
        return len(os.listdir(folder))
    except OSError:
        return 0


def _held(folder: Path) -> tuple[int, int]:
    """Files, and their size in KiB."""
    count = size = 0
    for root, _, names in os.walk(folder):
        for name in names:
            count += 1
            try:
                size += os.stat(os.path.join(root, name)).st_blocks // 2
            except OSError:
                continue
    return count, size


if __name__ == "__main__":
    main()
