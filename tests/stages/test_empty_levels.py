"""What measures the cost of a level runs with the stages of today."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.spark
def test_levels_with_nothing_to_do_are_measured():
    command = [sys.executable, "-m", "benchmarks.level_cost", "--child", "--levels=4"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert re.fullmatch(r"\d+\.\d \| - \| -", done.stdout.splitlines()[-1])
