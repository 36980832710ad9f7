"""The Spark session: found if there is one, else started with what the runner needs."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Sequence

from pyspark import SparkConf, SparkContext

from sparkdrain.errors import BadSetup
from sparkdrain.options import Settings
from sparkdrain.setup_check import check_java

_LOGGER = logging.getLogger(__name__)
_LOCK = threading.Lock()

# What our own session gets beside what the user says.
_DEFAULTS = {
    # A lost shuffle file fails the job, which is then run again: Spark would re-run a part of a
    # level, whose outcome need not fit the part that was used already.
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.app.name": "sparkdrain",
}
_LOCAL = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.python.daemon.module": "sparkdrain.stages.daemon",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
# They print what the user will be told anyway, with the user's own exception first.
_SILENT = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.scheduler.DAGScheduler",
    "org.apache.spark.api.python.PythonRunner",
    "org.apache.spark.api.python.BasePythonRunner",
    "org.apache.spark.util.SparkUncaughtExceptionHandler",
    "org.apache.spark.scheduler.TaskSchedulerImpl",
)


class _Session:
    """The one session that this process has started, if it has."""

    context: SparkContext | None = None
    asked: tuple[object, ...] = ()


def spark_context(settings: Settings) -> SparkContext:
    """The context to run on: the active one, or a new one for the master in ``settings``.

    A context of ours that was started for another master or other properties is replaced.

    Raises:
        BadSetup: Java or the cluster cannot be used.
    """
    with _LOCK:
        active = SparkContext._active_spark_context  # noqa: SLF001
        asked = (settings.spark_master_url, settings.spark_conf)
        if active is not None and active._jsc is not None:  # noqa: SLF001
            if active is not _Session.context or asked == _Session.asked:
                return active
            active.stop()
        _Session.context = _start(settings)
        _Session.asked = asked
        return _Session.context


def _start(settings: Settings) -> SparkContext:
    check_java(os.environ, _printed)
    conf = SparkConf()
    master = settings.spark_master_url
    if master is not None:
        conf.setMaster(master)
    local = (master or conf.get("spark.master", "local") or "").startswith("local")
    for key, value in (_DEFAULTS | (_LOCAL if local else {})).items():
        conf.setIfMissing(key, value)
    for key, value in settings.spark_conf:
        conf.set(key, value)
    if local:
        # Else Spark takes the first python3 on the PATH.
        os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        context = SparkContext(conf=conf)
    except Exception as error:
        message = f"Spark could not be started for master {master}: {error}"
        raise BadSetup(message) from error
    context.setLogLevel("ERROR")
    _silence(context)
    return context


def _printed(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)  # noqa: S603 - java -version
    return done.stderr + done.stdout


def _silence(context: SparkContext) -> None:
    log4j = context._jvm.org.apache.logging.log4j  # noqa: SLF001
    for name in _SILENT:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)
