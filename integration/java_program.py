"""A program in Java's SDK: its jars are fetched, and it is compiled."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from maven_jars import Artifact, jars, newest

BEAM = "org.apache.beam"
SDK = "2.73.0"
# The client that submits comes with older parts of the SDK, which give way to newer ones.
CLIENT = "2.65.0"
_SOURCES = Path(__file__).with_name("java")


def class_path() -> list[Path]:
    """The jars that the program needs, each in its newest version."""
    there = jars(
        f"beam-java-{SDK}",
        Artifact(BEAM, "beam-sdks-java-core", SDK),
        Artifact(BEAM, "beam-sdks-java-harness", SDK),
        Artifact(BEAM, "beam-runners-portability-java", CLIENT),
        # What the harness needs and does not name.
        Artifact("com.github.jbellis", "jamm", "0.4.0"),
    )
    return newest(there)


def compiled(into: Path, program: str = "Exact") -> Path:
    """The jar of a program, which stages it with the jars that it needs."""
    jar, classes = into / "program.jar", into / "classes"
    path = os.pathsep.join(map(str, class_path()))
    source = _SOURCES / f"{program}.java"
    subprocess.run(["javac", "-cp", path, "-d", classes, source], check=True)
    subprocess.run(["jar", "--create", "--file", jar, "-C", classes, "."], check=True)
    return jar


def command(jar: Path, endpoint: str, *options: str, program: str = "Exact") -> list[str]:
    """What submits a program to the Job service at ``endpoint``, and waits for its end."""
    path = os.pathsep.join(map(str, [jar, *class_path()]))
    runner = ["--runner=PortableRunner", f"--jobEndpoint={endpoint}"]
    return ["java", "-cp", path, program, *runner, *options]


def ran(
    jar: Path, endpoint: str, *options: str, program: str = "Exact"
) -> subprocess.CompletedProcess[str]:
    """Submit a program to the Job service at ``endpoint``; how it ended, and what it said."""
    return subprocess.run(
        command(jar, endpoint, *options, program=program),
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
