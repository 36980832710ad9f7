"""A Python worker with another PySpark than the program's says so, and does not begin."""

from __future__ import annotations

import subprocess
import sys

import pyspark
import pytest

from sparkdrain.stages.daemon import check_worker
from sparkdrain.stages.workers.handover import PYSPARK_VARIABLE

PATCH = ".".join([*pyspark.__version__.split(".")[:2], "99"])


def test_a_daemon_with_another_pyspark_ends_and_names_both():
    command = [sys.executable, "-m", "sparkdrain.stages.daemon", "pyspark.worker"]
    ended = subprocess.run(
        command,
        env={PYSPARK_VARIABLE: "2.4.1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 1
    said = f"The executors have pyspark {pyspark.__version__}, but this program has 2.4.1."
    assert said in ended.stderr
    assert f"The executors' Python is {sys.executable}." in ended.stderr


@pytest.mark.parametrize("environ", [{}, {PYSPARK_VARIABLE: PATCH}])
def test_a_patch_or_an_unknown_version_makes_no_difference(environ):
    check_worker(environ)
