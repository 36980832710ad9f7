"""Pairs that harnesses send go to their keys, many at a time."""

from __future__ import annotations

from collections import defaultdict

import pytest
from apache_beam import coders
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.fnapi.elements import Metadata, Output, encode_pair, leading_pairs
from sparkdrain.fnapi.errors import HarnessGarbled
from sparkdrain.shuffle.group_sender import GroupSender
from sparkdrain.shuffle.grouped_blocks import decode_groups
from sparkdrain.shuffle.grouping import GroupWriter, WindowedWriter
from sparkdrain.shuffle.keys import key_codec
from sparkdrain.shuffle.values import EncodedCoder

WINDOW = IntervalWindowCoder()
METADATA = Metadata(WINDOW)
WINDOWS = [IntervalWindow(0, 10), IntervalWindow(5, 15)]
# Two have the same window, and one has two windows.
SHARED = [(1, WINDOWS[:1]), (2, WINDOWS[:1]), (7, WINDOWS)]
HEADS = [METADATA.encode(WindowedValue(None, Timestamp(time), some)) for time, some in SHARED]
# Some have metadata in them, or are as long as a length that takes two bytes.
PARTS = st.sampled_from([*HEADS, HEADS[0][:-1], b"", b"\x00", b"\x01a", b"x" * 127, b"y" * 128])
BYTES = st.lists(PARTS, max_size=3).map(b"".join)
PAIRS = st.lists(st.tuples(st.integers(0, 2), st.tuples(BYTES, BYTES)), max_size=40)
VALUES = coders.ListCoder(coders.BytesCoder())


class Groups:
    """An edge to a GroupByKey: an outbox that keeps what it is given."""

    def __init__(self, kind: type[WindowedWriter] = WindowedWriter) -> None:
        self.sent_bytes = 0
        self.payloads: list[bytes] = []
        encode_key, _ = key_codec(coders.BytesCoder())
        sender = GroupSender(0, encode_key, self, self.route, 1 << 12)
        self.values = GroupWriter(sender, EncodedCoder())
        self.writer = kind(self.values, WINDOW)
        self.output = Output(self.writer, METADATA, pairs=True)

    def put(self, edge, partition, payload) -> None:
        self.sent_bytes += len(payload)
        self.payloads.append(payload)

    def producer(self, edge) -> str:
        return "a step"

    def route(self, keys):
        return [0] * len(keys)

    def read(self):
        """The values of each window and key, in the order in which they were sent."""
        self.writer.flush()
        found = defaultdict(list)
        for payload in self.payloads:
            section, groups = decode_groups(payload)
            for key, chunk in groups:
                found[WINDOW.decode(section), key] += VALUES.decode(chunk)
        return found


def grouped(pairs):
    found = defaultdict(list)
    for shared, (key, value) in pairs:
        for window in SHARED[shared][1]:
            found[window, key].append(value)
    return found


def in_any_order(groups):
    return {group: sorted(values) for group, values in groups.items()}


def message(pairs) -> bytes:
    return b"".join(HEADS[shared] + encode_pair(pair) for shared, pair in pairs)


@given(st.lists(PAIRS.filter(bool), max_size=4))
def test_all_values_come_to_their_keys_in_all_their_windows(messages):
    edge = Groups()
    for each in messages:
        edge.output.take(message(each))
    pairs = [pair for each in messages for pair in each]
    assert in_any_order(edge.read()) == in_any_order(grouped(pairs))
    assert edge.writer.elements == sum(len(SHARED[shared][1]) for shared, _ in pairs)


@given(PAIRS.filter(bool), st.data())
def test_a_pair_that_is_cut_short_is_refused_and_those_before_it_are_written(pairs, data):
    whole, last = message(pairs[:-1]), message(pairs[-1:])
    edge = Groups()
    with pytest.raises(HarnessGarbled):
        edge.output.take(whole + last[: data.draw(st.integers(1, len(last) - 1))])
    assert in_any_order(edge.read()) == in_any_order(grouped(pairs[:-1]))


@pytest.mark.parametrize("amid", [(b"k" + HEADS[0], b"v"), (b"k", b"v" + HEADS[0] + b"w")])
def test_metadata_in_a_pair_does_not_end_it(amid):
    first = HEADS[0] + encode_pair((b"a", b"b"))
    data = first + HEADS[0] + encode_pair(amid) + first
    assert leading_pairs(data, HEADS[0]) == ([b"a"], [b"\x01b"], len(first))


def test_a_long_key_is_not_taken_for_a_short_one():
    # Its length takes two bytes. Read as one, it makes a shorter key and a value that fits, too.
    pair = (b"k" * 127 + b"\x06", b"value")
    data = HEADS[0] + encode_pair(pair)
    assert leading_pairs(data, HEADS[0]) == ([pair[0]], [b"\x05value"], len(data))


class _OnlyRuns(WindowedWriter):
    def write(self, value, context):
        raise AssertionError(value)


def test_pairs_of_one_time_are_never_written_one_by_one():
    pairs = [(2, (b"%d" % (n % 7), b"%d" % n)) for n in range(3000)]
    edge = Groups(_OnlyRuns)
    for start in range(0, 3000, 1000):
        edge.output.take(message(pairs[start : start + 1000]))
    assert edge.read() == grouped(pairs)


def test_a_large_message_is_sent_before_it_is_all_there():
    pairs = [(2, (b"%d" % n, b"")) for n in range(5_000)]
    edge = Groups()
    edge.output.take(message(pairs))
    # Each pair is in two windows. At first, not many more than a thousand are kept.
    assert 1_000 < edge.writer.elements < 10_000
    assert in_any_order(edge.read()) == in_any_order(grouped(pairs))


def test_what_is_written_after_a_run_was_sent_is_not_lost():
    one_by_one = [(0, (b"a", b"1")), (1, (b"a", b"2"))]
    run = [(1, (b"%d" % n, b"")) for n in range(3000)]
    amid = [(1, (b"a", b"v" + HEADS[1]))]
    edge = Groups()
    edge.output.take(message(one_by_one))
    edge.output.take(message(run + amid))
    assert edge.writer.elements >= 1000, "a part was sent within the run"
    assert in_any_order(edge.read()) == in_any_order(grouped(one_by_one + run + amid))
