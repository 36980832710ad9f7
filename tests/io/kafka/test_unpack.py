"""Records become elements; those that cannot be decoded say where they are."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.io.kafka.client import FetchedRecords, Partition
from sparkdrain.io.kafka.errors import UnreadableRecord
from sparkdrain.io.kafka.records import BadRecord, KafkaRecord, ProducerRecord, Written
from sparkdrain.io.kafka.unpack import UnpackPairs, UnpackRecords

texts = st.text(max_size=5)
data = st.one_of(st.none(), st.binary(max_size=5))
whole = st.integers(-(1 << 60), 1 << 60)
headers = st.lists(st.tuples(texts, data), max_size=3).map(tuple)
anything = st.one_of(data, texts, st.integers(-5, 5), st.tuples(texts, st.integers(0, 9)))
kafka_records = st.builds(KafkaRecord, texts, whole, whole, whole, anything, anything, headers)
bad_records = st.builds(BadRecord, texts, whole, whole, whole, data, data, headers, texts)
optional = st.one_of(st.none(), whole)
producer_records = st.builds(
    ProducerRecord, anything, anything, st.one_of(st.none(), texts), optional, optional, headers
)
written = st.builds(Written, texts, whole, whole, whole)


@given(st.one_of(kafka_records, bad_records, producer_records, written))
def test_records_come_out_of_their_coders_as_they_went_in(record):
    coder = coders.registry.get_coder(type(record))
    again = coder.decode(coder.encode(record))
    assert again == record
    assert type(again) is type(record)
    assert "ickle" not in type(coder).__name__


def batch(*records: tuple[bytes | None, bytes | None], **columns: object) -> FetchedRecords:
    count = len(records)
    filled = {
        "offsets": [10 + n for n in range(count)],
        "times": [1000 * n for n in range(count)],
        "headers": [(("h", b"%d" % n),) for n in range(count)],
        **columns,
    }
    return FetchedRecords(
        Partition("t", 3),
        keys=[key for key, _ in records],
        values=[value for _, value in records],
        after=10 + count,
        **filled,
    )


def unpacked(dofn, of):
    dofn.setup()
    return list(dofn.process(of))


def test_pairs_have_the_time_of_their_records():
    some = batch((b"k", b"v"), (None, None), times=[5, 7])
    out = unpacked(UnpackPairs(), some)
    assert [(one.value, one.timestamp) for one in out] == [
        ((b"k", b"v"), Timestamp(0.005)),
        ((None, None), Timestamp(0.007)),
    ]


def test_keys_and_values_are_decoded_but_for_nulls():
    text, number = coders.StrUtf8Coder(), coders.VarIntCoder()
    dofn = UnpackRecords(text, number, with_metadata=False, set_aside=False)
    some = batch(("ä".encode(), b"\7"), (None, None))
    assert [one.value for one in unpacked(dofn, some)] == [("ä", 7), (None, None)]


def test_records_with_metadata_have_everything():
    dofn = UnpackRecords(None, coders.StrUtf8Coder(), with_metadata=True, set_aside=False)
    _, second = unpacked(dofn, batch((b"a", b"b"), (b"c", None)))
    assert second.value == KafkaRecord("t", 3, 11, 1000, b"c", None, (("h", b"1"),))


def test_a_record_that_cannot_be_decoded_names_topic_partition_and_offset():
    dofn = UnpackRecords(None, coders.StrUtf8Coder(), with_metadata=False, set_aside=False)
    with pytest.raises(UnreadableRecord) as failed:
        unpacked(dofn, batch((b"k", b"fine"), (b"k", b"\xff")))
    assert str(failed.value).startswith(
        r"the value of the record at t[3], offset 11, cannot be decoded: b'\xff'."
    )
    assert isinstance(failed.value.__cause__, UnicodeDecodeError)


def test_a_record_that_cannot_be_decoded_is_set_aside_as_it_is_if_that_is_wanted():
    dofn = UnpackRecords(coders.StrUtf8Coder(), None, with_metadata=False, set_aside=True)
    good, bad, last = unpacked(dofn, batch((b"k", b"1"), (b"\xff", b"2"), (None, b"3")))
    assert (good.value, last.value) == (("k", b"1"), (None, b"3"))
    assert isinstance(bad, TaggedOutput)
    assert bad.value.timestamp == Timestamp(1)
    record = bad.value.value
    assert record[:7] == ("t", 3, 11, 1000, b"\xff", b"2", (("h", b"1"),))
    assert record.error.startswith("key: UnicodeDecodeError: ")


def test_unpacking_is_as_beam_wants_generators():
    with beam.Pipeline(runner="DirectRunner") as p:
        out = (
            p | beam.Create([0]) | beam.FlatMap(lambda _: UnpackPairs().process(batch((b"", b""))))
        )
        _ = out | beam.Map(lambda pair: pair == (b"", b"") or 1 / 0)
