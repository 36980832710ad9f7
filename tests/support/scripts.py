"""Streams of (key, number) pairs that say when what comes: TestStream with fewer words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.testing import test_stream
from apache_beam.transforms import window

if TYPE_CHECKING:
    from collections.abc import Callable

    from apache_beam.transforms.core import WindowFn


@dataclass(frozen=True, slots=True)
class Mark:
    """The watermark moves on to a time, in seconds."""

    time: float


@dataclass(frozen=True, slots=True)
class Pass:
    """Processing time goes on, by some seconds."""

    seconds: int


Element = tuple[str, int, float]
"""Key, number, time in seconds."""

Step = list[Element] | Mark | Pass


def streamed(*steps: Step) -> test_stream.TestStream:
    """A stream that makes these steps, each in a round of its own, and then ends."""
    stream = test_stream.TestStream()
    for step in steps:
        match step:
            case Mark(time):
                stream = stream.advance_watermark_to(time)
            case Pass(seconds):
                stream = stream.advance_processing_time(seconds)
            case elements:
                stream = stream.add_elements([_timed(*element) for element in elements])
    return stream.advance_watermark_to_infinity()


def pairs_in_rounds(*steps: Step, windows: WindowFn | None = None, **windowing: Any) -> Any:
    """A function that makes a PCollection of the pairs of a stream, in windows."""
    return _in_windows(lambda p: p | streamed(*steps) | beam.Map(_same), windows, windowing)


def pairs_at_once(*steps: Step, windows: WindowFn | None = None, **windowing: Any) -> Any:
    """The same with all of them at once."""
    elements = [element for step in steps if isinstance(step, list) for element in step]
    return _in_windows(
        lambda p: p | beam.Create(elements, reshuffle=False) | beam.MapTuple(_timed),
        windows,
        windowing,
    )


def _in_windows(
    make: Callable[[Any], Any], windows: WindowFn | None, windowing: Any
) -> Callable[[Any], Any]:
    def build(pipeline: Any) -> Any:
        made = make(pipeline) | "typed" >> beam.Map(_same).with_output_types(tuple[str, int])
        if windows is None:
            return made
        return made | beam.WindowInto(windows, **windowing)

    return build


def _timed(key: str, number: int, time: float) -> window.TimestampedValue:
    return window.TimestampedValue((key, number), time)


def _same(element: Any) -> Any:
    return element
