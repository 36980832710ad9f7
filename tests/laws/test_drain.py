"""Laws of drain: for any pipeline, and at any moment.

What comes out of a job that is drained, before and after, is what the bounded run makes of the
elements that were admitted before the cut; nothing is left inside, and nothing is dropped as late.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing import test_stream
from apache_beam.transforms import trigger
from hypothesis import given
from hypothesis import strategies as st
from test_streaming import EACH, GROUPED, WINDOWS, build, created, results, streamed, streams

from sparkdrain.graph.state_ids import DRAIN_STATE_ID
from tests.support.drained import drain_after
from tests.support.in_memory import run_in_memory
from tests.support.in_memory_rounds import InMemoryRounds, plan_of
from tests.support.law import law
from tests.support.undoing import ATTEMPTS, SEEDS, undoing
from timers_state import inspect

FEW = law(12)
# How far the gates of side inputs have come.
NUMBERS = ((b"t", b"p"),)
TRIGGERS = {
    "default": trigger.DefaultTrigger,
    "each": lambda: trigger.Repeatedly(trigger.AfterCount(1)),
    "never enough": lambda: trigger.Repeatedly(trigger.AfterCount(1000)),
    "pairs": lambda: trigger.Repeatedly(trigger.AfterCount(2)),
    "early and late": lambda: trigger.AfterWatermark(
        early=trigger.AfterCount(2), late=trigger.AfterCount(1)
    ),
    "by the clock": lambda: trigger.Repeatedly(trigger.AfterProcessingTime(60)),
}


class Drained:
    """A pipeline in rounds that was drained after round ``after``; with what became of it.

    Attributes:
        given: how many events of its script were admitted.
        rounds: those that ran.
        left: what was still in the stores of its slots.
    """

    def __init__(self, pipeline, after, seed, failing, **how) -> None:
        self.given = 0

        self.rounds = InMemoryRounds(
            plan_of(pipeline), fail=undoing(seed, failing), attempts=ATTEMPTS, **how
        )
        loop = self.rounds.loop
        drain_after(after, self.rounds, repeats=3)
        tell = loop.tell

        def look(schedule, reports) -> None:
            if schedule.number <= after:
                self.given = loop.play.position
            tell(schedule, reports)

        loop.tell = look
        try:
            self.rounds.run_to_end()
            self.left = [entry for slot in self.rounds.slots() for entry in inside(slot)]
        finally:
            self.rounds.close()

    @property
    def reports(self):
        return self.rounds.schedule.reports()

    @property
    def was_in_time(self):
        """Whether it was drained before it was over."""
        return self.rounds.schedule.knows_of_drain()


def inside(slot):
    """What is in the store of a slot, but for numbers: of the drain, and how far gates are."""
    slot.overlay.commit()
    slot.overlay.flush()
    return [
        entry
        for entry in inspect.entries(slot.overlay.store)
        if entry.time is not None
        or (entry.state_id != DRAIN_STATE_ID and (entry.key, entry.tag) not in NUMBERS)
    ]


def admitted(stream, given):
    """The elements of the first events of a script, as (key, value, time)."""
    return [
        (*timed.value, timed.timestamp.micros // 10**6)
        for event in stream._events[:given]
        if isinstance(event, test_stream.ElementEvent)
        for timed in event.timestamped_values
    ]


@FEW
@given(
    streams(),
    st.sampled_from(sorted(WINDOWS)),
    st.lists(st.sampled_from(sorted(EACH)), max_size=2),
    st.lists(st.sampled_from(sorted(GROUPED)), min_size=1, max_size=2),
    st.integers(1, 3),
    st.integers(0, 8),
    st.sampled_from([10_000, 3]),
    SEEDS,
    st.sampled_from([0.0, 0.15]),
)
def test_a_drained_run_makes_what_the_bounded_run_over_the_admitted_elements_makes(
    stream, windowing, each, grouped, slots, after, budget, seed, failing
) -> None:
    _, script = stream
    if windowing == "sessions":
        each, grouped = ([n for n in names if "side input" not in n] for names in (each, grouped))
    streaming = beam.Pipeline(options=PipelineOptions([]))
    build(streaming, streamed(script), windowing, each, grouped)
    drained = Drained(streaming, after, seed, failing, slots=slots, elements=budget)
    batch = beam.Pipeline(options=PipelineOptions([]))
    build(batch, created(admitted(script, drained.given)), windowing, each, grouped)
    assert results(drained.reports) == results(run_in_memory(batch, 2))
    assert {report.dropped for report in drained.reports} == {0}
    assert drained.rounds.schedule.is_drained() == drained.was_in_time
    assert [entry for entry in drained.left if entry.time is not None] == []
    if windowing != "global":
        # User state of the global window is the user's; all other windows are over.
        assert drained.left == []


def told(element, w=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam):
    key, values = element
    info = [key, repr(w), sorted(values), pane.index, pane.is_first, pane.is_last]
    beam.metrics.Metrics.counter("out", json.dumps(info)).inc()


@FEW
@given(
    streams(),
    st.sampled_from(sorted(WINDOWS)),
    st.sampled_from(sorted(TRIGGERS)),
    st.sampled_from([0, 20]),
    st.integers(1, 2),
    st.integers(0, 8),
    SEEDS,
    st.sampled_from([0.0, 0.15]),
)
def test_panes_of_a_drained_run_are_well_formed_and_have_every_admitted_element_once(
    stream, windowing, firing, lateness, slots, after, seed, failing
) -> None:
    _, script = stream
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    collection = pipeline | script | beam.Map(lambda kv: kv).with_output_types(tuple[str, int])
    collection.is_bounded = True
    _ = (
        collection
        | beam.WindowInto(
            WINDOWS[windowing](),
            trigger=TRIGGERS[firing](),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
            allowed_lateness=lateness,
        )
        | beam.GroupByKey()
        | beam.Map(told)
    )
    drained = Drained(pipeline, after, seed, failing, slots=slots)
    panes = defaultdict(list)
    values: Counter = Counter()
    for info, count in results(drained.reports).items():
        assert count == 1
        key, where, content, index, is_first, is_last = json.loads(info)
        panes[key, where].append((index, is_first, is_last))
        values.update((key, value) for value in content)
    for shapes in panes.values():
        shapes.sort()
        assert [index for index, _, _ in shapes] == list(range(len(shapes)))
        assert [is_first for _, is_first, _ in shapes] == [True] + [False] * (len(shapes) - 1)
        assert not any(is_last for _, _, is_last in shapes[:-1])
    windows = 3 if windowing == "sliding" else 1
    expected = Counter((key, value) for key, value, _ in admitted(script, drained.given))
    assert values == Counter({pair: n * windows for pair, n in expected.items()})
    assert drained.left == []
