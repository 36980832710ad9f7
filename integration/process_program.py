"""A stream whose code runs in processes beside Spark's workers; one of them is killed once.

Arguments: a folder, how many numbers to read before the job is drained (0: never), and flags.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import userstate, window
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration

from tests.support.endless import Endless

SOURCES = "abc"
DEADLY = 60
WINDOW = 20
_LAST = 10**9


def note(folder: str, kind: str, *words: object) -> None:
    """Write a line down, in a file of this process."""
    with (Path(folder) / f"{kind}-{os.getpid()}").open("a") as file:
        print(*words, file=file)


def noted(folder: str | Path, kind: str) -> list[list[str]]:
    """All whole lines of a kind, of all processes."""
    texts = [path.read_text() for path in Path(folder).glob(f"{kind}-*")]
    return [line.split() for text in texts for line in text.split("\n")[:-1]]


class Numbers(beam.DoFn):
    """0, 1, 2, ... for ever, ten at a time, one a second of event time."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @beam.DoFn.unbounded_per_element()
    def process(self, element, tracker=beam.DoFn.RestrictionParam(Endless())):
        number = tracker.current_restriction().start
        while tracker.try_claim(number):
            note(self._folder, "read", element[2], number)
            yield TimestampedValue((element[2], number), number)
            number += 1
            if number % 10 == 0:
                tracker.defer_remainder(Duration(seconds=0.05))
                return


class Dies(beam.DoFn):
    """Kills its process at a number, once."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, pair):
        mark = Path(self._folder) / "killed"
        if pair == ("a", DEADLY) and not mark.exists():
            mark.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        yield pair


class Sums(beam.DoFn):
    """Tells at the end of time how many numbers a source has given, and their sum."""

    COUNT = userstate.CombiningValueStateSpec("count", sum)
    SUM = userstate.CombiningValueStateSpec("sum", sum)
    END = userstate.TimerSpec("end", userstate.TimeDomain.WATERMARK)

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(
        self,
        pair,
        count=beam.DoFn.StateParam(COUNT),
        total=beam.DoFn.StateParam(SUM),
        end=beam.DoFn.TimerParam(END),
    ):
        count.add(1)
        total.add(pair[1])
        end.set(_LAST)

    @userstate.on_timer(END)
    def on_end(
        self,
        key=beam.DoFn.KeyParam,
        count=beam.DoFn.StateParam(COUNT),
        total=beam.DoFn.StateParam(SUM),
    ):
        note(self._folder, "sum", key, count.read(), total.read())


class Write(beam.DoFn):
    """Writes down what a window has."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, group, of=beam.DoFn.WindowParam):
        key, numbers = group
        note(self._folder, "window", key, int(of.start), *sorted(numbers))


def main(arguments: list[str]) -> int:
    folder, most, *flags = arguments
    pipeline = beam.Pipeline(options=PipelineOptions(flags))
    pairs = (
        pipeline
        | beam.Create([(0, _LAST, source) for source in SOURCES])
        | beam.ParDo(Numbers(folder))
        | beam.ParDo(Dies(folder))
    )
    _ = pairs | beam.ParDo(Sums(folder))
    windows = pairs | beam.WindowInto(window.FixedWindows(WINDOW))
    _ = windows | beam.GroupByKey() | beam.ParDo(Write(folder))
    result = pipeline.run()
    while int(most) and len(noted(folder, "read")) < int(most):
        time.sleep(0.1)
    if int(most):
        result.drain()
    result.wait_until_finish()
    print(result.state, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
