"""What a writer of a KEYED edge puts together comes apart as it was."""

from __future__ import annotations

from collections import defaultdict

import pytest
from apache_beam import coders
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.transforms.window import IntervalWindow, WindowedValue
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN, PaneInfo, PaneInfoTiming
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.notes import maker_of
from sparkdrain.shuffle.blocks import decode
from sparkdrain.shuffle.coding import ElementCoding
from sparkdrain.shuffle.group_sender import GroupSender
from sparkdrain.shuffle.grouped_blocks import split_groups
from sparkdrain.shuffle.grouping import GroupWriter, KeyedWriter
from sparkdrain.shuffle.keyed_blocks import NO_CHUNK, KeyedChunks
from sparkdrain.shuffle.keys import Owners, key_codec
from sparkdrain.shuffle.merging import GroupMerger
from sparkdrain.shuffle.outbox import Outbox, ShuffleLayout

VALUE = coders.TupleCoder([coders.StrUtf8Coder(), coders.VarIntCoder()])
WINDOW = IntervalWindowCoder()
CODING = ElementCoding.of(VALUE, WINDOW)
KEYS = {"text": coders.StrUtf8Coder(), "any": coders.FastPrimitivesCoder()}

late_pane = PaneInfo(False, True, PaneInfoTiming.LATE, 3, 2)
interval = st.sampled_from([IntervalWindow(0, 10), IntervalWindow(5, 15), IntervalWindow(-7, 3)])
contexts = st.builds(
    WindowedValue,
    st.none(),
    st.sampled_from([Timestamp(3), Timestamp(3.5), MIN_TIMESTAMP, MAX_TIMESTAMP]),
    st.lists(interval, min_size=1, max_size=2).map(tuple),
    st.sampled_from([PANE_INFO_UNKNOWN, PANE_INFO_UNKNOWN, late_pane]),
)
values = st.tuples(st.text(max_size=4), st.integers(-300, 1 << 40))
plain = st.sampled_from(["", "a", "b", "longer"])
runs = st.lists(st.tuples(contexts, st.lists(st.tuples(plain, values), max_size=6)), max_size=6)


def sent(elements, key_coder, block_bytes, few=0):
    """Blocks by slot, of runs that share a context."""
    blocks = defaultdict(list)
    layout = ShuffleLayout(3, 1, 0)
    outbox = Outbox(layout, 0, 0, 7, lambda target, record: blocks[target].append(record))
    encode_key, _ = key_codec(key_coder)
    route = Owners(range(3)).of
    sender = GroupSender(1, encode_key, outbox, route, block_bytes)
    writer = KeyedWriter(sender, VALUE, WINDOW, few)
    for context, pairs in elements:
        for pair in pairs:
            writer.write(pair, context)
    writer.flush()
    assert writer.elements == sum(len(pairs) for _, pairs in elements)
    return blocks


def shown(value, context):
    return value, context.timestamp_micros, tuple(context.windows), context.pane_info


@given(
    runs, st.sampled_from(sorted(KEYS)), st.sampled_from([20, 1 << 20]), st.sampled_from([0, 1, 3])
)
def test_every_element_arrives_with_its_key_at_its_slot_in_order(elements, keys, block_bytes, few):
    _, decode_key = key_codec(KEYS[keys])
    found = defaultdict(list)
    for slot, records in sent(elements, KEYS[keys], block_bytes, few).items():
        merger = GroupMerger(1 << 20, lambda: None)
        for record in records:
            merger.add(bytes(decode(record).payload))
        table = merger.table()
        assert table is not None
        for encoded, chunks in table.items():
            assert Owners(range(3)).of([encoded]) == [slot]
            for chunk in chunks if type(chunks) is list else [chunks]:
                for element in CODING.windowed_values.decode(chunk):
                    found[decode_key(encoded)].append(shown(element.value, element))
    expected = defaultdict(list)
    for context, pairs in elements:
        for key, value in pairs:
            expected[key].append(shown(value, context))
    assert found == expected


CONTEXT = WindowedValue(None, Timestamp(3), (IntervalWindow(0, 10),))


def sizes(keys, few):
    """How many keys are in each block, if each element is "" and 0."""
    pairs = [(CONTEXT, [(key, ("", 0)) for key in keys])]
    records = sent(pairs, coders.StrUtf8Coder(), 1 << 20, few)[0]
    return [len(split_groups(bytes(decode(record).payload))[1]) for record in records]


def test_where_keys_have_few_elements_a_few_are_sent_at_a_time_and_sometimes_many():
    distinct = [str(number) for number in range(40_000)]
    assert len(sizes(distinct, 0)) < 5
    found = sizes(distinct, 50)
    # The first says that keys have one element each; after these there is another look.
    assert found[0] > 200
    assert max(found[1:257]) < 50
    assert found[257] > 200


def test_where_keys_have_several_elements_many_are_sent_at_a_time():
    again = [str(number % 100) for number in range(40_000)]
    assert sizes(again, 50) == sizes(again, 0)


def chunks_of(elements):
    for records in sent(elements, KEYS["text"], 1 << 20).values():
        for record in records:
            yield from split_groups(bytes(decode(record).payload))[2]


@given(runs)
def test_what_is_known_by_its_beginning_is_decoded_alike(elements):
    chunks = KeyedChunks(CODING, lambda _: False)
    for chunk in chunks_of(elements):
        whole = CODING.windowed_values.decode(chunk)
        found = chunks.start(chunk)
        assert not chunk.startswith(NO_CHUNK)
        assert (found is not None) == (len(whole) == 1 and len(whole[0].windows) == 1)
        if found is not None:
            (element,) = whole
            start, known = found
            assert chunk.startswith(start)
            value = chunks.decode_value(chunk[len(start) :])
            assert shown(value, known) == shown(element.value, element)


@given(runs, interval)
def test_chunks_that_are_late_have_no_beginning(elements, expired):
    chunks = KeyedChunks(CODING, lambda element: element.windows[0] == expired)
    for chunk in chunks_of(elements):
        found = chunks.start(chunk)
        assert found is None or found[1].windows[0] != expired


@pytest.mark.parametrize(("key", "value"), [("key", "no number"), (b"no text", 1)])
def test_an_error_of_a_coder_says_what_was_being_encoded_however_late_that_is(key, value):
    outbox = Outbox(ShuffleLayout(1, 1, 0), 0, 0, 7, lambda *_: None)
    outbox.names[1] = "Make"
    sender = GroupSender(1, str.encode, outbox, Owners([0]).of, 1 << 20)
    writer = GroupWriter(sender, coders.VarIntCoder())
    writer.add([writer.table(b"")], key, value)
    with pytest.raises(TypeError) as failed:
        writer.flush()
    assert maker_of(failed.value) == "Make"
