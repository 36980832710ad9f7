"""User code that hangs in a stream is told of, on a real Spark with host processes."""

from __future__ import annotations

import itertools
import re
import time
import zlib
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineState
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from sparkdrain import SparkDrainRunner
from sparkdrain.errors import RoundLimitExceeded
from tests.support.restrictions import Count
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

SECONDS = 120


def wait_for(mark: str) -> None:
    while not Path(mark).exists():
        time.sleep(0.05)


def keep_lock(_) -> None:
    """C code that keeps the interpreter's lock until the process is killed."""
    sum(itertools.repeat(0, 10**13))


class Remembers(beam.DoFn):
    LAST = ReadModifyWriteStateSpec("last", VarIntCoder())

    def __init__(self, mark: str) -> None:
        self._mark = mark

    def process(self, pair, last=beam.DoFn.StateParam(LAST)):
        last.write(pair[1])
        if pair[0] == "k7":
            wait_for(self._mark)
        yield pair


def start(build, *flags):
    """A stream of numbers, and what ``build`` does with them; the messages of its job."""
    options = ["--spark_master_url=local[2]", "--progress=off", "--streaming", *flags]
    pipeline = beam.Pipeline(SparkDrainRunner(), options=PipelineOptions(options))
    numbers = pipeline | beam.Create([(0, 3)]) | "Gen" >> beam.ParDo(Count())
    _ = build(numbers)
    return pipeline.run()


def told_in(caplog, count: int = 1) -> str:
    """What the job's messages, which the program logs, say of a step in its own code.

    A slot that starts slowly is told of before it has come that far.
    """

    def found():
        texts = [record.getMessage() for record in caplog.records]
        texts = [text for text in texts if "runs step" in text and __file__ in text]
        return len(texts) >= count and texts

    return wait_until(found, seconds=SECONDS, pause=0.1)[count - 1]


def test_a_step_that_waits_is_told_of_with_its_slot_level_key_and_stack(tmp_path, caplog):
    mark = str(tmp_path / "go on")
    result = start(
        lambda numbers: (
            numbers
            | beam.Map(lambda number: ("k7", number))
            | "Wait" >> beam.ParDo(Remembers(mark))
            | "Good" >> beam.Map(lambda pair: pair)
        ),
        "--hang_warning_ms=2000",
        "--slots=2",
    )
    text = told_in(caplog)
    again = told_in(caplog, 2)
    Path(mark).touch()
    assert result.wait_until_finish() == PipelineState.DONE
    assert re.search(r"is in level [1-9]\.", text)
    assert re.search(r"Slot [01] \(process \d+ on .*\) runs step 'Wait', for a key", text)
    assert f"with hash {zlib.crc32(b'k7'):08x}; it got" in text
    assert f'File "{__file__}", line' in text
    assert "time.sleep(0.05)" in text
    assert "in wait_for" in text
    assert "sparkdrain/rounds" not in text
    # It is told again when it has taken twice as long, and not each second.
    times = [int(re.search(r"at work for (\d+) s", each)[1]) for each in (text, again)]
    assert times[1] >= 2 * times[0]


@pytest.mark.slow
def test_code_that_keeps_the_interpreters_lock_is_told_of_and_ended_by_a_limit(caplog):
    result = start(
        lambda numbers: numbers | "Good" >> beam.Map(str) | "Bad" >> beam.Map(keep_lock),
        "--hang_warning_ms=2000",
        "--round_limit_ms=40000",
        "--slots=1",
    )
    text = told_in(caplog)
    with pytest.raises(RoundLimitExceeded) as failed:
        result.wait_until_finish()
    assert "Slot 0" in text
    for told in (text, str(failed.value)):
        assert "runs step 'Bad'" in told
        assert "It keeps the interpreter's lock" in told
        assert "in keep_lock" in told
    assert "more than --round_limit_ms (40000) allows" in str(failed.value)
