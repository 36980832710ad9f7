"""A Spark standalone cluster on this machine, from the PySpark that is installed.

Its workers have loopback addresses of their own (127.0.0.2, 127.0.0.3, ...), which Spark takes
for different hosts, or network namespaces (``network_hosts``)::

    with SparkCluster() as cluster:
        ... f"--spark_master_url={cluster.url}" ...

or, until Ctrl-C, ``python integration/spark_cluster.py --workers 2 --cores 2``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyspark
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

HOME = Path(pyspark.__file__).parent
START_SECONDS = 180.0
STATE = "SPARK_CLUSTER_STATE"
"""Names, in the environment of each host, a folder that its executors do not remove."""
# For a JVM that lives for a test: to compile its code well takes longer than the test does.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
EXECUTOR_OPTIONS = f"--spark_conf=spark.executor.extraJavaOptions={' '.join(SHORT_LIVED)}"

# Owns one service: ends it when the other end of its standard input is closed, be it on purpose
# or because the owner was killed. The service and what it starts are one process group.
GUARD = """
import os, signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
service = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
sys.stdin.buffer.read()
for number in (signal.SIGTERM, signal.SIGKILL):
    try:
        os.killpg(service.pid, number)
        service.wait(10)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        pass
"""


class Service:
    """A program in the background that does not outlive this process."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
        self.log = log
        with log.open("wb") as output:
            self._guard = subprocess.Popen(
                [sys.executable, "-c", GUARD, *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**environ},
                start_new_session=True,
            )

    def stop(self) -> None:
        self._guard.communicate()


class ClusterHosts(Protocol):
    """Where the processes of a cluster run.

    Attributes:
        driver: address of the host that has the driver and the master.
        flags: what a driver must be told to be reached from all hosts.
    """

    driver: str
    flags: tuple[str, ...]

    def address(self, number: int) -> str:
        """Of a host, by its number from 0 on."""

    def on(self, number: int, command: Sequence[str]) -> list[str]:
        """What runs a command on a host."""

    def close(self) -> None:
        """All processes have ended."""


class Addresses(ClusterHosts):
    """Loopback addresses, which Spark takes for different hosts."""

    driver = "127.0.0.1"
    flags: tuple[str, ...] = ()

    @override
    def address(self, number: int) -> str:
        return f"127.0.0.{number + 2}"

    @override
    def on(self, number: int, command: Sequence[str]) -> list[str]:
        return list(command)

    @override
    def close(self) -> None:
        pass


class SparkCluster:
    """A master and workers with ``cores`` each; use it as a context manager.

    Executors run the ``python`` given, else the one that runs this.
    """

    def __init__(
        self,
        workers: int = 2,
        cores: int = 1,
        memory: str = "1g",
        where: ClusterHosts | None = None,
    ) -> None:
        self._where = where or Addresses()
        self._numbers = {self._where.address(number): number for number in range(workers)}
        self.url = f"spark://{self._where.driver}:{free_port()}"
        self._page = free_port()
        self._cores = cores
        self._memory = memory
        self._services: list[Service] = []
        self._workers: dict[str, Service] = {}

    def __enter__(self) -> SparkCluster:
        self._directory = Path(tempfile.mkdtemp(prefix="spark-cluster-"))
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        for service in reversed(self._services):
            service.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _start(self) -> None:
        port = self.url.rpartition(":")[2]
        master = ["--port", port, "--webui-port", str(self._page)]
        self._run("master", self._where.driver, *master)
        for host in self.hosts:
            self._run_worker(host)
        self._await_workers()

    @property
    def hosts(self) -> list[str]:
        """Those that have a worker, or are about to."""
        return list(self._numbers)

    def join(self) -> str:
        """One worker more, on a host that has none; the host."""
        number = next(n for n in itertools.count() if n not in self._numbers.values())
        host = self._where.address(number)
        self._numbers[host] = number
        self._run_worker(host)
        self._await_workers()
        return host

    def lose(self, host: str) -> None:
        """A host is gone, with its worker, its executors and what they have started."""
        self._services.remove(service := self._workers.pop(host))
        del self._numbers[host]
        service.stop()

    def _run_worker(self, host: str) -> None:
        directory = self._directory / f"work{self._numbers[host]}"
        size = ["--cores", str(self._cores), "--memory", self._memory]
        places = ["--work-dir", str(directory), "--webui-port", "0"]
        self._workers[host] = self._run("worker", host, *size, *places, self.url)

    def _await_workers(self) -> None:
        end = time.monotonic() + START_SECONDS
        while len(self.workers()) < len(self.hosts):
            if time.monotonic() > end:
                raise TimeoutError("the workers did not register:\n" + self.logs())
            time.sleep(0.1)

    def _run(self, kind: str, host: str, *arguments: str) -> Service:
        environ = {
            **os.environ,
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": host,
            "SPARK_LOCAL_HOSTNAME": host,
            "SPARK_PUBLIC_DNS": host,
            "SPARK_LOCAL_DIRS": str(self._directory / f"local-{host}"),
            STATE: str(self._directory / f"state-{host}"),
            "SPARK_DAEMON_JAVA_OPTS": " ".join(SHORT_LIVED),
            # Clean: executors must not find the package because this process does.
            "PYTHONPATH": "",
            "PYSPARK_PYTHON": sys.executable,
        }
        main = f"org.apache.spark.deploy.{kind}.{kind.capitalize()}"
        command = [str(HOME / "bin" / "spark-class"), main, "--host", host, *arguments]
        if host in self._numbers:
            command = self._where.on(self._numbers[host], command)
        log = self._directory / f"{kind}-{host}.log"
        service = Service(command, environ, log)
        self._services.append(service)
        return service

    def state(self) -> dict[str, Any]:
        """What the master says of itself; nothing while it is starting."""
        try:
            page = f"http://{self._where.driver}:{self._page}/json/"
            with urllib.request.urlopen(page, timeout=5) as answer:
                state: dict[str, Any] = json.load(answer)
                return state
        except (OSError, ValueError):
            return {}

    def workers(self) -> list[dict[str, Any]]:
        """The workers that are alive."""
        return [one for one in self.state().get("workers", ()) if one["state"] == "ALIVE"]

    def executors(self) -> set[str]:
        """The hosts that have an executor now."""
        busy = [one for one in self.workers() if one["coresused"] > 0]
        return {one["host"] for one in busy}

    def applications(self) -> set[str]:
        """The ids of those that have cores now."""
        return {one["id"] for one in self.state().get("activeapps", ()) if one["cores"] > 0}

    def local_folders(self) -> list[Path]:
        """Where executors write, by host; a folder may not be there yet."""
        return [self._directory / f"local-{host}" for host in self.hosts]

    def state_folders(self) -> list[Path]:
        """What ``STATE`` names, by host; a folder may not be there yet."""
        return [self._directory / f"state-{host}" for host in self.hosts]

    def work_folders(self) -> list[Path]:
        """Where executors run, by host."""
        return [self._directory / f"work{number}" for number in self._numbers.values()]

    def logs(self) -> str:
        """The end of the log of every service and executor."""
        return "\n".join(self._ends())

    def _ends(self) -> Iterator[str]:
        executors = self._directory.glob("work*/*/*/stderr")
        for log in [*(service.log for service in self._services), *executors]:
            end = log.read_text(errors="replace")[-3000:]
            yield f"--- {log.relative_to(self._directory)}\n{end}"


def free_port() -> int:
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Different ones: a port that was let go of may come again."""
    with ExitStack() as listening:
        sockets = [listening.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a Spark standalone cluster until Ctrl-C.")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cores", type=int, default=1, help="of each worker")
    parser.add_argument("--memory", default="1g", help="of each worker")
    given = parser.parse_args()
    with SparkCluster(given.workers, given.cores, given.memory) as cluster:
        print(f"--spark_master_url={cluster.url}", flush=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
