"""Elements of a step in flight: how many, in which order, and what ends them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
import time
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparkdrain.harness.concurrent.flight
from sparkdrain.concurrency.completion import Completion
from sparkdrain.concurrency.settings import Concurrency
from sparkdrain.harness.concurrent import flight as flights
from sparkdrain.harness.concurrent.element import ElementInFlight
from sparkdrain.harness.concurrent.flight import StepFlight
from sparkdrain.harness.concurrent.loop import event_loop


class NoMetrics:
    pass


def flight(call, **chosen):
    settings, loop = Concurrency(**chosen), event_loop()
    one = StepFlight("step", settings, loop, NoMetrics(), lambda e: call(*e.args), call)
    one.takes_plain = settings.order == "none" and settings.timeout is None
    return one


def push(flight, value, key=None, *, plain=True):
    if plain and flight.takes_plain:
        return flight.push((None, value))
    return flight.push(ElementInFlight(None, (value,), None, key))


def taken(flight):
    return [each[1] if type(each) is tuple else each.results for each in flight.take()]


def landed(flight):
    left = []
    while flight.inside:
        flight.wait()
        left += taken(flight)
    return left


def run(flight, values, key_of=lambda _: None, *, plain=True):
    left = []
    try:
        for value in values:
            while flight.is_full:
                flight.wait()
                left += taken(flight)
            push(flight, value, key_of(value), plain=plain)
        return left + landed(flight)
    finally:
        flight.abandon()


class Calls:
    """Completes calls in any order, and remembers what began and ended when."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.began, self.ended, self.running, self.most = [], [], 0, 0

    async def __call__(self, value):
        self.began.append(value)
        self.running += 1
        self.most = max(self.most, self.running)
        for _ in range(self.random.choice((0, 0, 1, 3))):
            await asyncio.sleep(self.random.choice((0, 0, 0.0005)))
        self.running -= 1
        self.ended.append(value)
        return [value]


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(0, 700),
    most=st.integers(1, 40),
    order=st.sampled_from(["none", "by_key", "input"]),
    keys=st.integers(1, 5),
    seed=st.integers(0, 1 << 30),
    plain=st.booleans(),
)
def test_elements_complete_once_in_the_order_asked_for(count, most, order, keys, seed, plain):
    calls = Calls(seed)
    key_of = (lambda value: value % keys) if order == "by_key" else (lambda _: None)
    one = flight(calls, max_in_flight=most, order=order)
    values = [value for (value,) in run(one, range(count), key_of, plain=plain)]
    assert sorted(values) == list(range(count))
    assert calls.most <= most
    if order != "by_key":
        assert calls.began == list(range(count))
    if order == "input":
        assert values == list(range(count))
    if order == "by_key":
        assert by_key(values, keys) == by_key(range(count), keys) == by_key(calls.began, keys)
        for key in range(keys):
            own = [value for value in calls.ended if value % keys == key]
            assert own == sorted(own)
    if most == 1:
        assert calls.ended == calls.began


def by_key(values, keys):
    found = defaultdict(list)
    for value in values:
        found[value % keys].append(value)
    return found


def test_elements_of_one_key_never_run_beside_each_other():
    running, beside = set(), []

    async def call(value):
        key = value % 3
        if key in running:
            beside.append(value)
        running.add(key)
        await asyncio.sleep(0.0002)
        running.discard(key)
        return []

    run(flight(call, order="by_key"), range(300), lambda value: value % 3)
    assert beside == []


def test_the_caller_has_to_wait_when_as_many_are_in_flight_as_may_be():
    ends = asyncio.Event()

    async def call(value):
        await ends.wait()
        return [value]

    one = flight(call, max_in_flight=3)
    pushed = 1
    while not push(one, pushed):
        assert not one.is_full
        pushed += 1
        assert pushed < 1000
    assert one.is_full
    until(lambda: len(one._running) == 3)
    event_loop().soon(ends.set)
    assert len(landed(one)) == pushed


def test_the_caller_hears_of_elements_that_are_complete():
    async def call(value):
        return [value]

    one, kept = flight(call), threading.Event()
    event_loop().soon(kept.wait)  # else an element may be complete at once
    assert not push(one, 1)
    kept.set()
    one.wait()
    assert push(one, 2)
    assert sorted(landed(one)) == [[1], [2]]
    kept.clear()
    event_loop().soon(kept.wait)
    assert not push(one, 3)
    kept.set()
    one.abandon()


def test_elements_that_never_wait_let_those_of_another_step_start():
    began = []

    async def call(value):
        began.append(value)
        return [value]

    greedy, other = flight(call, max_in_flight=2000), flight(call)
    kept = threading.Event()
    event_loop().soon(kept.wait)  # until all are there
    for value in range(2000):
        push(greedy, value)
    push(other, "other")
    kept.set()
    assert len(landed(other)) == 1
    assert len(landed(greedy)) == 2000
    assert began.index("other") < 1000


def test_nothing_spins_while_all_calls_wait():
    async def call(value):
        await asyncio.sleep(0.5 if value else 0)
        return [value]

    one = flight(call)
    for value in range(50):
        push(one, value)
    left, waits = [], 0
    while one.inside:
        one.wait()
        waits += 1
        left += taken(one)
    assert len(left) == 50
    # A bell may ring once more for what was taken already.
    assert waits <= 101


def test_any_completion_wakes_the_caller(monkeypatch):
    async def call(value):
        await asyncio.sleep(0.01)
        return [value]

    monkeypatch.setattr(sparkdrain.harness.concurrent.flight, "_LOOK_SECONDS", 20)
    before = time.monotonic()
    for plain in (True, False):
        assert len(run(flight(call, max_in_flight=1), range(3), plain=plain)) == 3
    assert time.monotonic() - before < 10


def test_an_error_is_that_of_the_user_and_nothing_starts_after_it():
    began = []

    async def call(value):
        began.append(value)
        await asyncio.sleep(0)
        if value == 5:
            raise KeyError(value)
        return [value]

    one = flight(call, max_in_flight=1)
    with pytest.raises(KeyError, match="5") as raised:
        run(one, range(100))
    assert began == list(range(6))
    assert raised.traceback[-1].name == "call"


def test_a_task_that_user_code_cancels_is_an_error():
    async def call(value):
        asyncio.current_task().cancel()
        await asyncio.sleep(10)

    with pytest.raises(asyncio.CancelledError):
        run(flight(call), [1])


def test_an_element_that_takes_too_long_fails_and_says_where_it_was():
    async def call(value):
        await asyncio.sleep(60)

    told = r"longer than 0.05 s.*it was at .*test_flight.py:\d+ in call"
    with pytest.raises(TimeoutError, match=told):
        run(flight(call, timeout=0.05), [1])


def test_a_limit_is_for_an_attempt_of_an_element_and_not_for_a_bundle():
    async def call(value):
        await asyncio.sleep(0.05)
        return [value]

    assert len(run(flight(call, timeout=0.5, max_in_flight=1), range(14))) == 14


def test_what_fails_is_tried_again_after_a_pause_that_grows():
    tries = []

    async def call(value):
        tries.append(time.monotonic())
        if len(tries) < 3:
            raise OSError(value)
        return [value]

    assert run(flight(call, retries=2, backoff=0.02), [7]) == [[7]]
    assert len(tries) == 3
    assert tries[1] - tries[0] >= 0.018  # uvloop counts whole milliseconds
    assert tries[2] - tries[1] >= 0.038


def test_an_attempt_that_is_over_its_limit_is_tried_again():
    tries = []

    async def call(value):
        tries.append(value)
        await asyncio.sleep(0 if len(tries) == 2 else 60)
        return [value]

    assert run(flight(call, retries=1, timeout=0.05, backoff=0), [7]) == [[7]]


def test_an_element_that_swallows_its_end_comes_too_late_and_harms_nothing():
    async def call(value):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return ["late"]

    (((dead),),) = run(flight(call, timeout=0.05, dead_letter="dead"), [7])
    assert dead.tag == "dead"
    assert dead.value[0] == 7
    assert dead.value[1][0] is TimeoutError


def test_what_has_failed_for_good_goes_to_its_output():
    async def call(value):
        if value % 2:
            raise ValueError(value)
        return [value]

    results = run(flight(call, dead_letter="dead", order="input"), range(4))
    assert [r[0] if isinstance(r[0], int) else r[0].value[0] for r in results] == [0, 1, 2, 3]
    assert results[1][0].value[1][1] == "ValueError(1)"


def test_hanging_calls_are_given_up_within_seconds():
    async def call(value):
        await asyncio.sleep(600)

    one = flight(call, max_in_flight=1000)
    for value in range(1000):
        push(one, value)
    until(lambda: len(one._running) == 1000)
    before = time.monotonic()
    one.abandon()
    assert time.monotonic() - before < 5
    assert len(one._running) == 0


def test_a_call_that_does_not_let_itself_be_cancelled_is_named(caplog):
    ends = asyncio.Event()

    async def stubborn(value):
        while not ends.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await ends.wait()

    one = flight(stubborn)
    push(one, 1)
    until(lambda: len(one._running) == 1)
    with caplog.at_level(logging.WARNING):
        one.abandon()
    event_loop().soon(ends.set)
    assert "test_flight.py" in caplog.text
    assert "in stubborn" in caplog.text


def test_code_that_keeps_the_loop_is_named_with_its_line(caplog, monkeypatch):
    monkeypatch.setattr(flights, "_LOOK_SECONDS", 0.1)
    monkeypatch.setattr(flights, "_KEPT_SECONDS", 0.2)

    async def blocks(value):
        time.sleep(1)
        return []

    one = flight(blocks)
    push(one, 1)
    with caplog.at_level(logging.WARNING):
        landed(one)
    assert "'step' waits for the event loop" in caplog.text
    assert "in blocks" in caplog.text


def test_a_library_completes_an_element_from_a_thread_of_its_own():
    def call(value):
        completion = Completion()
        threading.Timer(0.02, completion.complete, [[value]]).start()
        return completion

    assert sorted(run(flight(call), range(5))) == [[0], [1], [2], [3], [4]]


def test_a_library_fails_an_element():
    def call(value):
        completion = Completion()
        completion.fail(OSError("gone"))
        return completion

    with pytest.raises(OSError, match="gone"):
        run(flight(call), [1])


def test_to_complete_twice_is_an_error_for_the_caller_and_the_step():
    twice = []

    def call(value):
        twice.append(Completion())
        return twice[0]

    one = flight(call)
    push(one, 1)
    until(lambda: twice and twice[0].refused is not None)
    twice[0].complete([1])
    with pytest.raises(RuntimeError, match="completed already"):
        twice[0].fail(OSError())
    with pytest.raises(RuntimeError, match="completed already"):
        landed(one) or one.take()


def test_of_two_threads_that_complete_one_succeeds():
    for _ in range(50):
        completion, errors = Completion(), []
        barrier = threading.Barrier(2)

        def complete(completion=completion, errors=errors, barrier=barrier):
            barrier.wait()
            try:
                completion.complete([])
            except RuntimeError as error:
                errors.append(error)

        threads = [threading.Thread(target=complete) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(errors) == 1


def test_to_complete_after_the_limit_does_nothing():
    late = []

    def call(value):
        late.append(Completion())
        return late[-1]

    assert len(run(flight(call, timeout=0.05, dead_letter="dead"), [1])) == 1
    until(late[0].future.cancelled)
    late[0].complete([1])


def test_settings_out_of_bounds_are_refused_by_name():
    for name, value in [
        ("max_in_flight", 0),
        ("order", "any"),
        ("timeout", 0),
        ("retries", -1),
        ("backoff", -1),
    ]:
        with pytest.raises(ValueError, match=name):
            Concurrency(**{name: value})


def until(condition):
    ends = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.005)
