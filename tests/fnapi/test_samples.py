"""Samples of elements: when a harness is asked, what is shown of them, and how much."""

from __future__ import annotations

import threading
import uuid

import apache_beam as beam
import pytest
from apache_beam.coders import coders
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_fn_api_pb2 as api
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.worker import data_sampler
from apache_beam.transforms import environments

from sparkdrain.fnapi import samples as samples_module
from sparkdrain.fnapi.elements import Metadata, prefixed
from sparkdrain.fnapi.harness import Outside
from sparkdrain.fnapi.harnesses import HarnessJob
from sparkdrain.fnapi.process import Life
from sparkdrain.fnapi.samples import Samples
from sparkdrain.fnapi.worker import SdkWorker
from sparkdrain.loopback import EXPERIMENTS, loopback_pool
from tests.support.in_memory import run_in_memory
from tests.support.in_memory_rounds import InMemoryRounds, plan_of
from tests.support.lives import Ending
from tests.support.scripted_harness import ELEMENT, EMBEDDING, Scripted, ends_of

ALL = "enable_data_sampling"
EXCEPTIONS = "enable_always_on_exception_sampling"
SAMPLING = common_urns.protocols.DATA_SAMPLING.urn
TO_STRING = common_urns.primitives.TO_STRING.urn
GO = "beam:version:sdk_base:go:2.77.0"


class Told(list):
    flushed = 0

    def sample(self, of, text):
        self.append((of, text))

    def flush(self):
        self.flushed += 1


# --- by Beam's own harness --------------------------------------------------------------------


@pytest.fixture
def at_once(monkeypatch):
    """Python's harness takes a sample whenever it is asked, and not each half second."""
    flush = data_sampler.OutputSampler.flush

    def sampled(self, clear=True):
        self.sample()
        return flush(self, clear)

    monkeypatch.setattr(data_sampler.OutputSampler, "flush", sampled)
    monkeypatch.setattr(samples_module, "_FIRST_SECONDS", 0.0)


def _outside(harnesses, told, experiment=ALL):
    # A sampler of Python knows a step by its name, so a harness must not have two pipelines.
    job = HarnessJob(uuid.uuid4().hex, {"experiments": [experiment]}, samples=told)
    environment = environments.ExternalEnvironment(
        loopback_pool(),
        {EXPERIMENTS: experiment},
        capabilities=environments.python_sdk_capabilities(),
    )
    return environment, Outside(job, harnesses)


def _run(build, harnesses, told, experiment=ALL):
    pipeline = beam.Pipeline()
    build(pipeline)
    environment, outside = _outside(harnesses, told, experiment)
    run_in_memory(pipeline, 1, environment=environment, outside=outside)


class Money:
    def __init__(self, cents):
        self.cents = cents

    def __str__(self):
        return f"{self.cents / 100:.2f} EUR"


def _prices(pipeline):
    price = "Price" >> beam.Map(lambda n: ("a", Money(n)))
    grouped = pipeline | beam.Create([150]) | price | "Group" >> beam.GroupByKey()
    return grouped | "Sum" >> beam.MapTuple(
        lambda key, several: Money(sum(m.cents for m in several))
    )


def test_elements_are_shown_as_the_sdk_prints_them_by_the_step_that_made_them(harnesses, at_once):
    told = Told()
    _run(_prices, harnesses, told)
    assert ("Create/Map(decode)", "150") in told
    assert ("Sum", "1.50 EUR") in told
    (price,) = {text for of, text in told if of == "Price"}
    assert price.startswith("('a', <")
    assert told.flushed


def test_a_stream_has_samples_while_it_goes_on(harnesses, at_once):
    told = Told()
    pipeline = beam.Pipeline()
    _prices(pipeline)
    environment, outside = _outside(harnesses, told)
    rounds = InMemoryRounds(plan_of(pipeline, environment), outside=outside)
    try:
        rounds.run_to_end()
        assert ("Sum", "1.50 EUR") in told
    finally:
        rounds.close()


@pytest.mark.parametrize("experiment", [ALL, EXCEPTIONS])
def test_the_element_that_user_code_fails_on_is_told_with_the_exception(harnesses, experiment):
    def fail(n):
        if n == 7:
            raise ValueError(n)

    def build(pipeline):
        return pipeline | beam.Create([5, 7, 8]) | "Parse" >> beam.Map(fail)

    told = Told()
    with pytest.raises(RuntimeError, match="Parse") as caught:
        _run(build, harnesses, told, experiment)
    assert caught.value.__notes__ == ["It was at an element of Create/Map(decode): 7"]
    if experiment == EXCEPTIONS:
        assert told == []


# --- by a harness that is a script ------------------------------------------------------------


class Script:
    """A harness with one PCollection; it answers with the samples that a test has put there."""

    def __init__(self, *capabilities):
        self.worker = SdkWorker("id", Life())
        self.kept: list[api.SampledElement] = []
        self.asked: list[api.InstructionRequest] = []
        self.time = 100.0
        self.told = Told()
        self.environment = beam_runner_api_pb2.Environment(
            urn=environments.ExternalEnvironment("").to_runner_api(None).urn,
            capabilities=[EMBEDDING, SAMPLING, *capabilities],
        )
        threading.Thread(target=self._work, daemon=True).start()

    def samples(self, id_="first", coder="coder", **settings):
        descriptor = api.ProcessBundleDescriptor(id=id_)
        descriptor.coders[coder].spec.urn = common_urns.coders.BYTES.urn
        descriptor.pcollections["p"].coder_id = coder
        descriptor.transforms["t"].unique_name = "Parse"
        descriptor.transforms["t"].outputs["out"] = "p"
        made = Samples(
            self.worker,
            descriptor,
            self.environment,
            self.told,
            lambda _: Metadata(coders.GlobalWindowCoder()),
            **{"by_time": True, "now": lambda: self.time, "sleep": self.sleep, **settings},
        )
        made.begin()
        return made

    def sleep(self, seconds):
        self.time += seconds

    def keep(self, *elements):
        self.kept = [api.SampledElement(element=element) for element in elements]

    def questions(self):
        return [one for one in self.asked if one.HasField("sample_data")]

    def _work(self):
        self.worker.responses(map(self._answer, self.worker.requests()))

    def _answer(self, request):
        self.asked.append(request)
        response = api.InstructionResponse(instruction_id=request.instruction_id)
        if request.HasField("sample_data"):
            kept, self.kept = self.kept, []
            if kept:
                response.sample_data.element_samples["p"].elements.extend(kept)
            return response
        (data, _) = request.process_bundle.elements.data
        if b"bad" in data.data:
            response.error = "ValueError: it has no text"
            return response
        elements = response.process_bundle.elements
        # All elements here have a length of one byte before them, as all names have.
        position, texts = 0, b""
        while position < len(data.data):
            size = data.data[position + 1]
            value = data.data[position + 2 : position + 2 + size]
            texts += prefixed(b"") + prefixed(f"<{value.decode()}>".encode())
            position += 2 + size
        elements.data.add(transform_id="out", data=texts)
        elements.data.add(transform_id="out", is_last=True)
        return response


@pytest.fixture
def script():
    made = []

    def script(*capabilities):
        made.append(Script(*capabilities))
        return made[-1]

    yield script
    for one in made:
        one.worker.close()


def test_a_harness_is_asked_each_few_seconds_and_no_sooner(script):
    harness = script(TO_STRING)
    samples = harness.samples()
    for number in range(96):
        harness.keep(prefixed(b"%d" % number))
        samples.look()
        harness.time += 0.125
    assert harness.told == [("Parse", "<0>"), ("Parse", "<40>"), ("Parse", "<80>")]
    assert len(harness.questions()) == 3
    assert harness.questions()[0].sample_data.pcollection_ids == ["p"]


def test_few_elements_are_shown_and_few_characters_of_each(script):
    harness = script(TO_STRING)
    samples = harness.samples()
    harness.keep(*[prefixed(b"%d" % n) for n in range(9)], prefixed(b"x" * 120), prefixed(b"a\nb"))
    samples.look()
    assert harness.told == [("Parse", "<8>"), ("Parse", f"<{'x' * 120}>"), ("Parse", "<a\\nb>")]
    assert samples_module._cut("y" * 9999) == "y" * 300 + "..."


def test_without_a_text_of_the_sdk_the_first_bytes_are_shown(script):
    harness = script()
    harness.keep(b"\x01\xff", b"z" * 1000)
    harness.samples().look()
    assert harness.told == [
        ("Parse", "2 bytes, 01ff"),
        ("Parse", f"1000 bytes, {'7a' * 150}..."),
    ]
    assert len(harness.asked) == 1


def test_of_a_large_element_and_of_one_without_a_text_the_first_bytes_are_shown(script):
    harness = script(TO_STRING)
    samples = harness.samples()
    harness.keep(prefixed(b"ok"), b"L" * (65 << 10))
    samples.look()
    assert harness.told[0] == ("Parse", "<ok>")
    assert harness.told[1][1].startswith("66560 bytes, 4c4c")
    harness.time += 60
    harness.keep(prefixed(b"bad"))
    samples.look()
    assert harness.told[2] == ("Parse", "4 bytes, 03626164")


def test_what_go_writes_before_an_element_is_not_shown(script):
    harness = script(TO_STRING, GO)
    harness.keep(ELEMENT + prefixed(b"go"))
    harness.samples().look()
    assert harness.told == [("Parse", "<go>")]


def test_a_header_that_cannot_be_read_hides_no_error_of_the_user(script):
    harness = script(GO)
    harness.keep(b"", b"\x80\x80")
    for sample in harness.kept:
        sample.exception.instruction_id = "bundle-1"
    found = harness.samples().failed("bundle-1")
    assert found == ["Parse: 0 bytes, ", "Parse: 2 bytes, 8080"]


def test_an_edge_has_the_coder_of_the_stage_that_the_harness_had_first(script):
    harness = script(TO_STRING)
    first = harness.samples("first", "own")
    second = harness.samples("second", "wired")
    harness.keep(prefixed(b"1"))
    second.look()
    (aside,) = [one for one in harness.worker._descriptors.values() if one.id.startswith("aside")]
    used = {part for coder in aside.coders.values() for part in coder.component_coder_ids}
    assert "own" in used
    assert "wired" not in used
    del first


@pytest.mark.parametrize("by_time", [True, False])
def test_a_stage_waits_for_pythons_first_samples_and_says_if_there_are_none(script, by_time):
    harness = script(TO_STRING)
    samples = harness.samples(by_time=by_time)
    harness.time += 60
    samples.look()
    ended = harness.time
    samples.end()
    if by_time:
        assert harness.time == ended + 0.7
        assert [of for of, text in harness.told if "no samples" in text] == ["Parse"]
    else:
        assert harness.time == ended
        assert harness.told == []
    assert harness.told.flushed == 1


def test_a_stage_without_elements_asks_nothing(script):
    harness = script(TO_STRING)
    descriptor = api.ProcessBundleDescriptor(id="x")
    samples = Samples(
        harness.worker, descriptor, harness.environment, harness.told, None, by_time=True
    )
    samples.end()
    assert harness.asked == []


def test_a_harness_that_is_lost_gives_no_samples_and_no_error():
    ended = []
    worker = SdkWorker("id", Ending(lambda: "it was killed" if ended else ""))
    harness = Script.__new__(Script)
    harness.worker, harness.told, harness.time = worker, Told(), 0.0
    harness.environment = beam_runner_api_pb2.Environment()
    samples = harness.samples()
    ended.append(True)
    worker.is_lost = True
    samples.look()
    assert samples.failed("bundle-1") == []
    assert harness.told == []


@pytest.mark.parametrize(
    ("wants", "capabilities"), [(False, [EMBEDDING, SAMPLING]), (True, [EMBEDDING])]
)
def test_nothing_is_asked_unless_the_job_wants_samples_and_the_sdk_has_them(wants, capabilities):
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Impulse() | beam.Map(lambda _: None)
    environment = environments.ExternalEnvironment("nowhere", capabilities=capabilities)
    job = HarnessJob("job", {"experiments": [ALL]}, samples=Told() if wants else None)
    harness = Scripted(lambda descriptor, _: ends_of(descriptor))
    try:
        run_in_memory(pipeline, 1, environment=environment, outside=Outside(job, harness))
    finally:
        harness.worker.close()
    # Whatever it is asked, a script takes for a bundle.
    assert [bool(one.process_bundle_descriptor_id) for one in harness.bundles] == [True]


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("5Parse.None", "Parse"),
        ("82nd step.None", "2nd step"),
        ("5Parse.odd", "Parse.odd"),
        ("n7", "n7"),
    ],
)
def test_a_pcollection_is_called_by_the_step_that_made_it(name, step):
    assert samples_module._made_by(name) == step
