"""A streaming job whose JVM is killed says so, and how it goes on."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.spark

PROGRAM = """
import pathlib, sys, threading, time
import apache_beam as beam
import psutil
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse

folder = pathlib.Path(sys.argv[1])
pipeline = beam.Pipeline(options=PipelineOptions([
    "--runner=SparkDrainRunner", "--spark_master_url=local[2]", "--progress=off", "--slots=1",
    f"--checkpoint_dir={folder}", "--checkpoint_ms=200", "--job_name=lost",
]))
_ = pipeline | PeriodicImpulse(fire_interval=0.05) | beam.Map(str)
result = pipeline.run()
deadline = time.monotonic() + 90

def made():
    return [path for path in folder.glob("lost/manifests/*") if not path.name.endswith(".part")]

while len(made()) < 2 and time.monotonic() < deadline:
    time.sleep(0.05)
for process in psutil.Process().children(recursive=True):
    if process.name() == "java":
        process.kill()
try:
    result.wait_until_finish()
except RuntimeError as error:
    print(type(error).__name__, error)
"""


def test_the_message_names_the_signal_the_option_and_the_folder(python, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    folder = tmp_path / "checkpoints"
    done = python(str(program), str(folder))
    told = done.stdout
    assert told.startswith("SparkLost Spark's own process (the JVM) was lost"), done.stderr
    assert "it was killed by SIGKILL, as the system does when memory is short" in told
    assert "Start the program again with --resume: the job goes on from checkpoint " in told
    assert f" in {folder}/lost." in told
    assert "report it" not in told
    assert "Python worker" not in told
