"""An expansion service for transforms of Java's SDK: Beam's own, with Kafka's and ours in it."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from java_program import BEAM, SDK
from maven_jars import Artifact, jars, java, newest
from spark_cluster import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAIN = "org.apache.beam.sdk.expansion.service.ExpansionService"
_SOURCE = Path(__file__).with_name("java") / "Totals.java"
_START_SECONDS = 120.0


def class_path() -> list[Path]:
    """The jars of the service and of its transforms; they are staged, too."""
    there = jars(
        f"beam-java-expansion-{SDK}",
        Artifact(BEAM, "beam-sdks-java-expansion-service", SDK),
        Artifact(BEAM, "beam-sdks-java-harness", SDK),
        Artifact("com.github.jbellis", "jamm", "0.4.0"),
        # All of it needs a schema registry's packages, which Maven's registry does not have.
        Artifact(BEAM, "beam-sdks-java-io-kafka", SDK, alone=True),
        Artifact(BEAM, "beam-sdks-java-extensions-avro", SDK),
        Artifact(BEAM, "beam-sdks-java-extensions-protobuf", SDK),
        Artifact("org.springframework", "spring-expression", "5.3.39"),
        Artifact("org.apache.kafka", "kafka-clients", "3.9.2"),
    )
    return newest(there)


@contextmanager
def expansion_service(into: Path, image: str = "") -> Iterator[str]:
    """A service that runs; its address.

    It offers two environments for its transforms: a container, and workers in its own process.

    Args:
        into: a folder for what is compiled.
        image: of the container, which is all that is offered then.
    """
    path = class_path()
    classes = into / "classes"
    compile_ = ["javac", "-cp", os.pathsep.join(map(str, path)), "-d", classes, _SOURCE]
    subprocess.run(compile_, check=True)
    ours = into / "totals.jar"
    subprocess.run(["jar", "--create", "--file", ours, "-C", classes, "."], check=True)
    path.insert(0, ours)
    port = free_port()
    command = [java(), "-Xmx256m", "-cp", os.pathsep.join(map(str, path)), _MAIN, str(port)]
    command += [f"--filesToStage={','.join(map(str, path))}"]
    if image:
        command += ["--defaultEnvironmentType=DOCKER", f"--defaultEnvironmentConfig={image}"]
    else:
        command += ["--alsoStartLoopbackWorker"]
    command += ["--javaClassLookupAllowlistFile=*"]
    with (into / "log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        _await(process, port, into / "log")
        yield f"localhost:{port}"
    finally:
        process.kill()
        process.wait()


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("localhost", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    message = f"The expansion service does not start:\n{log.read_text()[-3000:]}"
    raise RuntimeError(message)
