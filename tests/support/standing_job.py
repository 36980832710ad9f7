"""A stream without end that adds up numbers in state, for drivers that stand by.

It tells what it has added up when it is drained. So a number that was lost, or was counted twice,
shows in the count and the sum.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import uuid
from pathlib import Path

import apache_beam as beam
from apache_beam.coders import StrUtf8Coder, VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import userstate
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.utils.timestamp import Duration

from tests.support.endless import Endless

JOB = "standing"
KEYS = "abc"


class Numbers(beam.DoFn, Endless):
    """0, 1, 2, ... for ever. Leaves a file named by its process."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @beam.DoFn.unbounded_per_element()
    def process(self, element, tracker=beam.DoFn.RestrictionParam()):
        Path(self._folder, "hosts", str(os.getpid())).touch()
        if Path(self._folder, "fail").exists():
            message = "asked to fail"
            raise ValueError(message)
        number = tracker.current_restriction().start
        while tracker.try_claim(number):
            yield TimestampedValue((element[2], number), number)
            number += 1
            if number % 5 == 0:
                tracker.defer_remainder(Duration(seconds=0.02))
                return


class AddUp(beam.DoFn):
    """Keeps how many numbers a key had, and their sum; tells it at the end of time."""

    COUNT = userstate.CombiningValueStateSpec("count", VarIntCoder(), sum)
    SUM = userstate.CombiningValueStateSpec("sum", VarIntCoder(), sum)
    END = userstate.TimerSpec("end", userstate.TimeDomain.WATERMARK)

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(
        self,
        element,
        count=beam.DoFn.StateParam(COUNT),
        added=beam.DoFn.StateParam(SUM),
        end=beam.DoFn.TimerParam(END),
    ):
        count.add(1)
        added.add(element[1])
        end.set(GlobalWindow().max_timestamp())

    @userstate.on_timer(END)
    def on_end(
        self,
        key=beam.DoFn.KeyParam,
        count=beam.DoFn.StateParam(COUNT),
        added=beam.DoFn.StateParam(SUM),
    ):
        part = Path(self._folder, "out", f"{uuid.uuid4().hex}.part")
        part.write_text(json.dumps([key, count.read(), added.read()]))
        part.replace(part.with_suffix(".json"))


def check_outcome(folder: Path) -> int:
    """Each number was counted once; how many there were."""
    found = [json.loads(path.read_text()) for path in (folder / "out").glob("*.json")]
    assert {key for key, _, _ in found} == set(KEYS)
    for key, count, added in found:
        assert added == count * (count - 1) // 2, f"{key} was not counted once: {found}"
    assert len({key for key, _, _ in found}) == len({tuple(each) for each in found})
    return sum(count for _, count, _ in found)


def epochs(folder: Path) -> set[str]:
    """Which have published, of the job with checkpoints in a folder of this one."""
    found: set[str] = set()
    for number in _numbers(folder):
        with contextlib.suppress(FileNotFoundError):  # older ones are removed
            names = os.listdir(folder / "checkpoints" / JOB / "manifests" / number)
            found |= {name.partition("-")[0] for name in names if name.endswith(".manifest")}
    return found


def newest(folder: Path) -> int:
    """The number of the newest checkpoint of that job, or of one that is about to be."""
    return max(map(int, _numbers(folder)), default=0)


def _numbers(folder: Path) -> list[str]:
    names: list[str] = []
    with contextlib.suppress(FileNotFoundError):
        names = os.listdir(folder / "checkpoints" / JOB / "manifests")
    # One that is being made has another name.
    return [name for name in names if name.isdecimal()]


def main(arguments: list[str]) -> int:
    """Run it with these options; 0 if it has ended well."""
    logging.basicConfig(level=logging.INFO, force=True)
    folder, *flags = arguments
    pipeline = beam.Pipeline(options=PipelineOptions(flags))
    made = pipeline | beam.Create([(0, 10**12, key) for key in KEYS], reshuffle=False)
    numbers = made | beam.ParDo(Numbers(folder))
    typed = numbers | beam.Map(lambda pair: pair).with_output_types(tuple[str, int])
    _ = typed | beam.ParDo(AddUp(folder))
    beam.coders.registry.register_coder(str, StrUtf8Coder)
    result = pipeline.run()
    print("ended as", result.wait_until_finish(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
