"""A shard that is let through has seen all of its input, whatever happens to it on the way."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.errors import TruncatedInput
from sparkdrain.shuffle.blocks import Block, EndMessage, decode, encode_block, encode_end
from sparkdrain.shuffle.complete import Completeness, agree
from sparkdrain.shuffle.outbox import Layout, Outbox

SLOTS = 3
LAYOUT = Layout(slots=SLOTS, levels=3, side_buckets=2)
CONSUMER = LAYOUT.shard(2, 1)
PRODUCERS = frozenset((level, slot) for level in (0, 1) for slot in range(SLOTS))

payloads = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from([CONSUMER, LAYOUT.shard(2, 0)]), st.binary()),
    max_size=6,
)
sent_by_all = st.fixed_dictionaries(dict.fromkeys(sorted(PRODUCERS), payloads))


def records_of(sent: dict) -> list[bytes]:
    """What the producers' outboxes send to the consumer."""
    records = []

    def keep(partition: int, record: bytes) -> None:
        if partition == CONSUMER:
            records.append(record)

    for (level, slot), blocks in sent.items():
        outbox = Outbox(LAYOUT, level, slot, attempt=100 * level + slot, send=keep)
        for edge, partition, payload in blocks:
            outbox.put(edge, partition, payload)
        outbox.end()
    return records


def verdict(records: list[bytes]) -> dict:
    """What a shard that reads ``records`` comes to."""
    complete = Completeness(PRODUCERS)
    for record in records:
        message = decode(record)
        if isinstance(message, EndMessage):
            complete.saw_end(message)
        else:
            assert isinstance(message, Block)
            complete.saw_block(
                message.level,
                message.producer,
                message.edge,
                message.sequence,
                len(message.payload),
            )
    return complete.verify()


def altered(record: bytes, what: str) -> bytes:
    """``record`` with one thing about it changed."""
    message = decode(record)
    if isinstance(message, EndMessage):
        changes = {"sequence": "blocks", "edge": "checksum", "size": "blocks"}
        field = changes.get(what, what)
        return encode_end(replace(message, **{field: getattr(message, field) + 1}))
    payload = bytes(message.payload) + (b"x" if what == "size" else b"")
    if what != "size":
        message = replace(message, **{what: getattr(message, what) + 1})
    return encode_block(message.level, message.edge, message.producer, message.sequence, payload)


@st.composite
def mishaps(draw, records: list[bytes]) -> list[bytes]:
    """``records`` after some were lost, doubled or changed."""
    for _ in range(draw(st.integers(1, 4))):
        if not records:
            break
        at = draw(st.integers(0, len(records) - 1))
        match draw(st.sampled_from(["drop", "double", "alter", "cut"])):
            case "drop":
                records = records[:at] + records[at + 1 :]
            case "double":
                records = [*records, records[at]]
            case "alter":
                what = st.sampled_from(["level", "producer", "edge", "sequence", "size"])
                records = [*records[:at], altered(records[at], draw(what)), *records[at + 1 :]]
            case "cut":
                records = records[:at]
    return records


@given(sent=sent_by_all, data=st.data())
def test_complete_input_passes_in_any_order_and_names_each_producers_attempt(sent, data):
    records = data.draw(st.permutations(records_of(sent)))
    assert verdict(records) == {(level, slot): 100 * level + slot for level, slot in PRODUCERS}


@given(sent=sent_by_all, data=st.data())
def test_input_that_passes_is_what_was_sent(sent, data):
    before = records_of(sent)
    after = data.draw(mishaps(before))
    try:
        verdict(after)
    except TruncatedInput:
        return
    assert sorted(after) == sorted(before)


@given(sent=sent_by_all, data=st.data())
def test_one_lost_record_is_always_noticed(sent, data):
    records = records_of(sent)
    del records[data.draw(st.integers(0, len(records) - 1))]
    with pytest.raises(TruncatedInput):
        verdict(records)


@given(sent=sent_by_all, data=st.data())
def test_one_doubled_record_is_always_noticed(sent, data):
    records = records_of(sent)
    records.append(data.draw(st.sampled_from(records)))
    with pytest.raises(TruncatedInput):
        verdict(records)


def test_no_input_at_all_is_not_complete_input():
    with pytest.raises(TruncatedInput, match="no end message from"):
        verdict([])


def test_a_shard_that_expects_nobody_is_complete_with_nothing():
    assert Completeness(frozenset()).verify() == {}


attempts = st.dictionaries(
    st.tuples(st.integers(0, 1), st.integers(0, 2)), st.integers(0, 3), max_size=6
)


@given(attempts=attempts, cuts=st.lists(st.sets(st.integers(0, 5)), max_size=5))
def test_consumers_that_saw_the_same_attempts_agree(attempts, cuts):
    producers = sorted(attempts)
    agree({producers[i]: attempts[producers[i]] for i in cut if i < len(producers)} for cut in cuts)


@given(seen=st.lists(attempts, max_size=5))
def test_consumers_agree_only_if_no_producer_was_seen_twice_with_different_attempts(seen):
    stamps = {(producer, stamp) for one in seen for producer, stamp in one.items()}
    if len({producer for producer, _ in stamps}) == len(stamps):
        agree(seen)
    else:
        with pytest.raises(TruncatedInput, match="run again"):
            agree(seen)
