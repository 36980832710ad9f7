"""``--async_steps``: steps wait side by side, and their code does not know."""

from __future__ import annotations

import asyncio
import threading
import time

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.ml.inference.base import ModelHandler, RunInference
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions, TypeOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms import userstate
from engines import gives

import sparkdrain
from sparkdrain.concurrency.settings import AsyncStep
from sparkdrain.concurrency.submitted import refuse_impossible
from sparkdrain.errors import BadOption, Unsupported
from sparkdrain.options import SparkDrainOptions

LOCK = threading.Lock()
LIVE = {"now": 0, "most": 0}


def wait(element):
    """Waits in a thread, and counts how many do."""
    with LOCK:
        LIVE["now"] += 1
        LIVE["most"] = max(LIVE["most"], LIVE["now"])
    time.sleep(0.005)
    with LOCK:
        LIVE["now"] -= 1
    return element


class Asks(beam.DoFn):
    def process(self, element):
        yield wait(element)


class Fails(beam.DoFn):
    def process(self, element):
        wait(element)
        raise ConnectionError(element)


class Model(ModelHandler):
    def load_model(self):
        return self

    def run_inference(self, batch, model, inference_args=None):
        return [wait(element) for element in batch]

    def batch_elements_kwargs(self):
        return {"max_batch_size": 1}


async def soon(element):
    await asyncio.sleep(0.005)
    return [element]


@pytest.mark.parametrize(
    ("step", "transform"),
    [
        ("Ask", lambda: beam.ParDo(Asks())),
        ("Ask", lambda: beam.Map(wait)),
        ("Ask/BeamML_RunInference", lambda: RunInference(Model())),
    ],
    ids=["DoFn", "function", "a transform of Beam's"],
)
def test_a_plain_step_runs_in_threads(pipeline, step, transform):
    LIVE.update(now=0, most=0)
    pipeline.options.view_as(SparkDrainOptions).async_steps = [f"{step}=7"]
    gives(pipeline, lambda p: p | beam.Create(range(40)) | "Ask" >> transform(), range(40))
    if LIVE["most"]:  # else it ran in another process
        assert 1 < LIVE["most"] <= 7


def who(element):
    return threading.current_thread().name


@pytest.mark.parametrize("streaming", [False, True])
def test_the_option_reaches_the_slots(pipeline, streaming):
    pipeline.options.view_as(SparkDrainOptions).async_steps = ["Who=3"]
    pipeline.options.view_as(StandardOptions).streaming = streaming
    build = lambda p: p | beam.Create([1]) | "Who" >> beam.Map(who)
    gives(pipeline, build, ["sparkdrain-call"])


def test_a_function_that_waits_runs_in_the_event_loop(pipeline):
    pipeline.options.view_as(SparkDrainOptions).async_steps = ["Ask=7"]
    gives(pipeline, lambda p: p | beam.Create([1, 2]) | "Ask" >> beam.FlatMap(soon), [1, 2])


def test_the_option_changes_the_number_and_nothing_else(pipeline):
    LIVE.update(now=0, most=0)
    pipeline.options.view_as(SparkDrainOptions).async_steps = ["Ask/ParDo(Fails)=3"]
    dofn = sparkdrain.Concurrently(Fails(), max_in_flight=20, dead_letter="bad")

    def build(p):
        asked = p | beam.Create(range(20)) | "Ask" >> beam.ParDo(dofn).with_outputs("bad", main="m")
        return asked.bad | beam.Map(lambda letter: letter[0])

    gives(pipeline, build, range(20))
    assert LIVE["most"] in (0, 2, 3)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("ask", r"names 'ask', and no ParDo .* There are 'Ask',.*give one of these names"),
        ("Infer", r"There are, within it, .*'Infer/BeamML_RunInference'"),
        ("Group", r"no ParDo of the pipeline has that name"),
    ],
)
def test_a_name_that_no_step_has_is_refused_with_those_there_are(pipeline, name, error):
    pipeline.options.view_as(SparkDrainOptions).async_steps = [f"{name}=7"]
    with pytest.raises(Unsupported, match=error), pipeline as p:
        made = p | beam.Create([1]) | "Ask" >> beam.ParDo(Asks())
        _ = made | "Infer" >> RunInference(Model())
        _ = made | beam.Map(lambda x: (x, x)) | "Group" >> beam.GroupByKey()


class Sums(beam.DoFn):
    SUM = userstate.CombiningValueStateSpec("sum", VarIntCoder(), sum)

    def process(self, element, total=beam.DoFn.StateParam(SUM)):
        total.add(element[1])


class Ranges(beam.RestrictionProvider):
    def initial_restriction(self, element):
        return OffsetRange(0, element)

    def create_tracker(self, restriction):
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element, restriction):
        return restriction.size()


class Reads(beam.DoFn):
    def process(self, element, tracker=beam.DoFn.RestrictionParam(Ranges())):
        yield element


class ReadsAndWaits(beam.DoFn):
    async def process(self, element, tracker=beam.DoFn.RestrictionParam(Ranges())):
        yield element


class Waits(beam.DoFn):
    async def process(self, element):
        yield element


class Ends(Asks):
    def finish_bundle(self):
        """Would come before elements are complete."""


ASK = {"Ask": AsyncStep(2)}
CARRIES = {"Ask": AsyncStep(2, carry_over=True)}


@pytest.mark.parametrize(
    ("dofn", "steps", "kind", "error"),
    [
        (Sums(), ASK, BadOption, "cannot name 'Ask' so: .* threads cannot share"),
        (Sums(), CARRIES, BadOption, "cannot name 'Ask' so: .* threads cannot share"),
        (Ends(), CARRIES, BadOption, "cannot name 'Ask' so: Ends has finish_bundle, .* leave"),
        (Reads(), ASK, Unsupported, "'Ask' is splittable, .* ParDo behind it"),
        (ReadsAndWaits(), {}, Unsupported, "'Ask' is splittable"),
        (sparkdrain.Concurrently(Reads()), {}, Unsupported, "'Ask' is splittable"),
    ],
)
def test_a_dofn_that_cannot_wait_is_refused_before_it_is_submitted(dofn, steps, kind, error):
    p = beam.Pipeline(FnApiRunner(), options=PipelineOptions([]))
    _ = p | beam.Create([(1, 1)]) | "Ask" >> beam.ParDo(dofn)
    with pytest.raises(kind, match=error):
        refuse_impossible(p, steps)


def test_a_dofn_that_waits_is_refused_if_its_types_are_to_be_checked(pipeline):
    pipeline.options.view_as(TypeOptions).runtime_type_check = True
    with pytest.raises(Unsupported, match="--runtime_type_check cannot look at"), pipeline as p:
        _ = p | beam.Create([1]) | "Ask" >> beam.ParDo(Waits())
