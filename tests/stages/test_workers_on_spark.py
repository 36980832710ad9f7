"""Python workers are expensive: a slot needs one, and keeps it."""

from __future__ import annotations

import os
import subprocess
import sys

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

pytestmark = pytest.mark.spark


def test_one_worker_runs_all_levels_of_all_jobs_of_a_slot(tmp_path):
    def note(value, file=str(tmp_path / "workers")):
        with open(file, "a") as workers:
            print(os.getpid(), file=workers)
        return value

    for _ in range(2):
        options = PipelineOptions(
            ["--spark_master_url=local[1]", "--progress=off"], runner="sparkdrain.SparkDrainRunner"
        )
        with beam.Pipeline(options=options) as p:
            noted = p | beam.Create([1]) | "Before" >> beam.Map(note)
            _ = noted | beam.Reshuffle() | "Behind" >> beam.Map(note)
    workers = (tmp_path / "workers").read_text().split()
    assert len(workers) == 4
    assert len(set(workers)) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt orphans")
def test_a_daemon_of_user_code_ends_with_its_job_while_the_worker_stays(pipeline, tmp_path):
    def daemonize(file):
        command = f"setsid sleep 600 >/dev/null 2>&1 & echo $! > {file}"
        subprocess.run(command, shell=True, check=True)
        return file

    with pipeline() as p:
        _ = p | beam.Create([str(tmp_path / "daemon")]) | beam.Map(daemonize)
    daemon = int((tmp_path / "daemon").read_text())
    assert not os.path.exists(f"/proc/{daemon}")
