"""A session that is there already is used as it is: the user's own, or spark-submit's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pyspark
import pytest

import sparkdrain

pytestmark = pytest.mark.spark

SOURCES = Path(sparkdrain.__file__).parent.parent

HEAD = """
import json, os
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from pyspark import SparkContext
from pyspark.sql import SparkSession

def flags(*more):
    return PipelineOptions(["--runner=sparkdrain.SparkDrainRunner", "--progress=off", *more])

def tell(**facts):
    print(json.dumps(facts), flush=True)
"""

GROUPING = """
def groups(p, output):
    keyed = p | beam.Create(range(100)) | beam.Map(lambda n: (n % 7, n))
    sums = keyed | beam.GroupByKey() | "Sum" >> beam.MapTuple(lambda key, all: f"{key} {sum(all)}")
    sums | beam.io.WriteToText(output)
"""


@pytest.fixture
def run(tmp_path):
    """Runs a program; answers the facts that it told and what it printed on standard error."""

    def start(code: str, *launcher: str, **environ: str):
        file = tmp_path / "program.py"
        file.write_text(HEAD + GROUPING + textwrap.dedent(code))
        path = os.pathsep.join([str(SOURCES), str(SOURCES.parent)])
        done = subprocess.run(
            [*(launcher or [sys.executable]), str(file)],
            env={**os.environ, "PYTHONPATH": path, **environ},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        facts = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return facts, done.stderr

    return start


def written(directory: Path) -> list[str]:
    return sorted(
        line for file in directory.glob("out-*") for line in file.read_text().splitlines()
    )


EXPECTED = sorted(f"{key} {sum(range(key, 100, 7))}" for key in range(7))


@pytest.mark.slow
def test_an_active_session_is_used_with_its_settings_and_not_stopped(run, tmp_path):
    facts, _ = run(f"""
        spark = SparkSession.builder.master("local[1]").appName("mine").getOrCreate()
        with beam.Pipeline(options=flags()) as p:
            groups(p, {str(tmp_path / "out")!r})
        tell(
            same=SparkContext._active_spark_context is spark.sparkContext,
            python_daemon=spark.conf.get("spark.python.daemon.module", None),
            attempts=spark.conf.get("spark.stage.maxConsecutiveAttempts", None),
            rows=spark.range(5).count(),
            stages=len(spark.sparkContext.statusTracker().getActiveStageIds()),
            environment=sorted(spark.sparkContext.environment),
        )
    """)
    assert facts == [
        {
            "same": True,
            "python_daemon": None,
            "attempts": None,
            "rows": 5,
            "stages": 0,
            "environment": ["PYTHONHASHSEED"],
        }
    ]
    assert written(tmp_path) == EXPECTED


@pytest.mark.slow
def test_a_failure_in_an_active_session_shows_the_users_exception_first(run):
    facts, _ = run("""
        spark = SparkSession.builder.master("local[2]").getOrCreate()
        def boom(x):
            raise ValueError("not today")
        try:
            with beam.Pipeline(options=flags()) as p:
                p | beam.Create([1]) | "Boom" >> beam.Map(boom)
        except Exception as error:
            tell(kind=type(error).__name__, first=str(error).splitlines()[0])
        tell(rows=spark.range(5).count())
    """)
    assert facts == [
        {"kind": "UserCodeError", "first": "ValueError: not today [while running 'Boom']"},
        {"rows": 5},
    ]


@pytest.mark.slow
def test_a_session_whose_workers_would_be_another_python_gets_this_one(run, tmp_path):
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "python3").write_text("#!/bin/sh\necho 'the wrong python' >&2\nexit 1\n")
    (bin_ / "python3").chmod(0o755)
    run(
        f"""
        spark = SparkSession.builder.master("local[2]").getOrCreate()
        with beam.Pipeline(options=flags()) as p:
            groups(p, {str(tmp_path / "out")!r})
        """,
        PATH=f"{bin_}{os.pathsep}{os.environ['PATH']}",
    )
    assert written(tmp_path) == EXPECTED


@pytest.mark.slow
def test_another_master_than_that_of_the_active_session_is_warned_of(run, tmp_path):
    _, printed = run(f"""
        spark = SparkSession.builder.master("local[2]").getOrCreate()
        with beam.Pipeline(options=flags("--spark_master_url=local[7]")) as p:
            groups(p, {str(tmp_path / "out")!r})
    """)
    assert written(tmp_path) == EXPECTED
    assert "--spark_master_url=local[7] has no effect" in printed


@pytest.mark.slow
def test_spark_submit_says_where_and_how_a_pipeline_runs(run, tmp_path):
    facts, _ = run(
        f"""
        with beam.Pipeline(options=flags()) as p:
            groups(p, {str(tmp_path / "out")!r})
        context = SparkContext._active_spark_context
        tell(
            master=context.master,
            name=context.appName,
            slots=context.defaultParallelism,
            memory=context.getConf().get("spark.driver.memory"),
        )
        """,
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        *("--master", "local[3]", "--name", "submitted"),
        *("--driver-memory", "900m"),
        PYSPARK_PYTHON=sys.executable,
    )
    assert facts == [{"master": "local[3]", "name": "submitted", "slots": 3, "memory": "900m"}]
    assert written(tmp_path) == EXPECTED


@pytest.mark.slow
def test_spark_defaults_are_kept(run, tmp_path):
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(
        "spark.master local[3]\nspark.app.name from-defaults\nspark.driver.memory=901m\n"
        "spark.stage.maxConsecutiveAttempts 2\n"
    )
    facts, _ = run(
        f"""
        with beam.Pipeline(options=flags()) as p:
            groups(p, {str(tmp_path / "out")!r})
        context = SparkContext._active_spark_context
        conf = context.getConf()
        tell(
            master=context.master,
            name=context.appName,
            memory=conf.get("spark.driver.memory"),
            attempts=conf.get("spark.stage.maxConsecutiveAttempts"),
        )
        """,
        SPARK_CONF_DIR=str(conf),
    )
    assert facts == [
        {"master": "local[3]", "name": "from-defaults", "memory": "901m", "attempts": "2"}
    ]
    assert written(tmp_path) == EXPECTED


@pytest.mark.slow
def test_options_for_the_session_reach_it_and_a_new_master_gets_a_new_one(run, tmp_path):
    facts, _ = run("""
        def about(*more):
            with beam.Pipeline(options=flags(*more)) as p:
                p | beam.Create([1])
            context = SparkContext._active_spark_context
            conf = context.getConf()
            tell(master=context.master, memory=conf.get("spark.driver.memory"),
                 mine=conf.get("spark.mine.own"))
        about("--spark_master_url=local[2]", "--spark_conf=spark.mine.own=1",
              "--spark_conf=spark.driver.memory=902m")
        about("--spark_master_url=local[1]")
    """)
    assert facts == [
        {"master": "local[2]", "memory": "902m", "mine": "1"},
        {"master": "local[1]", "memory": "902m", "mine": None},
    ]
