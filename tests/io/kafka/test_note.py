"""What the brokers keep of a group can be read again, is small, and tells histories apart."""

from __future__ import annotations

import pytest
from histories import grown, unpacked
from hypothesis import example, given
from hypothesis import strategies as st

from sparkdrain.io.kafka import ProducerRecord
from sparkdrain.io.kafka.note import Note, OwnerStage, Recorded
from sparkdrain.io.kafka.outbox import History, read_stamp

BYTES = st.binary(min_size=8, max_size=8)
RECORDS = st.builds(
    ProducerRecord,
    st.none() | st.binary(max_size=3),
    st.none() | st.binary(max_size=3),
    st.sampled_from(["out", "other"]),
    st.none() | st.integers(0, 3),
    st.none() | st.integers(0, 3),
    st.lists(st.tuples(st.text(max_size=2), st.none() | st.binary(max_size=2)), max_size=2),
)


@example(b"owner 1.", b"digest..", OwnerStage.BEGUN, "\U0001f4a7" * 200, (b"owner 0.", b"digest 0"))
@given(BYTES, BYTES, st.sampled_from(OwnerStage), st.text(), st.none() | st.tuples(BYTES, BYTES))
def test_a_note_is_read_as_it_was_written_but_for_a_long_name(owner, digest, stage, job, behind):
    note = Note(owner, digest, stage, job, behind)
    text = note.text()
    assert len(text) <= 500
    read = Recorded(7, text).note()
    assert read == Note(owner, digest, stage, read.job, behind)
    assert job.startswith(read.job)
    assert read.job == job or len(read.job) == 24


@pytest.mark.parametrize(
    "metadata", ["", "x", "1", "[]", "{}", '{"sparkdrain":2}', '{"sparkdrain":1,"owner":"x"}']
)
def test_other_metadata_is_no_note(metadata):
    assert Recorded(7, metadata).note() is None


def test_a_zero_at_the_end_is_no_metadata():
    assert Recorded(7).is_bare
    assert Recorded(7, "\0").is_bare
    assert not Recorded(7, "x\0").is_bare
    note = Note(b"owner 1.", b"digest..", OwnerStage.OPEN)
    assert Recorded(7, note.text() + "\0").note() == note


def history_of(records, owner=b"owner 1.", begun_at=0):
    history, stamps = History.begun(begun_at, owner), []
    for record in records:
        history, stamp = grown(history, record)
        stamps.append(read_stamp(stamp))
    return history, stamps


@given(st.lists(RECORDS, max_size=4), st.lists(RECORDS, max_size=4))
def test_equal_histories_are_of_equal_records_in_one_order(some, others):
    one, other = history_of(some)[0], history_of(others)[0]
    assert (one == other) == (some == others)


def test_histories_of_other_owners_and_beginnings_are_others():
    record = ProducerRecord(b"k", b"v", "out")
    histories = [
        history_of([record]),
        history_of([record], owner=b"owner 2."),
        history_of([record], begun_at=1),
        history_of([record, None]),
    ]
    assert len({history.digest for history, _ in histories}) == 4


@given(st.lists(RECORDS, min_size=1, max_size=4))
def test_stamps_lead_from_one_to_the_next(records):
    history, stamps = history_of(records)
    assert stamps[0].before == History.begun(0, b"owner 1.").digest
    assert [stamp.before for stamp in stamps[1:]] == [stamp.after for stamp in stamps[:-1]]
    assert stamps[-1].after == history.digest
    assert unpacked(history.packed()) == history


def test_records_that_are_no_plain_tuples_have_digests_too():
    class Text(str):
        __slots__ = ()

    def digest(topic, headers):
        return history_of([ProducerRecord(b"k", b"v", topic, headers=headers)])[0].digest

    assert digest(Text("out"), ()) == digest(Text("out"), ()) != digest(Text("in"), ())
    assert digest("out", [(Text("\udc80"), b"")]) != digest("out", [(Text("\udc81"), b"")])
