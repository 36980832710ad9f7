"""Small pipelines, each feature of Beam's model: in memory, compiled and not, and on Spark.

On every change they are compiled; Beam's own suite runs without compiled stages then.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from typing import TYPE_CHECKING

from engines import ENGINES

if TYPE_CHECKING:
    import apache_beam as beam

HERE = Path(__file__).parent


@pytest.fixture(
    params=[
        pytest.param("compiled"),
        pytest.param("not compiled", marks=[pytest.mark.slow]),
        pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow]),
    ]
)
def pipeline(request: pytest.FixtureRequest) -> beam.Pipeline:
    """A pipeline that runs on one of our engines."""
    return ENGINES[request.param]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Beam warns a lot while it builds pipelines."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore"))
