"""What this machine must have; each check says what it found or how to mend it."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Final

from packaging.requirements import Requirement

from sparkdrain.errors import BadSetup
from sparkdrain.spark_needs import javas_for, pythons_for, spark_version

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sparkdrain.spark_needs import Javas, Pythons

DISTRIBUTION: Final = "spark-drain-runner"
OLDEST_PYTHON: Final = (3, 10)

_VERSION: Final = re.compile(r'version "(?P<old>1\.)?(?P<major>\d+)(?P<rest>[^"]*)"')


class NotNamed(Exception):
    """Something may work, but its maker does not name it; tells what, and what is named."""


def _printed(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - java -version
    return done.stderr + done.stdout


def check_java(
    environ: Mapping[str, str],
    run: Callable[[Sequence[str]], str] = _printed,
    javas: Javas | None = None,
) -> str:
    """The version and place of the Java that Spark will start, as Spark looks for it.

    Args:
        environ: the environment; ``JAVA_HOME`` wins over ``PATH``.
        run: runs a command and returns all that it prints.
        javas: which versions fit; those of the installed Spark if not given.

    Raises:
        BadSetup: there is no Java, it does not start, or Spark does not run on it.
    """
    javas = javas or javas_for(spark_version())
    java = java_of(environ, javas)
    try:
        printed = run([java, "-version"])
    except OSError as error:
        message = f"Java at {java} does not start: {error}. {javas.remedy}"
        raise BadSetup(message) from error
    match = _VERSION.search(printed)
    if match is None:
        message = (
            f"{java} -version does not name a version. {javas.remedy} It printed: {printed[:500]}"
        )
        raise BadSetup(message)
    version = "".join(match.group("major", "rest"))
    major = int(match["major"])
    is_new = javas.newest is not None and major > javas.newest
    if is_new or major < javas.oldest:
        wrong = f"too {'new' if is_new else 'old'} for {javas.spark}"
        message = f"Java {version} at {java} is {wrong}. {javas.remedy}"
        raise BadSetup(message)
    return f"{version} ({java})"


def check_python(version: Sequence[int] = tuple(sys.version_info[:3])) -> str:
    """The version of Python.

    Raises:
        BadSetup: it is too old.
    """
    text = ".".join(map(str, version))
    if tuple(version[:2]) < OLDEST_PYTHON:
        message = f"Python {text} is too old; use {oldest_python()} or later."
        raise BadSetup(message)
    return text


def check_python_for_spark(
    version: Sequence[int] = tuple(sys.version_info[:3]), pythons: Pythons | None = None
) -> str:
    """The version of Python, if PySpark names it or if it is not known what PySpark names.

    Args:
        version: the Python that is to run, as three numbers.
        pythons: which versions fit; those of the PySpark that is there if not given.

    Raises:
        BadSetup: PySpark needs a newer Python.
        NotNamed: PySpark was made before this Python.
    """
    text = ".".join(map(str, version))
    pythons = pythons or pythons_for(spark_version())
    if pythons is None:
        return text
    first = pythons.dotted(max(pythons.oldest, OLDEST_PYTHON))
    last = pythons.dotted(pythons.newest)
    if tuple(version[:2]) < pythons.oldest:
        message = (
            f"Python {text} is too old for {pythons.spark}, which needs {first} or later. Use "
            "such a Python, for the driver and for the executors, or an older Spark."
        )
        raise BadSetup(message)
    if tuple(version[:2]) > pythons.newest:
        message = (
            f"Python {text} may fail: {pythons.spark} names Python {first} to {last}. Use one of "
            "these, for the driver and for the executors, or a newer Spark."
        )
        raise NotNamed(message)
    return text


def oldest_python() -> str:
    """The oldest version of Python that is supported, as text."""
    return ".".join(map(str, OLDEST_PYTHON))


def requirements() -> list[Requirement]:
    """What this package's own metadata says it needs, without extras."""
    try:
        needed = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return []  # run from a checkout that is not installed
    parsed = [Requirement(text) for text in needed]
    return [
        entry for entry in parsed if entry.marker is None or entry.marker.evaluate({"extra": ""})
    ]


def check_package(
    needed: Requirement, version_of: Callable[[str], str] = importlib.metadata.version
) -> str:
    """The installed version of a package.

    Raises:
        BadSetup: it is missing or has a version that does not fit.
    """
    remedy = f"Run: pip install '{needed.name}{needed.specifier}'"
    try:
        version = version_of(needed.name)
    except importlib.metadata.PackageNotFoundError as error:
        message = f"{needed.name} is not installed. {remedy}"
        raise BadSetup(message) from error
    if not needed.specifier.contains(version, prereleases=True):
        message = f"{needed.name} {version} does not fit {needed.specifier}. {remedy}"
        raise BadSetup(message)
    return version


def check_temporary_directory(directory: str | None = None) -> str:
    """The directory for temporary files and how much room it has.

    Raises:
        BadSetup: nothing can be written there.
    """
    place = directory or tempfile.gettempdir()
    try:
        with tempfile.NamedTemporaryFile(dir=place) as file:
            file.write(b"x" * 4096)
        free = shutil.disk_usage(place).free
    except OSError as error:
        message = f"Cannot write to {place}: {error}. Set TMPDIR to a directory with room."
        raise BadSetup(message) from error
    return f"{place} ({free / 2**30:.1f} GiB free)"


def java_of(environ: Mapping[str, str], javas: Javas | None = None) -> str:
    """The Java that Spark will start; ``javas`` as for ``check_java``.

    Raises:
        BadSetup: there is none.
    """
    remedy = (javas or javas_for(spark_version())).remedy
    home = environ.get("JAVA_HOME")
    if home:
        java = os.path.join(home, "bin", "java")
        if shutil.which(java) is None:
            message = f"JAVA_HOME is {home}, but there is no program bin/java in it. {remedy}"
            raise BadSetup(message)
        return java
    found = shutil.which("java", path=environ.get("PATH", os.defpath))
    if found is None:
        message = f"There is no Java on this machine, and Spark needs one. {remedy}"
        raise BadSetup(message)
    return found
