"""Runs Beam's ValidatesRunner tests of Java against a Job service: see docs/portable_suites.md."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from java_program import BEAM, CLIENT, SDK
from maven_jars import Artifact, jars, java, newest

_SOURCE = Path(__file__).with_name("java") / "Suite.java"


def class_path() -> list[Path]:
    """The jars of the tests."""
    there = jars(
        f"beam-java-suite-{SDK}",
        Artifact(BEAM, "beam-sdks-java-core", SDK),
        Artifact(BEAM, "beam-sdks-java-core", SDK, classifier="tests"),
        Artifact(BEAM, "beam-sdks-java-harness", SDK),
        Artifact(BEAM, "beam-runners-portability-java", CLIENT),
        Artifact("com.github.jbellis", "jamm", "0.4.0"),
        Artifact("junit", "junit", "4.13.2"),
        Artifact("org.mockito", "mockito-core", "4.11.0"),
        Artifact("com.fasterxml.jackson.dataformat", "jackson-dataformat-yaml", "2.15.4"),
        Artifact("com.fasterxml.jackson.datatype", "jackson-datatype-joda", "2.15.4"),
        Artifact("com.esotericsoftware", "kryo", "4.0.3"),
    )
    return [*newest(there), *there.glob("*-tests.jar")]


def main() -> int:
    """Run the tests; the status is 0 if all pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("endpoint", help="of the Job service")
    parser.add_argument("tests", nargs="?", default="", help="a regular expression of names")
    given = parser.parse_args()
    options = [
        "--runner=TestUniversalRunner",
        f"--jobEndpoint={given.endpoint}",
        # In the program itself; without this each job starts a JVM for each slot.
        "--defaultEnvironmentType=LOOPBACK",
    ]
    path = os.pathsep.join(map(str, class_path()))
    with tempfile.TemporaryDirectory() as classes:
        subprocess.run(["javac", "-cp", path, "-d", classes, _SOURCE], check=True)
        command = [java(), "-Xmx2500m", f"-DbeamTestPipelineOptions={json.dumps(options)}"]
        command += ["-cp", f"{classes}{os.pathsep}{path}", "Suite", given.tests]
        return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode


if __name__ == "__main__":
    sys.exit(main())
