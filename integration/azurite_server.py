"""Azurite, the emulator of Azure's storage, on this machine: from packages of npm, fetched once."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
from spark_cluster import Service, free_ports

VERSION = "3.37.0"
CACHE = Path(__file__).parents[1] / ".cache" / f"azurite-{VERSION}"
ACCOUNT = "devstoreaccount1"
# The emulator's own, which everybody knows.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
START_SECONDS = 60.0
SERVICES = ("blob", "queue", "table")


def is_there() -> bool:
    """Whether this machine has what Azurite runs on."""
    return shutil.which("npm") is not None


class AzuriteServer:
    """An emulator with a directory of its own; use it as a context manager."""

    def __init__(self) -> None:
        self._ports = free_ports(len(SERVICES))
        self._service: Service | None = None

    def connection_string(self, key: str = KEY) -> str:
        """What a user sets in the environment."""
        endpoints = (
            f"{service.title()}Endpoint=http://127.0.0.1:{port}/{ACCOUNT}"
            for service, port in zip(SERVICES, self._ports, strict=True)
        )
        account = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={key}"
        return ";".join([account, *endpoints])

    def __enter__(self) -> AzuriteServer:
        self._directory = Path(tempfile.mkdtemp(prefix="azurite-"))
        try:
            _fetch()
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
        program = CACHE / "node_modules/azurite/dist/src/azurite.js"
        command = ["node", str(program), "--location", str(self._directory), "--silent"]
        command += ["--skipApiVersionCheck", "--disableTelemetry"]
        for service, port in zip(SERVICES, self._ports, strict=True):
            command += [f"--{service}Port", str(port)]
        self._service = Service(command, os.environ, self._directory / "log")
        end = time.monotonic() + START_SECONDS
        while not all(map(_listens, self._ports)):
            if time.monotonic() > end:
                told = (self._directory / "log").read_text(errors="replace")[-3000:]
                raise TimeoutError("Azurite did not start:\n" + told)
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


def _fetch() -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (CACHE / "fetched").exists():
            return
        command = [
            "npm",
            "install",
            "--loglevel=error",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
        ]
        command += ["--omit=dev", "--prefix", str(CACHE), f"azurite@{VERSION}"]
        subprocess.run(command, check=True, timeout=600)
        (CACHE / "fetched").touch()


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
