"""Zombies of a job whose driver is the first process of a container, and daemons of user code."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import sparkdrain
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("unshare") is None or os.geteuid() != 0,
        reason="a first process of a container is made with unshare, by root",
    ),
]

SOURCES = Path(sparkdrain.__file__).parent.parent
STREAM = """
import pathlib, os, signal, sys, time
import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

folder = pathlib.Path(sys.argv[1])

class Count(beam.DoFn):
    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        count.write((count.read() or 0) + 1)
        (folder / str(os.getpid())).touch()

pipeline = beam.Pipeline(options=PipelineOptions([
    "--runner=SparkDrainRunner", "--spark_master_url=local[2]", "--progress=off", "--slots=1",
    "--streaming", "--checkpoint_ms=200", f"--checkpoint_dir={folder}/checkpoints",
    "--recoveries=9",
]))
_ = pipeline | PeriodicImpulse(fire_interval=0.05) | beam.WithKeys(1) | beam.ParDo(Count())
result = pipeline.run()

def new_host(seen):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for pid in {int(file.name) for file in folder.iterdir() if file.name.isdigit()} - seen:
            return pid
        time.sleep(0.1)
    raise TimeoutError

def zombies():
    "Those of the driver; the start script of Spark leaves one to the JVM."
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        name, _, rest = stat.read_text().rpartition(")")
        if rest.split()[:2] == ["Z", "1"]:
            found.append(name)
    return found

seen = set()
for _ in range(3):
    host = new_host(seen)
    seen.add(host)
    time.sleep(1)
    os.kill(host, signal.SIGKILL)
new_host(seen)
for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    if b"stages.nursery" in (line := file.read_bytes()) or b"stages.daemon" in line:
        os.kill(int(file.parent.name), signal.SIGKILL)
time.sleep(5)
print(os.getpid(), zombies(), flush=True)
os._exit(0)
"""

BATCH = """
import os, pathlib, sys, time
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

def daemonize(folder):
    "Without exec: it has the environment that Spark's daemon was started with."
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    os.setsid()
    if not os.fork():
        pathlib.Path(folder, "daemon").write_text(str(os.getpid()))
        time.sleep(600)
    os._exit(0)

flags = ["--runner=SparkDrainRunner", "--spark_master_url=local[2]", "--progress=off"]
with beam.Pipeline(options=PipelineOptions(flags)) as pipeline:
    _ = pipeline | beam.Create([sys.argv[1]]) | beam.Map(daemonize)
"""


WARDENS = """
import os, pathlib, signal, subprocess, sys, time
import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

folder = pathlib.Path(sys.argv[1])

class Count(beam.DoFn):
    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        if not count.read():
            command = f"setsid sleep 600 & echo $! > {folder}/daemon"
            subprocess.run(command, shell=True, check=True)
            (folder / "warden").write_text(str(os.getppid()))
        count.write(1)

pipeline = beam.Pipeline(options=PipelineOptions([
    "--runner=SparkDrainRunner", "--spark_master_url=local[2]", "--progress=off", "--slots=1",
    "--streaming",
]))
_ = pipeline | PeriodicImpulse(fire_interval=0.05) | beam.WithKeys(1) | beam.ParDo(Count())
result = pipeline.run()
while not (folder / "warden").exists():
    time.sleep(0.1)
time.sleep(1)
os.kill(int((folder / "warden").read_text()), signal.SIGKILL)
try:
    result.wait_until_finish()
except RuntimeError as error:
    print(type(error).__name__)
"""


def run(tmp_path: Path, text: str, *before: str) -> subprocess.CompletedProcess[str]:
    program = tmp_path / "program.py"
    program.write_text(text)
    return subprocess.run(
        [*before, sys.executable, str(program), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_driver_that_is_the_first_process_has_no_zombies(tmp_path):
    done = run(tmp_path, STREAM, "unshare", "--pid", "--fork", "--mount-proc")
    assert done.stdout == "1 []\n", done.stderr


def test_a_daemon_whose_warden_was_killed_ends_with_the_program(tmp_path):
    done = run(tmp_path, WARDENS)
    assert done.stdout in {"WorkerLost\n", "HostMissing\n"}, done.stderr
    check_daemon(tmp_path)


def test_a_daemon_of_a_batch_job_that_was_only_forked_ends_with_the_program(tmp_path):
    done = run(tmp_path, BATCH)
    assert done.returncode == 0, done.stderr
    check_daemon(tmp_path)


def check_daemon(tmp_path: Path) -> None:
    daemon = int((tmp_path / "daemon").read_text())
    try:
        wait_until(lambda: not psutil.pid_exists(daemon), 15)
    finally:
        if psutil.pid_exists(daemon):
            os.kill(daemon, signal.SIGKILL)
