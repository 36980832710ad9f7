"""A stream over PROCESS on Spark: a harness is killed, the driver too; resumed, drained, exact."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from process_program import SOURCES, noted

from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = Path(__file__).parent / "process_program.py"
SECONDS = 240


def _start(folder: Path, most: int, *flags: str) -> subprocess.Popen[str]:
    command = f"{sys.executable} -m sparkdrain.cli.main worker"
    return subprocess.Popen(
        [
            sys.executable,
            str(PROGRAM),
            str(folder / "out"),
            str(most),
            "--runner=SparkDrainRunner",
            "--spark_master_url=local[2]",
            "--streaming",
            "--slots=2",
            "--progress=off",
            "--job_name=numbers",
            f"--checkpoint_dir={folder / 'checkpoints'}",
            "--checkpoint_ms=1000",
            "--environment_type=PROCESS",
            f"--environment_config={json.dumps({'command': command})}",
            *flags,
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        text=True,
    )


def _read(folder: Path) -> int:
    return len(noted(folder / "out", "read"))


def test_a_stream_in_killed_processes_goes_on_and_drains_with_exact_results(tmp_path):
    out, checkpoints = tmp_path / "out", tmp_path / "checkpoints"
    out.mkdir()
    first = _start(tmp_path, 0)
    try:
        wait_until((out / "killed").exists, SECONDS)
        seen = _read(tmp_path)
        wait_until(lambda: _read(tmp_path) > seen + 200, SECONDS)
        wait_until(lambda: any(checkpoints.rglob("*manifest*")), SECONDS)
    finally:
        first.kill()
        first.wait()
    before = _read(tmp_path)
    second = _start(tmp_path, before + 300, "--resume")
    said, _ = second.communicate(timeout=SECONDS)
    assert "DRAINED" in said
    counts = {}
    for source, count, total in noted(out, "sum"):
        counts[source] = int(count)
        assert int(total) == int(count) * (int(count) - 1) // 2
    assert sorted(counts) == list(SOURCES)
    assert sum(counts.values()) >= 300
    windows = {(source, start): numbers for source, start, *numbers in noted(out, "window")}
    # Of a window that was written again, the lines are the same.
    assert len(windows) == len({tuple(line) for line in noted(out, "window")})
    for source, count in counts.items():
        found = [int(n) for (of, _), numbers in windows.items() if of == source for n in numbers]
        assert sorted(found) == list(range(count))
