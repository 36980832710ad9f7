"""The jars of an Apache Kafka broker."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from maven_jars import JARS_OF_SPARK, Artifact, jars

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "4.3.1"


def kafka_jars() -> Path:
    """The directory with the broker's jars."""
    return jars(f"kafka-{VERSION}", Artifact("org.apache.kafka", "kafka_2.13", VERSION))


def broker_classpath(jars: Path) -> str:
    """The class path of a broker.

    Kafka's own packages name no logger that writes; Spark's jars have one.
    """
    loggers = ("slf4j-api", "log4j-slf4j2-impl", "log4j-api", "log4j-core")
    found = [next(JARS_OF_SPARK.glob(f"{name}-*.jar")) for name in loggers]
    return os.pathsep.join([*map(str, found), f"{jars}/*"])
