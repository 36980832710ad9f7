"""A batch job on Spark whose harness is killed: the job is run again, and its results are exact."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import apache_beam as beam
import psutil
import pytest
from apache_beam.metrics import Metrics, MetricsFilter

from tests.support.process_options import process_options

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NUMBERS, KEYS, DEADLY = 400, 20, 4
SEEN = Metrics.counter("killed", "seen")


class Dies(beam.DoFn):
    """Kills the first process that has some elements; writes down which process that was."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def setup(self):
        self._elements = 0

    def process(self, pair):
        self._elements += 1
        if self._elements == DEADLY and not self._mark.exists():
            self._mark.write_text(" ".join(psutil.Process().cmdline()))
            os.kill(os.getpid(), signal.SIGKILL)
        yield pair


def keyed(number: int) -> tuple[int, int]:
    SEEN.inc()
    return number % KEYS, number


def write(group: tuple[int, Iterable[int]], into: Path) -> None:
    odd, sums = group[0], list(group[1])
    (into / str(odd)).write_text(f"{len(sums)} {sum(sums)}")


@pytest.mark.spark
def test_a_batch_job_whose_harness_is_killed_is_exact(tmp_path, caplog):
    """It is killed between two groups, when the numbers are counted and some sums are made."""
    mark, made = tmp_path / "mark", tmp_path / "made"
    made.mkdir()
    pipeline = beam.Pipeline(options=process_options())
    sums = (
        pipeline
        | beam.Create(range(NUMBERS))
        | "Key" >> beam.Map(keyed)
        | "Numbers" >> beam.GroupByKey()
        | "Sum" >> beam.MapTuple(lambda key, numbers: (key % 2, sum(numbers)))
    )
    _ = sums | beam.ParDo(Dies(mark)) | "Sums" >> beam.GroupByKey() | beam.Map(write, made)
    result = pipeline.run()
    assert result.wait_until_finish() == "DONE"
    found = {file.name: file.read_text() for file in made.iterdir()}
    expected = {str(odd): f"{KEYS // 2} {sum(range(odd, NUMBERS, 2))}" for odd in range(2)}
    assert found == expected
    assert "sparkdrain.cli.main worker" in mark.read_text()
    (told,) = [text for each in caplog.records if "is run again" in (text := each.getMessage())]
    assert "the signal SIGKILL" in told
    assert "the job is run again (attempt 2)" in told
    (counter,) = result.metrics().query(MetricsFilter().with_name("seen"))["counters"]
    assert (counter.committed, counter.attempted) == (NUMBERS, 2 * NUMBERS)
