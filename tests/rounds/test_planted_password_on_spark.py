"""A password in a job's settings is in none of its outputs; on a real Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sparkdrain

pytestmark = pytest.mark.spark

PLANTED = "HUNTER2-planted"

PROGRAM = """
import os, sys, logging
logging.basicConfig(level=logging.INFO)
import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

class Mine(PipelineOptions):
    @classmethod
    def _add_argparse_args(cls, parser):
        parser.add_argument("--client_secret")

class Count(beam.DoFn):
    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())

    def __init__(self, password, fails):
        self._password, self._fails = password, fails

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        count.write((count.read() or 0) + 1)
        if self._fails:
            raise ValueError("cannot log in with " + self._password)

def run(*more):
    options = PipelineOptions([
        "--runner=SparkDrainRunner", "--spark_master_url=local[2]", "--progress=plain",
        "--streaming", *more, *sys.argv[1:],
    ])
    secret = options.view_as(Mine).client_secret
    pipeline = beam.Pipeline(options=options)
    pipeline | beam.Create([("a", 1), ("b", 2)]) | beam.ParDo(Count(secret, bool(more)))
    return pipeline.run()

run().wait_until_finish()
with open("/proc/self/task/%d/children" % os.getpid()) as children:
    for child in children.read().split():
        with open("/proc/%s/cmdline" % child) as line:
            print(line.read().replace(chr(0), " "))
run("--job_name=failing").wait_until_finish()
"""


def test_not_in_what_is_printed_nor_in_what_is_kept(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    kept = tmp_path / "kept"
    done = subprocess.run(
        [
            *(sys.executable, str(program), f"--checkpoint_dir={kept}"),
            *(f"--client_secret={PLANTED}", f"--spark_conf=spark.my.password={PLANTED}"),
        ],
        env={**os.environ, "PYTHONPATH": str(Path(sparkdrain.__file__).parent.parent)},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 1
    assert "ValueError: cannot log in with ***" in done.stderr
    assert "java" in done.stdout
    for printed in (done.stdout, done.stderr):
        assert [line for line in printed.splitlines() if PLANTED in line] == []
    files = [path for path in kept.rglob("*") if path.is_file()]
    assert any(path.suffix == ".manifest" for path in files)
    assert any(path.suffix == ".record" for path in files)
    assert [path for path in files if PLANTED.encode() in path.read_bytes()] == []
    listed = subprocess.run(
        [sys.executable, "-m", "sparkdrain.cli.main", "jobs", f"--checkpoint_dir={kept}"],
        env={**os.environ, "PYTHONPATH": str(Path(sparkdrain.__file__).parent.parent)},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert "failing" in listed.stdout
    assert PLANTED not in listed.stdout + listed.stderr
