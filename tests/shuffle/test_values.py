from __future__ import annotations

import gc
import weakref
from typing import ClassVar

import pytest
from apache_beam import coders

from sparkdrain.shuffle.values import GroupValues, ValueDecoder


class Thing:
    """An object that cannot be told from its encoding."""

    alive: ClassVar = weakref.WeakSet()

    def __init__(self, number):
        self.number = number
        Thing.alive.add(self)

    def __reduce__(self):
        return Thing, (self.number,)

    def __eq__(self, other):
        return isinstance(other, Thing) and self.number == other.number

    def __hash__(self):
        return self.number


class OnDisk:
    """Stands in for an extent."""

    def __init__(self, data):
        self._data = data

    def load(self, size=None):
        return self._data[:size]


def _chunk(coder, values):
    return coders.ListCoder(coder).get_impl().encode(list(values))


ANYTHING = coders.FastPrimitivesCoder()


@pytest.mark.parametrize("values", [[1, 2], ["a"], [None, 1.5], [(1, "x")], [[1], {}]], ids=repr)
@pytest.mark.parametrize("chunks", [1, 3])
def test_few_plain_values_are_a_list(values, chunks):
    chunk = _chunk(ANYTHING, values)
    assert type(ValueDecoder(ANYTHING).values([chunk] * chunks)) is list
    assert ValueDecoder(ANYTHING).values([chunk] * chunks) == values * chunks


def test_objects_are_never_alive_together():
    chunk = _chunk(ANYTHING, map(Thing, range(100)))
    values = ValueDecoder(ANYTHING).values([chunk, OnDisk(chunk)])
    gc.collect()
    for expected, thing in zip([*range(100)] * 2, values, strict=True):
        assert thing.number == expected
        assert len(Thing.alive) <= 2


def test_a_stream_can_be_counted_compared_and_read_again():
    chunk = _chunk(ANYTHING, map(Thing, range(3)))
    values = ValueDecoder(ANYTHING).values([chunk, OnDisk(chunk)])
    expected = [Thing(n) for n in (0, 1, 2, 0, 1, 2)]
    assert isinstance(values, GroupValues)
    assert len(values) == 6
    assert values == expected
    assert expected == values
    assert list(values) == list(values)
    assert values != expected[:5]


def test_what_is_on_disk_is_a_stream_of_whatever_type():
    coder = coders.VarIntCoder()
    values = ValueDecoder(coder).values([OnDisk(_chunk(coder, [1, 2])), _chunk(coder, [3])])
    assert isinstance(values, GroupValues)
    assert values == [1, 2, 3]


def test_a_stream_can_be_encoded_as_an_iterable_and_as_anything():
    chunk = _chunk(ANYTHING, map(Thing, range(3)))
    values = ValueDecoder(ANYTHING).values([chunk])
    for coder in (coders.IterableCoder(ANYTHING), ANYTHING):
        assert list(coder.decode(coder.encode(values))) == [Thing(0), Thing(1), Thing(2)]


def test_who_wants_to_know_sizes_is_told_when_somebody_reads():
    chunk = _chunk(ANYTHING, map(Thing, range(3)))
    values = ValueDecoder(ANYTHING).values([chunk])
    impl = coders.IterableCoder(ANYTHING).get_impl()
    _, observables = impl.get_estimated_size_and_observables(values)
    assert [observable for observable, _ in observables] == [values]
    seen = []
    values.register_observer(lambda value, is_encoded: seen.append((value, is_encoded)))
    list(values)
    assert seen == [(Thing(n), False) for n in range(3)]
