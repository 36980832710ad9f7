"""Keys that have their turns side by side, with the user code of tests and no state."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace

import pytest
from apache_beam.utils.windowed_value import WindowedValue

from sparkdrain.concurrency.settings import Concurrency
from sparkdrain.harness.concurrent.loop import SlotLoop
from sparkdrain.harness.keyed import flight as flights
from sparkdrain.harness.keyed.carrying import CarriedKeys
from sparkdrain.harness.keyed.flight import KeysInFlight
from sparkdrain.harness.keyed.worker import KeyTurn


class Worker:
    """Has a place that has no state, and knows which keys have their turns."""

    began, is_armed, is_overdue = 0.0, False, False
    turn = task = made = None

    def __init__(self, user):
        self.place = SimpleNamespace(is_outgrown=False, window=None)
        self.calls = SimpleNamespace(start=user.start)
        self.user = user

    def begin(self, encoded):
        assert encoded not in self.user.keys
        self.user.keys.add(encoded)
        return self.place

    def end(self, encoded):
        self.user.keys.discard(encoded)

    def give_up(self):
        self.user.given_up += 1


class User:
    """User code that waits so often, and notes down what begins and ends."""

    def __init__(self, waits=lambda: 0):
        self.waits = waits
        self.keys, self.workers, self.given_up = set(), 0, 0
        self.running = self.most = 0
        self.began, self.ended = [], []

    async def start(self, key, element):
        self.began.append((key, element.value))
        self.running += 1
        self.most = max(self.most, self.running)
        for _ in range(self.waits()):
            await asyncio.sleep(0)
        self.running -= 1
        self.ended.append((key, element.value))
        return [(key, element.value)]

    def worker(self):
        self.workers += 1
        return Worker(self)


@pytest.fixture
def flight():
    loops = []

    def make(user, loop=None, **chosen):
        if loop is None:
            loop = SlotLoop()
            loops.append(loop)
        metrics = SimpleNamespace()
        return KeysInFlight("step", Concurrency(**chosen), loop, metrics, user.worker)

    yield make
    for loop in loops:
        loop.close()


def add(flight, key, values):
    elements = [WindowedValue(value, 0, (None,)) for value in values]
    flight.add(b"%d" % key, int, (elements,))


def landed(flight):
    found = []
    while flight.are_any:
        found += [result for _, results in flight.run() for result in results]
    return found


@pytest.mark.parametrize("most", [1, 3, 50])
@pytest.mark.parametrize("seed", range(4))
def test_each_key_does_one_thing_after_the_other(flight, most, seed):
    dice = random.Random(seed)
    user = User(lambda: dice.choice((0, 0, 1, 3)))
    one, left = flight(user, max_in_flight=most), []
    given = [(key, number) for number in range(4) for key in range(60)]
    for key, number in given:
        while one.is_full:
            left += [result for _, results in one.run() for result in results]
        add(one, key, [number])
    left += landed(one)
    assert sorted(left) == sorted(user.ended) == sorted(given)
    for key in range(60):
        assert [n for k, n in user.began if k == key] == list(range(4))
    assert user.most == most or (most == 50 and 3 < user.most < most)
    assert not user.keys


def test_keys_that_never_wait_share_a_worker(flight):
    user = User()
    one = flight(user)
    for key in range(200):
        add(one, key, [0, 1])
    assert len(landed(one)) == 400
    assert user.workers == 1


def test_what_comes_for_a_key_amid_its_turn_is_part_of_it(flight):
    gate = asyncio.Event()

    class Waits(User):
        async def start(self, key, element):
            await gate.wait()
            return await User.start(self, key, element)

    user = Waits()
    one = flight(user)
    add(one, 7, [0])
    assert one.run() == []  # it waits, and the caller may go on
    add(one, 7, [1, 2])
    assert len(one.turns) == 1
    gate.set()
    assert landed(one) == [(7, 0), (7, 1), (7, 2)]


@pytest.mark.parametrize("drawn", [False, True])
def test_the_caller_sleeps_while_all_keys_wait(flight, monkeypatch, drawn):
    """It comes back when keys have begun, then when an element is complete, then when all are."""
    monkeypatch.setattr(flights, "_LOOK_SECONDS", 60)
    gates = [asyncio.Event(), asyncio.Event()]

    class Waits(User):
        async def start(self, key, element):
            loop.call_later(0.05, gates[element.value].set)
            await gates[element.value].wait()

    one = flight(Waits())
    loop = one._loop.loop
    add(one, 7, [0, 1])
    one.draw((lambda: None) if drawn else None)
    times = 0
    while one.are_any:
        assert one.run() == []
        times += 1
    assert times <= 4


def test_what_became_complete_while_another_step_ran_the_loop_is_given(flight, monkeypatch):
    monkeypatch.setattr(flights, "_LOOK_SECONDS", 60)
    gate = asyncio.Event()

    class Waits(User):
        async def start(self, key, element):
            await gate.wait()
            return await User.start(self, key, element)

    one = flight(Waits())
    other = flight(User(), loop=one._loop)
    add(one, 7, [0])
    assert one.run() == []
    gate.set()
    add(other, 8, [0])
    assert landed(other) == [(8, 0)]
    monkeypatch.setattr(one._loop, "run", None)
    assert landed(one) == [(7, 0)]


def test_elements_that_are_all_late_begin_no_turn_that_a_round_waits_for(flight):
    user = User()
    one = flight(user)
    records = SimpleNamespace(beside=set(), begin=lambda _: None, takes=lambda _: True)
    context = SimpleNamespace(small=SimpleNamespace(records=records))
    carried = CarriedKeys(one, context, SimpleNamespace(follow=lambda _: None))
    assert carried.arrive(b"k", lambda key: key, []) is None
    carried.arrive(b"k", lambda key: key, [WindowedValue(1, 0, (None,))])
    assert one.are_lasting
    assert not one.are_any


def test_turns_are_drawn_until_there_are_no_more(flight):
    """As those of timers: one of a key that is in flight can be drawn when its turn is over."""
    dice = random.Random(1)
    user = User(lambda: dice.choice((0, 2)))
    one, left = flight(user, max_in_flight=5), list(range(30)) * 2
    drawn = []

    class Turn(KeyTurn):
        def __init__(self, key):
            self.encoded, self.key = b"%d" % key, key

        def steps(self, worker):
            worker.begin(self.encoded)
            yield None, user.start(self.key, WindowedValue(0, 0, (None,)))
            worker.end(self.encoded)

    def more():
        if not left or b"%d" % left[0] in one.turns:
            return None
        drawn.append(left[0])
        return Turn(left.pop(0))

    one.draw(more)
    assert sorted(landed(one)) == sorted((key, 0) for key in drawn)
    assert drawn == list(range(30)) * 2
    assert user.most == 5


def test_an_error_ends_the_flight_and_nothing_starts_after_it(flight):
    class Fails(User):
        async def start(self, key, element):
            self.began.append((key, element.value))
            await asyncio.sleep(0)
            raise ConnectionError(key)

    user = Fails()
    one = flight(user, max_in_flight=1)
    add(one, 3, [0, 1])
    add(one, 4, [0])
    with pytest.raises(ConnectionError, match="3") as raised:
        landed(one)
    assert "key 3" in raised.value.__notes__[0]
    with pytest.raises(ConnectionError):
        one.run()
    one.abandon()
    assert user.began == [(3, 0)]


def test_what_is_given_up_cannot_use_state_and_is_cancelled(flight):
    seen = []

    class Hangs(User):
        async def start(self, key, element):
            try:
                await asyncio.sleep(60)
            finally:
                seen.append(self.given_up)

    user = Hangs()
    one = flight(user)
    for key in range(10):
        add(one, key, [0])
    one.run()
    one.abandon()
    assert seen == [10] * 10
