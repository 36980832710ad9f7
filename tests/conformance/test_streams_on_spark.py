"""Some of Beam's suites as streams on Spark; what runs in rounds without it is faster there."""

from __future__ import annotations

from typing import Final

import pytest
from beams import suites_of
from in_rounds import stream_here

_SUITES: Final = {
    "apache_beam.examples.cookbook.ordered_window_elements.streaming_test": (
        "OrderedWindowElementsTest_0",
    ),
    "apache_beam.io.unbounded_source_test": ("EndToEndTest",),
    "apache_beam.transforms.periodicsequence_test": ("PeriodicSequenceTest", "PeriodicImpulseTest"),
    "apache_beam.transforms.sideinputs_test": ("SideInputsTest",),
    "apache_beam.testing.test_stream_test": ("TestStreamTest",),
    "apache_beam.transforms.trigger_test": ("TestStreamTranscriptTest", "TriggerPipelineTest"),
}


@pytest.fixture(autouse=True)
def _pipelines_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    stream_here(monkeypatch)


for _name, _beams in suites_of(_SUITES):
    _suite = type(f"{_name}OnSpark", (_beams,), {"__module__": __name__})
    globals()[_suite.__name__] = pytest.mark.slow(_suite)
del _beams, _suite
