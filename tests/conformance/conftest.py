"""Beam's own suites against this runner: where they run, and what is expected to fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from unsupported import FAILING, HOW

HERE = Path(__file__).parent

# Beam's own markers, which its suites need to be known.
_BEAMS = (
    "examples_postcommit",
    "it_postcommit",
    "it_validatesrunner",
    "no_sickbay_batch",
    "no_sickbay_streaming",
    "no_xdist",
    "sickbay_dataflow",
    "sickbay_direct",
    "sickbay_flink",
    "sickbay_spark",
    "uses_dill",
    "uses_java_expansion_service",
    "uses_python_expansion_service",
)


def pytest_configure(config: pytest.Config) -> None:
    """Make Beam's markers known."""
    for marker in _BEAMS:
        config.addinivalue_line("markers", f"{marker}: Beam's own")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect failure of exactly the tests that ``unsupported.py`` lists."""
    for item in items:
        if HERE not in item.path.parents:
            continue
        _check(item)
        # Beam's suites warn a lot; that is theirs to fix.
        item.add_marker(pytest.mark.filterwarnings("ignore"))
        if item.path.name != "test_in_rounds.py":
            item.add_marker(pytest.mark.spark)
        reason = next((FAILING[n] for n in _names(item) if n in FAILING), None)
        if reason is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def _check(item: pytest.Item) -> None:
    """A test of Beam's is a function, in a suite of ours: others would pass for nothing."""
    assert isinstance(item, pytest.Function)
    assert not isinstance(item.obj, pytest.MarkDecorator), f"{item.nodeid} is a mark"
    ours = item.cls is None or item.cls.__module__ == item.module.__name__
    assert ours, f"{item.nodeid} runs on Beam's own runner"


def _names(item: pytest.Item) -> list[str]:
    """The names under which ``unsupported.py`` may list a test: class and method.

    Without what is said of how a suite is run, it is meant however it is run.
    """
    suite, _, test = item.nodeid.split("::", 1)[-1].partition("::")
    names = [f"{suite}.{test}"]
    for suffix in HOW:
        suite = suite.removesuffix(suffix)
        names.append(f"{suite}.{test}")
    return names
