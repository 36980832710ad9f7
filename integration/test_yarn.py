"""A pipeline does the same on YARN as in this process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from maven_jars import JARS_OF_SPARK
from spark_cluster import EXECUTOR_OPTIONS
from test_cluster import everything, lines
from yarn_cluster import YarnCluster

import sparkdrain

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.spark, pytest.mark.slow]

HERE = Path(__file__).parent
SECONDS = 300
# A program of its own: Spark's JVM has to know Hadoop's configuration when it starts.
PROGRAM = """
import sys
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from maven_jars import JARS_OF_SPARK
from test_cluster import everything

output, *flags = sys.argv[1:]
for name, mode in (("batch", []), ("stream", ["--streaming"])):
    with beam.Pipeline(options=PipelineOptions([*flags, *mode])) as p:
        everything(p, f"{output}/{name}")
"""


@pytest.fixture(scope="module")
def yarn() -> Iterator[YarnCluster]:
    with YarnCluster(nodes=2) as running:
        yield running


def run(yarn: YarnCluster, *command: str) -> subprocess.CompletedProcess[str]:
    root = Path(sparkdrain.__file__).parents[1]
    environ = {
        **os.environ,
        "HADOOP_CONF_DIR": str(yarn.configuration),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(root), str(root.parent), str(HERE)]),
    }
    flags = [
        "--runner=sparkdrain.SparkDrainRunner",
        "--spark_master_url=yarn",
        "--spark_conf=spark.executor.instances=2",
        # Else each application brings all of Spark.
        f"--spark_conf=spark.yarn.jars=local:{JARS_OF_SPARK}/*",
        "--spark_conf=spark.executor.memory=512m",
        EXECUTOR_OPTIONS,
        # The application master is a thread of the driver, which saves a process.
        "--spark_conf=spark.yarn.unmanagedAM.enabled=true",
        "--progress=off",
    ]
    return subprocess.run(
        [sys.executable, *command, *flags],
        env=environ,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def test_a_pipeline_gives_the_same_results_on_yarn_in_both_modes(on, yarn, tmp_path):
    with on("local[2]") as p:
        everything(p, str(tmp_path / "here"))
    done = run(yarn, "-c", PROGRAM, str(tmp_path))
    assert done.returncode == 0, done.stderr + yarn.logs()
    here = lines(tmp_path, "here")
    assert here
    assert lines(tmp_path, "batch") == here
    assert lines(tmp_path, "stream") == here


def test_a_stock_example_runs_on_yarn(yarn, tmp_path):
    text = tmp_path / "text"
    text.write_text("to be or not to be\n" * 1000)
    places = [f"--input={text}", f"--output={tmp_path}/counts"]
    done = run(yarn, "-m", "apache_beam.examples.wordcount", *places)
    assert done.returncode == 0, done.stderr + yarn.logs()
    assert lines(tmp_path, "counts") == ["be: 2000", "not: 1000", "or: 1000", "to: 2000"]
