"""Grouping more than fits: memory stays near its budget, and nothing is lost."""

from __future__ import annotations

import json
import threading

import apache_beam as beam
import psutil
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

VALUE = 1000
BUDGET_MB = 24
# Of a worker that has done nothing, Beam and its libraries imported.
IDLE_MB = 260


class PeakMemory:
    """The largest resident set of any Python worker while a block of code runs, in MiB."""

    def __enter__(self) -> PeakMemory:
        self.peak = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            for process in psutil.Process().children(recursive=True):
                try:
                    if "python" in process.name():
                        self.peak = max(self.peak, process.memory_info().rss / 2**20)
                except psutil.Error:
                    continue

    def __exit__(self, *_) -> None:
        self._stop.set()
        self._thread.join()


def grouped(tmp_path, n: int, key_of) -> tuple[list, float]:
    """Group n values of 1 kB; per key how many there were and whether each could be read twice."""
    out = tmp_path / "out"
    options = PipelineOptions(
        ["--spark_master_url=local[2]", f"--shuffle_memory_mb={BUDGET_MB}", "--progress=off"],
        runner="sparkdrain.SparkDrainRunner",
    )

    def make(part: int):
        for i in range(part, n, 8):
            yield key_of(i), b"%08d" % i + b"." * (VALUE - 8)

    def measure(group):
        key, values = group
        first = sum(int(v[:8]) for v in values)
        second = sum(1 for _ in values)
        return json.dumps([key, first, second])

    with PeakMemory() as memory, beam.Pipeline(options=options) as pipeline:
        _ = (
            pipeline
            | beam.Create(range(8))
            | beam.FlatMap(make).with_output_types(tuple[int, bytes])
            | beam.GroupByKey()
            | beam.Map(measure)
            | beam.io.WriteToText(str(out))
        )
    lines = [line for f in tmp_path.glob("out-*") for line in f.read_text().splitlines()]
    return sorted(json.loads(line) for line in lines), memory.peak


@pytest.mark.spark
def test_data_several_times_larger_than_memory_is_grouped_within_a_cap(tmp_path) -> None:
    n, keys = 240_000, 5000
    groups, peak = grouped(tmp_path, n, lambda i: i % keys)
    sums = [sum(range(k, n, keys)) for k in range(keys)]
    assert groups == [[k, sums[k], n // keys] for k in range(keys)]
    assert n * VALUE / 2 > 4 * BUDGET_MB * 2**20, "each slot must see several times its budget"
    assert peak < IDLE_MB + 4 * BUDGET_MB + 60


@pytest.mark.spark
def test_one_key_larger_than_memory_is_a_stream_that_can_be_read_twice(tmp_path) -> None:
    n = 160_000
    groups, peak = grouped(tmp_path, n, lambda i: 7)
    assert groups == [[7, n * (n - 1) // 2, n]]
    assert peak < IDLE_MB + 4 * BUDGET_MB + 60
