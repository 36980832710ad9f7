from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.io.iobase import RestrictionTracker
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.runners.common import DoFnSignature

from sparkdrain.harness.limits import Allowance
from sparkdrain.harness.restrictions import ClaimGate, sees_windows
from tests.support.restrictions import UpTo


def allowed(claims, seconds=1.0):
    return Allowance(claims, seconds, lambda: 0.0)


class Count(beam.DoFn):
    def process(self, element, tracker=beam.DoFn.RestrictionParam(UpTo())):
        yield element, tracker


class CountItself(beam.DoFn, UpTo):
    def process(self, element, tracker=beam.DoFn.RestrictionParam()):
        yield element, tracker


def tracker_of(dofn, gate, size=10):
    gate.stand_before(dofn)
    return DoFnSignature(dofn).create_tracker_method.method_value(OffsetRange(0, size))


def claims(tracker):
    position = 0
    while tracker.try_claim(position):
        position += 1
    return position


@pytest.mark.parametrize("dofn", [Count(), CountItself()], ids=["provider", "its own"])
def test_claims_end_with_the_allowance(dofn):
    gate, left = ClaimGate(), []

    def interrupt():
        left.append(tracker.try_split(0)[1])
        return True

    gate.open(allowed(4), interrupt)
    tracker = tracker_of(dofn, gate)
    assert claims(tracker) == 4
    assert left == [OffsetRange(4, 10)]
    tracker.check_done()


def test_one_claim_is_granted_even_if_nothing_is_allowed():
    gate = ClaimGate()
    gate.open(allowed(0, seconds=-1.0), lambda: tracker.try_split(0) is not None)
    tracker = tracker_of(Count(), gate)
    assert claims(tracker) == 1


def test_claims_end_when_time_is_up():
    gate, times = ClaimGate(), iter(range(100))
    allowance = Allowance(1000, 6.0, lambda: next(times))
    gate.open(allowance, lambda: tracker.try_split(0) is not None)
    tracker = tracker_of(Count(), gate, size=50)
    assert claims(tracker) == gate.claimed == 7


def test_without_an_allowance_a_tracker_is_left_as_it_is():
    tracker = tracker_of(Count(), ClaimGate())
    assert "try_claim" not in vars(tracker)
    assert claims(tracker) == 10


def test_what_cannot_be_split_goes_on_and_is_asked_less_and_less():
    gate, asked = ClaimGate(), []

    def interrupt():
        asked.append(None)
        return False

    gate.open(allowed(1), interrupt)
    assert claims(tracker_of(Count(), gate, size=1000)) == 1000
    assert len(asked) < 12


def test_other_instances_of_the_dofn_are_not_concerned():
    gate = ClaimGate()
    gate.open(allowed(0), lambda: True)
    gate.stand_before(Count())
    tracker = DoFnSignature(Count()).create_tracker_method.method_value(OffsetRange(0, 3))
    assert "try_claim" not in vars(tracker)


class Slotted(RestrictionTracker):
    __slots__ = ("left",)

    def __init__(self):
        self.left = 3

    def try_claim(self, position):
        del position
        self.left -= 1
        return self.left >= 0

    def __setattr__(self, name, value):
        if name != "left":
            raise AttributeError(name)
        object.__setattr__(self, name, value)


def test_a_tracker_that_takes_no_attributes_is_only_interrupted_from_outside():
    gate = ClaimGate()
    gate.open(allowed(0), lambda: False)
    gate.watch(Slotted())
    assert gate.may_split


def test_a_restriction_is_not_split_before_its_first_claim():
    gate = ClaimGate()
    gate.open(allowed(5), lambda: False)
    tracker = tracker_of(Count(), gate)
    assert not gate.may_split
    tracker.try_claim(0)
    assert gate.may_split


def test_who_asks_for_the_window_is_told_apart():
    class Windowed(beam.DoFn):
        def process(self, element, window=beam.DoFn.WindowParam):
            yield element, window

    assert sees_windows(Windowed())
    assert not sees_windows(Count())
