"""A program in Java has windows of a class of its own, and merges them, on Spark."""

from __future__ import annotations

import shutil

import pytest
from java_program import compiled, ran

from tests.support.server_process import server_process

PROGRAM = "Absorbing"


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_windows_merge_as_the_program_says(tmp_path):
    """In a batch, and in rounds."""
    if shutil.which("javac") is None:
        pytest.skip("there is no Java compiler here")
    jar = compiled(tmp_path, PROGRAM)
    with server_process("--warm=off") as (_process, endpoint):
        for options in ([], ["--streaming=true"]):
            done = ran(jar, endpoint, *options, program=PROGRAM)
            assert done.returncode == 0, done.stderr
            assert "state DONE" in done.stdout
