"""A program in Java's SDK: its jars are fetched, and it is compiled."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from maven_jars import Artifact, jars

_BEAM = "org.apache.beam"
_SDK = "2.73.0"
# The client that submits comes with older parts of the SDK, which give way to newer ones.
_CLIENT = "2.65.0"
_SOURCE = Path(__file__).with_name("java") / "Exact.java"
_NAME = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.]*(?:-jre)?)\.jar")


def class_path() -> list[Path]:
    """The jars that the program needs, each in its newest version."""
    there = jars(
        f"beam-java-{_SDK}",
        Artifact(_BEAM, "beam-sdks-java-core", _SDK),
        Artifact(_BEAM, "beam-sdks-java-harness", _SDK),
        Artifact(_BEAM, "beam-runners-portability-java", _CLIENT),
        # What the harness needs and does not name.
        Artifact("com.github.jbellis", "jamm", "0.4.0"),
    )
    newest: dict[str, tuple[list[int], Path]] = {}
    for jar in there.glob("*.jar"):
        if found := _NAME.fullmatch(jar.name):
            version = [int(number) for number in re.findall(r"\d+", found["version"])]
            if found["name"] not in newest or newest[found["name"]][0] < version:
                newest[found["name"]] = version, jar
    return [jar for _, jar in newest.values()]


def compiled(into: Path) -> Path:
    """The jar of the program, which stages it with the jars that it needs."""
    jar, classes = into / "exact.jar", into / "classes"
    path = os.pathsep.join(map(str, class_path()))
    subprocess.run(["javac", "-cp", path, "-d", classes, _SOURCE], check=True)
    subprocess.run(["jar", "--create", "--file", jar, "-C", classes, "."], check=True)
    return jar


def command(jar: Path, endpoint: str, *options: str) -> list[str]:
    """What submits the program to the Job service at ``endpoint``, and waits for its end."""
    path = os.pathsep.join(map(str, [jar, *class_path()]))
    runner = ["--runner=PortableRunner", f"--jobEndpoint={endpoint}"]
    return ["java", "-cp", path, "Exact", *runner, *options]
