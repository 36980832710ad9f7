"""A program in Java reads groups that are larger than the heap of its harness."""

from __future__ import annotations

import shutil

import pytest
from java_program import compiled, ran

from tests.support.server_process import server_process

PROGRAM = "LargeGroup"
HEAP = "-Xmx96m"
VALUES = 1500
"""In each group, of 100 kB."""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [[], ["--streaming=true"]], ids=["batch", "stream"])
def test_a_group_may_be_larger_than_the_heap_of_the_harness(tmp_path, kind, monkeypatch):
    """Each of two groups of 150 MB is read twice, and once more amid the next one."""
    if shutil.which("javac") is None:
        pytest.skip("there is no Java compiler here")
    jar = compiled(tmp_path, PROGRAM)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", HEAP)
    with server_process("--warm=off", "--spark-master-url=local[1]") as (_process, endpoint):
        done = ran(jar, endpoint, f"--values={VALUES}", *kind, program=PROGRAM)
    assert done.returncode == 0, done.stderr
    assert "state DONE" in done.stdout
