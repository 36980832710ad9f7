"""Taking blocks apart by doors: nothing is lost, nothing twice, all before the right door."""

from __future__ import annotations

from collections import Counter

from apache_beam import coders
from apache_beam.transforms.window import IntervalWindow, WindowedValue
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.rounds.sides.sorting import GroupSorter, RunSorter
from sparkdrain.shuffle.blocks import Block, decode
from sparkdrain.shuffle.coding import ElementCoding
from sparkdrain.shuffle.elements import ElementWriter, read_runs
from sparkdrain.shuffle.grouped_blocks import decode_groups, encode_groups
from sparkdrain.shuffle.outbox import Outbox, ShuffleLayout

WINDOWS = [IntervalWindow(start, start + 10) for start in range(0, 50, 10)]
CODING = ElementCoding.of(coders.VarIntCoder(), coders.coders.IntervalWindowCoder())
LATE = WINDOWS[0]


class ByWindow:
    """A door in front of each window, but the first window is over."""

    def split(self, windows, frontier):
        assert frontier == 77
        doors = {}
        for window in windows:
            doors.setdefault(None if window == LATE else door_of(window), []).append(window)
        return doors


def door_of(window):
    # Some windows have a door in common.
    return b"%d" % (int(window.start) // 20)


def element(value, time, windows):
    return WindowedValue(value, Timestamp(time), tuple(windows))


elements = st.builds(
    element,
    st.integers(0, 100),
    st.integers(-5, 5),
    st.lists(st.sampled_from(WINDOWS), min_size=1, max_size=3, unique=True),
)
doors = st.sets(st.sampled_from([door_of(window) for window in WINDOWS]))


def by_window(elements, key=b""):
    return Counter((key, e.value, e.timestamp, w) for e in elements for w in e.windows)


def block_of(elements):
    sent = []
    layout = ShuffleLayout(1, 1, 0)
    outbox = Outbox(layout, 0, 0, 1, lambda _, record: sent.append(decode(record)))
    writer = ElementWriter(1, CODING, outbox, [layout.shard(0, 0)], 1 << 20)
    for each in elements:
        writer.write(each.value, each)
    writer.flush()
    return memoryview(b"".join(b.payload for b in sent if isinstance(b, Block)))


def elements_in(payload):
    found = []
    for context, values in read_runs(memoryview(payload), CODING):
        found += values if context is None else [context.with_value(v) for v in values]
    return found


def check(lots, sorter, given_, opened, contents):
    found: Counter = Counter()
    for lot in lots:
        parts = contents(lot.payload)
        found += parts
        for _, _, _, window in parts:
            assert (lot.door is None) == (door_of(window) in opened)
            assert lot.door in (None, door_of(window))
        if lot.door is not None:
            assert lot.earliest == min(time.micros for _, _, time, _ in parts)
            assert lot.count <= sum(parts.values())
    late = Counter({entry: count for entry, count in given_.items() if entry[3] == LATE})
    assert found == given_ - late
    assert sorter.dropped == sum(late.values())


@given(st.lists(st.tuples(st.integers(1, 20), elements), max_size=8), doors)
def test_runs_are_taken_apart(runs, opened):
    # Runs of one context stay together, short ones become a mixed run.
    given_ = [each for times, each in runs for _ in range(times)]
    sorter = RunSorter(ByWindow(), CODING)
    lots = list(sorter.sort(block_of(given_), opened.__contains__, 77))
    check(lots, sorter, by_window(given_), opened, lambda p: by_window(elements_in(p)))


@given(
    st.dictionaries(st.binary(max_size=3), st.lists(elements, min_size=1, max_size=6), max_size=4),
    doors,
)
def test_groups_are_taken_apart(groups, opened):
    def contents(payload):
        _, found = decode_groups(bytes(payload))
        parts = (by_window(CODING.windowed_values.decode(chunk), key) for key, chunk in found)
        return sum(parts, Counter())

    chunks = [CODING.windowed_values.encode(values) for values in groups.values()]
    payload = memoryview(encode_groups(b"", list(groups), chunks))
    given_ = sum((by_window(values, key) for key, values in groups.items()), Counter())
    sorter = GroupSorter(ByWindow(), CODING)
    check(sorter.sort(payload, opened.__contains__, 77), sorter, given_, opened, contents)


@given(st.lists(elements, min_size=1))
def test_a_block_is_measured_without_being_taken_apart(given_):
    earliest = min(each.timestamp.micros for each in given_)
    assert RunSorter(ByWindow(), CODING).measure(block_of(given_)) == (len(given_), earliest)
    chunks = [CODING.windowed_values.encode([each]) for each in given_]
    payload = memoryview(encode_groups(b"", [b"k"] * len(chunks), chunks))
    assert GroupSorter(ByWindow(), CODING).measure(payload) == (len(given_), earliest)


def test_what_is_let_through_as_a_whole_is_not_encoded_again():
    given_ = [element(n, 1, [WINDOWS[1]]) for n in range(20)]
    payload = block_of(given_)
    (lot,) = RunSorter(ByWindow(), CODING).sort(payload, lambda _: True, 77)
    assert lot.payload.obj is payload.obj
