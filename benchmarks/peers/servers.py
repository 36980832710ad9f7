"""Start and stop the servers that a run on Beam's Spark or Flink runner needs."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HEAP = "3g"
_HERE = Path(__file__).parent
_START_SECONDS = 90
# What Spark and Flink on Java 17 reach into; their own launchers would pass these.
_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio"),
    *("java.time", "java.util", "java.util.concurrent", "java.util.concurrent.atomic"),
    *("sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar"),
)


@contextmanager
def spark_job_server(jars: Path, directory: Path, master: str) -> Iterator[str]:
    """Beam's Spark job server on a free port; yields its endpoint.

    Raises:
        RuntimeError: it ended, or did not listen in time; with the end of its log.
    """
    flags = [
        "-Dspark.ui.enabled=false",
        "-Dspark.driver.bindAddress=127.0.0.1",
        "-Dspark.driver.host=127.0.0.1",
        f"-Dlog4j2.configurationFile={_HERE / 'log4j2.properties'}",
    ]
    main = "org.apache.beam.runners.spark.SparkJobServerDriver"
    with _job_server(jars, directory, flags, main, [f"--spark-master-url={master}"]) as endpoint:
        yield endpoint


@contextmanager
def flink_job_server(jars: Path, directory: Path) -> Iterator[str]:
    """Beam's Flink job server with a Flink in its process, as `flink-conf.yaml` says.

    Raises:
        RuntimeError: it ended, or did not listen in time; with the end of its log.
    """
    flags = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    main = "org.apache.beam.runners.flink.FlinkJobServerDriver"
    options = ["--flink-master=[local]", f"--flink-conf-dir={_HERE}"]
    with _job_server(jars, directory, flags, main, options) as endpoint:
        yield endpoint


@contextmanager
def _job_server(
    jars: Path, directory: Path, flags: list[str], main: str, options: list[str]
) -> Iterator[str]:
    job_port, artifact_port = _free_port(), _free_port()
    command = [
        "java",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
        "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
        f"-Xmx{HEAP}",
        *flags,
        f"-Djava.io.tmpdir={directory}",
        *("-cp", f"{jars}/*", main),
        *(f"--job-port={job_port}", f"--artifact-port={artifact_port}", "--expansion-port=-1"),
        f"--artifacts-dir={directory / 'artifacts'}",
        *options,
    ]
    with _server(command, job_port, directory / "job-server.log"):
        yield f"localhost:{job_port}"


@contextmanager
def sdk_worker_pool(directory: Path) -> Iterator[str]:
    """A pool that starts a Python SDK process for each worker asked of it; yields its endpoint."""
    port = _free_port()
    boot = boot_of_worker(directory)
    command = [
        *(sys.executable, "-m", "apache_beam.runners.worker.worker_pool_main"),
        *(f"--service_port={port}", f"--container_executable={boot}"),
    ]
    with _server(command, port, directory / "worker-pool.log"):
        yield f"localhost:{port}"


def boot_of_worker(directory: Path, command: Sequence[str] = ()) -> Path:
    """A program that starts an SDK process with the arguments of Beam's containers.

    Args:
        directory: where the program is put.
        command: of the process, see `boot.py`; nothing for a Python SDK process.
    """
    boot = directory / "boot"
    program = [sys.executable, str(_HERE / "boot.py")]
    program += [f"--command={json.dumps(command)}"] if command else []
    boot.write_text(f'#!/bin/sh\nexec {shlex.join(program)} "$@"\n')
    boot.chmod(0o700)
    return boot


@contextmanager
def _server(command: list[str], port: int, log: Path) -> Iterator[None]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        _await_port(process, port, log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            socket.create_connection(("localhost", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    state = "did not listen in time" if process.poll() is None else "ended"
    tail = log.read_text(errors="replace")[-600:]
    msg = f"{log.stem} {state} (pid {process.pid}): {tail}"
    raise RuntimeError(msg)


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("localhost", 0))
        return int(s.getsockname()[1])
