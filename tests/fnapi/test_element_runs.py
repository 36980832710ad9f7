"""What harnesses send goes into blocks of the shuffle, many elements at a time."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from apache_beam.coders import BytesCoder
from apache_beam.coders.coders import GlobalWindowCoder
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.fnapi.elements import Metadata, Output, encode_values, leading_run, prefixed
from sparkdrain.fnapi.errors import HarnessGarbled
from sparkdrain.shuffle.coding import ElementCoding
from sparkdrain.shuffle.elements import ElementWriter, read_runs

CODING = ElementCoding.of(BytesCoder(), GlobalWindowCoder())
METADATA = Metadata(GlobalWindowCoder())
HEADS = [
    METADATA.encode(WindowedValue(None, Timestamp(seconds), [GlobalWindow()]))
    for seconds in range(3)
]
# Some have metadata in them, or are as long as a length that takes two bytes.
PARTS = st.sampled_from([*HEADS, HEADS[0][:-1], b"", b"\x00", b"\x01a", b"x" * 127, b"y" * 128])
VALUES = st.lists(PARTS, max_size=3).map(b"".join)
ELEMENTS = st.lists(st.tuples(st.integers(0, 2), VALUES), max_size=40)
# Elements by the thousand have one time, or hardly two in a row have.
MANY = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 700)), max_size=8)


class Blocks:
    """An edge whose blocks are kept."""

    def __init__(self, targets: int = 1, kind: type[ElementWriter] = ElementWriter) -> None:
        self.blocks: list[tuple[int, bytes]] = []
        outbox = SimpleNamespace(slot=0, put=lambda _, *block: self.blocks.append(block))
        self.writer = kind(0, CODING, outbox, list(range(targets)), 1 << 12)
        self.output = Output(self.writer, METADATA, pairs=False)

    def read(self, target: int | None = None) -> list[tuple[int, bytes]]:
        """Elements with their times, of one target or of all."""
        self.writer.flush()
        return read(block for to, block in self.blocks if target in (None, to))


def read(blocks) -> list[tuple[int, bytes]]:
    found = []
    for block in blocks:
        for context, values in read_runs(memoryview(block), CODING):
            for value in values:
                time = (value if context is None else context).timestamp
                found.append((int(time), value.value if context is None else value))
    return found


def message(elements) -> bytes:
    return b"".join(HEADS[time] + prefixed(value) for time, value in elements)


@given(st.lists(ELEMENTS.filter(bool), max_size=4))
def test_all_elements_arrive_in_their_order(messages):
    edge = Blocks()
    for each in messages:
        edge.output.take(message(each))
    elements = [element for each in messages for element in each]
    assert edge.read() == elements
    assert edge.writer.elements == len(elements)


@given(MANY.filter(bool), st.integers(1, 3))
def test_elements_are_dealt_out_to_slots_and_none_is_lost(runs, targets):
    elements = [(time, b"%d" % n) for time, count in runs for n in range(count)]
    edge = Blocks(targets)
    edge.output.take(message(elements))
    assert sorted(edge.read()) == sorted(elements)


def test_elements_that_hardly_share_a_time_keep_theirs():
    elements = [(n % 3, b"%d" % n) for n in range(100)]
    edge = Blocks(targets=2)
    for each in elements:
        edge.output.take(message([each]))
    assert sorted(edge.read()) == sorted(elements)


def test_a_message_is_dealt_out_evenly():
    edge = Blocks(targets=4)
    edge.output.take(message([(1, b"%d" % n) for n in range(10_000)]))
    for target in range(4):
        assert 2_000 < len(edge.read(target)) < 3_000


@given(ELEMENTS.filter(bool), st.data())
def test_an_element_that_is_cut_short_is_refused_and_those_before_it_are_written(elements, data):
    whole, last = message(elements[:-1]), message(elements[-1:])
    edge = Blocks()
    with pytest.raises(HarnessGarbled):
        edge.output.take(whole + last[: data.draw(st.integers(1, len(last) - 1))])
    assert edge.read() == elements[:-1]


@given(st.lists(VALUES, max_size=10), st.sampled_from(HEADS))
def test_what_is_encoded_together_is_one_run(values, metadata):
    data = encode_values(metadata, values)
    assert data == b"".join(metadata + prefixed(value) for value in values)
    if values and not any(metadata in value for value in values):
        assert leading_run(data, metadata) == (list(map(prefixed, values)), len(data))


def test_metadata_in_a_value_does_not_end_it():
    head, first, last = HEADS[0], prefixed(b"a"), prefixed(b"b")
    amid = prefixed(b"c" + head + b"d")
    assert leading_run(head + first + head + amid + head + last, head) == (
        [first],
        len(head + first),
    )


class _OnlyRuns(ElementWriter):
    def write(self, value, context):
        raise AssertionError(value)


def test_elements_of_one_time_are_never_written_one_by_one():
    elements = [(1, b"%d" % n) for n in range(1000)]
    edge = Blocks(kind=_OnlyRuns)
    for start in range(0, 1000, 100):
        edge.output.take(message(elements[start : start + 100]))
    assert edge.read() == elements
