"""Which versions of Spark are at work: PySpark's own, and that of the jars it starts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pyspark

_CORE: Final = re.compile(r"spark-core_[\d.]+-(\d+\.\d+\.\d+[^/]*)\.jar")


def pyspark_version() -> str:
    """The version of the Python package."""
    return str(pyspark.__version__)


def home_version(home: str) -> str | None:
    """The version of the jars in a Spark's home; None if they are not where releases have them."""
    for jar in Path(home, "jars").glob("spark-core_*.jar"):
        if found := _CORE.fullmatch(jar.name):
            return found[1]
    return None
