"""Entries of an outbox are in their topic once, whoever dies in the midst of publishing them."""

from __future__ import annotations

import random

import pytest
from kafka_broker import KafkaBroker
from kafka_topics import CLIENTS, Topics

from sparkdrain.io.kafka.client import Partition
from sparkdrain.io.kafka.errors import KafkaFailed, KafkaWriteFailed
from sparkdrain.io.kafka.outbox import Outbox, Verdict, publish
from sparkdrain.io.kafka.records import ProducerRecord

pytestmark = pytest.mark.slow

STEPS = ("fence", "recorded", "begin", "send", "record", "commit")


@pytest.fixture(scope="module")
def broker():
    with KafkaBroker() as running:
        yield running


@pytest.fixture(scope="module")
def topics(broker):
    return Topics(broker.address)


@pytest.fixture(params=CLIENTS)
def library(request):
    return request.param


class Died(Exception):
    pass


class Dying:
    """Transactions of somebody who dies before, or after, one of the steps."""

    def __init__(self, transactions, step, *, before):
        self._transactions = transactions
        self._step = step
        self._before = before

    def __getattr__(self, name):
        call = getattr(self._transactions, name)

        def step(*arguments):
            if name == self._step and self._before:
                raise Died
            result = call(*arguments)
            if name == self._step:
                raise Died
            return result

        return step


def entries_of(topic):
    def entries(numbers):
        return [ProducerRecord(None, b"%d" % n, topic, 0, None, (("h", b""),)) for n in numbers]

    return entries


def test_whoever_dies_at_whichever_step_every_entry_is_there_once(topics, library):
    topic = topics.make()
    entries, mark = entries_of(topic), Partition(topic, 0)
    dice = random.Random(5)
    outbox = Outbox()
    deaths = [(step, before) for step in STEPS for before in (True, False)]
    dice.shuffle(deaths)
    left = []
    for step, before in deaths:
        outbox, _ = outbox.added(dice.randrange(1, 4))
        mortal = topics.client(library).transactions(f"job/{topic}", mark)
        left.append(mortal)  # it is not closed: whoever comes next has to cope
        with pytest.raises(Died):
            publish(outbox, entries, Dying(mortal, step, before=before))
    heir = topics.client(library).transactions(f"job/{topic}", mark)
    assert publish(outbox, entries, heir) == outbox.next
    assert publish(outbox, entries, heir) == outbox.next
    assert topics.read(topic) == [b"%d" % n for n in range(outbox.next)]
    assert publish(Outbox(0, 1), entries, heir) is Verdict.OLDER
    for one in (*left, heir):
        one.close()


def test_somebody_who_was_replaced_cannot_commit(topics, library):
    topic = topics.make()
    entries, mark = entries_of(topic), Partition(topic, 0)
    old = topics.client(library).transactions(f"job/{topic}", mark)
    with pytest.raises(Died):
        publish(Outbox(0, 2), entries, Dying(old, "commit", before=True))
    new = topics.client(library).transactions(f"job/{topic}", mark)
    assert publish(Outbox(0, 2), entries, new) == 2
    with pytest.raises(KafkaWriteFailed):
        old.commit()
    assert topics.read(topic) == [b"0", b"1"]
    old.close()
    new.close()


def test_a_broker_that_is_killed_in_the_midst_of_a_transaction_costs_time_alone(
    broker, topics, library
):
    topic = topics.make()
    mark = Partition(topic, 0)
    outbox, killed = Outbox(), []

    def killing(numbers):
        for entry in entries_of(topic)(numbers):
            yield entry
            if entry.value == b"13" and not killed:
                killed.append(True)
                broker.kill()
                broker.start()

    for _ in range(6):
        outbox, _ = outbox.added(5)
        for _attempt in range(5):
            one = topics.client(library).transactions(f"job/{topic}", mark)
            try:
                done = publish(outbox, killing, one)
            except KafkaFailed:
                continue
            finally:
                one.close()
            assert done == outbox.next
            break
    assert killed
    assert topics.read(topic) == [b"%d" % n for n in range(30)]
