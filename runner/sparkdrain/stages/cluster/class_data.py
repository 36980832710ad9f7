"""Class data: Spark's classes as one file that a JVM maps, instead of reading and checking them.

Made once for a Java and a Spark (``sparkdrain prepare``). Without it everything works; with it
Spark starts faster.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sparkdrain.errors import BadSetup
from sparkdrain.setup_check import java_of
from sparkdrain.stages.spark.driver import spark_home

if TYPE_CHECKING:
    from collections.abc import Mapping

JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
"""The property with the options of the driver's JVM: the runner's, unless the user sets it."""
EXECUTOR_OPTIONS: Final = "spark.executor.defaultJavaOptions"
"""The property with options of executors that stand before the user's."""

# The JVM schedules and moves bytes: compiling that further costs a short job as much again as it
# takes to start, and gives a long one nothing. Compiling that sooner makes the first levels shorter
# (benchmarks.level_cost), and a cold start longer if it is too soon; more code needs more room.
_OPTIONS: Final = (
    "-XX:TieredStopAtLevel=1 -XX:CompileThresholdScaling=0.1 -XX:ReservedCodeCacheSize=96m"
)
# Whatever is wrong with the file: Java then does without it.
_SILENTLY: Final = "-Xshare:auto -Xlog:cds*=off"
# Java takes a colon for a list of files, Spark a space for the next option.
_NOT_IN_PATHS: Final = frozenset(" :,'\"\\\t\n")


def using_class_data(environ: Mapping[str, str], directory: Path | None = None) -> str:
    """The options of the driver's JVM, with class data if there are any.

    Args:
        environ: the environment in which Spark's scripts will look for Java.
        directory: see ``class_data_file``.
    """
    return f"{_OPTIONS} {class_data(environ, directory)}".strip()


def class_data(environ: Mapping[str, str], directory: Path | None = None) -> str:
    """The options of any JVM of Spark that may have class data. Java 8 knows no such options.

    Where the file is missing or does not fit, Java does without it.

    Args:
        environ: see ``using_class_data``.
        directory: see ``class_data_file``.

    Returns:
        The options; "" if there are no class data here.
    """
    with contextlib.suppress(BadSetup, OSError):
        file = class_data_file(environ, directory)
        if file.is_file():
            return f"{_SILENTLY} -XX:SharedArchiveFile={file}"
    return ""


def writing_class_data(file: Path) -> str:
    """The options of a driver's JVM that leaves class data in ``file`` when it ends."""
    return f"{_OPTIONS} {_SILENTLY} -XX:ArchiveClassesAtExit={file}"


def class_data_file(environ: Mapping[str, str], directory: Path | None = None) -> Path:
    """Where the class data are for the Java and the Spark that will be started, if there are any.

    Java checks again that they fit it and the class path. The name only keeps apart what is used
    in turns.

    Args:
        directory: for class data; if not given, one that goes with this Python environment.

    Raises:
        BadSetup: there is no Java, or Java or Spark would misread the path.
        OSError: it cannot be looked at.
    """
    java = os.path.realpath(java_of(environ))
    about = os.stat(java)
    spark = os.path.realpath(environ.get("SPARK_HOME") or spark_home())
    known = f"{java} {about.st_size} {about.st_mtime_ns} {spark}"
    name = f"spark-{hashlib.sha256(known.encode()).hexdigest()[:16]}.jsa"
    file = (directory or Path(sys.prefix, "share", "sparkdrain")) / name
    if not _NOT_IN_PATHS.isdisjoint(str(file)):
        message = (
            f"Java cannot be told of class data in {file.parent}: for it, a space, a comma, a "
            "colon or a quote ends the path. Use a Python environment in another place."
        )
        raise BadSetup(message)
    return file
