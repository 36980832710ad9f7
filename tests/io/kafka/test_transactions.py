"""What the client libraries are asked for so that records and numbers are there together."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sparkdrain.io.kafka.client import Partition
from sparkdrain.io.kafka.errors import KafkaRefused, KafkaUnreachable, KafkaWriteFailed
from sparkdrain.io.kafka.note import Note, OwnerStage, Recorded

for _library, _extra in (("confluent_kafka", "kafka-fast"), ("kafka", "kafka")):
    pytest.importorskip(
        _library, reason=f"needs the extra {_extra}: it is {_library} that is asked"
    )

from confluent_kafka import KafkaError, KafkaException  # noqa: E402
from kafka import KafkaConsumer, KafkaProducer  # noqa: E402
from kafka.structs import OffsetAndMetadata  # noqa: E402

from sparkdrain.io.kafka import confluent_producers, kafka_python_producers  # noqa: E402
from sparkdrain.io.kafka.confluent_producers import ConfluentTransactions  # noqa: E402
from sparkdrain.io.kafka.kafka_python_producers import KafkaPythonTransactions  # noqa: E402

MARK = Partition("out", 0)
RECORD = ("out", None, b"k", b"v", (), None)


class Library:
    """What was asked of producers and consumers; ``errors`` raises where a call is named."""

    def __init__(self):
        self.calls = []
        self.settings = []
        self.errors = {}
        self.answers = {}

    def opened(self, *config, **settings):
        self.settings.append({**(config[0] if config else {}), **settings})
        return Client(self)

    def names(self):
        return [name for name, *_ in self.calls]


class Opens:
    """A class of kafka-python; like that, it takes no settings that it does not know."""

    def __init__(self, library, known):
        self._library = library
        self.DEFAULT_CONFIG = known

    def __call__(self, **settings):
        assert settings.keys() <= self.DEFAULT_CONFIG.keys()
        return self._library.opened(**settings)


class Client:
    def __init__(self, library):
        self._library = library

    def __getattr__(self, name):
        def call(*arguments, **named):
            library = self._library
            library.calls.append((name, *arguments))
            if name in library.errors:
                raise library.errors[name]
            return library.answers.get(name, lambda *_, **__: None)(*arguments, **named)

        return call


class Promised:
    """The fate of a record that was sent."""

    def __init__(self, error):
        self.error = error

    def add_errback(self, told):
        if self.error is not None:
            told(self.error)


@pytest.fixture
def library(monkeypatch):
    library = Library()
    for real in (KafkaProducer, KafkaConsumer):
        fake = Opens(library, real.DEFAULT_CONFIG)
        monkeypatch.setattr(kafka_python_producers, real.__name__, fake)
    for name in ("Producer", "Consumer"):
        monkeypatch.setattr(confluent_producers.ck, name, library.opened)
    library.answers["send"] = lambda *_: Promised(None)
    return library


def kafka_python(library):
    transactions = KafkaPythonTransactions("broker", {"linger_ms": 5}, "job-0", MARK)
    transactions.fence()
    return transactions


def confluent(library):
    transactions = ConfluentTransactions("broker", {"linger.ms": 5}, "job-0", MARK)
    transactions.fence()
    return transactions


@pytest.fixture(params=[kafka_python, confluent])
def transactions(request, library):
    return request.param(library)


def plain(settings):
    return {name.replace(".", "_"): value for name, value in settings.items()}


def test_only_what_was_committed_is_read_and_everything_is_acknowledged(transactions, library):
    reading, writing = map(plain, library.settings)
    assert reading["isolation_level"] == "read_committed"
    assert reading["enable_auto_commit"] is False
    assert reading["group_id"] == writing["transactional_id"] == "job-0"
    assert writing["acks"] == "all"
    assert writing["linger_ms"] == 5
    assert "init_transactions" in library.names()


def test_records_and_number_are_committed_together(transactions, library):
    library.calls.clear()
    transactions.begin()
    transactions.send(*RECORD)
    transactions.record(Recorded(7, "note"))
    transactions.commit()
    kept = ("begin_transaction", "send", "produce", "send_offsets_to_transaction")
    asked = [name for name in library.names() if name in (*kept, "commit_transaction")]
    assert asked[0] == "begin_transaction"
    assert asked[1] in ("send", "produce")
    assert asked[2:] == ["send_offsets_to_transaction", "commit_transaction"]
    (offsets,) = [args[0] for name, *args in library.calls if name == asked[2]]
    (number,) = offsets.values() if isinstance(offsets, dict) else offsets
    assert (number.offset, number.metadata) == (7, "note")


def test_a_record_that_was_not_taken_keeps_the_others_from_being_committed(library):
    library.answers["send"] = lambda *_: Promised(ValueError("too large"))
    transactions = kafka_python(library)
    transactions.begin()
    transactions.send(*RECORD)
    transactions.record(Recorded(1))
    with pytest.raises(KafkaWriteFailed, match=r"a transaction failed: .*too large"):
        transactions.commit()
    assert "commit_transaction" not in library.names()
    assert "flush" in library.names()


def test_a_failure_of_the_transaction_before_is_not_one_of_the_next(library):
    library.answers["send"] = lambda *_: Promised(ValueError("too large"))
    transactions = kafka_python(library)
    transactions.begin()
    transactions.send(*RECORD)
    library.answers["send"] = lambda *_: Promised(None)
    transactions.fence()
    transactions.begin()
    transactions.commit()
    assert library.names()[-1] == "commit_transaction"


@pytest.mark.parametrize(
    ("offset", "metadata", "recorded"),
    [
        (-1, "", None),
        (0, "", Recorded(0)),
        (12, None, Recorded(12)),
        (12, "note", Recorded(12, "note")),
    ],
)
def test_no_number_is_none_and_not_one_below_zero(library, offset, metadata, recorded):
    found = OffsetAndMetadata(offset, metadata, -1)
    library.answers["committed"] = lambda *_, **named: found if named["metadata"] else offset
    assert kafka_python(library).recorded() == recorded
    offset = -1001 if offset < 0 else offset
    found = SimpleNamespace(error=None, offset=offset, metadata=metadata)
    library.answers["committed"] = lambda *_: [found]
    assert confluent(library).recorded() == recorded


class NotEnded:
    """An offset whose metadata is followed by what else there is in memory."""

    error, offset = None, 7

    def __init__(self, memory):
        self._memory = memory

    @property
    def metadata(self):
        return self._memory.decode()


@pytest.mark.parametrize("rest", [b"", b"x", b'{"a":', b"\xc0\xff"])
def test_metadata_without_an_end_is_read(library, rest):
    note = Note(b"owner 1.", b"digest..", OwnerStage.OPEN, "job }", (b"owner 2.", b"digest.."))
    library.answers["committed"] = lambda *_: [NotEnded(note.text().encode() + rest)]
    recorded = confluent(library).recorded()
    assert (recorded.number, recorded.note()) == (7, note)


def test_a_group_that_has_never_committed_has_no_number(library):
    assert kafka_python(library).recorded() is None


def test_a_number_that_cannot_be_read_is_an_error(library):
    found = SimpleNamespace(error=KafkaError(KafkaError.NOT_COORDINATOR), offset=-1001)
    library.answers["committed"] = lambda *_: [found]
    with pytest.raises(KafkaUnreachable):
        confluent(library).recorded()


def test_a_producer_that_lost_its_broker_begins_nothing(library):
    transactions = confluent(library)
    (heard,) = [one["error_cb"] for one in library.settings if "error_cb" in one]
    transactions.begin()
    heard(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    with pytest.raises(KafkaUnreachable, match="a broker was away"):
        transactions.begin()
    assert library.names().count("begin_transaction") == 1
    transactions.fence()
    transactions.begin()
    assert library.names().count("begin_transaction") == 2


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaRefused),
        (KafkaError._TRANSPORT, KafkaUnreachable),
        (KafkaError._FENCED, KafkaWriteFailed),
    ],
)
def test_a_commit_that_failed_is_never_taken_for_one(library, code, kind):
    library.errors["commit_transaction"] = KafkaException(KafkaError(code))
    transactions = confluent(library)
    transactions.begin()
    with pytest.raises(kind, match="a transaction failed"):
        transactions.commit()


def test_a_full_queue_is_waited_for_and_nothing_is_left_out(library):
    full = [BufferError(), BufferError()]

    def produce(*arguments, **named):
        if full:
            raise full.pop()

    library.answers["produce"] = produce
    transactions = confluent(library)
    transactions.send(*RECORD)
    assert library.names()[-5:] == ["produce", "poll", "produce", "poll", "produce"]
