"""A program in Go's SDK runs on Spark from the worker binary that it stages; no container."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tests.support.server_process import server_process

PROGRAM = Path(__file__).with_name("go")
ARM_OF_APPLE = 0x0100000C


def ran(program: Path, binary: Path, endpoint: str, *flags: str):
    return subprocess.run(
        [program, f"--endpoint={endpoint}", f"--worker_binary={binary}", "--numbers=1000", *flags],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_a_go_program_finds_what_it_expects_and_fails_if_it_does_not(tmp_path):
    """Groups, sums, a side input, state, timers and a splittable DoFn, each checked inside."""
    if shutil.which("go") is None:
        pytest.skip("there is no Go compiler here")
    exact, other = tmp_path / "exact", tmp_path / "other"
    build = ["go", "build", "-o", exact, "."]
    subprocess.run(build, cwd=PROGRAM, check=True, timeout=1200)
    other.write_bytes(b"\xcf\xfa\xed\xfe" + struct.pack("<I", ARM_OF_APPLE))
    with server_process("--warm=off") as (_process, endpoint):
        done = ran(exact, exact, endpoint)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout == "read 1000\n"
        failed = ran(exact, exact, endpoint, "--wrong")
        assert failed.returncode == 1
        assert "sums/" in failed.stdout
        refused = ran(exact, other, endpoint)
        assert refused.returncode == 1
        assert "worker binary is for darwin/arm64" in refused.stdout
        looped = ran(exact, exact, endpoint, "--environment_type=LOOPBACK")
        assert looped.returncode == 0, looped.stdout + looped.stderr
        assert looped.stdout == "read 1000\n"
