"""The sockets by which Spark runs Python code: other users cannot reach them, and none is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

import sparkdrain
from tests.support.stranger import as_stranger, connects

pytestmark = pytest.mark.spark

SOURCES = Path(sparkdrain.__file__).parent.parent
SECONDS = 60

PROGRAM = """
import json, os, sys
os.umask(int(sys.argv[1], 8))
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

flags = ["--runner=SparkDrainRunner", "--spark_master_url=local[2]", "--progress=off"]
with beam.Pipeline(options=PipelineOptions(flags + sys.argv[2:])) as p:
    p | beam.Create([1, 2, 3]) | beam.Reshuffle() | beam.Map(lambda n: n + 1)
from pyspark import SparkContext
conf = SparkContext._active_spark_context.getConf()
names = ["enabled", "dir"]
print(json.dumps({n: conf.get("spark.python.unix.domain.socket." + n) for n in names}), flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def temporary():
    """A folder like /tmp: every user may make files in it."""
    folder = tempfile.mkdtemp(prefix="s", dir="/tmp")
    os.chmod(folder, 0o1777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def job(temporary, tmp_path):
    """Runs a job in a program that waits for a line; answers the program, and what it tells."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    started = []

    def start(umask: str, *flags: str, folder: str = temporary):
        process = subprocess.Popen(
            [sys.executable, str(program), umask, *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCES), "TMPDIR": folder},
        )
        started.append(process)
        return process, json.loads(process.stdout.readline())

    yield start
    for process in started:
        process.kill()
        process.communicate()


def sockets(process: subprocess.Popen[str]) -> list[str]:
    """The Unix sockets at which a program and its children listen, by path."""
    program = psutil.Process(process.pid)
    found = set()
    for each in [program, *program.children(recursive=True)]:
        connections = each.net_connections("unix")
        found |= {one.laddr for one in connections if str(one.laddr).endswith(".sock")}
    return sorted(found)


def left_in(folder: str) -> list[str]:
    return [str(path) for path in Path(folder).rglob("*") if path.is_socket()]


@pytest.mark.parametrize("umask", ["000", pytest.param("022", marks=pytest.mark.slow)])
def test_sockets_lie_in_a_folder_of_this_user_only_and_none_is_left(job, temporary, umask):
    process, told = job(umask)
    assert told["enabled"] == "true"
    found = sockets(process)
    assert len(found) >= 2, "one of the daemon, one for accumulators"
    for path in found:
        folder = Path(path).parent
        assert str(folder) == told["dir"]
        assert path.startswith(temporary)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    process.communicate("\n", timeout=SECONDS)
    assert process.returncode == 0
    assert left_in(temporary) == []
    assert not Path(told["dir"]).exists()


@as_stranger
@pytest.mark.slow
def test_another_user_cannot_connect_to_any_of_them(job):
    process, _ = job("000")
    found = sockets(process)
    assert found
    assert [path for path in found if connects(path)] == []


@pytest.mark.slow
def test_none_is_left_when_the_program_was_killed(job, temporary):
    process, told = job("022")
    assert left_in(temporary)
    process.send_signal(signal.SIGKILL)
    process.wait(SECONDS)
    end = time.monotonic() + SECONDS
    while Path(told["dir"]).exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert not Path(told["dir"]).exists(), "the nursery removes it"
    assert left_in(temporary) == []


@pytest.mark.slow
def test_a_temporary_folder_with_a_long_name_is_not_used_for_sockets(job, temporary):
    long = Path(temporary, "l" * 60)
    long.mkdir()
    _, told = job("022", folder=str(long))
    assert told["enabled"] == "true"
    assert not told["dir"].startswith(temporary)
    assert stat.S_IMODE(Path(told["dir"]).stat().st_mode) == 0o700


@pytest.mark.slow
def test_executors_of_a_cluster_make_private_folders_of_their_own(job, temporary):
    process, _ = job("000", "--spark_master_url=local-cluster[1,1,1024]")
    found = sockets(process)
    assert found
    for path in found:
        assert stat.S_IMODE(Path(path).parent.stat().st_mode) == 0o700
    process.communicate("\n", timeout=SECONDS)
    assert left_in(temporary) == []
