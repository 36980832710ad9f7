"""From topic to topic, exactly once, while processes of the job are killed; then it is drained."""

from __future__ import annotations

import os
import random
import secrets
import signal
import threading
import time
from typing import TYPE_CHECKING

import apache_beam as beam
import kafka_copy
import pytest
from apache_beam.internal.cloudpickle import cloudpickle
from copied_topics import Copied
from driver_session import stop_session
from kafka_broker import KafkaBroker
from kafka_kills import JVM, KINDS, Copying, wait_for
from kafka_topics import CLIENTS, Topics
from spark_cluster import EXECUTOR_OPTIONS

from tests.support.manifests import manifests

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

# As in a main program: executors cannot import this module.
cloudpickle.register_pickle_by_value(kafka_copy)

BROKER = "broker"
CLUSTER = "local-cluster[2,1,1024]"


@pytest.fixture(scope="module")
def broker():
    with KafkaBroker() as running:
        yield running
    stop_session()


@pytest.fixture(scope="module")
def topics(broker):
    return Topics(broker.address)


def run(on, broker, copied, folder, client):
    flags = [f"--checkpoint_dir={folder}/checkpoints", "--checkpoint_ms=500", "--job_name=copy"]
    pipeline = on("local[2]", *flags)
    kafka_copy.copy(pipeline, broker.address, copied.source, copied.target, folder, client)
    return pipeline.run()


def going_on(result):
    """Raises what has ended the job, if it has ended."""

    def check() -> None:
        if beam.runners.runner.PipelineState.is_terminal(result.state):
            result.wait_until_finish()
            pytest.fail(f"the job is {result.state}")

    return check


def published(folder) -> list[str]:
    return [path.name for path in manifests(folder / "checkpoints", "copy")]


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
def test_every_record_is_there_once_though_a_host_was_killed(on, broker, topics, tmp_path, client):
    with Copied(topics) as copied:
        result = run(on, broker, copied, tmp_path, client)
        wait_for(lambda: len(published(tmp_path)) > 1, "a checkpoint", going_on(result))
        epoch = max(published(tmp_path))[:6]
        os.kill(int(random.choice(list((tmp_path / "pids").iterdir())).name), signal.SIGKILL)
        later = f"a checkpoint after epoch {epoch}"
        wait_for(lambda: max(published(tmp_path))[:6] > epoch, later, going_on(result))
        copied.wait_for_all(going_on(result))
        result.drain()
        result.wait_until_finish()
        copied.assert_once()


@pytest.mark.slow
def test_every_record_is_there_once_though_the_broker_was_killed(on, broker, topics, tmp_path):
    with Copied(topics) as copied:
        result = run(on, broker, copied, tmp_path, "confluent-kafka")
        wait_for(lambda: bool(copied.read()), "a record", going_on(result))
        broker.kill()
        broker.start()
        before = max(published(tmp_path))
        wait_for(lambda: max(published(tmp_path)) > before, "a checkpoint", going_on(result))
        copied.wait_for_all(going_on(result))
        result.drain()
        result.wait_until_finish()
        copied.assert_once()


def arguments(broker, copied) -> list[str]:
    return [
        f"--broker={broker.address}",
        f"--source={copied.source}",
        f"--target={copied.target}",
        "--client=confluent-kafka",
        f"--spark_master_url={CLUSTER}",
        EXECUTOR_OPTIONS,
        # Spark would wait 15 s for a dead executor to come back.
        "--spark_conf=spark.shuffle.io.maxRetries=1",
        "--spark_conf=spark.shuffle.io.retryWait=1s",
    ]


def kill_and_check(broker, topics, folder: Path, kinds: list[str], chance: random.Random) -> None:
    with Copied(topics) as copied, Copying(folder, *arguments(broker, copied)) as job:
        job.wait_for_checkpoint()
        began = time.monotonic()
        for number, kind in enumerate(kinds, 1):
            # Else it is killed in the midst of coming back.
            if chance.random() < 0.4:
                job.wait_for_checkpoint()
            threading.Event().wait(chance.uniform(0, 1))
            if kind == BROKER:
                broker.kill()
                broker.start()
            else:
                job.kill(kind, chance)
            seconds = time.monotonic() - began
            print(f"{seconds:6.0f} s: kill {number}, {kind}, at {job.newest()}", flush=True)
        job.wait_for_checkpoint()
        print(f"{time.monotonic() - began:6.0f} s: it has come back", flush=True)
        copied.wait_for_all(job.look_after)
        job.drain()
        written = copied.assert_once()
        print(f"{written} records, each there once; the driver was started {job.starts} times")


def test_every_record_is_there_once_whoever_was_killed(broker, topics, tmp_path):
    """Five kills: each kind of process of the job once, and the broker.

    A JVM that is killed ends its driver. ``test_killed_in_each_phase`` kills one on each change.
    """
    chance = drawn()
    kinds = [kind for kind in (*KINDS, BROKER) if kind != JVM]
    chance.shuffle(kinds)
    kill_and_check(broker, topics, tmp_path, kinds, chance)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_hundred_kills(broker, topics, tmp_path):
    chance = drawn()
    kills = int(os.environ.get("KILLS") or 100)
    print(f"KILLS={kills}", flush=True)
    kinds = chance.choices(list(KINDS), list(KINDS.values()), k=kills)
    kill_and_check(broker, topics, tmp_path, kinds, chance)


def drawn() -> random.Random:
    """Chance whose seed is printed; the environment may name the seed."""
    seed = int(os.environ.get("KILLS_SEED") or secrets.randbelow(10**6))
    print(f"KILLS_SEED={seed}", flush=True)
    return random.Random(seed)
