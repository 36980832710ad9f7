"""A survey: what is left inside, as slots count it, in a job that is drained or is not."""

from __future__ import annotations

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.transforms import userstate
from apache_beam.transforms.window import FixedWindows

from sparkdrain.drain.progress import Left
from sparkdrain.rounds.driver.drain_watch import DrainWatch
from tests.support.drained import emitted_when_drained
from tests.support.restrictions import LeapingClock, Poll
from tests.support.scripts import Mark, pairs_in_rounds


class Surveys(DrainWatch):
    """Has slots count in every round, and keeps what they say."""

    def __init__(self, signal, counted):
        super().__init__(signal)
        self._counted = counted

    def wants(self, now):
        return True

    def committed(self, schedule, now):
        stages: dict[str, Left] = {}
        for left in (left for report in schedule.reports() for left in report.left):
            stages[left.stage] = stages[left.stage].plus(left) if left.stage in stages else left
        self._counted.append(stages)

    def entered(self, phase, now):
        pass

    def over(self, phase, now):
        pass


class Sets(beam.DoFn):
    SEEN = userstate.CombiningValueStateSpec("seen", VarIntCoder(), sum)
    END = userstate.TimerSpec("end", userstate.TimeDomain.WATERMARK)
    CLOCK = userstate.TimerSpec("clock", userstate.TimeDomain.REAL_TIME)

    def process(
        self,
        element,
        window=beam.DoFn.WindowParam,
        end=beam.DoFn.TimerParam(END),
        clock=beam.DoFn.TimerParam(CLOCK),
    ):
        end.set(window.max_timestamp())
        clock.set(1000)

    @userstate.on_timer(END)
    def ended(self):
        pass

    @userstate.on_timer(CLOCK)
    def rang(self):
        pass


def surveyed(build, after, **settings):
    """What slots had counted, all of a stage together, in each round; drained after some."""
    counted = []

    def begin(rounds):
        rounds.loop.drain = Surveys(rounds.loop.drain.signal, counted)

    emitted_when_drained(build, after, begin=begin, **settings)
    return counted


def test_windows_and_timers_are_counted_before_a_round_and_none_is_left_at_the_end():
    make = pairs_in_rounds(
        [("a", 1, 1), ("b", 1, 2)], [("a", 1, 12), ("c", 1, 1)], Mark(3), windows=FixedWindows(10)
    )
    counted = surveyed(lambda p: make(p) | beam.ParDo(Sets()), 5)
    stateful = [stages["ParDo(Sets)"] for stages in counted]
    assert [left.timers for left in stateful][:5] == [0, 0, 4, 8, 8]
    assert stateful[4].windows == 4
    assert stateful[2].inputs == 4
    assert stateful[2].drained == 0
    last = stateful[-1]
    assert last == Left("ParDo(Sets)", 4, 4)


def test_open_windows_of_a_grouping_are_counted():
    make = pairs_in_rounds(
        [("a", 1, 1)], [("a", 1, 12)], Mark(10), Mark(20), windows=FixedWindows(10)
    )
    counted = surveyed(lambda p: make(p) | beam.GroupByKey(), 7, slots=1)
    assert [stages["record"].windows for stages in counted] == [0, 0, 1, 2, 1, 0, 0]


def test_restrictions_are_counted():
    def build(p):
        return p | beam.Create([(0, 30, 5), (0, 30, 5)]) | beam.ParDo(Poll())

    counted = surveyed(build, 5, clock=LeapingClock())
    assert max(stages["ParDo(Poll)/Process"].residuals for stages in counted) == 2
    assert counted[-1]["ParDo(Poll)/Process"].residuals == 0


def test_elements_that_wait_for_a_side_input_are_counted():
    side = pairs_in_rounds([("x", 7, 1)], Mark(2), windows=FixedWindows(10))
    main = pairs_in_rounds([("a", 1, 1), ("b", 2, 2)], [("c", 3, 3)], windows=FixedWindows(10))

    def build(p):
        pairs = main(p)
        others = beam.pvalue.AsIter(p | "side" >> Named(side))
        return pairs | beam.Map(lambda pair, xs: (pair[0], sum(x[1] for x in xs)), xs=others)

    counted = surveyed(build, 5)
    stage = next(name for name in counted[-1] if name.startswith("Map(<lambda"))
    assert max(stages[stage].parked for stages in counted) == 3
    assert counted[-1][stage].parked == 0


class Named(beam.PTransform):
    def __init__(self, function):
        super().__init__()
        self._function = function

    def expand(self, pipeline):
        return self._function(pipeline)
