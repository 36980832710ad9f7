"""An executor that is killed in the middle of a job costs time, not results."""

from __future__ import annotations

import collections
import logging
import os
import signal
import sys
import time
import uuid
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.transforms.util import Reshuffle

from sparkdrain.errors import TruncatedInput

pytestmark = pytest.mark.spark

# As in a main program: executors cannot import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

NUMBERS = 400
PATIENCE_SECONDS = 60.0
# Spark would wait 15 s for a dead executor to come back.
FLAGS = ("--spark_conf=spark.shuffle.io.maxRetries=1", "--spark_conf=spark.shuffle.io.retryWait=1s")


def parent(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("PPid:"):
            return int(line.split()[1])
    raise AssertionError(pid)


def executor() -> int:
    """The JVM of the executor in which this runs: it has started the workers' daemon."""
    return parent(os.getppid())


class Arrive(beam.DoFn):
    """Writes down which executors have worked here; waits until both have."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    def process(self, element):
        (self._directory / str(executor())).touch()
        end = time.monotonic() + PATIENCE_SECONDS
        while len(list(self._directory.iterdir())) < 2 and time.monotonic() < end:
            time.sleep(0.02)
        yield element


class KillTheOther(Arrive):
    """Kills, once, an executor that was seen by ``Arrive`` and is not this one."""

    def process(self, element):
        others = [int(file.name) for file in self._directory.iterdir()]
        others = [pid for pid in others if pid != executor()]
        try:
            os.close(os.open(f"{self._directory}-killed", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            os.kill(others[0], signal.SIGKILL)
        yield element


def tagged(number: int) -> tuple[str, int]:
    """User code with another outcome every time."""
    return uuid.uuid4().hex, number


def written(directory: Path, name: str) -> list[list[str]]:
    files = directory.glob(f"{name}-*")
    return [line.split() for file in files for line in file.read_text().splitlines()]


@pytest.fixture
def seen(tmp_path) -> Path:
    directory = tmp_path / "seen"
    directory.mkdir()
    return directory


@pytest.fixture
def two_slots(cluster, on):
    """Makes a pipeline on a cluster that has both of its executors."""

    def make(*flags: str) -> beam.Pipeline:
        end = time.monotonic() + PATIENCE_SECONDS
        while len(cluster.executors()) < 2 and time.monotonic() < end:
            # A session's executors come when it starts.
            with on(cluster.url, *FLAGS, *flags) as p:
                _ = p | beam.Create([1])
        return on(cluster.url, "--slots=2", *FLAGS, *flags)

    return make


def test_killed_while_a_level_is_being_written(two_slots, tmp_path, seen, caplog):
    with caplog.at_level(logging.WARNING), two_slots() as p:
        ids = (
            p
            | beam.Create(range(NUMBERS))
            | Reshuffle()
            | beam.ParDo(Arrive(str(seen)))
            | beam.Map(tagged)
            | beam.ParDo(KillTheOther(str(seen)))
        )
        _ = (
            ids
            | beam.Map(lambda pair: (pair[1] % 10, pair))
            | beam.GroupByKey()
            | beam.FlatMap(lambda group: [f"{id_} {number}" for id_, number in group[1]])
            | beam.io.WriteToText(str(tmp_path / "out"))
        )
    assert Path(f"{seen}-killed").exists()
    found = written(tmp_path, "out")
    assert sorted(int(number) for _, number in found) == list(range(NUMBERS))
    assert len({id_ for id_, _ in found}) == NUMBERS


# As in a session that the user has started; then Spark itself runs the lost part of a level again.
LENIENT = "--spark_conf=spark.stage.maxConsecutiveAttempts=4"


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), (LENIENT,)], ids=["our session", "lenient session"])
def test_killed_when_a_level_has_ended_and_the_next_one_reads_it(
    two_slots, tmp_path, seen, caplog, flags
):
    """Two levels read what random user code has made: they must have read the same."""
    with caplog.at_level(logging.WARNING), two_slots(*flags) as p:
        ids = (
            p
            | beam.Create(range(NUMBERS))
            | Reshuffle()
            | beam.ParDo(Arrive(str(seen)))
            | beam.Map(tagged)
        )
        first = (
            ids
            | "By ten" >> beam.Map(lambda pair: (pair[1] % 10, pair))
            | "First" >> beam.GroupByKey()
            | beam.ParDo(KillTheOther(str(seen)))
            | beam.FlatMap(lambda group: group[1])
        )
        # A level later, for the side input; so it reads the same shuffle files at another time.
        count = first | beam.combiners.Count.Globally()
        second = (
            ids
            | "With count"
            >> beam.Map(
                lambda pair, count: (pair[1] % 7, (*pair, count)), beam.pvalue.AsSingleton(count)
            )
            | "Second" >> beam.GroupByKey()
            | beam.FlatMap(lambda group: group[1])
        )
        for name, branch in (("first", first), ("second", second)):
            text = branch | f"Text of {name}" >> beam.Map(lambda one: " ".join(map(str, one)))
            _ = text | f"Write {name}" >> beam.io.WriteToText(str(tmp_path / name))
    assert Path(f"{seen}-killed").exists()
    assert "run again" in caplog.text
    first_ids = {int(number): id_ for id_, number in written(tmp_path, "first")}
    second_rows = written(tmp_path, "second")
    second_ids = {int(number): id_ for id_, number, _ in second_rows}
    assert sorted(first_ids) == list(range(NUMBERS))
    assert second_ids == first_ids
    assert collections.Counter(count for _, _, count in second_rows) == {str(NUMBERS): NUMBERS}


@pytest.mark.slow
def test_a_job_that_may_run_only_once_fails_rather_than_mix_two_executions(
    two_slots, tmp_path, seen
):
    with pytest.raises(TruncatedInput), two_slots("--job_attempts=1") as p:
        _ = (
            p
            | beam.Create(range(NUMBERS))
            | Reshuffle()
            | beam.ParDo(Arrive(str(seen)))
            | beam.Map(tagged)
            | "By ten" >> beam.Map(lambda pair: (pair[1] % 10, pair))
            | beam.GroupByKey()
            | beam.ParDo(KillTheOther(str(seen)))
            | beam.FlatMap(lambda group: [f"{id_} {number}" for id_, number in group[1]])
            | beam.io.WriteToText(str(tmp_path / "out"))
        )
    assert Path(f"{seen}-killed").exists()
    assert written(tmp_path, "out") == []
