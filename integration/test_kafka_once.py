"""From topic to topic, exactly once, while processes of the job are killed; then it is drained."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.internal.cloudpickle import cloudpickle
from driver_session import stop_session
from kafka_broker import KafkaBroker
from kafka_topics import CLIENTS, Topics

from sparkdrain.io.kafka import ReadFromKafka, WriteToKafka

pytestmark = pytest.mark.spark

# As in a main program: executors cannot import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SECONDS = 240
PARTITIONS = 3


@pytest.fixture(scope="module")
def topics():
    with KafkaBroker() as broker:
        yield Topics(broker.address)
    stop_session()


class Leaves(beam.DoFn):
    """Leaves a file named by its process."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def setup(self) -> None:
        (self._folder / str(os.getpid())).touch()

    def process(self, element):
        yield element


class Writer(threading.Thread):
    """Writes numbers until it is told to end."""

    def __init__(self, topics: Topics, topic: str) -> None:
        super().__init__(daemon=True)
        self._topics = topics
        self._topic = topic
        self._end = threading.Event()
        self.written = 0

    def run(self) -> None:
        while not self._end.wait(0.1):
            numbers = range(self.written, self.written + 20)
            records = [(n % PARTITIONS, b"%d" % (n % 50), b"%d" % n) for n in numbers]
            self._topics.write(self._topic, records)
            self.written = numbers.stop

    def end(self) -> None:
        self._end.set()
        self.join()


def wait_for(condition) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def run(on, topics, source, target, folder, client):
    pids = folder / "pids"
    pids.mkdir(exist_ok=True)
    flags = [f"--checkpoint_dir={folder}/checkpoints", "--checkpoint_ms=500", "--job_name=copy"]
    p = on("local[2]", *flags)
    _ = (
        p
        | ReadFromKafka(topics.address, source, start="earliest", client=client)
        | beam.Reshuffle()
        | beam.ParDo(Leaves(str(pids)))
        | WriteToKafka(topics.address, target, exactly_once=target, groups=4, client=client)
    )
    return p.run()


def published(folder) -> list[str]:
    return [path.name for path in folder.glob("checkpoints/copy/manifests/*.manifest")]


def kill_one(folder) -> None:
    """Kill a process that holds state, and wait for a checkpoint of those that come after."""
    before = set(published(folder))
    pids = sorted((folder / "pids").iterdir(), key=lambda path: path.stat().st_mtime)
    # The last two are those of this life; older ones may still be about to end.
    os.kill(int(random.choice(pids[-2:]).name), signal.SIGKILL)
    epoch = max(before)[:6]
    wait_for(lambda: any(name[:6] > epoch for name in published(folder)))


def once(on, topics, folder, client, kills) -> None:
    source, target = topics.make(PARTITIONS), topics.make(PARTITIONS)
    writer = Writer(topics, source)
    writer.start()
    result = run(on, topics, source, target, folder, client)
    wait_for(lambda: len(published(folder)) > 1)
    for _ in range(kills):
        kill_one(folder)
    writer.end()
    wait_for(lambda: len(topics.read(target, PARTITIONS)) >= writer.written)
    result.drain()
    result.wait_until_finish()
    values = Counter(int(value) for value in topics.read(target, PARTITIONS))
    assert values == Counter(range(writer.written))


@pytest.mark.parametrize("client", CLIENTS)
def test_every_record_is_there_once_whoever_was_killed(on, topics, tmp_path, client):
    once(on, topics, tmp_path, client, kills=1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_kills(on, topics, tmp_path):
    once(on, topics, tmp_path, "confluent-kafka", kills=100)
