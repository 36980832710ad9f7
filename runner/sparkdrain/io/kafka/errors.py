"""What can go wrong between a pipeline and Kafka."""

from __future__ import annotations

from sparkdrain.errors import SparkDrainError
from sparkdrain.io.errors import RecordsLost, ServiceRefused


class KafkaFailed(SparkDrainError):
    """Base of what goes wrong with Kafka; names the brokers, and the topic where there is one."""


class KafkaUnreachable(KafkaFailed):
    """No broker answered in time."""


class KafkaRefused(KafkaFailed, ServiceRefused):
    """A broker answered, and said no: a password, a permission, a topic that is not there."""


class KafkaDataLost(KafkaFailed, RecordsLost):
    """Records that are to be read next were deleted; names topic, partition and offsets."""


class KafkaWriteFailed(KafkaFailed):
    """Records were not taken by the brokers; the bundle that made them has failed."""


class UnreadableRecord(KafkaFailed):
    """The bytes of a record are not what its coder can decode; names where the record is."""
