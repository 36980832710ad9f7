"""A real ZooKeeper on this machine: one server, from the jars that PySpark brings along."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
from maven_jars import JARS_OF_SPARK, java
from spark_cluster import SHORT_LIVED, Service, free_ports

START_SECONDS = 60.0
TICK_MILLIS = 500
JARS = (
    "zookeeper-*",
    "slf4j-api-*",
    "log4j-slf4j2-impl-*",
    "log4j-api-*",
    "log4j-core-*",
    "metrics-core-*",
    "snappy-java-*",
    "netty-*",
    "commons-*",
)


class ZooKeeperServer:
    """A server with a directory of its own; use it as a context manager."""

    def __init__(self) -> None:
        (self._port,) = free_ports(1)
        self._service: Service | None = None

    @property
    def address(self) -> str:
        """Where clients find it."""
        return f"127.0.0.1:{self._port}"

    def __enter__(self) -> ZooKeeperServer:
        self._directory = Path(tempfile.mkdtemp(prefix="zookeeper-"))
        settings = {
            "tickTime": TICK_MILLIS,
            "dataDir": self._directory / "data",
            "clientPort": self._port,
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "maxClientCnxns": 0,
            "4lw.commands.whitelist": "srvr",
        }
        lines = "".join(f"{key}={value}\n" for key, value in settings.items())
        (self._directory / "zoo.cfg").write_text(lines)
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def start(self) -> None:
        """Start it, on the data that it has."""
        jars = [str(jar) for name in JARS for jar in JARS_OF_SPARK.glob(f"{name}.jar")]
        command = [
            java(),
            "-Xmx128m",
            *SHORT_LIVED,
            "-Dzookeeper.preAllocSize=1024",
            "-cp",
            os.pathsep.join(jars),
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            str(self._directory / "zoo.cfg"),
        ]
        self._service = Service(command, os.environ, self._directory / "log")
        end = time.monotonic() + START_SECONDS
        # Its port is open before it serves.
        while b"Mode: " not in self._status():
            if time.monotonic() > end:
                told = (self._directory / "log").read_text(errors="replace")[-3000:]
                raise TimeoutError("ZooKeeper did not start:\n" + told)
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop it; its data stay until the end of the context."""
        if self._service is not None:
            self._service.stop()
            self._service = None

    def freeze(self) -> None:
        """Let it do nothing until ``thaw``, as a machine that is cut off."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._service._guard.pid).children():
                process.send_signal(number)

    def _status(self) -> bytes:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 1) as asked:
            asked.sendall(b"srvr")
            told = b""
            while chunk := asked.recv(4096):
                told += chunk
            return told
        return b""
