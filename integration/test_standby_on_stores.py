"""From topic to topic, exactly once, while the driver that leads is lost again and again.

Drivers in processes of their own stand by for each other, over each store of records that has a
real service here. What befalls the leader, and when, is drawn by a seed.
"""

from __future__ import annotations

import os
import random
import secrets
import signal
import sys
import time
from typing import TYPE_CHECKING

import kafka_copy
import pytest
from azurite_server import AzuriteServer, is_there
from copied_topics import PARTITIONS, Copied
from kafka_broker import KafkaBroker
from kafka_topics import Topics
from spark_cluster import EXECUTOR_OPTIONS
from zookeeper_server import ZooKeeperServer

from sparkdrain.cli.main import main
from sparkdrain.coordination.address import StoreAddress
from sparkdrain.coordination.backends.azure import CONNECTION_STRING
from sparkdrain.io.kafka.client import Partition
from tests.support.manifests import manifests
from tests.support.standing_drivers import StandingDrivers

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.standing_drivers import DriverProgram

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(7200)]

LEASE = 3.0
"""Seconds; the default of ``--standby_lease_ms``."""
WITHIN = float(os.environ.get("STANDBY_WITHIN") or 10)
"""Seconds in which another driver goes on, on a machine that does nothing else."""
ENDS = ("killed", "lost", "stopped")
"""Of the leader's program alone, of all its processes, by a service manager."""
PAUSES = ("paused", "frozen", "slow")
"""Of the program alone, of all its processes, of all for about the time of a lease."""


@pytest.fixture(scope="module")
def broker():
    with KafkaBroker() as running:
        yield running


@pytest.fixture(params=["file", "zookeeper", "azure", "kafka"])
def store(request, broker, tmp_path, monkeypatch):
    """The address of a store of each kind."""
    match request.param:
        case "file":
            yield f"file:{tmp_path}/store"
        case "zookeeper":
            with ZooKeeperServer() as server:
                yield f"zookeeper:{server.address}/standby"
        case "azure":
            if not is_there():
                pytest.skip("there is no Node here, which runs Azurite")
            with AzuriteServer() as server:
                monkeypatch.setenv(CONNECTION_STRING, server.connection_string())
                yield "azure:standby"
        case "kafka":
            yield f"kafka:{broker.address}/standby"


class Arrivals:
    """What comes into a topic."""

    def __init__(self, topics: Topics, topic: str) -> None:
        self._records = topics.client(isolation_level="read_committed").records(headers=False)
        for number in range(PARTITIONS):
            self._records.follow(Partition(topic, number), 0)
        self._newest = -1

    def newest(self) -> int:
        """The greatest number that has come."""
        for batch in self._records.poll(0.05, 1000):
            self._newest = max([self._newest, *(int(v.split()[0]) for v in batch.values)])
        return self._newest

    def close(self) -> None:
        self._records.close()


class Succession:
    """Two drivers, of which the leader is lost."""

    def __init__(self, standing: StandingDrivers, copied: Copied, topics: Topics, folder: Path):
        self._standing = standing
        self._copied = copied
        self._arrivals = Arrivals(topics, copied.target)
        self._folder = folder
        standing.start()
        standing.start()

    def close(self) -> None:
        self._arrivals.close()

    def goes_on(self) -> None:
        """Return when a record has come that was written after this call."""
        written = self._copied.written
        self._standing.until(lambda: self._arrivals.newest() >= written, "a new record")

    def runs(self) -> DriverProgram:
        """The leader, when another driver waits; it may have begun just now."""
        standing = self._standing
        standing.until(standing.leader, "a leader")
        leader = standing.leader()
        assert leader is not None
        for one in standing.started:
            if one is not leader and one.process.poll() is None:
                standing.until(lambda one=one: standing.waits(one), "one that waits")
        return leader

    def befall(self, leader: DriverProgram, what: str, chance: random.Random) -> float:
        """Let something befall the leader; seconds until the job went on."""
        standing = self._standing
        said = len(leader.said())
        began = time.monotonic()
        match what:
            case "killed" | "lost":
                standing.kill(leader, whole=what == "lost")
            case "stopped":
                os.kill(leader.process.pid, signal.SIGTERM)
            case "paused" | "frozen":
                standing.pause(leader, whole=what == "frozen")
            case "slow":
                standing.pause(leader, whole=True)
                time.sleep(LEASE * chance.uniform(0.7, 1.3))
                standing.go_on(leader)
        self.goes_on()
        took = time.monotonic() - began
        if what != "slow":
            assert standing.leader() is not leader
        if what in ENDS:
            assert leader.process.wait(60) != 0
            standing.start()
        elif standing.leader() is not leader:
            self._steps_down(leader, said)
        return took

    def _steps_down(self, leader: DriverProgram, said: int) -> None:
        """One that was paused goes on: it publishes nothing, and waits."""
        standing = self._standing
        newest = max(self._manifests())[:6]
        older = {name for name in self._manifests() if name[:6] < newest}
        standing.go_on(leader)
        standing.until(lambda: standing.waits(leader, said), "its waiting")
        assert "stops working on the job" in leader.said()[said:]
        assert {name for name in self._manifests() if name[:6] < newest} <= older

    def _manifests(self) -> set[str]:
        return {path.name for path in manifests(self._folder / "checkpoints", kafka_copy.JOB)}


def drivers(folder: Path, broker: KafkaBroker, copied: Copied, store: str) -> StandingDrivers:
    checkpoints = f"{folder}/checkpoints"
    command = [
        sys.executable,
        kafka_copy.__file__,
        f"--broker={broker.address}",
        f"--source={copied.source}",
        f"--target={copied.target}",
        "--client=confluent-kafka",
        f"--folder={folder}",
        "--runner=sparkdrain.SparkDrainRunner",
        "--spark_master_url=local[2]",
        EXECUTOR_OPTIONS.replace("executor", "driver"),
        "--progress=off",
        "--standby",
        f"--standby_lease_ms={LEASE * 1000:.0f}",
        f"--job_name={kafka_copy.JOB}",
        f"--checkpoint_dir={checkpoints}",
        "--checkpoint_ms=500",
        "--run_id=run",
        f"--metadata_store={store}",
    ]
    address = StoreAddress(*store.split(":", 1))
    return StandingDrivers(command, folder, address, kafka_copy.JOB, checkpoints)


@pytest.fixture
def say(capsys):
    """Print, also if the test passes: the seed and the times are for people."""

    def shown(text: str) -> None:
        with capsys.disabled():
            print(text, flush=True)

    return shown


def test_each_record_counts_once_whatever_befalls_the_leader(broker, store, tmp_path, say):
    """The job is drained at the end, while records still come."""
    seed = int(os.environ.get("STANDBY_SEED") or secrets.randbelow(10**6))
    moments = int(os.environ.get("STANDBY_MOMENTS") or 20)
    say(f"\nSTANDBY_SEED={seed} STANDBY_MOMENTS={moments}, {store}")
    chance = random.Random(seed)
    topics = Topics(broker.address)
    with Copied(topics) as copied, drivers(tmp_path, broker, copied, store) as standing:
        job = Succession(standing, copied, topics, tmp_path)
        times: dict[str, list[float]] = {what: [] for what in (*ENDS, *PAUSES)}
        for what in drawn(moments, chance):
            job.runs()
            time.sleep(chance.uniform(0, 2))
            took = job.befall(job.runs(), what, chance)
            now, load = time.strftime("%X"), os.getloadavg()[0]
            say(f"{now} {what}: went on after {took:.1f} s, load {load:.1f}")
            times[what].append(took)
        for what, seconds in times.items():
            say(f"{what}, went on after {' '.join(f'{each:.1f}' for each in sorted(seconds))} s")
        job.goes_on()
        leader = job.runs()
        before = len(copied.read())
        assert main(["drain", "run", f"--metadata_store={store}", "--no-wait"]) == 0
        time.sleep(chance.uniform(0, 4))
        if standing.term().state == "LEADING":
            standing.kill(leader)
            say("killed while it drained")
        for one in standing.started:
            if one.process.poll() is None or one.process.poll() == 0:
                assert one.process.wait(120) == 0, one.said()
        assert standing.term().state == "DRAINED"
        found = copied.assert_begun_once()
        assert before <= found <= copied.written
        say(f"{found} records, each there once")
        job.close()
        assert max(max(seconds, default=0) for seconds in times.values()) <= WITHIN


def drawn(moments: int, chance: random.Random) -> list[str]:
    """What befalls leaders, each kind as often as each other."""
    kinds = [*ENDS, *PAUSES]
    many = [kinds[number % len(kinds)] for number in range(moments)]
    chance.shuffle(many)
    return many
