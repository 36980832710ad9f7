"""Jars from Maven's registry, fetched once by the Ivy that PySpark brings along."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pyspark

CACHE = Path(__file__).parents[1] / ".cache"
JARS_OF_SPARK = Path(pyspark.__file__).parent / "jars"
FETCH_SECONDS = 900


class Artifact(NamedTuple):
    """What Maven calls a thing."""

    organisation: str
    name: str
    version: str


def java() -> str:
    """The Java to run."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def jars(title: str, *artifacts: Artifact, cache: Path = CACHE) -> Path:
    """The directory with ``artifacts`` and all they need; fetched if it is not in ``cache`` yet.

    Args:
        title: what the directory is called; it is not looked into, so it names the version.
        artifacts: what is wanted.
        cache: where directories are.
    """
    there = cache / title
    if there.is_dir():
        return there
    cache.mkdir(parents=True, exist_ok=True)
    print(f"fetching {title} into {there} (once)", file=sys.stderr, flush=True)
    scratch = Path(tempfile.mkdtemp(prefix="fetching-", dir=cache))
    try:
        for artifact in artifacts:
            _retrieve(artifact, scratch)
        try:
            (scratch / "jars").rename(there)  # all of it, or nothing
        except OSError:
            if not there.is_dir():  # somebody else was faster
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return there


def _retrieve(artifact: Artifact, scratch: Path) -> None:
    (ivy,) = JARS_OF_SPARK.glob("ivy-*.jar")
    command = [java(), "-cp", str(ivy), "org.apache.ivy.Main"]
    command += ["-cache", str(scratch / "ivy"), "-confs", "default"]
    command += ["-dependency", *artifact]
    # Some dependencies are packed as bundles.
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
        msg = f"{artifact} could not be fetched: {done.stdout[-2000:]}"
        raise RuntimeError(msg)
