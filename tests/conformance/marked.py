"""Finds the tests in Beam's modules that carry a marker."""

from __future__ import annotations

import functools
import importlib
import inspect
import unittest
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# All modules with tests of a runner but one, which is about the Dataflow service.
VALIDATES_RUNNER: Final = frozenset(
    {
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
    }
)


def marked_suites(module_name: str, marker: str, home: str) -> Iterator[type]:
    """The test classes of a module, each with its marked tests alone, as classes of ``home``."""
    module = importlib.import_module(module_name)
    for name, cls in inspect.getmembers(module, inspect.isclass):
        if not issubclass(cls, unittest.TestCase) or cls.__module__ != module_name:
            continue
        tests = {t: f for t, f in inspect.getmembers(cls, callable) if t.startswith("test")}
        kept = {t for t, f in tests.items() if _has(cls, marker) or _has(f, marker)}
        if kept:
            # A test that is None is none.
            others = dict.fromkeys(tests.keys() - kept)
            yield type(name, (cls,), {"__module__": home, **others})


def _has(thing: Any, marker: str) -> bool:
    return any(mark.name == marker for mark in getattr(thing, "pytestmark", []))


def slow(test: Callable[[Any], None]) -> Callable[[Any], None]:
    """A test of a suite of Beam's, run as a slow one by a suite of ours."""

    @functools.wraps(test)
    def run(suite: Any) -> None:
        test(suite)

    # A lambda would become an argument of the mark, and a mark passes as a test.
    return pytest.mark.slow(run)
