"""A program in Java's SDK runs on Spark from the jars that it stages; no container is there."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from java_program import command, compiled

from tests.support.server_process import server_process


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [[], ["--streaming"]], ids=["batch", "stream"])
def test_a_java_program_finds_what_it_expects(tmp_path, kind):
    """Groups, sums, a side input, state, timers and a splittable DoFn, each checked inside."""
    if shutil.which("javac") is None:
        pytest.skip("there is no Java compiler here")
    jar = compiled(tmp_path)
    with server_process("--warm=off") as (_process, endpoint):
        done = subprocess.run(
            command(jar, endpoint, "--numbers=1000", *kind),
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
    assert done.returncode == 0, done.stderr
    assert "read 1000\n" in done.stdout
    assert "state DONE" in done.stdout
