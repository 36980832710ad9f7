"""Beam's tests that record into their own process: user code runs in threads of the program."""

from __future__ import annotations

from typing import Any, Final

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PortableOptions, SparkRunnerOptions
from apache_beam.runners.direct.direct_runner import SwitchingDirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing import test_pipeline
from beams import suites_of
from pipelines import flags

from sparkdrain import SparkDrainRunner

# Those that append to a list of the suite, or move a clock of their own.
_SUITES: Final = {
    "apache_beam.io.fileio_test": ("WriteFilesTest",),
    "apache_beam.runners.common_test": ("DoFnProcessTest",),
    "apache_beam.transforms.userstate_test": ("StatefulDoFnOnDirectRunnerTest",),
    "apache_beam.transforms.util_test": ("BatchElementsTest",),
}


@pytest.fixture(autouse=True)
def _pipelines_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        test_pipeline.TestPipeline, "pytest_test_pipeline_options", " ".join(flags("on"))
    )
    run = SparkDrainRunner.run_pipeline

    def over_loopback(runner: SparkDrainRunner, pipeline: beam.Pipeline, options: Any) -> Any:
        # Pipelines with options of their own too. The suites expect that one worker has all.
        options.view_as(PortableOptions).environment_type = "LOOPBACK"
        options.view_as(SparkRunnerOptions).spark_master_url = "local[1]"
        return run(runner, pipeline, options)

    monkeypatch.setattr(SparkDrainRunner, "run_pipeline", over_loopback)
    monkeypatch.setattr(beam.pipeline, "create_runner", lambda _: SparkDrainRunner())
    for beams_own in (SwitchingDirectRunner, FnApiRunner):
        monkeypatch.setattr(beams_own, "run_pipeline", _refuse)


def _refuse(*_: Any) -> None:
    msg = "a test of this suite has left for another runner"
    raise AssertionError(msg)


for _name, _suite in suites_of(_SUITES):
    _members = {"__module__": __name__}
    globals()[f"{_name}OverLoopback"] = pytest.mark.slow(
        type(f"{_name}OverLoopback", (_suite,), _members)
    )
del _suite
