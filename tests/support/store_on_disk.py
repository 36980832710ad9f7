"""Fixtures: a metadata store in files, where a job with checkpoints in the test's folder has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sparkdrain.coordination.address import parse
from sparkdrain.coordination.stores import STORES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sparkdrain.coordination.metadata import MetadataStore


@pytest.fixture
def address(tmp_path: Path) -> str:
    """The value of ``--metadata_store``."""
    return f"file:{tmp_path}/@runs"


@pytest.fixture
def store(address: str) -> Iterator[MetadataStore]:
    """That store, opened beside the job."""
    handle = STORES.open(parse(address))
    yield handle
    handle.close()
