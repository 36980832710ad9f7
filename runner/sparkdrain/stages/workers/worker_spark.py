"""Whether the PySpark of a Python worker is that of the program, before the two speak."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from sparkdrain.spark_needs import alike, spark_version

if TYPE_CHECKING:
    from collections.abc import Mapping

PYSPARK_VARIABLE: Final = "SPARKDRAIN_PYSPARK"
"""The version of the program's PySpark, in the environment of its workers on a cluster."""


def check_worker(environ: Mapping[str, str]) -> None:
    """Return if this Python has the program's PySpark, or if the program has not said which.

    PySpark's worker would fail at the first message of another version, and could not say why.

    Raises:
        SystemExit: names both versions; Spark tells the driver what a daemon prints that ends.
    """
    wanted, found = environ.get(PYSPARK_VARIABLE), spark_version()
    if wanted and found and not alike(wanted, found):
        message = (
            f"The executors have pyspark {found}, but this program has {wanted}. Install the same "
            f"version on both. The executors' Python is {sys.executable}."
        )
        raise SystemExit(message)
