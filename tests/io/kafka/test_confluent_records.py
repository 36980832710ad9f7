"""What librdkafka hands out at once comes through, though some of it are errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import KafkaError

from sparkdrain.io.kafka import confluent_records
from sparkdrain.io.kafka.client import LostRecords, Partition
from sparkdrain.io.kafka.errors import KafkaDataLost, KafkaRefused


@dataclass
class Message:
    """One of the library's: a record, or an error in its place."""

    at: int
    number: int
    failed: int | None = None
    of: str | None = "t"

    def topic(self) -> str | None:
        return self.of

    def partition(self) -> int:
        return self.at

    def offset(self) -> int:
        return self.number

    def error(self) -> Any:
        return None if self.failed is None else KafkaError(self.failed)

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"%d" % self.number


@pytest.fixture
def polled(monkeypatch):
    """What comes of messages that the library has at one time, and what is raised behind it."""

    def poll(*messages: Message) -> tuple[list[Any], BaseException | None]:
        class Consumer:
            def consume(self, most: int, timeout: float) -> list[Message]:
                return list(messages)

        monkeypatch.setattr(confluent_records, "made", lambda *_: Consumer())
        records = confluent_records.ConfluentRecords("somewhere", {}, headers=False)
        found: list[Any] = []
        try:
            found += records.poll(0, 100)
        except KafkaRefused as error:
            return found, error
        return found, None

    return poll


def offsets(found):
    return {batch.partition.number: batch.offsets for batch in found if len(batch)}


def test_a_refusal_comes_behind_all_records(polled):
    """They would be lost: the library has handed them out, and a round is tried again here."""
    refusal = KafkaError.TOPIC_AUTHORIZATION_FAILED
    found, error = polled(Message(0, 4), Message(1, 0, refusal), Message(2, 7), Message(2, 8))
    assert offsets(found) == {0: [4], 2: [7, 8]}
    assert "t[1]" in str(error)


def test_an_error_of_no_partition_comes_behind_all_records(polled):
    refusal = KafkaError.SASL_AUTHENTICATION_FAILED
    found, error = polled(Message(-1, -1, refusal, None), Message(2, 7))
    assert offsets(found) == {2: [7]}
    assert error is not None


def test_an_error_that_passes_is_none(polled):
    found, error = polled(Message(-1, -1, KafkaError._TRANSPORT, None), Message(2, 7))
    assert (offsets(found), error) == ({2: [7]}, None)


def test_what_is_lost_of_a_partition_comes_in_its_place(polled):
    found, error = polled(
        Message(0, 4), Message(0, 5, KafkaError.OFFSET_OUT_OF_RANGE), Message(1, 7)
    )
    assert error is None
    assert offsets(found) == {0: [4], 1: [7]}
    (lost,) = (one for one in found if isinstance(one, LostRecords))
    assert lost.partition == Partition("t", 0)
    assert isinstance(lost.error, KafkaDataLost)
