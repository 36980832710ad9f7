"""A shard that is let through has seen all of its input, whatever happens to it on the way."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparkdrain.drain.states import DrainMessage
from sparkdrain.errors import TruncatedInput
from sparkdrain.shuffle.blocks import Block, EndMessage, decode, encode_block, encode_end
from sparkdrain.shuffle.complete import Completeness, agree
from sparkdrain.shuffle.outbox import Outbox, ShuffleLayout

SLOTS = 3
LAYOUT = ShuffleLayout(slots=SLOTS, levels=3, side_buckets=2)
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
    assert all(isinstance(block, Block) for block in complete.blocks(records))
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


def some_records():
    """What arrives of two blocks of each producer; and the place of the first producer's end."""
    records = records_of({key: [(0, CONSUMER, b"a"), (1, CONSUMER, b"b")] for key in PRODUCERS})
    return records, next(n for n, r in enumerate(records) if isinstance(decode(r), EndMessage))


@pytest.mark.parametrize("what", ["lost", "doubled", "edge", "sequence", "size"])
def test_a_lost_doubled_or_other_block_is_noticed(what):
    records, _ = some_records()
    match what:
        case "lost":
            del records[0]
        case "doubled":
            records.append(records[0])
        case _:
            records[0] = altered(records[0], what)
    with pytest.raises(TruncatedInput, match=r"sent 2 blocks, \d arrived"):
        verdict(records)


@pytest.mark.parametrize("what", ["block", "end"])
def test_records_of_a_producer_that_is_not_expected_are_an_error(what):
    records, end = some_records()
    record = encode_block(7, 0, 0, 0, b"a")
    if what == "end":
        record = encode_end(replace(decode(records[end]), level=7, blocks=0, checksum=0))
    with pytest.raises(TruncatedInput, match=r"unexpected records from \[\(7, \d\)\]"):
        verdict([*records, record])


def test_a_second_end_of_a_producer_is_an_error():
    records, end = some_records()
    with pytest.raises(TruncatedInput, match="ended twice"):
        verdict([*records, records[end]])


def ended(**ends):
    complete = Completeness(frozenset((0, slot) for slot in range(len(ends))))
    for slot, (frontiers, drain) in enumerate(ends.values()):
        end = encode_end(EndMessage(0, slot, 9, 0, 0, frontiers, drain))
        assert list(complete.blocks([end])) == []
    return complete


def test_the_frontier_of_an_edge_is_that_of_its_slowest_producer():
    complete = ended(a=(((1, 5), (2, 9)), None), b=(((1, 3),), None), c=(((1, 4), (2, 10)), None))
    assert complete.frontiers() == {1: 3, 2: 9}


def test_what_every_producer_tells_of_the_drain_is_heard():
    messages = [DrainMessage("run", slot, (1,)) for slot in range(3)]
    complete = ended(a=((), messages[0]), b=((), None), c=((), messages[1]), d=((), messages[2]))
    assert complete.drains() == messages


attempts = st.dictionaries(
    st.tuples(st.integers(0, 1), st.integers(0, 2)), st.integers(0, 3), max_size=6
)


@given(attempts=attempts, cuts=st.lists(st.sets(st.integers(0, 5)), max_size=5))
def test_consumers_that_saw_the_same_attempts_agree(attempts, cuts):
    producers = sorted(attempts)
    agree({producers[i]: attempts[producers[i]] for i in cut if i < len(producers)} for cut in cuts)


@example(seen=[{(0, 0): 1}, {(0, 0): 2}])
@example(seen=[{(0, 0): 2}, {(0, 0): 1}])
@given(seen=st.lists(attempts, max_size=5))
def test_consumers_agree_only_if_no_producer_was_seen_twice_with_different_attempts(seen):
    stamps = {(producer, stamp) for one in seen for producer, stamp in one.items()}
    if len({producer for producer, _ in stamps}) == len(stamps):
        agree(seen)
    else:
        with pytest.raises(TruncatedInput, match="run again"):
            agree(seen)
