"""The program of the README, as a user runs it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "examples/ticks.py"
FLAGS = ["--runner=SparkDrainRunner", "--drain_on_signal=INT", "--spark_master_url=local[2]"]
COUNT = re.compile(r"\d\d:\d\d:\d\d  (\d+) ticks")

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_ctrl_c_drains_the_program_of_the_readme_and_counts_the_open_window():
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), *FLAGS],
        # Spark has the standard output of its workers in the program's standard error.
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as program:
        said = []
        while sum(map(bool, map(COUNT.fullmatch, said))) < 3:
            line = program.stdout.readline()
            assert line, "\n".join(said)
            said.append(line.rstrip("\n"))
        # Three windows were counted some milliseconds after the third one's end.
        time.sleep(1)
        program.send_signal(signal.SIGINT)
        rest, _ = program.communicate(timeout=120)
    said += rest.splitlines()
    assert program.returncode == 0, rest
    assert "nothing left inside" in said[-1]
    # Whole windows have five hundred; the first and the last one are cut off.
    ticks = [int(count[1]) for count in map(COUNT.fullmatch, said) if count]
    assert ticks[1:3] == [500, 500]
    assert len(ticks) > 3
    assert 0 < ticks[-1] <= 500
