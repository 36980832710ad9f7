"""Windows that a harness merges, as nobody else knows their function: here, one of Python's."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.portability import python_urns
from apache_beam.testing import test_stream
from apache_beam.transforms import trigger, window

from sparkdrain.errors import TruncatedInput
from sparkdrain.fnapi import merging
from sparkdrain.fnapi.aside import StageAside
from sparkdrain.fnapi.errors import lost
from sparkdrain.graph import window_fns
from tests.support.in_memory import run_in_memory
from tests.support.seen import SEEN, see


class Span(window.IntervalWindow):
    """A window of a class of the program's own."""


class SpanCoder(coders.Coder):
    def encode(self, value):
        return f"{value.start.micros},{value.end.micros}".encode()

    def decode(self, encoded):
        start, end = (float(part) / 1e6 for part in encoded.split(b","))
        return Span(start, end)

    def is_deterministic(self):
        return True


class Absorbed(window.WindowFn):
    """A long window takes in the short ones that begin in it; short ones do not merge."""

    def assign(self, assign_context):
        value = assign_context.element[1]
        length = 30 if str(value).startswith("big") else 5
        start = assign_context.timestamp
        return [self.kind(start, start + length)]

    kind = window.IntervalWindow

    def get_window_coder(self):
        return IntervalWindowCoder()

    def merge(self, merge_context):
        for big in [each for each in merge_context.windows if each.end - each.start >= 30]:
            inside = [each for each in merge_context.windows if big.start <= each.start < big.end]
            merge_context.merge(inside, big)


class AbsorbedSpans(Absorbed):
    kind = Span

    def get_window_coder(self):
        return SpanCoder()


KINDS = [("big", 10), ("small", 20)]
ELEMENTS = [(("a", "big"), 10), (("a", "small"), 20), (("a", "alone"), 45), (("b", "small"), 20)]
GROUPS = [
    ("a", ["alone"], 45.0, 50.0),
    ("a", ["big", "small"], 10.0, 40.0),
    ("b", ["small"], 20.0, 25.0),
]


@pytest.fixture(params=[Absorbed, AbsorbedSpans])
def windows(request, monkeypatch):
    """A window function that only the harness may call."""
    monkeypatch.setattr(window_fns, "FOREIGN", frozenset({python_urns.PICKLED_WINDOWFN}))
    return request.param()


def _remember(element):
    SEEN.append(element)


def _stamped(pair):
    return window.TimestampedValue(*pair)


def _told(pair, of=beam.DoFn.WindowParam):
    return pair[0], sorted(pair[1]), float(of.start), float(of.end)


def _grouped(elements, windows, **how):
    return elements | beam.WindowInto(windows, **how) | beam.GroupByKey() | beam.Map(_told)


def test_the_slot_itself_makes_the_same_groups():
    pipeline = beam.Pipeline()
    made = pipeline | beam.Create(ELEMENTS) | beam.Map(_stamped)
    SEEN.clear()
    _ = _grouped(made, Absorbed()) | beam.Map(_remember)
    run_in_memory(pipeline)
    assert sorted(SEEN) == GROUPS


def test_a_batch_has_its_windows_merged(run, windows):
    def build(pipeline):
        made = pipeline | beam.Create(ELEMENTS) | beam.Map(_stamped)
        return _grouped(made, windows) | beam.Map(see)

    _, seen = run(build)
    assert seen == GROUPS


def test_a_combine_has_one_sum_for_a_merged_window(run, windows):
    def build(pipeline):
        made = pipeline | beam.Create(ELEMENTS) | beam.Map(_stamped) | beam.WindowInto(windows)
        return made | beam.combiners.Count.PerKey() | beam.Map(see)

    _, seen = run(build)
    assert seen == [("a", 1), ("a", 2), ("b", 1)]


def _stream(pipeline):
    """The elements come one after the other; the long window comes last."""
    stream = test_stream.TestStream(coder=coders.FastPrimitivesCoder())
    for element, time in [*ELEMENTS[1:], ELEMENTS[0]]:
        stream = stream.add_elements([window.TimestampedValue(element, time)])
    return pipeline | stream.advance_watermark_to_infinity()


def test_a_stream_has_windows_merged_with_those_of_earlier_rounds(stream, windows):
    SEEN.clear()
    stream(lambda pipeline: _grouped(_stream(pipeline), windows) | beam.Map(see))
    assert sorted(SEEN) == GROUPS


def test_early_panes_come_from_windows_as_they_are_merged_then(stream, windows):
    SEEN.clear()
    how = {
        "trigger": trigger.Repeatedly(trigger.AfterCount(2)),
        "accumulation_mode": trigger.AccumulationMode.DISCARDING,
    }
    stream(lambda pipeline: _grouped(_stream(pipeline), windows, **how) | beam.Map(see))
    assert ("a", ["big", "small"], 10.0, 40.0) in SEEN


def test_a_round_that_is_undone_merges_again(stream, windows):
    undone = set()

    def fail(header):
        if header.number not in undone and header.number % 2:
            undone.add(header.number)
            message = "as the test wants it"
            raise TruncatedInput(message)

    SEEN.clear()
    stream(lambda pipeline: _grouped(_stream(pipeline), windows) | beam.Map(see), fail=fail)
    assert undone
    assert sorted(SEEN) == GROUPS


def test_a_harness_that_is_lost_while_it_merges_undoes_the_round(stream, windows, monkeypatch):
    lent, run_stage = [], StageAside.run

    def run(self, several):
        if self._worker not in lent:
            lent.append(self._worker)
            if len(lent) == 1:
                self._worker.is_lost = True
                why = "the test wants it"
                raise lost(why)
        return run_stage(self, several)

    monkeypatch.setattr(StageAside, "run", run)
    SEEN.clear()
    stream(lambda pipeline: _grouped(_stream(pipeline), windows) | beam.Map(see))
    assert len(lent) == 2
    assert sorted(SEEN) == GROUPS


def test_keys_with_the_same_windows_take_one_request(run, windows, monkeypatch):
    asked = []
    ask = merging._Merge._ask
    monkeypatch.setattr(
        merging._Merge, "_ask", lambda self, given: asked.append(given) or ask(self, given)
    )

    def build(pipeline):
        elements = [((str(key), kind), time) for key in range(20) for kind, time in KINDS]
        made = pipeline | beam.Create(elements) | beam.Map(_stamped)
        return _grouped(made, windows) | beam.Map(see)

    _, seen = run(build, slots=1)
    assert len(seen) == 20
    assert len(asked) == len(set(asked)) <= 4


def test_the_harness_is_given_back(run, windows, harnesses):
    def build(pipeline):
        made = pipeline | beam.Create(ELEMENTS) | beam.Map(_stamped)
        return _grouped(made, windows) | beam.Map(see)

    run(build)
    assert not any(kept.users for kept in harnesses._kept.values())


class Broken(Absorbed):
    def merge(self, merge_context):
        message = "no window like this"
        raise ArithmeticError(message)


def test_an_error_of_the_window_function_ends_the_job_with_its_words(run, monkeypatch):
    monkeypatch.setattr(window_fns, "FOREIGN", frozenset({python_urns.PICKLED_WINDOWFN}))

    def build(pipeline):
        made = pipeline | beam.Create(ELEMENTS) | beam.Map(_stamped)
        return _grouped(made, Broken()) | beam.Map(see)

    with pytest.raises(RuntimeError, match="no window like this"):
        run(build)
