"""A real Kafka broker on this machine: one node, from packages only.

    with KafkaBroker() as broker:
        ... broker.address ...

or, until Ctrl-C or the end of its standard input, ``python integration/kafka_broker.py``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from kafka_jars import VERSION, broker_classpath, kafka_jars
from maven_jars import CACHE, java
from spark_cluster import SHORT_LIVED, Service, free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

START_SECONDS = 90.0
CLUSTER = "c3BhcmtkcmFpbi1rYWZrYQ"  # any 16 bytes
LOG4J = """
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c: %m%n
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = out
"""
# One node, few threads, small files, no waiting for others.
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": "8388608",
    "log.index.size.max.bytes": "1048576",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    # Tests write records of any time, such as 1970.
    "log.retention.ms": "-1",
    "log.message.timestamp.before.max.ms": "9223372036854775807",
    # A broker that was killed can come back only when its session has ended: 9 s by default.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "400",
    # Nobody takes over from a single node.
    "controlled.shutdown.enable": "false",
}


class KafkaBroker:
    """A broker with a directory of its own; use it as a context manager.

    Args:
        port: to listen at on 127.0.0.1; a free one by default.
        users: name -> password; if there are any, there is a second listener for them, with
            SASL_PLAINTEXT and PLAIN.
        settings: of the broker, on top of ``SETTINGS``.
    """

    def __init__(
        self,
        port: int | None = None,
        users: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        any_port, self._users_port, self._controller_port = free_ports(3)
        self._port = port or any_port
        self._users = dict(users or {})
        self._settings = dict(settings or {})
        self._service: Service | None = None

    @property
    def address(self) -> str:
        """Where clients find it."""
        return f"127.0.0.1:{self._port}"

    @property
    def users_address(self) -> str:
        """Where clients find it that have a name and a password."""
        return f"127.0.0.1:{self._users_port}"

    def __enter__(self) -> KafkaBroker:
        self._directory = Path(tempfile.mkdtemp(prefix="kafka-broker-"))
        try:
            self._jars = kafka_jars()
            (self._directory / "log4j2.properties").write_text(LOG4J)
            self._write_settings("broker.properties", self._directory / "data")
            self._make_data()
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
        command = self._java("kafka.Kafka", str(self._directory / "broker.properties"))
        self._service = Service(command, os.environ, self._directory / "broker.log")
        end = time.monotonic() + START_SECONDS
        for port in (self._port, *([self._users_port] if self._users else [])):
            while not _listens(port):
                if time.monotonic() > end or not self._processes():
                    raise TimeoutError("the broker did not start:\n" + self.log())
                time.sleep(0.05)

    def stop(self) -> None:
        """Stop it; its data stay until the end of the context."""
        if self._service is not None:
            self._service.stop()
            self._service = None

    def kill(self) -> None:
        """End it without a chance to do anything, as a machine that loses power."""
        for process in self._processes():
            process.send_signal(signal.SIGKILL)
        self.stop()

    def log(self) -> str:
        """The end of what it has logged."""
        return (self._directory / "broker.log").read_text(errors="replace")[-3000:]

    def _processes(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            if self._service is not None:
                # The guard has one child as soon as it runs; before that, it is as good as one.
                guard = psutil.Process(self._service._guard.pid)
                return guard.children() or [guard]
        return []

    def _java(self, *main: str) -> list[str]:
        flags = ["-Xmx512m", *SHORT_LIVED, "-Djava.awt.headless=true"]
        flags.append(f"-Dlog4j2.configurationFile={self._directory / 'log4j2.properties'}")
        flags.append(f"-Dkafka.logs.dir={self._directory}")
        return [java(), *flags, "-cp", broker_classpath(self._jars), *main]

    def _make_data(self) -> None:
        """An empty data directory; made once, then copied: it says nothing of ports."""
        template = CACHE / f"kafka-{VERSION}-data"
        if not template.is_dir():
            with tempfile.TemporaryDirectory(prefix="formatting-kafka-", dir=CACHE) as scratch:
                made = Path(scratch) / "data"
                settings = self._write_settings("format.properties", made)
                format_ = ["kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(settings)]
                subprocess.run(self._java(*format_), check=True, stdout=subprocess.DEVNULL)
                with suppress(OSError):  # somebody else was faster
                    made.rename(template)
        shutil.copytree(template, self._directory / "data")

    def _write_settings(self, name: str, data: Path) -> Path:
        path = self._directory / name
        settings = {**SETTINGS, **dict(self._listeners()), **self._settings, "log.dirs": str(data)}
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def _listeners(self) -> Iterator[tuple[str, str]]:
        controller = f"127.0.0.1:{self._controller_port}"
        open_to = [f"PLAINTEXT://{self.address}"]
        protocols = ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT"]
        if self._users:
            open_to.append(f"SASL_PLAINTEXT://{self.users_address}")
            protocols.append("SASL_PLAINTEXT:SASL_PLAINTEXT")
            known = " ".join(f'"user_{name}"="{word}"' for name, word in self._users.items())
            module = "org.apache.kafka.common.security.plain.PlainLoginModule"
            yield "sasl.enabled.mechanisms", "PLAIN"
            plain = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
            yield plain, f"{module} required {known};"
        yield "controller.quorum.voters", f"1@{controller}"
        yield "listeners", ",".join([*open_to, f"CONTROLLER://{controller}"])
        yield "advertised.listeners", ",".join(open_to)
        yield "listener.security.protocol.map", ",".join(protocols)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a Kafka broker until Ctrl-C.")
    parser.add_argument("--port", type=int, help="on 127.0.0.1; a free one by default")
    parser.add_argument("--topic", action="append", default=[], help="to make, as name or name:n")
    given = parser.parse_args()
    with KafkaBroker(given.port) as broker, suppress(KeyboardInterrupt):
        for topic in given.topic:
            name, _, partitions = topic.partition(":")
            _make_topic(broker.address, name, int(partitions or 1))
        print(f"--bootstrap_servers={broker.address}", flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        if sys.stdin.isatty():
            signal.pause()
        else:
            sys.stdin.buffer.read()


def _make_topic(address: str, name: str, partitions: int) -> None:
    from kafka.admin import KafkaAdminClient, NewTopic  # noqa: PLC0415 - only if one is wanted

    admin = KafkaAdminClient(bootstrap_servers=address)
    admin.create_topics([NewTopic(name, partitions, 1)])
    admin.close()


if __name__ == "__main__":
    main()
