"""The jobs that need a broker of Kafka, which they start; measured when they are asked for."""

from __future__ import annotations

from benchmarks.jobs.job import Goal, Job
from benchmarks.jobs.streaming import RATE

_BY_THE_FAST_CLIENT = (Goal(RATE, at_least=150_000),)

KAFKA: tuple[Job, ...] = (
    Job(
        name="kafka-read",
        module="kafka_read",
        size=4_000_000,
        what="records of 100 bytes from a topic with 4 partitions, by confluent-kafka",
        peers=(),
        streaming=True,
        goals=_BY_THE_FAST_CLIENT,
    ),
    Job(
        name="kafka-write",
        module="kafka_write",
        size=4_000_000,
        what="records of 100 bytes to a topic with 4 partitions, by confluent-kafka",
        peers=(),
        streaming=True,
        goals=_BY_THE_FAST_CLIENT,
    ),
    Job(
        name="kafka-once",
        module="kafka_once",
        size=1_000_000,
        what="the same as kafka-write, exactly once, with a checkpoint every 2 s",
        peers=(),
        streaming=True,
        flags=("--checkpoint_dir=OUT/checkpoints", "--checkpoint_ms=2000"),
    ),
    Job(
        name="kafka-read-python",
        module="kafka_read_python",
        size=1_000_000,
        what="the same as kafka-read, by kafka-python",
        peers=(),
        streaming=True,
    ),
    Job(
        name="kafka-write-python",
        module="kafka_write_python",
        size=500_000,
        what="the same as kafka-write, by kafka-python",
        peers=(),
        streaming=True,
    ),
)
