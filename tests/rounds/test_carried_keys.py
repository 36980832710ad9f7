"""Asynchronous steps with state that carry over: a commit has nothing of elements in flight."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import userstate
from apache_beam.transforms.window import FixedWindows

import sparkdrain
from sparkdrain.errors import DrainLimitExceeded, TruncatedInput
from sparkdrain.harness.keyed import flight
from sparkdrain.rounds import carried
from sparkdrain.rounds.slots import service
from tests.support.at_once import AtOnce
from tests.support.drained import emitted_when_drained, limited
from tests.support.in_memory_rounds import DEFAULTS, plan_of
from tests.support.mortal_job import Job
from tests.support.random_pipelines import results
from tests.support.recorded import emitted, emitted_in_rounds
from tests.support.scripts import Mark, pairs_in_rounds

pytestmark = pytest.mark.filterwarnings("ignore")

STARTED: Counter[int] = Counter()
OPEN: set[str] = set()
LENT: list = []


class Keeps(beam.DoFn):
    """An element with a 1 at its end is complete when the one eleven behind it has started.

    What it writes before its call, and after that, tells whether rounds keep apart what they have.
    So does a timer of its own, which has the number of its attempt.
    """

    SEEN = userstate.BagStateSpec("seen", VarIntCoder())
    CALLS = userstate.CombiningValueStateSpec("calls", VarIntCoder(), sum)
    END = userstate.TimerSpec("end", userstate.TimeDomain.WATERMARK)
    OWN = userstate.TimerSpec("own", userstate.TimeDomain.WATERMARK)

    async def process(
        self,
        element,
        seen=beam.DoFn.StateParam(SEEN),
        calls=beam.DoFn.StateParam(CALLS),
        end=beam.DoFn.TimerParam(END),
        own=beam.DoFn.TimerParam(OWN),
    ):
        _, x = element
        STARTED[x] += 1
        own.set(101, dynamic_timer_tag=f"{x}/{STARTED[x]}")
        Metrics.counter("out", "asked").inc()
        seen.add(x)
        end.set(100)
        while x % 10 == 1 and x + 11 not in STARTED and x < 30:
            await asyncio.sleep(0.001)
        calls.add(1)
        yield "seen", x, sorted(seen.read()), calls.read()

    @userstate.on_timer(END)
    def tell(
        self,
        key=beam.DoFn.KeyParam,
        seen=beam.DoFn.StateParam(SEEN),
        calls=beam.DoFn.StateParam(CALLS),
    ):
        yield "end", key, sorted(seen.read()), calls.read()

    @userstate.on_timer(OWN)
    def tell_own(self, tag=beam.DoFn.DynamicTimerTagParam):
        yield "own", int(tag.split("/")[0])


class Waits(beam.DoFn):
    """Elements are complete when their name is in ``OPEN``, or as soon as they have started."""

    LAST = userstate.BagStateSpec("last", VarIntCoder())
    DUE = userstate.TimerSpec("due", userstate.TimeDomain.WATERMARK)
    AT = 7

    async def process(
        self,
        element,
        last=beam.DoFn.StateParam(LAST),
        due=beam.DoFn.TimerParam(DUE),
    ):
        key, x = element
        STARTED[x] += 1
        if x < 10:
            due.set(self.AT - (key == "a"))
        if x == 99:
            OPEN.add("a")
        while x % 10 == 1 and key not in OPEN:
            await asyncio.sleep(0.001)
        last.add(x)
        yield key, x

    @userstate.on_timer(DUE)
    async def tell(self, key=beam.DoFn.KeyParam, last=beam.DoFn.StateParam(LAST)):
        yield key, "due", sorted(last.read())


class Hangs(Keeps):
    async def process(self, element, seen=beam.DoFn.StateParam(Keeps.SEEN)):
        seen.add(1)
        await asyncio.sleep(60)


class Sums(Waits):
    async def process(self, element, last=beam.DoFn.StateParam(Waits.LAST)):
        key, x = element
        if x == 99:
            OPEN.add("a")
        while x % 10 == 1 and key not in OPEN:
            await asyncio.sleep(0.001)
        last.add(x)
        yield key, sorted(last.read())


class Adds(Waits):
    async def process(self, element, last=beam.DoFn.StateParam(Waits.LAST)):
        key, x = element
        while x % 10 == 1 and key not in OPEN:
            await asyncio.sleep(0.001)
        last.add(x)
        yield key, sorted(last.read())


class Slow(Keeps):
    async def process(self, element, seen=beam.DoFn.StateParam(Keeps.SEEN)):
        _, x = element
        seen.add(x)
        for _ in range(30 if x == 3 else 0):
            await asyncio.sleep(0.01)  # longer than a round looks, so it takes many rounds
        yield x


def pairs(most=40):
    """By the last digit, so keys are side by side, and an element comes when those before are."""
    script = []
    for start in range(0, most, 5):
        script.append([(str(x % 10), x, x) for x in range(start, start + 5)])
        script.append(Mark(start + 5))
    return pairs_in_rounds(*script)


def carrying(dofn, **settings):
    return beam.ParDo(sparkdrain.Concurrently(dofn, carry_over=True, **settings))


def expected(most=40):
    made = []
    for x in range(most):
        before = list(range(x % 10, x + 1, 10))
        made += [("seen", x, before, len(before)), ("own", x)]
    return made + [("end", str(key), list(range(key, most, 10)), most // 10) for key in range(10)]


@pytest.fixture(autouse=True)
def _nothing_is_waited_for(monkeypatch):
    STARTED.clear()
    OPEN.clear()
    LENT.clear()
    monkeypatch.setattr(carried, "_PATIENCE_SECONDS", 0.0)


def each_slot_once():
    """Undoes the first rounds for each slot of the step, which runs behind a shuffle.

    Not all of them: what is in flight starts again each time. That is so in the first slot, which
    has run when another one fails; it has the key "1".
    """
    undone = set()

    def fail(header):
        is_first = header.number < 30 and (header.number, header.slot) not in undone
        if header.level == 1 and is_first:
            undone.add((header.number, header.slot))
            message = "as the test wants it"
            raise TruncatedInput(message)

    return fail


def rounds_of(rounds):
    return {made: number for number, seen in enumerate(rounds) for made in map(str, seen)}


def test_a_round_does_not_wait_for_a_key_in_flight():
    rounds = emitted_in_rounds(lambda p: pairs()(p) | carrying(Keeps()))
    assert sorted(made for seen in rounds for made in seen) == sorted(expected())
    assert set(STARTED.values()) == {1}
    of = rounds_of(rounds)
    assert of[str(("seen", 1, [1], 1))] > of[str(("seen", 5, [5], 1))]


def test_what_an_element_in_flight_has_written_goes_with_an_undone_round():
    """It starts again with what was committed, which has nothing of it."""
    made = emitted(
        lambda p: pairs()(p) | carrying(Keeps()), fail=each_slot_once(), attempts=5, slots=2
    )
    assert sorted(made) == sorted(expected())
    assert STARTED[1] > 1


def test_due_timers_of_a_key_wait_for_its_elements_in_flight_and_others_fire():
    script = (
        [("a", 0, 1)],
        [("a", 1, 1), ("b", 2, 1)],
        Mark(10),
        [("c", 3, 11)],
        Mark(12),
        [("d", 99, 13)],
    )
    made = emitted(lambda p: pairs_in_rounds(*script)(p) | carrying(Waits()), slots=1)
    assert sorted(map(str, made)) == sorted(
        map(
            str,
            [
                ("a", 0),
                ("a", 1),
                ("b", 2),
                ("c", 3),
                ("d", 99),
                ("a", "due", [0, 1]),
                ("b", "due", [2]),
                ("c", "due", [3]),
            ],
        )
    )
    assert made.index(("b", "due", [2])) < made.index(("d", 99)) < made.index(("a", "due", [0, 1]))


def test_elements_that_come_after_a_timer_is_due_start_when_it_has_fired():
    script = (
        [("a", 0, 1)],
        [("a", 1, 2)],  # in flight
        [("a", 2, 3)],  # before the timer is due
        Mark(10),
        [("a", 4, 11)],  # after it
        Mark(12),
        [("a", 5, 13), ("b", 99, 13)],
    )
    made = emitted(lambda p: pairs_in_rounds(*script)(p) | carrying(Waits()))
    assert [each for each in made if each[0] == "a"][:4] == [
        ("a", 0),
        ("a", 1),
        ("a", 2),
        ("a", "due", [0, 1, 2]),
    ]
    assert sorted(x for key, x, *_ in made if isinstance(x, int)) == [0, 1, 2, 4, 5, 99]


class Totals(beam.DoFn):
    """Tells at the end of a window what it has seen there. ``OPEN`` opens when a test says so."""

    SEEN = userstate.BagStateSpec("seen", VarIntCoder())
    END = userstate.TimerSpec("end", userstate.TimeDomain.WATERMARK)

    async def process(
        self,
        element,
        window=beam.DoFn.WindowParam,
        seen=beam.DoFn.StateParam(SEEN),
        end=beam.DoFn.TimerParam(END),
    ):
        key, x = element
        end.set(window.max_timestamp())
        while x % 10 == 1 and key not in OPEN:
            await asyncio.sleep(0)
        seen.add(x)

    @userstate.on_timer(END)
    def tell(self, key=beam.DoFn.KeyParam, seen=beam.DoFn.StateParam(SEEN)):
        yield key, sorted(seen.read())


def opens_after(rounds_before):
    """Opens all keys after so many rounds."""

    def begin(rounds):
        tell = rounds.loop.tell

        def look(schedule, reports):
            tell(schedule, reports)
            if schedule.number >= rounds_before:
                OPEN.add("a")
            assert schedule.number < 200, "an element is complete, and does not land"

        rounds.loop.tell = look

    return begin


def test_elements_behind_a_timer_are_there_before_the_timers_of_their_own_window():
    """The key's first element is in flight until time has gone past all windows."""
    script = (
        [("a", 2, 12), ("a", 4, 2)],
        [("a", 1, 1)],  # in flight
        Mark(11),  # the end of its window is due
        [("a", 3, 13)],  # so this one is behind
        Mark(50),  # the end of that window is due, too
    )
    pairs = pairs_in_rounds(*script, windows=FixedWindows(10))
    made = emitted(lambda p: pairs(p) | carrying(Totals()), begin=opens_after(20), slots=1)
    assert made == [("a", [1, 4]), ("a", [2, 3])]


@pytest.mark.parametrize("after", [7, 9])
def test_a_drain_loses_nothing_of_elements_behind_a_timer(after):
    script = (
        [("a", 2, 2)],
        [("a", 1, 1)],  # in flight
        Mark(11),
        [("a", 3, 13)],  # behind
        [("a", 4, 14)],
        [("b", 5, 35)],
    )
    pairs = pairs_in_rounds(*script, windows=FixedWindows(10))

    def build(p):
        totals = pairs(p) | carrying(Totals())
        return (  # what comes late is lost here
            totals
            | "again" >> beam.WindowInto(FixedWindows(10))
            | beam.GroupByKey()
            | beam.MapTuple(lambda key, seen: (key, *seen))
        )

    before, drained = emitted_when_drained(build, after, begin=opens_after(after), slots=1)
    assert before == []
    assert sorted(drained) == [("a", [1, 2]), ("a", [3, 4]), ("b", [5])]


def test_a_window_waits_for_elements_in_flight():
    """Its state is there until the last of them is complete, however far time has gone on."""
    script = (
        [("a", 10, 1)],
        [("a", 11, 2), ("a", 12, 3)],
        Mark(50),
        [("b", 99, 51)],
        Mark(100),
    )

    pairs = pairs_in_rounds(*script, windows=FixedWindows(10))
    made = emitted(lambda p: pairs(p) | carrying(Sums()))
    assert sorted(made) == [
        ("a", [10]),
        ("a", [10, 11]),
        ("a", [10, 11, 12]),
        ("b", [99]),
    ]


def test_a_window_waits_for_elements_behind_the_end_of_another_one():
    script = (
        [("a", 10, 1), ("a", 12, 11)],
        [("a", 11, 21)],  # in flight
        Mark(10.5),  # the first window ends
        [("a", 13, 12)],  # so this one is behind
        Mark(50),  # its window ends, too
        [("b", 99, 51)],
    )
    pairs = pairs_in_rounds(*script, windows=FixedWindows(10))
    made = emitted(lambda p: pairs(p) | carrying(Sums()), slots=1)
    wanted = [("a", [10]), ("a", [11]), ("a", [12]), ("a", [12, 13]), ("b", [99])]
    assert sorted(made) == wanted


def test_a_timer_that_waits_for_a_later_element_holds_time_at_its_own():
    """A key's timer is before its element in flight: a window behind the step waits for both."""
    script = ([("a", 2, 1)], [("a", 31, 30)], Mark(20), Mark(40), [("b", 99, 41)], Mark(90))
    made = emitted(
        lambda p: (
            pairs_in_rounds(*script)(p)
            | carrying(Waits())
            | beam.Filter(lambda made: made[1] == "due")
            | beam.Map(lambda made: (made[0], 1))
            | beam.WindowInto(FixedWindows(10))
            | beam.GroupByKey()
            | beam.MapTuple(lambda key, _, at=beam.DoFn.WindowParam: (key, int(at.start)))
        )
    )
    assert made == [("a", 0)]


def test_state_of_a_key_in_flight_stays_though_time_is_at_its_end():
    script = (
        [("a", 12, 1), ("a", 14, 11)],
        [("a", 11, 21)],  # in flight
        Mark(10.5),  # the first window ends
        [("a", 13, 12), ("b", 3, 12)],  # the first of these is behind
    )
    pairs = pairs_in_rounds(*script, windows=FixedWindows(10))
    made = emitted(lambda p: pairs(p) | carrying(Adds()), begin=opens_after(20), slots=1)
    assert sorted(made) == [("a", [11]), ("a", [12]), ("a", [13, 14]), ("a", [14]), ("b", [3])]


class Fills(Waits):
    """The elements 1 and 11 are complete when their numbers are in ``OPEN``."""

    async def process(
        self, element, last=beam.DoFn.StateParam(Waits.LAST), due=beam.DoFn.TimerParam(Waits.DUE)
    ):
        key, x = element
        if x > 90:
            OPEN.add(str(x - 90))
        if x == 0:
            due.set(self.AT)
        while x in (1, 11) and str(x) not in OPEN:
            await asyncio.sleep(0)
        for _ in range(1 if key == "a" else 50):
            last.add(x)
        if key == "a":
            yield x, sorted(last.read())


def test_state_of_a_key_stays_after_its_timer_has_fired_though_there_is_no_room():
    many = [(f"c{number}", 2, 13) for number in range(200)]
    script = (
        [("a", 0, 1)],
        [("a", 1, 2)],  # in flight
        Mark(10),
        [("a", 11, 11)],  # behind the timer
        [("b", 91, 12)],  # the first one is complete, the timer fires, the second one is in flight
        many,
        many,
        [("b", 101, 14)],  # it is complete
        many,
        [("a", 20, 15)],
    )
    build = lambda p: pairs_in_rounds(*script)(p) | carrying(Fills())
    made = emitted(build, slots=1, options=replace(DEFAULTS, state_bytes=20_000))
    assert made == [
        (0, [0]),
        (1, [0, 1]),
        ("a", "due", [0, 1]),
        (11, [0, 1, 11]),
        (20, [0, 1, 11, 20]),
    ]


class Opens(beam.DoFn):
    """The timer of one key fires until the element of another one is complete."""

    SEEN = userstate.BagStateSpec("seen", VarIntCoder())
    DUE = userstate.TimerSpec("due", userstate.TimeDomain.WATERMARK)

    async def process(
        self, element, seen=beam.DoFn.StateParam(SEEN), due=beam.DoFn.TimerParam(DUE)
    ):
        key, x = element
        if key == "b":
            due.set(7)
        while key == "a" and "a" not in OPEN:
            await asyncio.sleep(0)
        seen.add(x)
        OPEN.add(f"{key} is complete")
        yield key, x

    @userstate.on_timer(DUE)
    async def tell(self, key=beam.DoFn.KeyParam):
        OPEN.add("a")
        while "a is complete" not in OPEN:
            await asyncio.sleep(0)
        yield key, "due"


def test_an_element_that_is_complete_while_timers_fire_lands_in_the_next_round():
    """What it makes would come after the round has found out what holds time."""
    script = ([("a", 1, 1), ("b", 2, 1)], Mark(10))
    rounds = emitted_in_rounds(lambda p: pairs_in_rounds(*script)(p) | carrying(Opens()), slots=1)
    of = rounds_of(rounds)
    assert of[str(("b", 2))] < of[str(("b", "due"))] < of[str(("a", 1))]


class Tells(Waits):
    async def process(self, element, last=beam.DoFn.StateParam(Waits.LAST)):
        key, x = element
        last.add(x)
        while x % 10 == 1 and key not in OPEN:
            await asyncio.sleep(0.001)
        Metrics.counter("out", f"{key} {sorted(last.read())}").inc()


def test_elements_in_flight_go_to_another_slot_with_their_key(tmp_path, monkeypatch):
    monkeypatch.setattr(service, "Uploader", AtOnce)
    keys = [str(key) for key in range(10)]
    script = [[(key, x, 1) for key in keys] for x in (10, 11)]
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    _ = pairs_in_rounds(*script)(pipeline) | carrying(Tells())
    job = Job(plan_of(pipeline), str(tmp_path))
    assert job.live(1, 25) is None  # it dies while they are in flight
    OPEN.update(keys)
    wanted = {f"{key} {seen}": 1 for key in keys for seen in ([10], [10, 11])}
    assert job.live(3, None) == wanted


class Counted(beam.DoFn):
    """Counts what it sees."""

    LAST = userstate.BagStateSpec("last", VarIntCoder())

    def process(self, element, last=beam.DoFn.StateParam(LAST)):
        key, x = element
        last.add(x)
        Metrics.counter("out", f"{key} {sorted(last.read())}").inc()


class CountedNever(Counted):
    async def process(self, element, last=beam.DoFn.StateParam(Counted.LAST)):
        await asyncio.sleep(60)


class CountedLater(Counted):
    async def process(self, element, last=beam.DoFn.StateParam(Counted.LAST)):
        await asyncio.sleep(0)
        super().process(element, last)


@pytest.mark.parametrize("step", [Counted(), sparkdrain.Concurrently(CountedLater())])
def test_elements_in_flight_are_there_though_their_step_carries_nothing_now(
    tmp_path, monkeypatch, step
):
    """The job is resumed with another DoFn."""
    monkeypatch.setattr(service, "Uploader", AtOnce)

    def plan(dofn):
        pipeline = beam.Pipeline(options=PipelineOptions([]))
        keyed = pairs_in_rounds(*([(key, x, 1) for key in "abc"] for x in (1, 2)))(pipeline)
        _ = keyed | "step" >> beam.ParDo(dofn)
        return plan_of(pipeline)

    job = Job(plan(sparkdrain.Concurrently(CountedNever(), carry_over=True)), str(tmp_path))
    assert job.live(1, 25) is None  # nothing comes in its next life
    job.plan = plan(step)
    assert job.live(2, None) == {f"{key} {seen}": 1 for key in "abc" for seen in ([1], [1, 2])}


class Sees(Waits):
    """Elements below ten are complete when they are in ``OPEN``."""

    async def process(self, element, last=beam.DoFn.StateParam(Waits.LAST)):
        key, x = element
        while x < 10 and str(x) not in OPEN:
            await asyncio.sleep(0)
        last.add(x)
        yield key, sorted(last.read())


class Opening(beam.DoFn):
    """Opens 1 when a bundle begins, and 2 while 13 is in flight; shares the loop with others."""

    SEEN = userstate.BagStateSpec("seen", VarIntCoder())

    async def start_bundle(self):
        if STARTED["bundle"]:
            OPEN.add("1")
        STARTED["bundle"] += 1
        for _ in range(50):
            await asyncio.sleep(0)

    async def process(self, element, seen=beam.DoFn.StateParam(SEEN)):
        if element[1] == 13:
            OPEN.add("2")
        for _ in range(50):
            await asyncio.sleep(0)
        return []


@pytest.mark.parametrize("turned", [False, True])
def test_an_element_sees_what_was_complete_while_another_step_ran_the_loop(turned):
    def build(p):
        keyed = pairs_in_rounds([("k", 1, 1), ("j", 2, 1)], [("k", 13, 2)])(p)
        ways = [
            lambda: keyed | "opening" >> beam.ParDo(Opening()),
            lambda: keyed | "sees" >> carrying(Sees()),
        ]
        return [way() for way in (ways[::-1] if turned else ways)] | beam.Flatten()

    made = emitted(build, slots=1)
    assert sorted(made) == [("j", [2]), ("k", [1]), ("k", [1, 13])]


class Dozes(Waits):
    """The element 1 goes on until a key "b" comes, or for as long as many rounds would take."""

    async def process(
        self, element, last=beam.DoFn.StateParam(Waits.LAST), due=beam.DoFn.TimerParam(Waits.DUE)
    ):
        key, x = element
        STARTED[key] += 1
        if x == 0:
            due.set(self.AT)
        pauses = 40 if x == 1 else 1
        while pauses and not (x == 1 and STARTED["b"]):
            await asyncio.sleep(0.01 if x == 1 else 0)  # longer than a round looks
            pauses -= 1
        last.add(x)
        yield key, x


def test_a_round_waits_if_too_many_elements_are_behind_a_timer(monkeypatch):
    monkeypatch.setattr(flight, "WAITING", 5)
    script = (
        [("a", 0, 1)],
        [("a", 1, 2)],  # in flight
        Mark(10),
        [("a", x, 11) for x in range(10, 20)],  # behind
        [("b", 3, 12)],
    )
    build = lambda p: pairs_in_rounds(*script)(p) | carrying(Dozes(), max_in_flight=2)
    rounds = emitted_in_rounds(build, slots=1)
    of = rounds_of(rounds)
    assert of[str(("a", 1))] < of[str(("b", 3))]
    made = [x for seen in rounds for key, x, *_ in seen if key == "a"]
    assert made == [0, 1, "due", *range(10, 20)]


def test_a_key_with_many_elements_lets_others_begin():
    script = [[*(("hot", x, 1) for x in range(10, 70)), ("cold", 2, 1)]]
    build = lambda p: pairs_in_rounds(*script)(p) | carrying(Dozes(), max_in_flight=2)
    made = emitted(build, begin=opens_after(10_000), slots=1)
    assert [x for key, x in made if key == "hot"] == [*range(10, 70)]
    assert made.index(("cold", 2)) < 40


class Dawdles(beam.DoFn):
    """Lets others go on when a bundle has ended, and when one begins."""

    SEEN = userstate.BagStateSpec("seen", VarIntCoder())

    async def start_bundle(self):
        await asyncio.sleep(0.005)

    async def process(self, element, seen=beam.DoFn.StateParam(SEEN)):
        return []

    async def finish_bundle(self):
        await asyncio.sleep(0.005)


class Soon(Keeps):
    async def process(
        self,
        element,
        seen=beam.DoFn.StateParam(Keeps.SEEN),
        calls=beam.DoFn.StateParam(Keeps.CALLS),
    ):
        _, x = element
        STARTED[x] += 1
        seen.add(x)
        await asyncio.sleep(0.008 if x % 3 == 0 else 0.002)
        calls.add(1)
        yield "seen", x, sorted(seen.read()), calls.read()


@pytest.mark.parametrize("turned", [False, True])
def test_nothing_is_complete_while_other_steps_end_the_round(turned):
    """They share the loop, in which elements go on."""

    def build(p):
        keyed = pairs(20)(p)
        ways = [
            lambda: keyed | "dawdles" >> beam.ParDo(Dawdles()),
            lambda: keyed | "soon" >> carrying(Soon()),
        ]
        return [way() for way in (ways[::-1] if turned else ways)] | beam.Flatten()

    made = emitted(build, fail=each_slot_once(), attempts=5)
    assert sorted(made) == sorted(one for one in expected(20) if one[0] == "seen")
    assert max(STARTED.values()) > 1


class Large(Waits):
    """Has more than a small key can have, so its key is large from the second element on."""

    MANY = userstate.BagStateSpec("many", VarIntCoder())

    async def process(self, element, many=beam.DoFn.StateParam(MANY)):
        key, x = element
        await asyncio.sleep(0.3 if x % 10 == 1 else 0)
        for number in range(5_000):
            many.add(number)
        yield key, x, len(list(many.read()))


def test_a_round_waits_for_large_keys():
    script = ([("a", 2, 1)], [("a", 1, 2), ("b", 3, 2)], [("b", 4, 4)])
    rounds = emitted_in_rounds(lambda p: pairs_in_rounds(*script)(p) | carrying(Large()))
    of = rounds_of(rounds)
    assert of[str(("a", 1, 10_000))] < of[str(("b", 4, 10_000))]


class Lends(Waits):
    """Leaves a cell to the next element, which is of another key."""

    async def process(self, element, last=beam.DoFn.StateParam(Waits.LAST)):
        await asyncio.sleep(0)
        if LENT:
            LENT[0].add(1)
        LENT.append(last)


def test_state_that_is_used_after_the_turn_of_a_carried_key_is_an_error():
    with pytest.raises(Exception, match="no key has its turn"):
        emitted(
            lambda p: pairs_in_rounds([("a", 2, 1), ("b", 3, 1)])(p) | carrying(Lends()), slots=1
        )


@pytest.mark.parametrize("most", [2, 3])
def test_timers_fire_though_all_that_may_be_in_flight_are_carried_over(most):
    script = (
        [("b", 2, 1)],
        [("a", 1, 1), ("c", 1, 1)],
        Mark(10),
        [("d", 3, 11)],
    )

    def opened(rounds):
        tell = rounds.loop.tell

        def look(schedule, reports):
            tell(schedule, reports)
            if any(("b", "due", [2]) in kept for kept in rounds.kept):
                OPEN.update("ac")
            assert schedule.number < 200, "no timer fires"

        rounds.loop.tell = look

    def build(p):  # the limit is for a test that fails
        return pairs_in_rounds(*script)(p) | carrying(Waits(), max_in_flight=most, timeout=30)

    made = emitted(build, begin=opened, slots=1)
    assert made.index(("b", "due", [2])) < made.index(("a", 1))


@pytest.mark.parametrize("compiled", [True, False])
def test_metrics_of_an_element_of_a_key_count_with_it(compiled):
    found = []
    emitted_in_rounds(
        lambda p: pairs()(p) | carrying(Keeps()),
        fail=each_slot_once(),
        attempts=5,
        options=replace(DEFAULTS, compiled=compiled),
        watch=lambda rounds: found.append(results(rounds.schedule.reports())),
    )
    assert found == [{"asked": 40}]
    assert STARTED[1] > 1


def test_a_drain_waits_for_keys_that_were_carried_over():
    before, after = emitted_when_drained(lambda p: pairs(20)(p) | carrying(Slow()), 3)
    assert sorted(before + after) == list(range(max(before + after) + 1))
    assert 3 in after


def test_a_key_that_hangs_is_over_the_limit_of_a_drain_for_elements():
    with pytest.raises(DrainLimitExceeded, match="--drain_element_limit_ms"):
        emitted_when_drained(lambda p: pairs(20)(p) | carrying(Hangs()), 3, begin=limited)
