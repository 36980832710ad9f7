"""What PySpark raises when a Spark job fails."""

from __future__ import annotations

import re
from typing import Final

import pyspark  # noqa: F401 - whole before a part of it: see the package
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

JVM_LOST: Final = (Py4JError, ConnectionError)
"""Raised by what asks the JVM, after the JVM has ended."""

JOB_FAILED: Final = (Py4JError, CapturedException, ConnectionError)
"""Raised by what runs a Spark job."""

_GIST_LINES: Final = 8
_CAUSE: Final = re.compile(
    r"most recent failure(?: reason)?:\s*(.*?)(?:\nDriver stacktrace|\Z)", re.DOTALL | re.IGNORECASE
)


def told_by_spark(error: Exception) -> bool:
    """Whether ``error`` is Spark's account of a failed job, not the loss of Spark itself."""
    return isinstance(error, (Py4JJavaError, CapturedException))


def gist(text: str) -> str:
    """What Spark says without the JVM's stack traces."""
    found = _CAUSE.search(text)
    lines = (found[1] if found else text).splitlines()
    kept = [line for line in lines if not line.lstrip().startswith(("at ", "... "))]
    return "\n".join(kept[:_GIST_LINES]).strip()
