"""Jobs that older commits have left in the middle of a drain go on here: their files are stored.

`python -m tests.checkpoints.test_stored_checkpoints FOLDER`, run with an older commit, has written
them.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections import Counter
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows

from sparkdrain.drain.notification import DrainNotification
from sparkdrain.drain.signal import DrainSignal
from sparkdrain.graph.identity import identity
from sparkdrain.rounds.driver.durable import DurableJob
from sparkdrain.rounds.slots import service
from tests.support.at_once import AtOnce
from tests.support.endless import numbers
from tests.support.in_memory_rounds import InMemoryRounds, plan_of
from tests.support.random_pipelines import Named, TotalAtEndOfWindow, count, results
from tests.support.restrictions import LeapingClock

STORED = Path(__file__).parent / "stored"
WIDTH = 4
ENOUGH = 12


class Killed(Exception):
    """The driver is gone."""


def plan():
    """Sums of numbers by window, and totals of timers."""
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    read = pipeline | Named(numbers("a"))
    _ = read | "read" >> beam.Map(lambda pair: ("read", *pair)) | "count read" >> beam.Map(count)
    rest = read | beam.MapTuple(lambda _, n: (f"{n % 3}", n)).with_output_types(tuple[str, int])
    windows = rest | beam.WindowInto(FixedWindows(WIDTH))
    _ = windows | beam.CombinePerKey(sum) | "count sums" >> beam.Map(count)
    _ = windows | beam.ParDo(TotalAtEndOfWindow()) | "count timed" >> beam.Map(count)
    return plan_of(pipeline)


def live(folder, *, killed):
    """One life of the job, which is asked to drain when it has made enough.

    Args:
        folder: of checkpoints.
        killed: the driver dies when the checkpoint that says so is there.
    """
    made = plan()
    durable = DurableJob.at(str(folder), "stored", "run", identity(made), 1, 1)

    class Mortal(DurableJob):
        cut = None

        def publish(self, cut):
            self.cut = cut
            super().publish(cut)

        def is_published(self):
            published = super().is_published()
            if published and killed and self.cut.drain is not None:
                raise Killed
            return published

    mortal = Mortal(durable.storage, durable.paths, "run", identity(made), 1, 1)
    rounds = InMemoryRounds(made, 1, durable=mortal, clock=LeapingClock(), elements=6)
    signal = rounds.loop.drain.signal = DrainSignal()
    tell = rounds.loop.tell

    def look(schedule, reports):
        tell(schedule, reports)
        if len(results(schedule.reports())) >= ENOUGH:
            signal.request(DrainNotification.create("run", 0))

    rounds.loop.tell = look
    try:
        rounds.run_to_end()
    finally:
        rounds.close()
        mortal.settle()
    return results(rounds.schedule.reports()), rounds.schedule.is_drained()


@pytest.mark.parametrize("commit", sorted(path.name for path in STORED.iterdir()))
def test_a_job_that_an_older_commit_has_cut_drains_on_and_reads_nothing_more(
    commit, tmp_path, monkeypatch
):
    monkeypatch.setattr(service, "Uploader", AtOnce)
    shutil.copytree(STORED / commit, tmp_path / "checkpoints")
    made, is_drained = live(tmp_path / "checkpoints", killed=False)
    assert is_drained
    assert set(made.values()) == {1}
    rows = [json.loads(row) for row in made]
    read = sorted(row[2] for row in rows if row[0] == "read")
    assert read == list(range(len(read)))
    assert len(read) > 2 * WIDTH, "the older commit has read them"
    sums, timed = Counter(), Counter()
    for n in read:
        sums[f"{n % 3}", n // WIDTH] += n
        timed[f"{n % 3}", n // WIDTH] += n + 1
    expected = sorted((key, total) for all_ in (sums, timed) for (key, _), total in all_.items())
    assert sorted((row[0], row[1]) for row in rows if row[0] != "read") == expected


if __name__ == "__main__":
    service.Uploader = AtOnce
    with contextlib.suppress(Killed):
        live(Path(sys.argv[1]), killed=True)
