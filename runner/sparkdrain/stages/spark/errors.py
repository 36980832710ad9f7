"""What PySpark raises when a Spark job fails."""

from __future__ import annotations

from typing import Final

import pyspark  # noqa: F401 - whole before a part of it: see the package
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

JVM_LOST: Final = (Py4JError, ConnectionError)
"""Raised by what asks the JVM, after the JVM has ended."""

JOB_FAILED: Final = (Py4JError, CapturedException, ConnectionError)
"""Raised by what runs a Spark job."""


def told_by_spark(error: Exception) -> bool:
    """Whether ``error`` is Spark's account of a failed job, not the loss of Spark itself."""
    return isinstance(error, (Py4JJavaError, CapturedException))
