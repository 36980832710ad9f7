"""Gates with doors that the test opens."""

from __future__ import annotations

import pytest
from apache_beam import coders
from apache_beam.transforms.sideinputs import default_window_mapping_fn
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
)
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.panes.arrivals import RoundBlocks
from sparkdrain.rounds.sides import parking as side_parking
from sparkdrain.rounds.sides.doors import Doors, View
from sparkdrain.rounds.sides.gate import BackGate, FrontGate
from sparkdrain.rounds.sides.parking import Parking
from sparkdrain.rounds.sides.sorting import RunSorter
from sparkdrain.shuffle.coding import ElementCoding
from sparkdrain.shuffle.elements import mixed_run, read_runs
from sparkdrain.stages.shards.input import Input
from sparkdrain.stages.shards.turn import Budget, Turn
from sparkdrain.watermarks.frontier import BEGIN, END
from timers_state import MemoryStore, Overlay

CODING = ElementCoding.of(coders.VarIntCoder(), coders.coders.GlobalWindowCoder())


class Stream:
    """A side input whose windows the test says are ready."""

    def __init__(self, window_coder):
        self.window_coder = window_coder
        self.keeps = 0
        self.ready = set()

    def is_ready(self, window):
        return self.window_coder.decode(window) in self.ready


class Inner(Input):
    """Remembers what it was told."""

    reason = "inner"

    def __init__(self):
        self.taken = []
        self.turns = []
        self.held = END

    def take(self, payload):
        for _, values in read_runs(payload, CODING):
            self.taken += [value.value for value in values]

    def process(self, turn):
        self.turns.append(("process", turn.before, turn.after))

    def advance(self, turn):
        self.turns.append(("advance", turn.before, turn.after))

    def hold(self):
        return self.held


def global_doors():
    stream = Stream(coders.coders.GlobalWindowCoder())

    class Windowing:
        windowfn = GlobalWindows()

    return stream, Doors([View(stream, Windowing, lambda _: GlobalWindow())], 0)


def turn(after=BEGIN, elements=1000, before=BEGIN):
    return Turn(before, after, 5, Budget(elements, 1000, lambda: 0.0))


def block(*values):
    return memoryview(
        mixed_run([GlobalWindows.windowed_value(v, Timestamp(micros=v)) for v in values], CODING)
    )


@pytest.fixture
def overlay():
    with Overlay(MemoryStore(), 1 << 20) as overlay:
        yield overlay


@pytest.fixture
def gate(overlay, tmp_path):
    return make_gate(overlay, tmp_path)


def make_gate(overlay, tmp_path, room=1 << 20, **settings):
    stream, doors = global_doors()
    blocks = RoundBlocks(room, lambda: tmp_path)
    sorter = RunSorter(doors, CODING)
    gate = FrontGate(Inner(), doors, Parking(overlay, 1), sorter, blocks, **settings)
    gate.stream = stream
    return gate


def play(gate, after=BEGIN, *blocks, elements=1000):
    for payload in blocks:
        gate.take(payload)
    now = turn(after, elements)
    gate.process(now)
    gate.advance(now)


def test_elements_pass_an_open_gate(gate):
    gate.stream.ready.add(GlobalWindow())
    play(gate, 50, block(1000, 2000), block(3000))
    assert gate.inner.taken == [1000, 2000, 3000]
    assert gate.inner.turns == [("process", BEGIN, 50), ("advance", BEGIN, 50)]
    assert (gate.hold(), gate.wake(), gate.reason) == (END, None, "inner")


def test_behind_a_closed_gate_time_stands_still_at_the_earliest_that_waits(gate):
    play(gate, 9000, block(5000, 3000))
    assert gate.inner.taken == []
    assert gate.inner.turns == [("process", BEGIN, 3000), ("advance", BEGIN, 3000)]
    assert (gate.hold(), gate.reason, gate.passed()) == (3000, "side input", 3000)
    assert gate.wake() is None, "nothing can be done about it"
    gate.stream.ready.add(GlobalWindow())
    play(gate, 9000)
    assert gate.inner.taken == [5000, 3000]
    assert gate.inner.turns[2:] == [("process", 3000, 9000), ("advance", 3000, 9000)]


def test_time_behind_a_gate_never_goes_back(gate):
    play(gate, 9000)
    play(gate, 9000, block(3000))
    assert gate.inner.turns[2:] == [("process", 9000, 9000), ("advance", 9000, 9000)]
    assert gate.hold() == 3000


def test_elements_that_come_while_others_are_still_let_through_stay_behind_them(gate, monkeypatch):
    monkeypatch.setattr(side_parking, "_PAGE_BYTES", 1)
    first = list(range(1000, 40_000, 1000))
    play(gate, BEGIN, *(block(n) for n in first))
    gate.stream.ready.add(GlobalWindow())
    play(gate, BEGIN, block(7000), elements=10)
    assert gate.inner.taken == first[:10]
    assert gate.wake() == 5, "there is more to let through"
    while gate.wake() is not None:
        play(gate, BEGIN, elements=10)
    assert gate.inner.taken == [*first, 7000]


def test_what_the_input_holds_counts_as_well(gate):
    play(gate, 9000, block(5000))
    gate.inner.held = 4000
    assert (gate.hold(), gate.passed(), gate.reason) == (4000, 4000, "inner")


def test_blocks_beyond_the_room_for_them_are_on_disk_until_the_round_is_processed(
    overlay, tmp_path
):
    gate = make_gate(overlay, tmp_path, room=10)
    gate.stream.ready.add(GlobalWindow())
    blocks = [block(n * 1000) for n in range(1, 20)]
    play(gate, BEGIN, *blocks)
    assert gate.inner.taken == [n * 1000 for n in range(1, 20)]


def test_elements_that_go_on_need_their_side_inputs_until_the_last_is_done(overlay, tmp_path):
    gate = make_gate(overlay, tmp_path, lasting=True)
    play(gate, 3000)
    assert gate.passed() == 3000
    gate.inner.held = 8000
    play(gate, 9000)
    assert gate.passed() == 3000
    gate.inner.held = END
    assert gate.passed() == 9000


class Sink:
    shard = None

    def __init__(self):
        self.fed = []

    def feed(self, values, context):
        self.fed += [(value, context.timestamp.micros) for value in values]

    def feed_windowed(self, elements):
        for element in elements:
            self.feed([element.value], element)


class Maker(Input):
    """An input that makes elements, as a grouping does."""

    reason = "windows"

    def __init__(self, source):
        self.source = source
        self.makes = []
        self.held = END

    def advance(self, turn):
        for value in self.makes:
            self.source.feed([value], GlobalWindows.windowed_value(None, Timestamp(micros=value)))
        self.makes = []

    def hold(self):
        return self.held


def test_what_an_input_makes_waits_behind_it(overlay):
    stream, doors = global_doors()
    sink = Sink()
    gate = BackGate(Maker, sink, doors, Parking(overlay, 1), CODING)
    gate.inner.makes = [4000, 3000]
    play(gate, 9000)
    assert (sink.fed, gate.hold(), gate.reason) == ([], 3000, "side input")
    stream.ready.add(GlobalWindow())
    gate.inner.makes = [8000]
    play(gate, 9000)
    assert sink.fed == [(4000, 4000), (3000, 3000), (8000, 8000)]
    assert (gate.hold(), gate.passed()) == (END, 9000)
    gate.inner.held = 9500
    play(gate, 10_000)
    assert gate.passed() == 9500


# --- doors ---------------------------------------------------------------------------------------


def by_time(size, lateness=0, mapping=None):
    class Windowing:
        windowfn = FixedWindows(size)

    stream = Stream(coders.coders.IntervalWindowCoder())
    mapping = mapping or default_window_mapping_fn(Windowing.windowfn)
    return stream, Doors([View(stream, Windowing, mapping)], lateness)


def test_windows_that_are_mapped_to_the_same_have_one_door():
    stream, doors = by_time(20)
    early, late, next_ = (IntervalWindow(start, start + 10) for start in (0, 10, 20))
    assert doors.of(early) == doors.of(late) != doors.of(next_)
    assert doors.split([early, late, next_], BEGIN) == {
        doors.of(early): [early, late],
        doors.of(next_): [next_],
    }
    stream.ready.add(IntervalWindow(0, 20))
    assert doors.is_open(doors.of(late))
    assert not doors.is_open(doors.of(next_))


def test_a_door_opens_when_all_side_inputs_are_ready():
    one, two = Stream(coders.coders.GlobalWindowCoder()), by_time(10)[0]
    _, timed = by_time(10)
    (view,) = timed._views

    class Windowing:
        windowfn = GlobalWindows()

    both = Doors(
        [View(one, Windowing, lambda _: GlobalWindow()), View(two, view.windowing, view.mapping)], 0
    )
    assert both.only is None
    door = both.of(IntervalWindow(0, 10))
    assert not both.is_open(door)
    two.ready.add(IntervalWindow(0, 10))
    assert not both.is_open(door)
    one.ready.add(GlobalWindow())
    assert both.is_open(door)


def test_what_is_too_late_for_its_window_has_no_door():
    stream, doors = by_time(10, lateness=3_000_000)
    window = IntervalWindow(0, 10)
    assert stream.keeps == 3_000_000
    assert None not in doors.split([window], 12_999_999)
    assert doors.split([window], 13_000_000) == {None: [window]}


def test_windows_of_side_inputs_are_kept_if_the_mapping_is_not_beams():
    stream, doors = by_time(10, mapping=lambda window: IntervalWindow(0, 10))
    assert stream.keeps is None
    window = IntervalWindow(0, 10)
    assert None not in doors.split([window], END)
    stream, _ = global_doors()
    assert stream.keeps is None
