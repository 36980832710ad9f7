"""Offsets that are committed beside the reading: the newest counts, none is settled too early."""

from __future__ import annotations

import threading

import pytest

from sparkdrain.io.kafka.asking import Commits
from sparkdrain.io.kafka.client import Partition

PARTITION = Partition("t", 0)
SECONDS = 30.0


class Broker:
    """Takes offsets when it is let go, or refuses them."""

    def __init__(self, error=None):
        self.taken, self.error = [], error
        self.asked, self.may_answer = threading.Event(), threading.Event()

    def __call__(self, offsets):
        self.asked.set()
        assert self.may_answer.wait(SECONDS)
        if self.error is not None:
            raise self.error
        self.taken.append(offsets)


def test_the_newest_offset_of_a_partition_is_committed():
    broker = Broker()
    commits = Commits(broker)
    commits.commit(PARTITION, 1)
    assert broker.asked.wait(SECONDS)
    for offset in (5, 7, 6):
        commits.commit(PARTITION, offset)
    broker.may_answer.set()
    assert commits.settle(PARTITION, 7, SECONDS)
    assert broker.taken == [{PARTITION: 1}, {PARTITION: 7}]


def test_an_offset_is_not_settled_before_the_broker_has_it():
    broker = Broker()
    commits = Commits(broker)
    commits.commit(PARTITION, 3)
    assert not commits.settle(PARTITION, 3, 0.0)
    broker.may_answer.set()
    assert commits.settle(PARTITION, 3, SECONDS)
    assert not commits.settle(PARTITION, 4, 0.0)


def test_a_refusal_is_told_to_whoever_waits():
    broker = Broker(ConnectionError("nobody there"))
    commits = Commits(broker)
    broker.may_answer.set()
    commits.commit(PARTITION, 3)
    with pytest.raises(ConnectionError, match="nobody there"):
        commits.settle(PARTITION, 3, SECONDS)
