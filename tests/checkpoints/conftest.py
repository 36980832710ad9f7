from __future__ import annotations

import pytest

from sparkdrain.checkpoints.local_storage import LocalStorage
from sparkdrain.checkpoints.paths import Paths


@pytest.fixture
def paths(tmp_path):
    return Paths(str(tmp_path / "durable"), "a job/of mine")


@pytest.fixture
def storage():
    return LocalStorage()
