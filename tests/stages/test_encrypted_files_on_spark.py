"""Jobs run where Spark encrypts its files, and nothing of a side input is readable in them."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.spark

PROGRAM = """
import pathlib, sys
import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

folder = sys.argv[1]
FLAGS = [
    "--runner=SparkDrainRunner", "--spark_master_url=local[2]", "--progress=off", "--slots=2",
    "--spark_conf=spark.io.encryption.enabled=true", f"--spark_conf=spark.local.dir={folder}/local",
]

def note(text, beside):
    found = [
        str(path) for path in pathlib.Path(folder, "local").rglob("*")
        if path.is_file() and b"plain-" in path.read_bytes()
    ]
    pathlib.Path(folder, text).write_text(repr((beside, found)))

class Adds(beam.DoFn):
    SUM = ReadModifyWriteStateSpec("sum", VarIntCoder())

    def process(self, pair, sum_=beam.DoFn.StateParam(SUM)):
        sum_.write((sum_.read() or 0) + pair[1])
        yield sum_.read()

for mode in [], ["--streaming"]:
    with beam.Pipeline(options=PipelineOptions([*FLAGS, *mode])) as p:
        beside = p | "Beside" >> beam.Create(["plain-" + "x" * 200_000, "plain-"])
        sums = p | beam.Create([("k", n) for n in range(5)]) | beam.ParDo(Adds())
        most = sums | beam.CombineGlobally(max) | beam.Map(lambda n: f"{n}-{len(mode)}")
        most | beam.Map(
            lambda text, beside: note(text, sorted(map(len, beside))), beam.pvalue.AsList(beside)
        )
"""


def test_batch_and_streaming_jobs_run_with_side_inputs_and_state(python, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = python(str(program), str(tmp_path))
    assert done.returncode == 0, done.stderr
    for name in ("10-0", "10-1"):
        assert (tmp_path / name).read_text() == repr(([6, 200_006], [])), name
