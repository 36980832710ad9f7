"""DoFns that require time-sorted input, in rounds."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Timestamp

from tests.support.in_memory_rounds import DEFAULTS
from tests.support.recorded import emitted, emitted_in_batch, emitted_in_rounds
from tests.support.scripts import Mark, pairs_at_once, pairs_in_rounds
from tests.support.undoing import ATTEMPTS, undoing

STEP = "in order"


def require_time_sorted_input(proto) -> None:
    """What Java's ``@RequiresTimeSortedInput`` does; Python's SDK has no word for it."""
    for transform in proto.components.transforms.values():
        if transform.unique_name == STEP:
            payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
            payload.requires_time_sorted_input = True
            transform.spec.payload = payload.SerializeToString()


class InOrder(beam.DoFn):
    """Tells each element, with the one before it; at 20 seconds, the last one."""

    LAST = userstate.ReadModifyWriteStateSpec("last", VarIntCoder())
    TIMER = userstate.TimerSpec("timer", TimeDomain.WATERMARK)

    def process(
        self,
        element,
        at=beam.DoFn.TimestampParam,
        last=beam.DoFn.StateParam(LAST),
        timer=beam.DoFn.TimerParam(TIMER),
    ):
        yield element[0], last.read(), element[1], float(at)
        last.write(element[1])
        timer.set(Timestamp(20))

    @userstate.on_timer(TIMER)
    def fire(self, key=beam.DoFn.KeyParam, last=beam.DoFn.StateParam(LAST)):
        yield key, last.read(), -1, 20.0


class InOrderSlowly(InOrder):
    async def process(
        self,
        element,
        at=beam.DoFn.TimestampParam,
        last=beam.DoFn.StateParam(InOrder.LAST),
        timer=beam.DoFn.TimerParam(InOrder.TIMER),
    ):
        await asyncio.sleep(0.001 if element[0] == "a" else 0)
        for made in super().process(element, at, last, timer):
            yield made


class Alone(beam.DoFn):
    """Neither state nor timers."""

    def process(self, element, at=beam.DoFn.TimestampParam):
        yield element[0], element[1], float(at)


def sorted_in_rounds(*steps, dofn=InOrder, windows=None, lateness=0, **settings):
    windowing = {} if windows is None else {"allowed_lateness": lateness}
    return emitted_in_rounds(
        lambda p: (
            pairs_in_rounds(*steps, windows=windows, **windowing)(p) | STEP >> beam.ParDo(dofn())
        ),
        edit=require_time_sorted_input,
        **settings,
    )


STEPS = [
    [("a", 5, 5), ("a", 3, 3), ("b", 9, 9)],
    [("a", 4, 4), ("a", 12, 12)],
    Mark(4),
    [("a", 11, 11), ("a", 6, 6)],
    Mark(10),
    Mark(25),
    [("a", 31, 31), ("a", 30, 30)],
]


@pytest.mark.parametrize("dofn", [InOrder, InOrderSlowly])
def test_elements_come_in_time_order_when_nothing_earlier_can_come(dofn) -> None:
    found = sorted_in_rounds(*STEPS, dofn=dofn, slots=1)
    # Keys have no order among each other.
    assert [sorted(kept, key=lambda element: element[0]) for kept in found if kept] == [
        [("a", None, 3, 3.0)],
        [("a", 3, 4, 4.0), ("a", 4, 5, 5.0), ("a", 5, 6, 6.0), ("b", None, 9, 9.0)],
        [("a", 6, 11, 11.0), ("a", 11, 12, 12.0), ("a", 12, -1, 20.0), ("b", 9, -1, 20.0)],
        [("a", 12, 30, 30.0), ("a", 30, 31, 31.0), ("a", 31, -1, 20.0)],
    ]


def test_elements_that_wait_hold_the_output_frontier() -> None:
    frontiers = []

    def watch(rounds) -> None:
        for reports in rounds.rounds:
            frontiers.extend(r.outputs[-1] / 1_000_000 for r in reports if r.level == 1)

    sorted_in_rounds([("a", 7, 7)], Mark(7), Mark(8), dofn=Alone, slots=1, watch=watch)
    assert frontiers[-3:-1] == [7, 8]
    frontiers.clear()
    sorted_in_rounds(
        [("a", 7, 7)],
        Mark(7),
        Mark(8),
        Mark(10),
        dofn=Alone,
        slots=1,
        watch=watch,
        windows=FixedWindows(100),
        lateness=2,
    )
    assert frontiers[-4:-1] == [7, 7, 10]


def test_what_is_late_is_dropped_and_counted() -> None:
    dropped = []
    steps = [[("a", 5, 5)], Mark(10), [("a", 9, 9), ("a", 10, 10), ("b", 3, 3)]]
    found = sorted_in_rounds(
        *steps,
        dofn=Alone,
        watch=lambda rounds: dropped.extend(r.dropped for r in rounds.schedule.reports()),
    )
    assert [e for kept in found for e in kept] == [("a", 5, 5.0), ("a", 10, 10.0)]
    assert sum(dropped) == 2


def test_elements_of_one_time_keep_their_order() -> None:
    steps = [[("a", n, 5) for n in (3, 1)], [("a", n, 5) for n in (2, 7, 0)], Mark(9)]
    found = sorted_in_rounds(*steps, dofn=Alone)
    assert [n for kept in found for _, n, _ in kept] == [3, 1, 2, 7, 0]


def test_keys_with_one_element_each_may_share_a_time() -> None:
    steps = [[(key, n, 5) for n, key in enumerate("abcd")], Mark(9)]
    found = sorted_in_rounds(*steps, slots=1)
    assert sorted(element for kept in found for element in kept if element[2] >= 0) == [
        (key, None, n, 5.0) for n, key in enumerate("abcd")
    ]


def test_an_error_names_the_key_of_an_element_that_had_to_wait() -> None:
    class Fails(beam.DoFn):
        def process(self, element):
            message = "not this one"
            raise ValueError(message)

    with pytest.raises(ValueError, match="not this one") as caught:
        sorted_in_rounds([("left", 1, 1)], Mark(5), dofn=Fails)
    assert "key 'left'" in caught.value.__notes__[-1]


@pytest.mark.parametrize("memory", [256 << 20, 400_000], ids=["in memory", "beyond memory"])
@pytest.mark.parametrize("seed", range(3))
def test_it_gives_what_a_bounded_job_gives_whatever_fails(seed, memory) -> None:
    chance = random.Random(seed)
    times = [n / 30 + chance.randrange(200) / 10 for n in range(3000)]
    marks = [0]
    steps = []
    for start in range(0, 3000, 500):
        rest = times[start:]
        steps.append([("abc"[n % 3], n, at) for n, at in enumerate(rest[:500], start)])
        mark = int(min(rest[500:], default=200) - chance.randrange(3))
        if mark > marks[-1]:
            marks.append(mark)
            steps.append(Mark(mark))

    found = sorted_in_rounds(
        *steps,
        fail=undoing(seed, 0.1),
        attempts=ATTEMPTS,
        options=replace(DEFAULTS, memory_bytes=memory),
    )
    expected = emitted_in_batch(
        lambda p: pairs_at_once(*steps)(p) | STEP >> beam.ParDo(InOrder()),
        edit=require_time_sorted_input,
    )
    # A timer that a bounded job fires once may fire before and after an element here.
    elements = [e for kept in found for e in kept if e[2] >= 0]
    for key in "abc":
        assert [e for e in elements if e[0] == key] == [
            e for e in expected if e[0] == key and e[2] >= 0
        ]


def test_the_whole_stream_at_once() -> None:
    steps = [step for step in STEPS if isinstance(step, list)]
    together = [[element for step in steps for element in step]]
    found = emitted(
        lambda p: pairs_in_rounds(*together)(p) | STEP >> beam.ParDo(InOrder()),
        edit=require_time_sorted_input,
    )
    expected = emitted_in_batch(
        lambda p: pairs_at_once(*together)(p) | STEP >> beam.ParDo(InOrder()),
        edit=require_time_sorted_input,
    )
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
