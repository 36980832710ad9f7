"""What a streaming job takes after thousands of rounds: nothing may grow with their number.

Run: ``python -m benchmarks.soak [minutes] [seconds between looks]`` (10 and 60 if not told), on
Linux. A job with state, windows, a shuffle and checkpoints every second runs in rounds as short as
they get; at every look a line says what the processes and folders hold. At the end stands what one
thousand rounds have added, from the first third of the time to the last.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import time
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.userstate import CombiningValueStateSpec
from apache_beam.transforms.window import FixedWindows
from pyspark import SparkContext

from benchmarks.process_tree import VARIABLE, Tree

if TYPE_CHECKING:
    from collections.abc import Iterable

KEYS = 500
EVERY_SECONDS = 0.05


class Count(beam.DoFn):  # type: ignore[misc]
    """Counts the elements of a key for ever."""

    COUNT = CombiningValueStateSpec("count", VarIntCoder(), sum)

    def start_bundle(self) -> None:
        Metrics.counter("soak", "rounds").inc()

    def process(self, element: Any, count: Any = beam.DoFn.StateParam(COUNT)) -> Iterable[Any]:
        count.add(1)
        yield element[0] % 10, count.read()


@dataclass(frozen=True, slots=True)
class Look:
    """What is held at one time. Sizes in KiB."""

    rounds: int
    driver_rss: int
    jvm_heap: int
    hosts_rss: int
    threads: int
    open_files: int
    local_files: int
    local_size: int
    checkpoint_files: int
    checkpoint_size: int


def main() -> None:
    """Runs the job and prints what it holds."""
    minutes, every = (float(text) for text in (*sys.argv[1:], "10", "60")[:2])
    mark = os.environ[VARIABLE] = f"soak-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="soak-") as directory:
        local, kept = Path(directory) / "local", Path(directory) / "checkpoints"
        result = start(local, kept)
        looks = []
        end = time.monotonic() + 60 * minutes
        print(" ".join(f"{field.name:>16}" for field in fields(Look)), flush=True)
        while time.monotonic() < end:
            time.sleep(every)
            looks.append(look(result, Tree(mark), local, kept))
            print(" ".join(f"{value:>16,}" for value in astuple(looks[-1])), flush=True)
        result.cancel()
    tell(looks)


def start(local: Path, kept: Path) -> Any:
    """The job, running."""
    options = PipelineOptions(
        [
            "--runner=sparkdrain.SparkDrainRunner",
            "--spark_master_url=local[2]",
            "--progress=off",
            "--round_ms=10",
            f"--spark_conf=spark.local.dir={local}",
            f"--checkpoint_dir={kept}",
            "--checkpoint_ms=1000",
        ]
    )
    pipeline = beam.Pipeline(options=options)
    _ = (
        pipeline
        | PeriodicImpulse(fire_interval=EVERY_SECONDS)
        | "Keys" >> beam.FlatMap(lambda now: [(key, now) for key in range(KEYS)])
        | beam.ParDo(Count())
        | beam.WindowInto(FixedWindows(1))
        | beam.CombinePerKey(max)
    )
    return pipeline.run()


def look(result: Any, tree: Tree, local: Path, kept: Path) -> Look:
    """What is held now."""
    tree.look()
    gc.collect()
    jvm = SparkContext._active_spark_context._jvm  # noqa: SLF001
    jvm.System.gc()
    runtime = jvm.Runtime.getRuntime()
    heap = (runtime.totalMemory() - runtime.freeMemory()) >> 10
    counters = result.metrics().query(MetricsFilter().with_name("rounds"))["counters"]
    own = _rss(os.getpid())
    processes = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    ours = [pid for pid in processes if _has_mark(pid)]
    return Look(
        sum(counter.committed for counter in counters),
        own,
        heap,
        sum(_rss(pid) for pid in ours if pid != os.getpid() and "java" not in _command(pid)),
        sum(_count(f"/proc/{pid}/task") for pid in ours),
        sum(_count(f"/proc/{pid}/fd") for pid in ours),
        *_held(local),
        *_held(kept),
    )


def tell(looks: list[Look]) -> None:
    """What a thousand rounds have added."""
    third = max(1, len(looks) // 3)
    first, last = _mean(looks[:third][-3:]), _mean(looks[-3:])
    rounds = last[0] - first[0]
    print(f"\nfrom round {first[0]:,.0f} to {last[0]:,.0f}, a thousand rounds added:")
    for field, before, after in zip(fields(Look)[1:], first[1:], last[1:], strict=True):
        added = (after - before) / rounds * 1000
        print(f"  {field.name:>16} {added:>+10,.1f}  ({before:,.0f} to {after:,.0f})")


def _mean(looks: list[Look]) -> list[float]:
    return [sum(values) / len(looks) for values in zip(*map(astuple, looks), strict=True)]


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
