"""Runs a job, drains it when all that it has was read, and says how that went; see ``__main__``.

Arguments: kind, elements, keys, a directory, and options of the job. The last line that it prints
is JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from benchmarks.drain import waiting
from benchmarks.jobs.memory import read_memory
from benchmarks.jobs.tally import read_tally

DRAINING = "draining"
"""A file in the directory: the drain of a job at rest has begun."""

_LOOK_SECONDS = 0.02
_REST_SECONDS = 5.0
_BUILD_SECONDS = 1800.0
# Of the elements of a flowing job: what is measured before the drain, and where that ends.
_FROM, _TO = 0.1, 0.4


def main() -> None:
    kind, n, keys, home = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    options = [
        "--runner=sparkdrain.SparkDrainRunner",
        "--spark_master_url=local[2]",
        "--streaming",
        "--job_name=drained",
        "--progress=plain",
        f"--spark_conf=spark.local.dir={home}/local",
        *sys.argv[5:],
    ]
    for folder in ("counts", "out", "local"):
        (home / folder).mkdir()
    pipeline = beam.Pipeline(options=PipelineOptions(options))
    waiting.build(pipeline, kind, n, keys, home)
    result = pipeline.run()
    said = _flowing(result, n, home) if kind == "reading" else _at_rest(result, n, home)
    counts = kind not in waiting.TIMERS
    said["right"] = read_tally(home / "out") == waiting.expected(n, keys, counts=counts)
    print(json.dumps({**said, **read_memory(home / "out")}), flush=True)


def _at_rest(result: Any, n: int, home: Path) -> dict[str, Any]:
    """Drains a job that has read everything and has nothing to do."""
    _wait(home, n)
    time.sleep(_REST_SECONDS)
    (home / DRAINING).touch()
    began = time.monotonic()
    result.drain()
    state = result.wait_until_finish()
    return {"state": state, "seconds": time.monotonic() - began}


def _flowing(result: Any, n: int, home: Path) -> dict[str, Any]:
    """Drains a job that is reading; what it reads has an end, and a drain goes on to that."""
    times = []
    for part in (_FROM, _TO):
        seen = _wait(home, int(n * part))
        times.append((time.monotonic(), seen))
    result.drain()
    seen = _wait(home, n)
    times.append((time.monotonic(), seen))
    state = result.wait_until_finish()
    (t0, n0), (t1, n1), (t2, n2) = times
    return {"state": state, "before": (n1 - n0) / (t1 - t0), "while": (n2 - n1) / (t2 - t1)}


def _wait(home: Path, count: int) -> int:
    """Waits until so many elements were read; how many there were."""
    end = time.monotonic() + _BUILD_SECONDS
    while (seen := waiting.counted(home / "counts")) < count:
        if time.monotonic() > end:
            message = f"{seen:,} of {count:,} elements were read in {_BUILD_SECONDS:g} s"
            raise TimeoutError(message)
        time.sleep(_LOOK_SECONDS)
    return seen


if __name__ == "__main__":
    main()
