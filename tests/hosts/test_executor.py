from __future__ import annotations

import os

from sparkdrain.hosts.executor import Executor, executor_of, named_in
from sparkdrain.hosts.process import command_of

BACKEND = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def test_an_executor_is_known_by_what_it_was_started_with():
    command = ["java", "-Xmx1g", BACKEND, "--executor-id", "12", "--hostname", "10.0.0.7", ""]
    found = named_in(command)
    assert found == Executor("10.0.0.7", "12")
    assert found.place == "executor_10.0.0.7_12"


def test_other_processes_are_none():
    assert named_in(["java", "org.apache.spark.deploy.SparkSubmit", "pyspark-shell"]) is None
    assert named_in([]) is None
    assert executor_of(os.getpid()) is None
    assert executor_of(0) is None


def test_the_command_of_a_process_is_found():
    assert command_of(os.getpid())[0]


def test_a_machine_whose_name_spark_would_cut_in_two_is_a_place_itself():
    assert Executor("my_machine", "3").place == "my_machine"
