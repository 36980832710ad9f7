from __future__ import annotations

from sparkdrain.drain.states import DrainMessage
from sparkdrain.shuffle.blocks import Block, EndMessage, decode, encode_block, encode_end
from sparkdrain.shuffle.complete import Completeness
from sparkdrain.shuffle.outbox import Outbox, ShuffleLayout


def test_a_drain_message_travels_in_an_end_message():
    message = DrainMessage("job é/1", 3, (7, 1 << 20))
    end = EndMessage(2, 3, 99, 0, 0, ((7, -5), (8, 6)), message)
    assert decode(encode_end(end)) == end


def test_a_drain_message_may_name_no_edge():
    end = EndMessage(2, 3, 99, 0, 0, (), DrainMessage("job/1", 3, ()))
    assert decode(encode_end(end)) == end


def test_a_job_that_is_not_drained_sends_none():
    end = EndMessage(2, 3, 99, 0, 0, ((7, -5),))
    assert decode(encode_end(end)) == end


def test_a_block_tells_whether_its_elements_are_there_because_of_the_drain():
    for of_drain in (False, True):
        block = decode(encode_block(1, 2, 3, 4, b"elements", of_drain=of_drain))
        assert isinstance(block, Block)
        assert (block.of_drain, bytes(block.payload)) == (of_drain, b"elements")


def test_a_consumer_is_told_of_the_edges_that_lead_to_it():
    sent: dict[int, list[bytes]] = {}
    layout = ShuffleLayout(slots=2, levels=3, side_buckets=0)
    outbox = Outbox(layout, 0, 1, 0, lambda to, record: sent.setdefault(to, []).append(record))
    outbox.begin(5, outbox.send)
    message = DrainMessage("job/1", 1, (10, 11, 20))
    outbox.end({1: [(10, 7), (11, 8)], 2: [(20, 9), (21, 3)]}, message)
    for level, edges in ((1, (10, 11)), (2, (20,))):
        for slot in range(2):
            complete = Completeness(frozenset({(0, 1)}))
            assert list(complete.blocks(sent[layout.shard(level, slot)])) == []
            assert complete.drains() == [DrainMessage("job/1", 1, edges)]


def test_a_new_round_begins_with_what_is_not_of_the_drain():
    outbox = Outbox(ShuffleLayout(1, 2, 0), 0, 0, 0, lambda to, record: None)
    outbox.of_drain = True
    outbox.begin(1, outbox.send)
    assert not outbox.of_drain
