"""The jars of an Apache Kafka broker, fetched once by the Ivy that PySpark brings along."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

VERSION = "4.3.1"
CACHE = Path(__file__).parents[1] / ".cache"
JARS_OF_SPARK = Path(pyspark.__file__).parent / "jars"
FETCH_SECONDS = 900


def java() -> str:
    """The Java to run."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def kafka_jars(cache: Path = CACHE) -> Path:
    """The directory with the broker's jars; fetched if it is not in ``cache`` yet."""
    jars = cache / f"kafka-{VERSION}"
    if jars.is_dir():
        return jars
    cache.mkdir(parents=True, exist_ok=True)
    print(f"fetching Kafka {VERSION} into {jars} (once)", file=sys.stderr, flush=True)
    scratch = Path(tempfile.mkdtemp(prefix="fetching-kafka-", dir=cache))
    try:
        _retrieve(scratch)
        try:
            (scratch / "jars").rename(jars)  # all of it, or nothing
        except OSError:
            if not jars.is_dir():  # somebody else was faster
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return jars


def _retrieve(scratch: Path) -> None:
    (ivy,) = JARS_OF_SPARK.glob("ivy-*.jar")
    command = [java(), "-cp", str(ivy), "org.apache.ivy.Main"]
    command += ["-cache", str(scratch / "ivy"), "-confs", "default"]
    command += ["-dependency", "org.apache.kafka", "kafka_2.13", VERSION]
    # One dependency is packed as a bundle.
    command += ["-types", "jar", "bundle"]
    command += ["-retrieve", f"{scratch}/jars/[artifact]-[revision](-[classifier]).[ext]"]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=FETCH_SECONDS,
        check=False,
    )
    if done.returncode or "UNRESOLVED DEPENDENCIES" in done.stdout:
        msg = f"Kafka {VERSION} could not be fetched: {done.stdout[-2000:]}"
        raise RuntimeError(msg)


def broker_classpath(jars: Path) -> str:
    """The class path of a broker.

    Kafka's own packages name no logger that writes; Spark's jars have one.
    """
    loggers = ("slf4j-api", "log4j-slf4j2-impl", "log4j-api", "log4j-core")
    found = [next(JARS_OF_SPARK.glob(f"{name}-*.jar")) for name in loggers]
    return os.pathsep.join([*map(str, found), f"{jars}/*"])
