"""What Spark says of a failed job, told as one of our errors."""

from __future__ import annotations

import pytest

from sparkdrain.errors import (
    BadSetup,
    Cancelled,
    SparkDrainError,
    TruncatedInput,
    UserCodeError,
    WorkerLost,
)
from sparkdrain.shuffle.complete import Completeness
from sparkdrain.stages.telling.failure import TaskFailed, guarded
from sparkdrain.stages.telling.spark_error import of_text
from timers_state.errors import StoreFailed

ABORTED = (
    "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.runJob.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure: {}\n"
    "Driver stacktrace:\n\tat org.apache.spark.scheduler.DAGScheduler.abortStage(x.scala:1)\n"
)
TASK = (
    "Task 1 in stage 3.0 failed 4 times, most recent failure: Lost task 1.3 in stage 3.0 (TID 9) "
    "(127.0.0.2 executor 0): {}\n\tat org.apache.spark.api.python.A.b(A.scala:1)\n"
)


def kind_of(text: str) -> type[SparkDrainError]:
    return type(of_text(ABORTED.format(text), "python9"))


@pytest.mark.parametrize(
    "text",
    [
        "ShuffleMapStage 2 (reduceByKey) has failed the maximum allowable number of times: 1. "
        "Most recent failure reason:\norg.apache.spark.shuffle.FetchFailedException: Connection",
        TASK.format("FetchFailed(BlockManagerId(0, host, 1), shuffleId=1, mapId=2)"),
        "org.apache.spark.shuffle.MetadataFetchFailedException: Missing an output location for "
        "shuffle 3 partition 1",
    ],
)
def test_a_lost_shuffle_file_is_truncated_input_so_that_the_job_runs_again(text):
    assert kind_of(text) is TruncatedInput


@pytest.mark.parametrize(
    "text",
    [
        TASK.format("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"),
        TASK.format("ExecutorLostFailure (executor 0 exited caused by one of the running tasks)"),
    ],
)
def test_a_worker_that_ended_is_told_with_what_may_have_ended_it(text):
    error = of_text(ABORTED.format(text), "python9")
    assert type(error) is WorkerLost
    assert "os._exit" in str(error)
    assert "org.apache.spark.api.python.A" not in str(error)


@pytest.mark.parametrize(
    "told",
    [
        "different version: 3.12 than that in driver: 3.11, PySpark",
        "different version (3, 12) than that in driver 3.11, PySpark",  # Spark 3.5
    ],
)
def test_a_different_python_on_the_executors_names_both(told):
    text = TASK.format(
        "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in "
        f"worker has {told} cannot run with "
        "different minor versions.\nPlease check environment variables"
    )
    error = of_text(ABORTED.format(text), "python9")
    assert type(error) is BadSetup
    assert "executors run Python 3.12 (python9), but this program runs Python 3.11" in str(error)
    assert "PYSPARK_PYTHON" in str(error)


def test_a_worker_that_cannot_read_the_first_message_has_another_pyspark():
    text = TASK.format(
        "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        '  File "x/pyspark/worker.py", line 3569, in main\n    check_python_version(infile)\n'
        '  File "x/pyspark/worker_util.py", line 83, in check_python_version\n'
        "    version = utf8_deserializer.loads(infile)\n"
        "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x80\n"
    )
    error = of_text(ABORTED.format(text), "python9")
    assert type(error) is BadSetup
    assert "workers (python9) cannot read the first message" in str(error)
    assert "Install the same version of pyspark on both." in str(error)


def test_a_python_that_lacks_a_package_is_told_with_what_it_needs():
    text = TASK.format(
        "org.apache.spark.SparkException: \nError from python worker:\n"
        "  /usr/bin/python3: No module named pyspark\nPYTHONPATH was:\n  x.zip\n"
    )
    error = of_text(ABORTED.format(text), "python9")
    assert type(error) is BadSetup
    assert "No module named pyspark" in str(error)
    assert "apache-beam" in str(error)
    assert "with python9." in str(error)
    assert "x.zip" not in str(error)


def test_a_python_without_beam_is_a_bad_setup_with_any_daemon():
    text = TASK.format(
        "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        '  File "x/pyspark/worker.py", line 1, in main\n'
        "ModuleNotFoundError: No module named 'apache_beam'\n"
    )
    error = of_text(ABORTED.format(text), "python9")
    assert type(error) is BadSetup
    assert str(error).endswith("said:\nModuleNotFoundError: No module named 'apache_beam'")


def test_a_python_that_is_not_there_is_a_bad_setup():
    text = TASK.format('java.io.IOException: Cannot run program "nowhere": error=2, No such file')
    assert kind_of(text) is BadSetup


def test_what_was_lost_is_told_without_the_jvms_frames():
    text = (
        "ShuffleMapStage 2 has failed the maximum allowable number of times: 1. Most recent "
        "failure reason: org.apache.spark.shuffle.FetchFailedException\n\tat x.A.b(A.scala)\n"
        "Caused by: org.apache.spark.ExecutorDeadException: executor 1 is dead\n\t... 3 more\n"
    )
    told = str(of_text(ABORTED.format(text), "python9"))
    assert told.endswith(
        ": org.apache.spark.shuffle.FetchFailedException\n"
        "Caused by: org.apache.spark.ExecutorDeadException: executor 1 is dead"
    )


def test_a_job_that_was_cancelled_in_sparks_own_interface_is_cancelled():
    assert kind_of("Job 3 cancelled because stage 5 was cancelled") is Cancelled


def test_anything_else_is_told_without_stack_traces():
    error = of_text(ABORTED.format("something new"), "python9")
    assert type(error) is SparkDrainError
    assert "something new" in str(error)
    assert "\tat " not in str(error)


def test_an_exception_of_user_code_wins_over_what_spark_says_around_it():
    user_error = ValueError("ExecutorLost FetchFailed cancelled")
    with pytest.raises(TaskFailed) as failed, guarded(1, 0):
        raise user_error
    error = of_text(ABORTED.format(TASK.format(failed.value)), "python9")
    assert type(error) is UserCodeError
    assert str(error).startswith("ValueError: ExecutorLost FetchFailed cancelled\n")


def test_our_own_errors_come_out_as_themselves():
    with pytest.raises(TaskFailed) as failed, guarded(1, 0):
        Completeness(frozenset({(0, 0)})).verify()
    error = of_text(ABORTED.format(TASK.format(failed.value)), "python9")
    assert type(error) is TruncatedInput
    assert str(error).startswith("input is not complete")


def test_a_disk_that_is_full_is_told_with_where_it_may_be():
    text = TASK.format("java.io.IOException: No space left on device")
    error = of_text(ABORTED.format(text), "python9")
    assert type(error) is BadSetup
    assert str(error).startswith("A disk is full: ")
    assert "spark.local.dir" in str(error)
    error = of_text(ABORTED.format(text), "python9", lambda: "/a,/b")
    assert str(error).startswith("A disk is full (/a,/b): ")


def test_a_store_that_fails_in_a_step_is_not_the_users_error():
    with pytest.raises(TaskFailed) as told, guarded(1, 2):
        message = "the store /d could not be written: No space left on device"
        raise StoreFailed(message)
    error = of_text(str(told.value), "python9")
    assert type(error) is BadSetup
    assert str(error).startswith("the store /d could not be written")
    assert "spark.local.dir" in str(error)
