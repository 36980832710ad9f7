"""From topic to topic, exactly once, by way of an HTTP service: killed with calls in flight."""

from __future__ import annotations

import os
import random
import secrets
import time

import pytest
from copied_topics import Copied
from kafka_broker import KafkaBroker
from kafka_kills import Copying, wait_for
from kafka_topics import Topics
from slow_service import SlowService
from spark_cluster import EXECUTOR_OPTIONS

pytestmark = pytest.mark.spark

CLUSTER = "local-cluster[2,1,1024]"
KINDS = ("host", "worker", "driver", "host", "executor")


@pytest.fixture(scope="module")
def topics():
    with KafkaBroker() as broker:
        yield Topics(broker.address)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("carry_over", [False, True], ids=["waits", "carries over"])
def test_every_record_is_there_once_though_calls_were_in_flight(topics, tmp_path, carry_over):
    """Each process is killed while the service owes an answer; at the end the job is drained."""
    seed = int(os.environ.get("KILLS_SEED") or secrets.randbelow(10**6))
    print(f"KILLS_SEED={seed}", flush=True)
    chance = random.Random(seed)
    with Copied(topics) as copied, SlowService() as service:
        arguments = [
            f"--broker={topics.address}",
            f"--source={copied.source}",
            f"--target={copied.target}",
            "--client=confluent-kafka",
            f"--port={service.port}",
            *(["--carry_over"] if carry_over else []),
            f"--spark_master_url={CLUSTER}",
            EXECUTOR_OPTIONS,
            "--spark_conf=spark.shuffle.io.maxRetries=1",
            "--spark_conf=spark.shuffle.io.retryWait=1s",
        ]
        with Copying(tmp_path, *arguments) as job:
            began = time.monotonic()
            job.wait_for_checkpoint()
            for kind in chance.sample(KINDS, len(KINDS)):
                job.wait_for_checkpoint()
                wait_for(lambda: service.in_flight > 0, "a call", job.look_after)
                job.kill(kind, chance)
                print(
                    f"{time.monotonic() - began:6.0f} s: {kind} killed at {job.newest()} with "
                    f"{service.in_flight} calls in flight",
                    flush=True,
                )
            job.wait_for_checkpoint()
            wait_for(lambda: service.in_flight > 0, "a call", job.look_after)
            job.drain()
        written = copied.assert_begun_once()
    again = sum(count > 1 for count in service.asked.values())
    print(f"{written} of {copied.written} records, each once; {again} asked for again", flush=True)
    assert written
    assert again
