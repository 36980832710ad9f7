"""Endless programs of Java's and Go's SDKs on Spark: killed, resumed, drained; all is exact."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import grpc
import java_program
import pytest
from process_program import noted

from tests.support.job_client import JobClient
from tests.support.manifests import manifests
from tests.support.server_process import server_process
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(2400)]

SOURCES = "abc"
BOUNDED = 2000
WINDOW = 20
SECONDS = 400


@pytest.fixture
def java(tmp_path):
    """What submits the program in Java."""
    if shutil.which("javac") is None:
        pytest.skip("there is no Java compiler here")
    jar = java_program.compiled(tmp_path, "Endless")

    def command(endpoint, folder):
        return java_program.command(
            jar,
            endpoint,
            f"--folder={folder / 'out'}",
            f"--checkpointDir={folder / 'checkpoints'}",
            "--sparkMasterUrl=local[2]",
            "--jobName=endless",
            program="Endless",
        )

    return command


@pytest.fixture
def go(tmp_path):
    """What submits the program in Go."""
    if shutil.which("go") is None:
        pytest.skip("there is no Go compiler here")
    program = tmp_path / "endless"
    build = ["go", "build", "-o", program, "./endless"]
    subprocess.run(build, cwd=Path(__file__).with_name("go"), check=True, timeout=1200)

    def command(endpoint, folder):
        return [
            program,
            f"--endpoint={endpoint}",
            f"--worker_binary={program}",
            f"--folder={folder / 'out'}",
            f"--checkpoint_dir={folder / 'checkpoints'}",
            "--checkpoint_ms=1000",
            "--slots=2",
            "--spark_master_url=local[2]",
            "--job_name=endless",
        ]

    return command


def _read(folder: Path) -> int:
    return len(noted(folder / "out", "read"))


def _newest(folder: Path) -> str:
    return max(map(str, manifests(folder / "checkpoints")), default="")


def _by_window(out: Path, kind: str) -> dict:
    """What was noted of windows; of a window that was noted again, the same."""
    lines = {tuple(line) for line in noted(out, kind)}
    found = {(key, int(start)): [*map(int, rest)] for key, start, *rest in lines}
    assert len(found) == len(lines)
    return found


@pytest.mark.parametrize("sdk", ["java", "go"])
def test_an_endless_program_of_another_sdk_is_killed_resumed_and_drained_exactly(
    sdk, request, tmp_path
):
    command, out = request.getfixturevalue(sdk), tmp_path / "out"
    out.mkdir()
    where = ["--server-dir", str(tmp_path / "server"), "--warm=off", "--max-jobs=1"]
    with server_process(*where) as (server, endpoint), (tmp_path / "said").open("wb") as said:
        program = subprocess.Popen(command(endpoint, tmp_path), stdout=said, stderr=said)
        try:
            _wait((out / "killed").exists, program, tmp_path)
            seen = _read(tmp_path)
            _wait(lambda: _read(tmp_path) > seen + 200, program, tmp_path)
            for _ in range(2):
                known = _newest(tmp_path)
                _wait(lambda known=known: _newest(tmp_path) != known, program, tmp_path)
            server.kill()
            server.wait()
        finally:
            program.kill()
            program.wait()
    before = _read(tmp_path)
    with server_process(*where) as (_, endpoint), grpc.insecure_channel(endpoint) as channel:
        client = JobClient(channel)
        (job,) = client.jobs()
        wait_until(lambda: _read(tmp_path) > before + 300, SECONDS)
        assert client.drain(job.job_id) == "DRAINING"
        wait_until(lambda: client.state(job.job_id) not in {"RUNNING", "DRAINING"}, SECONDS)
        assert client.state(job.job_id) == "DRAINED", client.messages(job.job_id)[-3:]
        counts = _check_all_that_came_out(out, sdk)
        assert client.committed(job.job_id, "read") == [sum(counts.values())]


def _wait(condition, program, folder) -> None:
    def is_met() -> bool:
        assert program.poll() is None, (folder / "said").read_text()[-5000:]
        return condition()

    wait_until(is_met, SECONDS)


def _check_all_that_came_out(out: Path, sdk: str) -> dict[str, int]:
    """How many numbers each source without an end has given, if all that was made of them fits."""
    counts = {}
    sums = {tuple(line) for line in noted(out, "sum")}
    assert len(sums) == len(SOURCES) + 1
    for source, count, total, *digits in sums:
        counts[source] = int(count)
        assert int(total) == int(count) * (int(count) - 1) // 2
        assert [*map(int, digits)] == [int(count) // 10] * 10
    # Timers of the clock, each once; those that waited have fired when the job was drained.
    assert {(source, *map(int, rest)) for source, *rest in noted(out, "hundreds")} == {
        (source, *range(0, count, 100)) for source, count in counts.items()
    }
    assert counts.pop("range") == BOUNDED
    # What the drain has left of a restriction ends with a hundred.
    assert [count % 100 for count in counts.values()] == [0] * len(SOURCES)
    expected = {
        (source, start): [*range(start, min(start + WINDOW, count))]
        for source, count in counts.items()
        for start in range(0, count, WINDOW)
    }
    assert _by_window(out, "window") == expected
    assert _by_window(out, "aside") == {window: [sum(n)] for window, n in expected.items()}
    if sdk == "java":
        assert _by_window(out, "kept") == expected  # Go has no ``OnWindowExpiration``
    return counts
