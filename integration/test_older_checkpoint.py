"""A job of which an older checkpoint is put back, against a broker that has more than it knows."""

from __future__ import annotations

import re
import shutil

import kafka_copy
import pytest
from copied_topics import Copied, assert_none_twice
from kafka_broker import KafkaBroker
from kafka_kills import Copying, wait_for
from kafka_topics import Topics

from sparkdrain.io.kafka.client import Partition
from sparkdrain.io.kafka.settings import PRODUCER

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def broker():
    with KafkaBroker() as running:
        yield running


def ended(topics, copied) -> list[tuple[int, int]]:
    """What was copied, once the brokers have ended what killed processes have begun."""
    for group in range(kafka_copy.GROUPS):
        client = topics.client(option=PRODUCER)
        transactions = client.transactions(f"{copied.target}-{group}", Partition(copied.target, 0))
        transactions.fence()
        transactions.close()
    return sorted(copied.read())


def test_a_job_whose_older_checkpoint_was_put_back_is_refused_until_it_is_overruled(
    tmp_path, broker
):
    """Its records are others each time they are made, so the brokers' ones are not recognized."""
    topics = Topics(broker.address)
    folder, older = tmp_path / "checkpoints" / kafka_copy.JOB, tmp_path / "older"
    with Copied(topics) as copied:
        flags = [
            f"--broker={broker.address}",
            f"--source={copied.source}",
            f"--target={copied.target}",
            "--client=confluent-kafka",
            "--spark_master_url=local[2]",
            "--marks",
        ]
        with Copying(tmp_path, *flags) as job:
            wait_for(lambda: bool(copied.read()), "a record", job.look_after)
            job.kill_all()
            shutil.copytree(folder, older)
            much = len(ended(topics, copied)) + 200
            wait_for(lambda: len(copied.read()) > much, f"more than {much}", job.look_after)
            job.kill_all()
            before = ended(topics, copied)
            assert_none_twice(before)
            shutil.rmtree(folder)
            shutil.copytree(older, folder)

            said = job.wait_for_failure()
            assert "KafkaRefused" in said
            assert "publishes nothing: the brokers have" in said
            assert ended(topics, copied) == before

            (option,) = set(re.findall(r"--kafka_publish_anyway=[\w.=-]+", said))
            job.add(option)
            job.wait_for_checkpoint()
            copied.end()
            job.drain()
            written = copied.read()
            assert {number for number, _ in written} == set(range(copied.written))
            assert len(written) > copied.written, "records were published anyway"
