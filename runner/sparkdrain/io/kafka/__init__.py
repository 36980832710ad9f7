"""Reads from and writes to Apache Kafka, and what speaks its protocol, in Python alone.

Owns: ``ReadFromKafka``, ``WriteToKafka``, and the two client libraries they run on.
Never: consumer groups that share partitions out; where a partition is read is the runner's choice.
Start at: ``read.py``; a partition is read in ``read_partition.py``. See ``docs/kafka.md``.
"""

from __future__ import annotations

from sparkdrain.io.kafka.errors import (
    KafkaDataLost,
    KafkaFailed,
    KafkaRefused,
    KafkaUnreachable,
    KafkaWriteFailed,
    UnreadableRecord,
)
from sparkdrain.io.kafka.read import ReadFromKafka
from sparkdrain.io.kafka.records import BadRecord, KafkaRecord, ProducerRecord, Written
from sparkdrain.io.kafka.watermarks import Watermarks
from sparkdrain.io.kafka.write import WriteToKafka

__all__ = [
    "BadRecord",
    "KafkaDataLost",
    "KafkaFailed",
    "KafkaRecord",
    "KafkaRefused",
    "KafkaUnreachable",
    "KafkaWriteFailed",
    "ProducerRecord",
    "ReadFromKafka",
    "UnreadableRecord",
    "Watermarks",
    "WriteToKafka",
    "Written",
]
