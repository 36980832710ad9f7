"""A session's state, as its JVM knows it."""

from __future__ import annotations

import logging
import re
import signal
import subprocess
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkContext

from sparkdrain.hosts.executor import Executor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark import SparkConf

_LOGGER = logging.getLogger(__name__)

# The socket to a process that was killed may close before the process can be waited for.
_END_SECONDS: Final = 2.0
_PORT: Final = re.compile(r":\d+$")


def new_context(conf: SparkConf, make: Callable[..., SparkContext] = SparkContext) -> SparkContext:
    """A new context; tried once more if Spark got into its own way.

    On YARN the application master adds a filter to the pages of Spark's UI. If they start at that
    moment, the whole context fails (seen with Spark 4.3.0).

    Args:
        conf: for the context.
        make: one attempt.

    Raises:
        Py4JError: the context cannot be made.
    """
    try:
        return make(conf=conf)
    except Py4JError as error:
        if "java.util.ConcurrentModificationException" not in str(error):
            raise
        _LOGGER.warning("Spark failed because its own UI was changed at its start. Once more.")
        return make(conf=conf)


def active_context() -> SparkContext | None:
    """The context that PySpark holds for active, usable or not."""
    context: SparkContext | None = SparkContext._active_spark_context
    return context


def is_usable(context: SparkContext) -> bool:
    """Whether the session's JVM is there, and takes jobs."""
    try:
        return context._jsc is not None and not context._jsc.sc().isStopped()
    except (Py4JError, OSError):  # the JVM has ended
        return False


def jvm_ended() -> str:
    """How the JVM that this process has started ended, in words; "" if that is not known."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return ""
    try:
        code = process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        return ""
    if code == -signal.SIGKILL:
        return "it was killed by SIGKILL, as the system does when memory is short"
    if code < 0:
        return f"it was killed by {signal.Signals(-code).name}"
    return f"it exited with status {code}"


def forget(context: SparkContext) -> None:
    """Make room for a new context after a failure, and for a new JVM if the old one has ended."""
    try:
        context.stop()
        SparkContext._jvm.java.lang.System.nanoTime()
    except (Py4JError, OSError):
        with SparkContext._lock:
            SparkContext._gateway = SparkContext._jvm = None
            SparkContext._active_spark_context = None


def started(context: SparkContext) -> float:
    """When the session started, in seconds since the epoch."""
    return float(context._jsc.sc().startTime()) / 1000


def registered_executors(context: SparkContext) -> Iterator[tuple[Executor, float]]:
    """The executors that are alive and not excluded, without the driver.

    Each comes with the time at which it came, in seconds since the epoch.
    """
    found: Any = context._jsc.sc().statusStore().executorList(True)
    for index in range(found.size()):
        one = found.apply(index)
        if one.id() != "driver" and not one.isExcluded():
            executor = Executor(_PORT.sub("", one.hostPort()), one.id())
            yield executor, one.addTime().getTime() / 1000


def request_executors(context: SparkContext, number: int) -> None:
    """Ask the master for so many in all, and let Spark not decide by itself any more.

    Args:
        context: a session's context that was made with dynamic allocation.
        number: more than the master has is no error; fewer than there are ends none of them.
    """
    session: Any = context._jsc.sc()
    manager = session.executorAllocationManager()
    if manager.isDefined():
        manager.get().stop()
    nowhere = context._jvm.PythonUtils.toScalaMap({})
    session.requestTotalExecutors(number, 0, nowhere)


def end_executors(context: SparkContext, ids: Sequence[str]) -> None:
    """Give executors back to the master, whatever runs on them."""
    backend: Any = context._jsc.sc().schedulerBackend()
    backend.killExecutors(context._jvm.PythonUtils.toSeq(list(ids)), False, False, True)


def silence(context: SparkContext, loggers: Iterable[str]) -> None:
    """Turn loggers of the JVM off."""
    log4j = context._jvm.org.apache.logging.log4j
    for name in loggers:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)


def sent_code(context: SparkContext) -> list[str]:
    """The sent files that the session's workers import from."""
    return list(context._python_includes)


def temporary_directory(context: SparkContext) -> str:
    """Where the session keeps files on the driver's machine."""
    return str(context._temp_dir)


def jvm_version(context: SparkContext) -> str:
    """The version of the Spark that the session runs, whatever PySpark's own is."""
    return str(context._jsc.version())
