"""Beam's examples, with the tests that mark themselves for real runners and need no cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from apache_beam.testing import test_pipeline
from marked import marked_suites
from pipelines import flags

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

_MODULES = (
    "apache_beam.examples.cookbook.custom_ptransform_it_test",
    "apache_beam.examples.cookbook.group_with_coder_test",
    "apache_beam.examples.cookbook.mergecontacts_test",
    "apache_beam.examples.cookbook.multiple_output_pardo_test",
    "apache_beam.examples.dataframe.wordcount_test",
    "apache_beam.examples.wordcount_debugging_test",
    "apache_beam.examples.wordcount_minimal_test",
    "apache_beam.examples.wordcount_test",
)


@pytest.fixture(autouse=True)
def _pipelines_run_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    options = " ".join([*flags("on"), f"--temp_location={tmp_path}"])
    monkeypatch.setattr(test_pipeline.TestPipeline, "pytest_test_pipeline_options", options)


globals().update(
    (f"{module.rpartition('.')[2]}_{suite.__name__}", suite)
    for module in _MODULES
    for suite in marked_suites(module, "examples_postcommit", __name__)
)
