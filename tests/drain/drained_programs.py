"""A stream without end, and programs that run it, for tests of drains on Spark."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Duration

from tests.support.endless import Endless

STEP_SECONDS = 0.002
HOUR = 3600


class Numbers(beam.DoFn):
    """0, 1, 2, ... for ever; each is written down when it is admitted."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @beam.DoFn.unbounded_per_element()
    def process(self, element, tracker=beam.DoFn.RestrictionParam(Endless())):
        _, _, source = element
        number = tracker.current_restriction().start
        while tracker.try_claim(number):
            write(self._folder, "admitted", source, number)
            yield TimestampedValue((source, number), number)
            number += 1
            if number % 10 == 0:
                tracker.defer_remainder(Duration(seconds=STEP_SECONDS * 10))
                return


class Write(beam.DoFn):
    """Writes down what a window has, and whether more may follow."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, element, pane=beam.DoFn.PaneInfoParam):
        key, numbers = element
        for number in numbers:
            write(self._folder, "out", key, number)
        write(self._folder, "panes", key, int(pane.is_last))


def write(folder: str, kind: str, key: str, number: int) -> None:
    with open(Path(folder) / f"{kind}-{os.getpid()}", "a") as file:
        file.write(f"{key} {number}\n")


def lines(folder: Path, kind: str) -> list[str]:
    """All that was written down of one kind, without lines that are not whole yet."""
    texts = [path.read_text() for path in folder.glob(f"{kind}-*")]
    return sorted(line for text in texts for line in text.split("\n")[:-1])


def numbers(pipeline: beam.Pipeline, folder: str) -> beam.PCollection:
    """Windows of an hour, so that next to none of them ends by itself; two shuffles."""
    return (
        pipeline
        | beam.Create([(0, 10**9, source) for source in "abc"])
        | beam.ParDo(Numbers(folder))
        | beam.Reshuffle()
        | beam.WindowInto(FixedWindows(HOUR))
        | beam.GroupByKey()
    )


def stream(pipeline: beam.Pipeline, folder: str) -> None:
    """Writes down what comes out of the windows."""
    _ = numbers(pipeline, folder) | beam.ParDo(Write(folder))


def main(arguments: list[str]) -> int:
    """Runs the stream with these options; prints how it ended."""
    folder, *flags = arguments
    pipeline = beam.Pipeline(options=PipelineOptions(flags))
    stream(pipeline, folder)
    result = pipeline.run()
    print(getattr(result, "job_id", None) or result._job_id, flush=True)
    try:
        result.wait_until_finish()
    except RuntimeError as error:
        print(error, flush=True)
    print(result.state, flush=True)
    return 0


if __name__ == "__main__":
    time.tzset()
    sys.exit(main(sys.argv[1:]))
