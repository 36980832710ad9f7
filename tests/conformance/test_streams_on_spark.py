"""Some of Beam's suites as streams on Spark; what runs in rounds without it is faster there."""

from __future__ import annotations

from typing import Final

import pytest
from beams import suites_of
from in_rounds import stream_here

_SUITES: Final = {
    "apache_beam.testing.test_stream_test": ("TestStreamTest",),
    "apache_beam.transforms.trigger_test": ("TriggerPipelineTest",),
}
_SLOW_SUITES: Final = {
    "apache_beam.examples.cookbook.ordered_window_elements.streaming_test": (
        "OrderedWindowElementsTest_0",
    ),
    "apache_beam.io.unbounded_source_test": ("EndToEndTest",),
    "apache_beam.transforms.periodicsequence_test": ("PeriodicSequenceTest", "PeriodicImpulseTest"),
    "apache_beam.transforms.sideinputs_test": ("SideInputsTest",),
    "apache_beam.transforms.trigger_test": ("TestStreamTranscriptTest",),
}


@pytest.fixture(autouse=True)
def _pipelines_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    stream_here(monkeypatch)


def _add(suites: dict[str, tuple[str, ...]], *marks: pytest.MarkDecorator) -> None:
    for name, beams in suites_of(suites):
        suite = type(f"{name}OnSpark", (beams,), {"__module__": __name__})
        for mark in marks:
            suite = mark(suite)
        globals()[suite.__name__] = suite


_add(_SUITES)
_add(_SLOW_SUITES, pytest.mark.slow)
