"""Has Beam's suites run in rounds, in this process, whatever runner they ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.runners.direct.direct_runner import SwitchingDirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing import test_pipeline
from pipelines import flags

from sparkdrain import SparkDrainRunner

if TYPE_CHECKING:
    import pytest

    from sparkdrain.jobs.server import JobServer


def use(server: JobServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send all pipelines to ``server``; fail those that go elsewhere."""
    monkeypatch.setattr("sparkdrain.submission.local_server", lambda: server)
    stream_here(monkeypatch)


def stream_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run all pipelines with our runner, as streams; fail those that go elsewhere."""
    options = " ".join([*flags("on"), "--streaming"])
    monkeypatch.setattr(test_pipeline.TestPipeline, "pytest_test_pipeline_options", options)
    # For pipelines with options, or a runner, of their own.
    monkeypatch.setattr(StandardOptions, "DEFAULT_RUNNER", "sparkdrain.SparkDrainRunner")
    monkeypatch.setattr(beam.pipeline, "create_runner", lambda _: SparkDrainRunner())
    for beams_own in (SwitchingDirectRunner, FnApiRunner):
        monkeypatch.setattr(beams_own, "run_pipeline", _refuse)


def _refuse(*_: Any) -> None:
    msg = "a test of this suite has left for another runner"
    raise AssertionError(msg)
