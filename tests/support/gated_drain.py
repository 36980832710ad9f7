"""A stream without end whose drain can be held in each of its phases, and killed there.

Numbers come from three sources. They go through a shuffle into windows, and into state with timers;
what comes out is written down by window. Nothing comes out before the drain.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections import Counter
from pathlib import Path

import apache_beam as beam
from apache_beam.coders import StrUtf8Coder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import userstate
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Duration

from sparkdrain.checkpoints.local_storage import LocalStorage
from sparkdrain.checkpoints.paths import Paths
from sparkdrain.checkpoints.publish import newest
from sparkdrain.drain import caused_by_drain
from sparkdrain.drain.phases import DrainPhase
from sparkdrain.rounds.driver.inheritances import DriverState
from tests.support import gated_file_system  # noqa: F401 - Beam knows it from now on
from tests.support.endless import Endless
from tests.support.gates import Gates

JOB = "gated"
WIDTH = 60
KEYS = 4
SOURCES = "abc"


class Places:
    """Where the program and the test leave things for each other, below one folder."""

    def __init__(self, folder: str | Path) -> None:
        self.root = Path(folder)
        self.gates = Gates(str(self.root / "gates"))

    def make(self) -> None:
        for name in ("gates", "admitted", "out", "told"):
            (self.root / name).mkdir()

    def driver_state(self) -> DriverState | None:
        """What the newest manifest says of the driver."""
        found = newest(LocalStorage(), Paths(str(self.root / "checkpoints"), JOB))
        return None if found is None else DriverState.of(found)

    def admitted(self) -> list[str]:
        """What sources have given, in all lives."""
        texts = [path.read_text() for path in (self.root / "admitted").iterdir()]
        return [line for text in texts for line in text.split("\n")[:-1]]

    def out(self) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """What has come out: (kind, key, window, pane), and the numbers in it."""
        found = [json.loads(path.read_text()) for path in (self.root / "out").glob("*.json")]
        return [(tuple(place), tuple(numbers)) for place, numbers in found]

    def told(self) -> set[str]:
        """Which windows the outside was told of."""
        return {path.name for path in (self.root / "told").iterdir()}

    def check_outcome(self, cut: Counter) -> None:
        """What was read at the cut came out once, in windows and of timers; nothing else did."""
        assert max(cut.values()) == 1
        assert Counter(self.admitted()) == cut, "something was read after the cut"
        out = dict(self.out())
        assert out.keys() == {place for place, _ in self.out()}
        for place, numbers in self.out():
            assert numbers == out[place], f"{place} came out in two ways"
        for kind in ("windows", "timers"):
            of_kind = [numbers for place, numbers in out.items() if place[0] == kind]
            assert Counter(number for numbers in of_kind for number in numbers) == cut
        assert self.told() == {"-".join(place) for place in out}


class Numbers(beam.DoFn, Endless):
    """0, 1, 2, ... for ever, each written down when it is admitted."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def truncate(self, element, restriction):
        Places(self._folder).gates.pass_by("truncation")
        return super().truncate(element, restriction)

    @beam.DoFn.unbounded_per_element()
    def process(self, element, tracker=beam.DoFn.RestrictionParam()):
        number = tracker.current_restriction().start
        while tracker.try_claim(number):
            with open(Places(self._folder).root / "admitted" / str(os.getpid()), "a") as file:
                file.write(f"{element[2]}{number}\n")
            yield TimestampedValue(f"{element[2]}{number}", number)
            number += 1
            if number % 5 == 0:
                tracker.defer_remainder(Duration(seconds=0.02))
                return


class Told:
    """Tells the outside that a window has come out."""

    def __init__(self, folder: str, data: str) -> None:
        self._places = Places(folder)
        self.ident = self.data = data

    def __call__(self) -> None:
        state = self._places.driver_state()
        if state is not None and state.phase is DrainPhase.PUBLISHING:
            self._places.gates.pass_by("telling")
        (self._places.root / "told" / self.data).touch()

    def settle(self, seconds: float) -> bool:
        return True


class Write(beam.DoFn):
    """Writes down what a window has, each time in a file of its own; has the outside told of it."""

    def __init__(self, folder: str, kind: str) -> None:
        self._folder = folder
        self._kind = kind

    def acknowledgement(self, data: str) -> Told:
        return Told(self._folder, data)

    def process(
        self,
        element,
        window=beam.DoFn.WindowParam,
        pane=beam.DoFn.PaneInfoParam,
        finalizer=beam.DoFn.BundleFinalizerParam,
    ):
        key, numbers = element
        places = Places(self._folder)
        if caused_by_drain():
            places.gates.pass_by(self._kind)
        place = (self._kind, key, str(int(window.start)), str(pane.index))
        part = places.root / "out" / f"{uuid.uuid4().hex}.part"
        part.write_text(json.dumps([place, sorted(numbers)]))
        part.replace(part.with_suffix(".json"))
        finalizer.register(Told(self._folder, "-".join(place)))
        yield key, sorted(numbers)


class AtEndOfWindow(beam.DoFn):
    """Keeps what comes, and lets it go when its window ends."""

    KEPT = userstate.BagStateSpec("kept", StrUtf8Coder())
    END = userstate.TimerSpec("end", userstate.TimeDomain.WATERMARK)

    def process(
        self,
        element,
        window=beam.DoFn.WindowParam,
        kept=beam.DoFn.StateParam(KEPT),
        end=beam.DoFn.TimerParam(END),
    ):
        kept.add(element[1])
        end.set(window.max_timestamp())

    @userstate.on_timer(END)
    def end(self, key=beam.DoFn.KeyParam, kept=beam.DoFn.StateParam(KEPT)):
        yield key, list(kept.read())
        kept.clear()


def key_of(number: str) -> str:
    return f"key{int(number[1:]) % KEYS}"


def build(pipeline: beam.Pipeline, folder: str) -> None:
    windows = (
        pipeline
        | beam.Create([(0, 10**9, source) for source in SOURCES])
        | beam.ParDo(Numbers(folder))
        | beam.Map(lambda number: (key_of(number), number)).with_output_types(tuple[str, str])
        | beam.WindowInto(FixedWindows(WIDTH))
    )
    _ = windows | beam.GroupByKey() | "windows" >> beam.ParDo(Write(folder, "windows"))
    _ = windows | beam.ParDo(AtEndOfWindow()) | "timers" >> beam.ParDo(Write(folder, "timers"))


def main(arguments: list[str]) -> int:
    """Runs it with these options; 0 if it was drained."""
    folder, *flags = arguments
    pipeline = beam.Pipeline(options=PipelineOptions(flags))
    build(pipeline, folder)
    result = pipeline.run()
    print(result.wait_until_finish(), flush=True)
    return int(result.state != "DRAINED")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
