"""Whether the program, its JVM and its cluster are of one Spark; Spark itself finds out late.

Versions that differ in the patch number only are taken for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sparkdrain.errors import BadSetup
from sparkdrain.spark_needs import alike
from sparkdrain.stages.spark.versions import ForeignMaster

if TYPE_CHECKING:
    from collections.abc import Callable


def check_home(home: str, found: str | None, ours: str) -> None:
    """Return if the jars that PySpark will start are of PySpark's own version.

    Args:
        home: the directory of the jars.
        found: their version, if it is known.
        ours: the version of PySpark.

    Raises:
        BadSetup: names both versions and SPARK_HOME.
    """
    if found is not None and not alike(found, ours):
        message = (
            f"The Spark in SPARK_HOME={home} is {found}, but this program's pyspark is {ours}. "
            f"Unset SPARK_HOME to use the Spark that comes with pyspark, or install the same: "
            f"pip install pyspark=={found}"
        )
        raise BadSetup(message)


def check_session(found: str, ours: str) -> None:
    """Return if a session's JVM is of PySpark's own version.

    Raises:
        BadSetup: names both versions.
    """
    if not alike(found, ours):
        message = (
            f"The program's Spark session runs Spark {found}, but its pyspark is {ours}. Start the "
            f"program with the pyspark of that Spark: pip install pyspark=={found}, or start it "
            "with that Spark's own spark-submit."
        )
        raise BadSetup(message)


def check_cluster(master: str, ours: str, version_of: Callable[[str, int], str | None]) -> None:
    """Return if a standalone master is of PySpark's own version, as far as that can be known.

    Args:
        master: its URL, ``spark://host:port``, or several of them: ``spark://a:1,b:2``.
        ours: the version of PySpark.
        version_of: see ``version_of_master``.

    Raises:
        BadSetup: names both versions, and what to install.
    """
    for place in master.removeprefix("spark://").split(","):
        try:
            parts = urlsplit(f"spark://{place}")
            if not parts.hostname or parts.port is None:
                continue
            found = version_of(parts.hostname, parts.port)
        except ValueError:
            continue
        except ForeignMaster as error:
            message = (
                f"The Spark master at {place} is not of this program's version: pyspark is {ours}, "
                f"and they cannot read each other's messages ({error}). Install the pyspark of "
                "the cluster's version, which the master's page shows: pip install pyspark==..."
            )
            raise BadSetup(message) from error
        if found is not None and not alike(found, ours):
            message = (
                f"The Spark master at {place} is Spark {found}, but this program's pyspark is "
                f"{ours}. Executors of one version cannot work for a driver of another. Run: "
                f"pip install pyspark=={found}"
            )
            raise BadSetup(message)
        if found is not None:
            return
