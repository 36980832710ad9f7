"""State of stateful DoFns from round to round."""

from __future__ import annotations

from dataclasses import replace

import apache_beam as beam
import pytest
from apache_beam.coders import BytesCoder, FastPrimitivesCoder, StrUtf8Coder, VarIntCoder
from apache_beam.transforms import userstate
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.errors import UnreadableState
from tests.support.in_memory_rounds import DEFAULTS
from tests.support.recorded import emitted, emitted_in_batch, emitted_in_rounds
from tests.support.scripts import Mark, pairs_at_once, pairs_in_rounds

STEPS = [
    [("a", 3, 0), ("b", 10, 0), ("a", 1, 0)],
    [("a", 2, 0)],
    [("b", 11, 0), ("a", 9, 0), ("c", 5, 0)],
    [("c", 7, 0)],
    [("a", 4, 0), ("b", 12, 0)],
]


def in_rounds(dofn, steps=STEPS, **settings):
    """What a DoFn makes of steps, each in a round of its own."""
    step = beam.ParDo(dofn) if isinstance(dofn, beam.DoFn) else dofn
    return emitted(lambda p: pairs_in_rounds(*steps)(p) | step, **settings)


def at_once(dofn, steps=STEPS):
    return emitted_in_batch(lambda p: pairs_at_once(*steps)(p) | beam.ParDo(dofn))


def per_key(found):
    """Elements of a key in their order; keys in any."""
    return sorted(found, key=lambda element: element[0])


class EveryKind(beam.DoFn):
    """Tells all of its state at each element, and clears it at every seventh number."""

    VALUE = userstate.ReadModifyWriteStateSpec("value", StrUtf8Coder())
    BAG = userstate.BagStateSpec("bag", VarIntCoder())
    SET = userstate.SetStateSpec("set", VarIntCoder())
    SUM = userstate.CombiningValueStateSpec("sum", sum)
    MEAN = userstate.CombiningValueStateSpec("mean", beam.combiners.MeanCombineFn())
    LIST = userstate.OrderedListStateSpec("list", VarIntCoder())

    def process(
        self,
        element,
        value=beam.DoFn.StateParam(VALUE),
        bag=beam.DoFn.StateParam(BAG),
        distinct=beam.DoFn.StateParam(SET),
        total=beam.DoFn.StateParam(SUM),
        mean=beam.DoFn.StateParam(MEAN),
        ordered=beam.DoFn.StateParam(LIST),
    ):
        key, number = element
        value.write(f"{value.read() or ''}{number}.")
        bag.add(number)
        distinct.add(number % 3)
        total.add(number)
        mean.add(number)
        ordered.add((Timestamp(-number), number))
        yield (
            key,
            value.read(),
            list(bag.read()),
            sorted(distinct.read()),
            total.read(),
            mean.read(),
            [n for _, n in ordered.read()],
            [n for _, n in ordered.read_range(Timestamp(-5), Timestamp(-1))],
        )
        ordered.clear_range(Timestamp(-10), Timestamp(-8))
        if number % 7 == 0:
            for state in (value, bag, distinct, total, mean, ordered):
                state.clear()
            yield key, value.read(), list(bag.read()), list(distinct.read()), total.read()


def test_every_kind_of_state_lasts_from_round_to_round() -> None:
    steps = [*STEPS, [("c", 1, 0)], [("a", 7, 0), ("a", 8, 0)], [("a", 5, 0)]]
    assert per_key(in_rounds(EveryKind(), steps)) == per_key(at_once(EveryKind(), steps))


@pytest.mark.parametrize("compiled", [True, False])
def test_state_lasts_if_chains_are_compiled_and_if_not(compiled) -> None:
    options = replace(DEFAULTS, compiled=compiled)
    assert per_key(in_rounds(EveryKind(), options=options)) == per_key(at_once(EveryKind()))


class Tally(beam.DoFn):
    COUNT = userstate.CombiningValueStateSpec("count", beam.combiners.CountCombineFn())

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        count.add(1)
        yield element[0], count.read()


class LastValue(beam.DoFn):
    LAST = userstate.ReadModifyWriteStateSpec("last", VarIntCoder())

    def process(self, element, last=beam.DoFn.StateParam(LAST)):
        yield element[0], last.read(), element[1]
        last.write(element[1])


def test_two_dofns_on_one_collection_have_state_of_their_own() -> None:
    def build(p):
        pairs = pairs_in_rounds(*STEPS)(p)
        tally = pairs | "tally" >> beam.ParDo(Tally())
        last = pairs | "last" >> beam.ParDo(LastValue())
        again = pairs | "again" >> beam.ParDo(Tally()) | beam.MapTuple(lambda k, n: (k, -n))
        return (tally, last, again) | beam.Flatten()

    found = emitted(build)
    counts = [(k, n) for k, total in (("a", 5), ("b", 3), ("c", 2)) for n in range(1, total + 1)]
    assert sorted(e for e in found if len(e) == 2) == sorted(
        [*counts, *((k, -n) for k, n in counts)]
    )
    assert [e[1:] for e in found if len(e) == 3 and e[0] == "a"] == [
        (None, 3),
        (3, 1),
        (1, 2),
        (2, 9),
        (9, 4),
    ]


def test_windows_of_a_key_have_state_of_their_own() -> None:
    steps = [[("k", 1, 1), ("k", 1, 11)], [("k", 1, 12), ("k", 1, 2)], [("k", 1, 3)]]

    def tagged(element, w=beam.DoFn.WindowParam):
        return int(w.start), element[1]

    found = emitted(
        lambda p: (
            pairs_in_rounds(*steps, windows=FixedWindows(10))(p)
            | beam.ParDo(Tally())
            | beam.Map(tagged)
        )
    )
    assert sorted(found) == [(0, 1), (0, 2), (0, 3), (10, 1), (10, 2)]


def test_a_bundle_in_each_round_and_state_beyond_it() -> None:
    found = emitted_in_rounds(lambda p: pairs_in_rounds(*STEPS)(p) | beam.ParDo(Tally()))
    assert sorted(next(kept for kept in reversed(found) if kept)) == [("a", 5), ("b", 3)]
    assert sum(map(bool, found)) == len(STEPS)


class Drained(beam.DoFn):
    """Gives a bag away that was cleared after it was read."""

    BAG = userstate.BagStateSpec("bag", BytesCoder())

    def __init__(self, size: int) -> None:
        self._size = size

    def process(self, element, bag=beam.DoFn.StateParam(BAG)):
        key, number = element
        if number >= 0:
            bag.add(b"%d " % number + b"x" * self._size)
            return
        held = bag.read()
        again = bag.read()
        bag.clear()
        bag.add(b"-1 ")
        yield key, [int(item.split()[0]) for item in held], len(list(again))
        yield key, [int(item.split()[0]) for item in bag.read()]


@pytest.mark.parametrize("size", [1, 100_000], ids=["small", "large"])
def test_what_was_read_of_a_bag_stays_readable_when_the_bag_is_cleared(size) -> None:
    steps = [[("k", n, 0)] for n in range(10)] + [[("k", -1, 0)], [("k", -1, 0)]]
    assert in_rounds(Drained(size), steps) == [
        ("k", list(range(10)), 10),
        ("k", [-1]),
        ("k", [-1], 1),
        ("k", [-1]),
    ]


class Kept(beam.DoFn):
    """Hands out what it has in a bag, to be looked at after the key's turn."""

    BAG = userstate.BagStateSpec("bag", BytesCoder())

    def process(self, element, bag=beam.DoFn.StateParam(BAG)):
        bag.add(b"%d " % element[1] + b"x" * 300_000)
        KEPT.append(bag.read())
        yield element


KEPT: list = []


def test_what_was_read_of_a_large_bag_is_what_it_was_then() -> None:
    steps = [[("k", 1, 0), ("j", 2, 0)], [("k", 3, 0)]]
    KEPT.clear()
    in_rounds(Kept(), steps, slots=1)
    assert sorted(sorted(int(i.split()[0]) for i in kept) for kept in KEPT) == [[1], [1, 3], [2]]


class ManyInOneKey(beam.DoFn):
    SET = userstate.SetStateSpec("set", VarIntCoder())
    LIST = userstate.OrderedListStateSpec("list", FastPrimitivesCoder())
    BAG = userstate.BagStateSpec("bag", VarIntCoder())

    def process(
        self,
        element,
        distinct=beam.DoFn.StateParam(SET),
        ordered=beam.DoFn.StateParam(LIST),
        bag=beam.DoFn.StateParam(BAG),
    ):
        number = element[1]
        if number >= 0:
            distinct.add(number % 20_000)
            ordered.add((Timestamp(number), number))
            bag.add(number)
            return
        yield (
            len(list(distinct.read())),
            [n for _, n in ordered.read()] == list(range(30_000)),
            sum(bag.read()),
        )


def test_state_of_a_key_beyond_memory() -> None:
    steps = [
        [("k", n, 0) for n in range(start, start + 10_000)] for start in range(0, 30_000, 10_000)
    ]
    found = in_rounds(
        ManyInOneKey(),
        [*steps, [("k", -1, 0)]],
        slots=1,
        options=replace(DEFAULTS, memory_bytes=1_000_000),
    )
    assert found == [(20_000, True, sum(range(30_000)))]


class Older(beam.coders.Coder):
    """Writes what it cannot read, as if state were from another release of the pipeline."""

    def encode(self, value):
        return b"\xff" + value.encode()

    def decode(self, encoded):
        return encoded.decode()

    def is_deterministic(self):
        return True


class Changed(beam.DoFn):
    STATE = userstate.ReadModifyWriteStateSpec("total", Older())
    BAG = userstate.BagStateSpec("bag", Older())

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def process(self, element, state=beam.DoFn.StateParam(STATE), bag=beam.DoFn.StateParam(BAG)):
        if self._kind == "total":
            yield state.read()
            state.write("text")
        else:
            yield list(bag.read())
            bag.add("text")


@pytest.mark.parametrize("kind", ["total", "bag"])
def test_state_that_another_coder_wrote_is_an_error_that_names_it(kind) -> None:
    with pytest.raises(UnreadableState) as caught:
        in_rounds("changed" >> beam.ParDo(Changed(kind)), [[("left", 1, 0)], [("left", 1, 0)]])
    message = str(caught.value)
    for part in (repr(kind), "key 'left'", "GlobalWindow", "changed", "another coder"):
        assert part in message


def test_elements_of_windows_that_have_expired_are_dropped_and_counted() -> None:
    steps = [
        [("k", 1, 1)],
        Mark(14),
        [("k", 2, 2), ("k", 3, 3), ("k", 4, 13)],
        Mark(15),
        [("k", 5, 5), ("k", 6, 14), ("k", 7, 25)],
    ]
    dropped = []
    found = emitted(
        lambda p: (
            pairs_in_rounds(*steps, windows=FixedWindows(10), allowed_lateness=5)(p)
            | beam.ParDo(LastValue())
        ),
        watch=lambda rounds: dropped.extend(r.dropped for r in rounds.schedule.reports()),
    )
    assert sorted(found, key=lambda e: e[2]) == [
        ("k", None, 1),
        ("k", 1, 2),
        ("k", 2, 3),
        ("k", None, 4),
        ("k", 4, 6),
        ("k", None, 7),
    ]
    assert sum(dropped) == 1


class Heavy(beam.DoFn):
    """Tells how much is in a bag and in a set to which each element adds more than a record has."""

    BAG = userstate.BagStateSpec("bag", BytesCoder())
    SET = userstate.SetStateSpec("set", BytesCoder())

    def process(self, element, bag=beam.DoFn.StateParam(BAG), items=beam.DoFn.StateParam(SET)):
        content = b"%d" % element[1] * 20_000
        bag.add(content)
        items.add(content)
        yield element[1], len(list(bag.read())), len(list(items.read()))


@pytest.mark.parametrize("emit", [emitted, emitted_in_batch])
def test_what_is_too_large_for_a_record_is_there_when_a_turn_comes_back_to_its_window(emit):
    def build(p):
        steps = pairs_at_once([("a", 1, 1), ("a", 2, 11), ("a", 3, 2)], windows=FixedWindows(10))
        return steps(p) | beam.ParDo(Heavy())

    assert sorted(emit(build)) == [(1, 1, 1), (2, 1, 1), (3, 2, 2)]
