"""What a slot has heard is undone with its round, and left behind by other slots: on real Spark."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Duration

from sparkdrain import SparkDrainRunner
from sparkdrain.checkpoints.beam_storage import storage_at
from sparkdrain.checkpoints.catalogue import contents, find
from sparkdrain.errors import TruncatedInput
from sparkdrain.rounds.driver.levels import SparkLevels
from tests.support.restrictions import UpTo
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

SECONDS = 120
NUMBERS = 40
HEARD = b"h"

wait_for = partial(wait_until, seconds=SECONDS, pause=0.05)


class Slowly(beam.DoFn):
    """The numbers below an element: one a round, or all that are left while ``go`` is there.

    The restriction is bounded, so a drain reads it to its end. Until then its slot is not drained;
    the others are.
    """

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def process(self, element, tracker=beam.DoFn.RestrictionParam(UpTo())):
        del element
        (self._folder / "reading").touch()
        number = tracker.current_restriction().start
        while tracker.try_claim(number):
            yield number % 3, number
            number += 1
            if not (self._folder / "go").exists():
                tracker.defer_remainder(Duration(0.05))
                return


def start(folder: Path, *flags: str):
    options = PipelineOptions(
        [
            "--spark_master_url=local[2]",
            "--progress=off",
            "--streaming",
            "--job_name=numbers",
            f"--checkpoint_dir={folder}/checkpoints",
            "--checkpoint_ms=200",
            *flags,
        ]
    )
    pipeline = beam.Pipeline(SparkDrainRunner(), options=options)
    sums = (
        pipeline
        | beam.Create([NUMBERS], reshuffle=False)
        | beam.ParDo(Slowly(str(folder))).with_output_types(tuple[int, int])
        | beam.WindowInto(FixedWindows(10))
        | "sum" >> beam.CombinePerKey(sum)
    )
    again = sums | beam.MapTuple(lambda _, total: ("all", total)) | beam.CombinePerKey(sum)
    _ = again | beam.MapTuple(lambda _, total: Metrics.counter("live", "sum").inc(total))
    return pipeline.run()


def assert_all_came_out_once(result) -> None:
    assert result.wait_until_finish() == "DRAINED"
    (made,) = [c for c in result.metrics().query()["counters"] if c.key.metric.name == "sum"]
    assert made.committed == sum(range(NUMBERS))


def test_what_was_heard_in_a_round_that_spark_ran_again_was_never_heard(tmp_path, monkeypatch):
    """The round in which the last producer is drained is lost. In its replay it is not drained."""
    run, lost = SparkLevels.run, []
    reading, summing = 1, 2

    def lose(levels, headers):
        reports = run(levels, headers)
        level = headers[0].level
        if level == reading and not lost and all(all(r.drained or [False]) for r in reports):
            lost.append(headers[0].number)
        if level == summing and lost == [headers[0].number]:
            # The slots of this level have heard that all of their producers are drained.
            assert not any(report.missing for report in reports)
            lost.append(headers[0].number)
            (tmp_path / "go").unlink()
            message = "as the test wants it"
            raise TruncatedInput(message)
        return reports

    monkeypatch.setattr(SparkLevels, "run", lose)
    result = start(tmp_path, "--slots=2")
    wait_for((tmp_path / "reading").exists)
    result.drain()
    wait_for(lambda: heard_in_the_newest_checkpoint(tmp_path))
    (tmp_path / "go").touch()
    assert_all_came_out_once(result)
    assert len(lost) == 2


def heard_in_the_newest_checkpoint(folder: Path) -> bool:
    """Whether some slot has heard from a producer."""
    storage = storage_at(f"{folder}/checkpoints")
    found = list(find(storage, f"{folder}/checkpoints"))
    if not found:
        return False
    newest = max(found, key=lambda each: each.manifest.number)
    return any(
        tag == HEARD
        for shard in newest.manifest.shards
        for _, _, tag in contents(storage, newest.paths, shard)
    )


def test_fewer_slots_hear_from_the_producers_that_there_are_now(tmp_path):
    """Two of three producers are drained when the job stops. Two slots go on with the third's."""
    result = start(tmp_path, "--slots=3")
    wait_for((tmp_path / "reading").exists)
    result.drain()
    wait_for(lambda: heard_in_the_newest_checkpoint(tmp_path))
    assert result.state == "DRAINING"
    result.cancel()
    wait_for(lambda: result.state == "CANCELLED")
    (tmp_path / "go").touch()
    assert_all_came_out_once(start(tmp_path, "--slots=2", "--resume"))
