"""Records of the exactly-once sink are in their topic once, whoever dies, or there is an error."""

from __future__ import annotations

import itertools
import random
from functools import partial

import pytest
from kafka_broker import KafkaBroker
from kafka_topics import CLIENTS, Topics

from sparkdrain.io.kafka import patience
from sparkdrain.io.kafka.client import Partition
from sparkdrain.io.kafka.errors import KafkaRefused, KafkaWriteFailed
from sparkdrain.io.kafka.note import OwnerStage, Recorded
from sparkdrain.io.kafka.outbox import History
from sparkdrain.io.kafka.records import ProducerRecord
from sparkdrain.io.kafka.settings import settings
from sparkdrain.io.kafka.write_once import Number, Publish, Transactional

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


class Cell:
    """State of a key, or its timer."""

    content = None

    def read(self):
        return self.content

    def write(self, content):
        self.content = content

    set = write


class Sink:
    """A sink of one group, in the state that checkpoints have of it."""

    def __init__(self, topics, library, **how):
        self.topics = topics
        self.topic = how.pop("topic", None) or topics.make()
        self.library = library
        config = settings(topics.address, {}, library, "config")
        self.transactional = Transactional(config, f"sink/{self.topic}", self.topic, "job", **how)
        self.cell = Cell()
        self.covered = []

    def number(self, *contents):
        """Number records, as a published checkpoint has them."""
        dofn = Number(self.transactional)
        for content in contents:
            record = ProducerRecord(None, b"%d" % content, self.topic, 0, None, (("h", b""),))
            self.covered += dofn.process((0, record), Cell(), self.cell, Cell())

    def publish(self, elements=None, dofn=None):
        """Publish what comes to a new process, if none is given."""
        dofn = dofn or Publish(self.transactional)
        dofn.start_bundle()
        for element in self.covered if elements is None else elements:
            dofn.process(element)
        dofn.more_is_safe(False)
        try:
            dofn.finish_bundle()
        finally:
            dofn.teardown()

    def written(self):
        return [int(value) for value in self.topics.read(self.topic)]


def test_what_is_refused_and_what_goes_on_with_a_broker(topics):
    """In the default run: the metadata of offsets is what a broker keeps."""
    sink = Sink(topics, "confluent-kafka")
    sink.number(0, 1)
    sink.publish()
    restored, checkpoint = sink.cell.content, list(sink.covered)
    sink.number(2, 3)
    sink.publish()

    sink.cell.content, sink.covered = restored, checkpoint
    with pytest.raises(KafkaRefused, match="the brokers have more"):
        sink.publish()
    sink.number(3, 2, 4)
    with pytest.raises(KafkaRefused, match="the brokers have other records"):
        sink.publish()
    other = Sink(topics, "kafka-python", topic=sink.topic)
    with pytest.raises(KafkaRefused, match=r"another job, .* \(job 'job'\), and was not drained"):
        other.number(5)
    assert sink.written() == [0, 1, 2, 3]


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


class DyingTransactional:
    """Opens transactions that die; and does not close them: whoever comes next has to cope."""

    def __init__(self, sink, step, *, before):
        self._sink = sink
        self._dying = partial(Dying, step=step, before=before)
        self.left = []

    def __getattr__(self, name):
        return getattr(self._sink.transactional, name)

    def open(self, group):
        mark = Partition(self._sink.topic, 0)
        client = self._sink.topics.client(self._sink.library)
        self.left.append(client.transactions(self._sink.transactional.ident(group), mark))
        dying = self._dying(self.left[-1])
        dying.fence()
        dying.close = lambda: None
        return dying


@pytest.mark.slow
def test_whoever_dies_at_whichever_step_every_record_is_there_once(topics, library):
    sink, dice, left, count = Sink(topics, library), random.Random(5), [], itertools.count()
    deaths = [(step, before) for step in STEPS for before in (True, False)]
    dice.shuffle(deaths)
    for step, before in deaths:
        sink.number(*itertools.islice(count, dice.randrange(1, 4)))
        mortal = DyingTransactional(sink, step, before=before)
        with pytest.raises(Died):
            sink.publish(dofn=Publish(mortal))
        left += mortal.left
    for _ in range(2):
        sink.publish()
    assert sink.written() == list(range(next(count)))
    for one in left:
        one.close()


@pytest.mark.slow
def test_somebody_who_was_replaced_cannot_commit(topics, library):
    sink = Sink(topics, library)
    sink.number(0, 1)
    mortal = DyingTransactional(sink, "commit", before=True)
    with pytest.raises(Died):
        sink.publish(dofn=Publish(mortal))
    sink.publish()
    (old,) = mortal.left
    with pytest.raises(KafkaWriteFailed):
        old.commit()
    assert sink.written() == [0, 1]
    old.close()


@pytest.mark.slow
def test_a_broker_that_is_killed_in_the_midst_of_a_transaction_costs_time_alone(
    broker, topics, library
):
    sink, killed = Sink(topics, library), []

    class Killing(Dying):
        def __getattr__(self, name):
            if name == "commit" and not killed:
                killed.append(True)
                broker.kill()
                broker.start()
            return getattr(self._transactions, name)

    mortal = DyingTransactional(sink, "", before=False)
    mortal._dying = partial(Killing, step="", before=False)
    for begin in range(0, 30, 5):
        sink.number(*range(begin, begin + 5))
        sink.publish(dofn=Publish(mortal))
    assert killed
    assert sink.written() == list(range(30))
    for one in mortal.left:
        one.close()


@pytest.mark.slow
def test_what_was_recorded_is_read_by_either_library(topics, library):
    sink = Sink(topics, library)
    history = History.begun(7, b"owner 1.")
    for recorded in (Recorded(3), sink.transactional.record(history, OwnerStage.OPEN)):
        one = sink.transactional.open(0)
        one.begin()
        one.record(recorded)
        one.commit()
        one.close()
        for reader in CLIENTS:
            other = Sink(topics, reader, topic=sink.topic).transactional.open(0)
            found = other.recorded()
            assert (found.number, found.note()) == (recorded.number, recorded.note())
            assert found.is_bare == recorded.is_bare
            other.close()


@pytest.mark.slow
def test_jobs_of_the_release_before_and_forgotten_offsets(topics, library):
    sink = Sink(topics, library)
    one = sink.transactional.open(0)
    one.begin()
    for content in range(2):
        one.send(sink.topic, 0, None, b"%d" % content, (), None)
    one.record(Recorded(2))
    one.commit()
    one.close()
    before = [(0, (n, ProducerRecord(None, b"%d" % n, sink.topic, 0))) for n in range(3)]
    sink.publish(before)
    sink.publish(before)
    sink.number(3)  # behind the number that the release before has left
    sink.publish()
    assert sink.written() == [0, 1, 2, 3]

    forgotten = Sink(topics, library)
    forgotten.number(0)
    forgotten.publish()
    topics.forget(forgotten.transactional.ident(0))
    with pytest.raises(KafkaRefused, match="the brokers have forgotten"):
        forgotten.publish()
    anyway = Sink(topics, library, topic=forgotten.topic, overruled=[f"sink/{forgotten.topic}"])
    anyway.publish([])
    anyway.cell = forgotten.cell
    anyway.number(1)
    anyway.publish()
    assert anyway.written() == [0, 1]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(patience, "_PAUSE", 0.05)
