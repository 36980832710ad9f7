"""All tests of Beam's that mark themselves as tests of a runner (``it_validatesrunner``)."""

from __future__ import annotations

import importlib
import inspect
import unittest
from typing import TYPE_CHECKING, Any

import pytest
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.runners.direct.direct_runner import SwitchingDirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing import test_pipeline
from pipelines import flags

if TYPE_CHECKING:
    from collections.abc import Iterator

# All modules with such tests but one, which is about the Dataflow service.
_MODULES = (
    "apache_beam.metrics.metric_test",
    "apache_beam.ml.inference.base_test",
    "apache_beam.pipeline_test",
    "apache_beam.runners.portability.fn_api_runner.translations_test",
    "apache_beam.transforms.combinefn_lifecycle_test",
    "apache_beam.transforms.combiners_test",
    "apache_beam.transforms.deduplicate_test",
    "apache_beam.transforms.dofn_lifecycle_test",
    "apache_beam.transforms.ptransform_test",
    "apache_beam.transforms.sideinputs_test",
    "apache_beam.transforms.util_test",
)


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


def _is_marked(thing: Any) -> bool:
    marks = getattr(thing, "pytestmark", [])
    return any(mark.name == "it_validatesrunner" for mark in marks)


def _suites(module_name: str) -> Iterator[type]:
    """The test classes of a module, each with its marked tests alone."""
    module = importlib.import_module(module_name)
    for name, cls in inspect.getmembers(module, inspect.isclass):
        if not issubclass(cls, unittest.TestCase) or cls.__module__ != module_name:
            continue
        tests = {t: f for t, f in inspect.getmembers(cls, callable) if t.startswith("test")}
        marked = {t for t, function in tests.items() if _is_marked(cls) or _is_marked(function)}
        if marked:
            # A test that is None is none.
            others = dict.fromkeys(tests.keys() - marked)
            suite = type(name, (cls,), {"__module__": __name__, **others})
            yield suite
            yield pytest.mark.slow(type(f"{name}NotCompiled", (suite,), {"__module__": __name__}))


globals().update((suite.__name__, suite) for name in _MODULES for suite in _suites(name))
