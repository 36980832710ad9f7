"""A program in TypeScript's SDK submits to a Job service at an address, and runs on Spark."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.server_process import server_process

PROGRAM = Path(__file__).with_name("typescript")
CACHE = Path(__file__).parents[1] / ".cache" / "typescript-2.49.0"


@pytest.fixture(scope="module")
def program() -> Path:
    """The folder with the program and its packages, which are fetched once."""
    if shutil.which("npm") is None:
        pytest.skip("there is no Node here, which runs the program")
    CACHE.mkdir(parents=True, exist_ok=True)
    for file in PROGRAM.iterdir():
        shutil.copy(file, CACHE)
    if not (CACHE / "node_modules" / "apache-beam").is_dir():
        command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run(command, cwd=CACHE, check=True, timeout=600)
    return CACHE


def counted(program: Path, endpoint: str, times: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["node", "counts.js", endpoint, str(times)],
        cwd=program,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_a_typescript_program_counts_words_and_a_wrong_count_fails(program):
    with server_process("--warm=off") as (_process, endpoint):
        for _ in range(3):
            done = counted(program, endpoint, 2)
            assert done.returncode == 0, done.stderr
            assert "state 3" in done.stdout  # DONE
        done = counted(program, endpoint, 3)
        assert done.returncode == 1
        assert "Job finished in state FAILED" in done.stderr
