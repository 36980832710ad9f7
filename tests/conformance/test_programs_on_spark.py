"""Beam's tests of what workers share with the program: types of rows, and relative paths."""

from __future__ import annotations

import importlib
from typing import Final

import pytest
from apache_beam.testing import test_pipeline
from pipelines import flags

# Module -> suite -> the tests that are run; all of them if none is named.
_SUITES: Final = {
    "apache_beam.io.textio_test": {
        "TextSourceTest": ("test_read_from_text_file_pattern_with_dot_slash",)
    },
    "apache_beam.typehints.row_type_test": {"RowTypeTest": ()},
}


@pytest.fixture(autouse=True)
def _pipelines_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    options = " ".join(flags("on"))
    monkeypatch.setattr(test_pipeline.TestPipeline, "pytest_test_pipeline_options", options)


def _only(suite: type, tests: tuple[str, ...]) -> dict[str, None]:
    all_of_them = [name for name in dir(suite) if name.startswith("test_")]
    return dict.fromkeys(name for name in all_of_them if tests and name not in tests)


for _module, _suites in _SUITES.items():
    for _name, _tests in _suites.items():
        _suite = getattr(importlib.import_module(_module), _name)
        _members = {"__module__": __name__, **_only(_suite, _tests)}
        globals()[f"{_name}OnSpark"] = type(f"{_name}OnSpark", (_suite,), _members)
del _suite
