"""What Spark's account of a failed job means, told as one of our own errors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sparkdrain.checkpoints.storage import FileMissing
from sparkdrain.errors import (
    BadSetup,
    Cancelled,
    CheckpointDamaged,
    CheckpointFailed,
    CheckpointRefused,
    DrainLimitExceeded,
    HostMissing,
    SparkDrainError,
    SparkLost,
    TooLarge,
    TruncatedInput,
    UnreadableState,
    Unsupported,
    UserCodeError,
    WorkerLost,
)
from sparkdrain.stages.spark.errors import gist, told_by_spark
from sparkdrain.stages.telling.failure import SAID, Failure, failure_in

if TYPE_CHECKING:
    from collections.abc import Callable

_OURS = {
    kind.__name__: kind
    for kind in (
        TruncatedInput,
        TooLarge,
        UnreadableState,
        Unsupported,
        BadSetup,
        HostMissing,
        WorkerLost,
        DrainLimitExceeded,
        CheckpointDamaged,
        CheckpointFailed,
        CheckpointRefused,
        FileMissing,
    )
}
_MODULES_REMEDY = (
    "The workers lack this module. Send it with --extra_package, --setup_file or "
    "--requirements_file; what the main program imports or defines travels with "
    "--save_main_session."
)
_NO_SPACE = "No space left on device"
_DISK_REMEDY = (
    "State, shuffles and scratch files are on Spark's local disks. Make room there, or name "
    "others: --spark_conf=spark.local.dir=... (on a cluster, SPARK_LOCAL_DIRS of its workers). A "
    "streaming job with --checkpoint_dir goes on from its newest checkpoint with --resume."
)
_LOST_DATA = (
    "FetchFailed",
    "MetadataFetchFailed",
    "has failed the maximum allowable number of times",
    "Missing an output location for shuffle",
    "Failed to get broadcast",
)
_LOST_WORKER = (
    "Python worker exited unexpectedly",
    "ExecutorLost",
    "Python worker failed",
    # The JVM was in the middle of talking to it.
    "java.io.IOException: Broken pipe",
    "java.io.EOFException",
    "java.net.SocketException: Connection reset",
)
# Before the task's own code runs, which would tell it as a failure of ours.
_MISSING = re.compile(r"ModuleNotFoundError: No module named .*")
# Where PySpark's worker begins to read.
_FIRST_MESSAGE = ", in check_python_version"
_VERSIONS = re.compile(
    # Spark 3.5 prints a tuple, and no colons.
    r"different version:? \(?(\d+)(?:\.|, )(\d+)\)? than that in driver:? ([0-9.]+)"
)
_DAEMON = re.compile(r"Error from python worker:\s*(.*?)(?:PYTHONPATH was:|\n\tat |\Z)", re.DOTALL)


def as_error(
    error: Exception,
    python: str = "python3",
    jvm_ended: Callable[[], str] = str,
    local_disks: Callable[[], str] = str,
) -> SparkDrainError:
    """The error to raise for what PySpark raised when it ran a job.

    Args:
        error: one of ``JOB_FAILED``.
        python: the interpreter that executors were to use.
        jvm_ended: how Spark's own process has ended, in words; asked if it has.
        local_disks: where tasks keep local files, as far as it is known; asked if a disk is full.
    """
    if told_by_spark(error):
        return of_text(str(error), python, local_disks)
    how = jvm_ended() or "it ended or was stopped"
    return SparkLost(
        f"Spark's own process (the JVM) was lost while the job ran: {how}. If memory was short, "
        f"give it more with --spark_conf=spark.driver.memory=4g. ({error})"
    )


def of_text(text: str, python: str, local_disks: Callable[[], str] = str) -> SparkDrainError:
    """The error to raise for a failed Spark job, given all that Spark says of it."""
    failure = failure_in(text)
    if failure is not None:
        return of_failure(failure)
    if any(sign in text for sign in _LOST_DATA):
        return TruncatedInput(f"The cluster lost data between two stages: {gist(text)}")
    bad_setup = _bad_setup(text, python, local_disks)
    if bad_setup is not None:
        return bad_setup
    if any(sign in text for sign in _LOST_WORKER):
        return WorkerLost(
            "A Python worker ended without an answer: user code or a library called os._exit or "
            "crashed, or the system ended it because memory was short (then lower "
            f"--shuffle_memory_mb or use more slots).\n\n{gist(text)}"
        )
    if "cancelled" in text.lower():
        return Cancelled(gist(text))
    return SparkDrainError(f"Spark failed the job: {gist(text)}")


def of_failure(failure: Failure) -> SparkDrainError:
    """The error to raise for what went wrong in a task."""
    kind = _OURS.get(failure.kind)
    if kind is not None and not failure.by_user:
        return kind(failure.message.partition(": ")[2])
    where = f"Raised in slot {failure.slot} of level {failure.level} on {failure.host}"
    where += "." if failure.trace.startswith(SAID) else "; the worker's traceback:"
    head = failure.message
    if failure.kind == "StoreFailed" or (_NO_SPACE in head and not failure.by_user):
        return BadSetup(
            f"{head.partition(': ')[2]}\n\n{_DISK_REMEDY}\n\n{where}\n\n{failure.trace}"
        )
    if failure.kind in {"ModuleNotFoundError", "ImportError"}:
        head = f"{head}\n\n{_MODULES_REMEDY}"
    error = UserCodeError if failure.by_user else SparkDrainError
    return error(f"{head}\n\n{where}\n\n{failure.trace}")


def _bad_setup(text: str, python: str, local_disks: Callable[[], str]) -> BadSetup | None:
    if _NO_SPACE in text:
        # Java's message has no path.
        where = local_disks()
        full = f"A disk is full ({where})" if where else "A disk is full"
        return BadSetup(f"{full}: {gist(text)}\n\n{_DISK_REMEDY}")
    if "PYTHON_VERSION_MISMATCH" in text:
        return _version_mismatch(text, python)
    if _FIRST_MESSAGE in text:
        return BadSetup(
            f"Executors' Python workers ({python}) cannot read the first message of this program's "
            "Spark, so their pyspark is of another version. Install the same version of pyspark on "
            f"both. Spark said:\n{gist(text)}"
        )
    daemon, missing = _DAEMON.search(text), _MISSING.search(text)
    if daemon is not None:
        return _no_worker(daemon[1].strip(), python)
    if missing is not None or "Cannot run program" in text:
        return _no_worker(missing[0] if missing else gist(text), python)
    return None


def _version_mismatch(text: str, python: str) -> BadSetup:
    found = _VERSIONS.search(text)
    theirs, ours = (
        (f"{found[1]}.{found[2]}", found[3])
        if found
        else ("another version", "this program's version")
    )
    return BadSetup(
        f"The executors run Python {theirs} ({python}), but this program runs Python {ours}. "
        f"Set PYSPARK_PYTHON to the path that Python {ours} has on the executors."
    )


def _no_worker(said: str, python: str) -> BadSetup:
    return BadSetup(
        f"Executors cannot start a Python worker with {python}. It must be a Python with pyspark, "
        "apache-beam and rocksdict in the versions of this program; set PYSPARK_PYTHON to its path "
        f"on the executors. It said:\n{said}"
    )
