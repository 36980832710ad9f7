"""Versions of Spark: which is there, which are alike, which Java and Python go with them."""

from __future__ import annotations

import importlib.util
import os
import re
from dataclasses import dataclass
from typing import Any, Final

Version = tuple[int, int]

_ASSIGNED: Final = re.compile(r"__version__[^=]*=\s*['\"](?P<version>\d+\.\d+[^'\"]*)['\"]")


@dataclass(frozen=True, slots=True)
class Javas:
    """The versions of Java that a Spark runs on.

    Attributes:
        oldest: the first one.
        newest: the last one, or None if none is known that fails.
        spark: the Spark's name in messages.
    """

    oldest: int
    newest: int | None = None
    spark: str = "Spark"

    def __str__(self) -> str:
        """As an installation guide says it."""
        if self.newest is None:
            return f"Java {self.oldest} or later"
        return f"Java {self.oldest} to {self.newest}"

    @property
    def remedy(self) -> str:
        """What to do without such a Java."""
        return (
            f"Install {self} (any OpenJDK, for example Eclipse Temurin) and put it on the PATH, or "
            "set JAVA_HOME to it."
        )


@dataclass(frozen=True, slots=True)
class Pythons:
    """The versions of Python that a PySpark names in its package.

    Attributes:
        oldest: the first one. PySpark does not let itself be installed on an older one.
        newest: the last one. PySpark lets itself be installed on a newer one.
        spark: the Spark's name in messages.
    """

    oldest: Version
    newest: Version
    spark: str

    def __str__(self) -> str:
        """As a table says it."""
        return f"Python {self.dotted(self.oldest)} to {self.dotted(self.newest)} for {self.spark}"

    @staticmethod
    def dotted(version: Version) -> str:
        """A version as text."""
        return ".".join(map(str, version))


# What each PySpark's package says: Requires-Python, and the last Python of its classifiers.
_PYTHONS: Final[dict[Version, tuple[Version, Version]]] = {
    (3, 5): ((3, 8), (3, 11)),
    (4, 0): ((3, 9), (3, 13)),
    (4, 1): ((3, 10), (3, 14)),
    (4, 2): ((3, 10), (3, 14)),
    (4, 3): ((3, 11), (3, 14)),
}


def spark_version() -> str | None:
    """The version of the PySpark that the program would import; None if there is none.

    It is read from a file. A PySpark in ``SPARK_HOME`` has no package metadata, and to import
    PySpark takes long.
    """
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        return None
    loader: Any = found.loader
    try:
        # Also in a zip file, as spark-submit has it.
        text = loader.get_data(os.path.join(os.path.dirname(found.origin), "version.py"))
    except OSError:
        return None
    assigned = _ASSIGNED.search(text.decode())
    return assigned["version"] if assigned else None


def javas_for(spark: str | None) -> Javas:
    """The versions of Java that a Spark runs on; None is an unknown Spark.

    Java 24 has taken away what Spark needs before 4.1 to ask who the user is.
    """
    if spark is None:
        return Javas(17)
    version = _minor(spark)
    if version >= (4, 1):
        return Javas(17)
    return Javas(17 if version >= (4, 0) else 8, 23, f"Spark {Pythons.dotted(version)}")


def pythons_for(spark: str | None) -> Pythons | None:
    """The versions of Python that a PySpark names; None if the PySpark is not known."""
    if spark is None or _minor(spark) not in _PYTHONS:
        return None
    return Pythons(*_PYTHONS[_minor(spark)], f"Spark {Pythons.dotted(_minor(spark))}")


def alike(one: str, other: str) -> bool:
    """Whether two versions differ in the patch number at most."""
    return one.split(".")[:2] == other.split(".")[:2]


def _minor(version: str) -> Version:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)
