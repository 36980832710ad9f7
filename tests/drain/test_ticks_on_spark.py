"""The program of the README, as a user runs it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "examples/ticks.py"
FLAGS = ["--runner=SparkDrainRunner", "--drain_on_signal=INT", "--spark_master_url=local[2]"]

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_ctrl_c_drains_the_program_of_the_readme_and_counts_the_open_window():
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), *FLAGS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        counted = [program.stdout.readline() for _ in range(3)]
        program.send_signal(signal.SIGINT)
        rest, told = program.communicate(timeout=120)
    assert program.returncode == 0, told
    assert "nothing left inside" in told
    lines = [*counted, *rest.splitlines(keepends=True)]
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d  \d+ ticks\n", line) for line in lines)
    # Whole windows have five hundred; the first and the last one are cut off.
    ticks = [int(line.split()[1]) for line in lines]
    assert ticks[1:3] == [500, 500]
    assert 0 < ticks[-1] <= 500
