from __future__ import annotations

import pytest

from sparkdrain.rounds.sides.parking import Parking
from sparkdrain.watermarks.frontier import BEGIN, END
from timers_state import MemoryStore, Overlay

STATE = 7


@pytest.fixture
def overlay():
    with Overlay(MemoryStore(), 1 << 20) as overlay:
        yield overlay


def end_round(overlay):
    overlay.prepare()
    overlay.commit()


def all_of(parking, door):
    return [item for page in parking.take_out(door) for item in page]


def test_blocks_come_out_in_the_order_in_which_they_went_in(overlay):
    parking = Parking(overlay, STATE)
    blocks = [(b"%d" % n * 300_000, n) for n in range(1, 9)]
    for payload, count in blocks:
        parking.park(b"door", payload, count, 0)
    pages = list(parking.take_out(b"door"))
    assert len(pages) > 1
    assert [item for page in pages for item in page] == blocks
    assert not parking.is_waiting(b"door")
    assert parking.doors() == []


def test_doors_do_not_mix(overlay):
    parking = Parking(overlay, STATE)
    parking.park(b"b", b"1", 1, 0)
    parking.park(b"", b"2", 1, 0)
    parking.park(b"b", b"3", 1, 0)
    assert parking.doors() == [b"b", b""]
    assert all_of(parking, b"b") == [(b"1", 1), (b"3", 1)]
    assert all_of(parking, b"") == [(b"2", 1)]


def test_it_holds_the_earliest_of_what_waits(overlay):
    parking = Parking(overlay, STATE)
    assert parking.hold() == END
    parking.park(b"a", b"", 1, 30)
    parking.park(b"b", b"", 1, -20)
    parking.park(b"b", b"", 1, 10)
    assert parking.hold() == -20
    all_of(parking, b"b")
    assert parking.hold() == 30


def test_another_one_on_the_same_state_knows_all(overlay):
    parking = Parking(overlay, STATE)
    assert parking.passed == BEGIN
    parking.park(b"a", b"1", 1, 3)
    parking.passed = 55
    end_round(overlay)
    again = Parking(overlay, STATE)
    assert (again.passed, again.hold(), again.doors()) == (55, 3, [b"a"])
    again.park(b"a", b"2", 2, 2)
    end_round(overlay)
    third = Parking(overlay, STATE)
    assert third.hold() == 2
    assert all_of(third, b"a") == [(b"1", 1), (b"2", 2)]
    end_round(overlay)
    assert Parking(overlay, STATE).doors() == []


def test_what_was_taken_out_in_a_round_that_is_undone_waits_again(overlay):
    parking = Parking(overlay, STATE)
    parking.park(b"a", b"1", 1, 3)
    end_round(overlay)
    assert all_of(parking, b"a") == [(b"1", 1)]
    parking.park(b"b", b"2", 1, 1)
    overlay.rollback()
    again = Parking(overlay, STATE)
    assert (again.hold(), again.doors()) == (3, [b"a"])
    assert all_of(again, b"a") == [(b"1", 1)]


def test_if_one_stops_between_pages_the_rest_goes_on_waiting(overlay):
    parking = Parking(overlay, STATE)
    for n in range(4):
        parking.park(b"a", bytes([n]) * (1 << 20), 1, n)
    for page in parking.take_out(b"a"):
        assert [payload[0] for payload, _ in page] == [0]
        break
    end_round(overlay)
    for own in (parking, Parking(overlay, STATE)):
        assert own.is_waiting(b"a")
        assert own.hold() == 0
    own.park(b"a", b"\x04", 1, 9)
    assert [payload[0] for payload, _ in all_of(own, b"a")] == [1, 2, 3, 4]
