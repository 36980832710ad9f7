"""A streaming job keeps its files for its user only, whatever the umask is; on a real Spark."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import sparkdrain

pytestmark = pytest.mark.spark

PROGRAM = """
import os, sys
os.umask(0)
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.coders import VarIntCoder

class Count(beam.DoFn):
    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        count.write((count.read() or 0) + 1)

flags = ["--runner=SparkDrainRunner", "--spark_master_url=local[2]", "--progress=off"]
flags += ["--streaming", "--job_name=..", "--checkpoint_dir=file://" + sys.argv[1]]
with beam.Pipeline(options=PipelineOptions(flags)) as p:
    p | beam.Create([("a", 1), ("b", 2)]) | beam.ParDo(Count())
"""


def test_checkpoints_and_records_under_a_rash_umask(tmp_path):
    place = tmp_path / "rash"
    place.mkdir()
    place.chmod(0o777)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    root = place / "checkpoints"
    done = subprocess.run(
        [sys.executable, str(program), str(root)],
        env={**os.environ, "PYTHONPATH": str(Path(sparkdrain.__file__).parent.parent)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"Other users may write {place} (mode 0777)" in done.stderr
    assert os.listdir(place) == ["checkpoints"]
    assert sorted(os.listdir(root)) == ["%2E%2E", "@runs"]
    assert list(root.glob("*/manifests/*/*.manifest"))
    assert list(root.glob("*/files/*"))
    for path in [root, *root.rglob("*")]:
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path
