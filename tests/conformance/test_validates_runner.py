"""All tests of Beam's that mark themselves as tests of a runner (``it_validatesrunner``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.runners.direct.direct_runner import SwitchingDirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing import test_pipeline
from marked import VALIDATES_RUNNER, marked_suites
from pipelines import flags

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _pipelines_run_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = "off" if request.cls.__name__.endswith("NotCompiled") else "on"
    monkeypatch.setattr(
        test_pipeline.TestPipeline, "pytest_test_pipeline_options", " ".join(flags(compiled))
    )
    # For pipelines with options of their own.
    monkeypatch.setattr(StandardOptions, "DEFAULT_RUNNER", "sparkdrain.SparkDrainRunner")
    for beams_own in (SwitchingDirectRunner, FnApiRunner):
        monkeypatch.setattr(beams_own, "run_pipeline", _refuse)


def _refuse(*_: Any) -> None:
    msg = "a test of this suite has left for another runner"
    raise AssertionError(msg)


def _suites(module: str) -> Iterator[type]:
    for suite in marked_suites(module, "it_validatesrunner", __name__):
        yield pytest.mark.slow(suite)
        not_compiled = type(f"{suite.__name__}NotCompiled", (suite,), {"__module__": __name__})
        yield pytest.mark.slow(not_compiled)


globals().update(
    (suite.__name__, suite) for name in sorted(VALIDATES_RUNNER) for suite in _suites(name)
)
