"""Records are coded in one way, whatever makes it fast."""

from __future__ import annotations

from apache_beam import coders
from hypothesis import example, given
from hypothesis import strategies as st

from sparkdrain.io.kafka.records import ProducerRecord, ProducerRecordCoder

DATA = st.none() | st.binary(max_size=5) | st.tuples(st.binary(max_size=5), st.binary(max_size=5))
RECORDS = st.builds(
    ProducerRecord,
    DATA,
    DATA,
    st.none() | st.text(max_size=3),
    st.none() | st.integers(0, 300),
    st.none() | st.integers(-1, 1 << 60),
    st.lists(st.tuples(st.text(max_size=2), st.none() | st.binary(max_size=2)), max_size=2).map(
        tuple
    ),
)


@given(st.lists(RECORDS, max_size=5))
@example([ProducerRecord(b"k", b"v", topic) for topic in ("out", "in", None)])
def test_a_record_is_coded_as_its_fields_one_after_the_other(records):
    coder, of_fields = ProducerRecordCoder(), coders.TupleCoder(ProducerRecordCoder.fields)
    for record in records:
        encoded = coder.encode(record)
        # Checkpoints of earlier releases have records in this form.
        assert encoded == of_fields.encode(tuple(record))
        assert coder.decode(encoded) == record
        assert type(coder.decode(encoded)) is ProducerRecord
    many = coders.IterableCoder(coders.TupleCoder([coder, coder]))
    pairs = [(record, record) for record in records]
    assert list(many.decode(many.encode(pairs))) == pairs
