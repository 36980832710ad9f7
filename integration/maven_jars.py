"""Jars from Maven's registry, fetched once by the Ivy that PySpark brings along."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyspark

if TYPE_CHECKING:
    from collections.abc import Sequence

CACHE = Path(__file__).parents[1] / ".cache"
JARS_OF_SPARK = Path(pyspark.__file__).parent / "jars"
ATTEMPTS = 3
_NAME = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.]*(?:-jre)?)\.jar")
ATTEMPT_SECONDS = 180.0
# Ivy has no option for a classifier.
_WANTED = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="here" module="wanted"/>
<configurations><conf name="default"/></configurations>
<dependencies>
<dependency org="{organisation}" name="{name}" rev="{version}" conf="default->master">
<artifact name="{name}" type="jar" ext="jar" m:classifier="{classifier}"/>
</dependency>
</dependencies>
</ivy-module>
"""


class Artifact(NamedTuple):
    """What Maven calls a thing; alone, or with what it needs.

    One with a classifier comes alone.
    """

    organisation: str
    name: str
    version: str
    alone: bool = False
    classifier: str = ""


def java() -> str:
    """The Java to run."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def jars(title: str, *artifacts: Artifact, cache: Path = CACHE) -> Path:
    """The directory with ``artifacts`` and all they need; fetched if it is not in ``cache`` yet.

    One process fetches at a time, and others wait for it.

    Args:
        title: what the directory is called; it is not looked into, so it names the version.
        artifacts: what is wanted.
        cache: where directories are.
    """
    there = cache / title
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{title}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not there.is_dir():
            print(f"fetching {title} into {there} (once)", file=sys.stderr, flush=True)
            _fetch(artifacts, there, cache / f"{title}-ivy")
    return there


def newest(there: Path) -> list[Path]:
    """The jars of a directory, each in its newest version."""
    found: dict[str, tuple[list[int], Path]] = {}
    for jar in there.glob("*.jar"):
        if name := _NAME.fullmatch(jar.name):
            version = [int(number) for number in re.findall(r"\d+", name["version"])]
            if name["name"] not in found or found[name["name"]][0] < version:
                found[name["name"]] = version, jar
    return [jar for _, jar in found.values()]


def _fetch(artifacts: Sequence[Artifact], there: Path, ivy: Path) -> None:
    """Fetch into ``there``: all, or nothing.

    Args:
        artifacts: what is wanted.
        there: the directory to make.
        ivy: Ivy's own cache. What is in it when a registry fails is not fetched again.
    """
    scratch = Path(tempfile.mkdtemp(prefix="fetching-", dir=there.parent))
    try:
        for artifact in artifacts:
            _retrieve(artifact, scratch, ivy)
        scratch.rename(there)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    shutil.rmtree(ivy, ignore_errors=True)


def _retrieve(artifact: Artifact, into: Path, ivy: Path) -> None:
    (program,) = JARS_OF_SPARK.glob("ivy-*.jar")
    command = [java(), "-cp", str(program), "org.apache.ivy.Main"]
    command += ["-cache", str(ivy), "-confs", "default"]
    if artifact.classifier:
        wanted = into / "ivy.xml"
        wanted.write_text(_WANTED.format(**artifact._asdict()))
        command += ["-ivy", str(wanted)]
    else:
        command += ["-dependency", *artifact[:3]]
    command += ["-notransitive"] if artifact.alone else []
    # Some dependencies are packed as bundles.
    command += ["-types", "jar", "bundle"]
    command += ["-retrieve", f"{into}/[artifact]-[revision](-[classifier]).[ext]"]
    said = ""
    for _attempt in range(ATTEMPTS):
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=ATTEMPT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            said = f"nothing for {ATTEMPT_SECONDS} seconds"
            continue
        if not done.returncode and "UNRESOLVED DEPENDENCIES" not in done.stdout:
            return
        said = done.stdout[-2000:]
    msg = (
        f"{':'.join(artifact[:3])} could not be fetched in {ATTEMPTS} attempts: {said}\n"
        "Ivy asks Maven Central. Try again when the registry answers: what was fetched is kept."
    )
    raise RuntimeError(msg)
