"""A job on Kafka is DRAINING; its broker, or one of its own processes, is killed in each phase.

Everything that was read before the cut is in the other topic once, and nothing else; the offsets
that are committed say where a next version begins.
"""

from __future__ import annotations

import os
import random

import gated_copy
import pytest
from kafka_broker import KafkaBroker
from kafka_topics import Topics

from sparkdrain.io.kafka.client import Partition
from tests.support.killed_drain import PHASES, VICTIMS, KilledDrain, chosen

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

PARTITIONS = 2
RECORDS = 200


@pytest.fixture(scope="module")
def broker():
    with KafkaBroker() as running:
        yield running


class KilledCopy(KilledDrain):
    """Records are written before the drain, and some more whenever it is held."""

    def __init__(self, folder, broker, topics) -> None:
        self._broker = broker
        self._topics = topics
        self._source, self._target = topics.make(PARTITIONS), topics.make(PARTITIONS)
        self._written = 0
        self._write(RECORDS)
        given = {"broker": broker.address, "source": self._source, "target": self._target}
        flags = [f"--{name}={value}" for name, value in given.items()]
        super().__init__(folder, gated_copy.__file__, *flags)

    def _write(self, count: int) -> None:
        numbers = range(self._written, self._written + count)
        records = [(n % PARTITIONS, b"key %d" % (n % 7), b"%d" % n) for n in numbers]
        self._topics.write(self._source, records)
        self._written = numbers.stop

    def has_read_enough(self) -> bool:
        return super().has_read_enough() and len(gated_copy.read(self.places.root)) >= RECORDS

    def at_gate(self) -> None:
        self._write(10)

    def kill(self, kind: str, gate: str) -> None:
        if kind != "broker":
            super().kill(kind, gate)
            return
        self._broker.kill()
        self._broker.start()

    def check_copied(self) -> None:
        assert self._written > RECORDS
        found = [int(value) for value in self._topics.read(self._target, PARTITIONS)]
        assert sorted(found) == list(range(RECORDS))
        assert set(gated_copy.read(self.places.root)) == set(found)
        catalog = self._topics.client(group_id=self._source).catalog()
        committed = [catalog.committed(Partition(self._source, n)) for n in range(PARTITIONS)]
        catalog.close()
        assert sum(committed) == RECORDS


@pytest.fixture
def job(tmp_path, broker):
    with KilledCopy(tmp_path, broker, Topics(broker.address)) as made:
        yield made


@pytest.mark.parametrize("victim", [*VICTIMS, "broker"])
def test_this_one_killed_in_each_phase(job, victim):
    job.drain_and_kill(dict.fromkeys(PHASES, victim))
    job.check_copied()


def test_killed_by_chance(job):
    seed = int(os.environ.get("KILLS_SEED") or random.SystemRandom().randrange(10**6))
    print(f"KILLS_SEED={seed}", flush=True)
    job.drain_and_kill(chosen(seed, [*VICTIMS, "broker"] * 2))
    job.check_copied()
