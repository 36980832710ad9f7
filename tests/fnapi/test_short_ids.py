"""Metrics of harnesses that name each metric once, and then send its short id alone."""

from __future__ import annotations

import logging
import os
import sys
from collections import Counter

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import Metrics, monitoring_infos
from apache_beam.portability.api import beam_fn_api_pb2, metrics_pb2
from apache_beam.runners.worker import sdk_worker
from apache_beam.transforms import environments

from sparkdrain.fnapi.harness import FnHarness, Outside
from sparkdrain.fnapi.harnesses import Harnesses, HarnessJob
from sparkdrain.fnapi.process import Life
from sparkdrain.fnapi.short_ids import ShortIds, asking, latest
from sparkdrain.fnapi.worker import SdkWorker
from sparkdrain.harness.channel.answers import BriefWorker
from sparkdrain.metrics.merge import merge
from tests.fnapi.test_fn_harness import _pairs
from tests.support.in_memory import run_in_memory
from tests.support.restrictions import Count
from tests.support.scripted_harness import ELEMENT, ends_of, run_scripted


def counter(name, value):
    return monitoring_infos.int64_user_counter("ns", name, value, ptransform="step")


def answer(data=(), infos=()):
    return beam_fn_api_pb2.ProcessBundleResponse(monitoring_data=dict(data), monitoring_infos=infos)


def names(**infos):
    response = beam_fn_api_pb2.InstructionResponse()
    for id_, info in infos.items():
        response.monitoring_infos.monitoring_info[id_].CopyFrom(info)
    return response


def values_of(reports):
    """The counters of user code, by name."""
    infos = [metrics_pb2.MonitoringInfo.FromString(info) for r in reports for info in r.metrics]
    return {
        info.labels["NAME"]: VarIntCoder().decode(info.payload)
        for info in merge(infos)
        if info.urn == monitoring_infos.USER_COUNTER_URN
    }


def two_stages(pipeline):
    return [
        pipeline | name >> beam.Impulse() | f"Of {name}" >> beam.Map(lambda element: element)
        for name in ("One", "Other")
    ]


def ends(descriptor, _):
    return ends_of(descriptor)


# --- scripts --------------------------------------------------------------------------------------


def test_an_id_is_asked_for_once_and_counts_in_all_bundles():
    scripted = run_scripted(
        two_stages, ends, metrics={"1": counter("some", 2), "2": counter("other", 5)}
    )
    assert len(scripted.bundles) == 2
    assert sorted(scripted.named) == ["1", "2"]
    assert values_of(scripted.reports) == {"some": 4, "other": 10}


def test_the_ids_of_another_harness_stand_for_something_else():
    for name in ("before", "after"):
        scripted = run_scripted(two_stages, ends, metrics={"1": counter(name, 1)})
        assert scripted.named == ["1"]
        assert values_of(scripted.reports).keys() == {name}


def test_metrics_that_come_in_full_count_but_none_counts_twice():
    scripted = run_scripted(
        two_stages,
        ends,
        metrics={"1": counter("by id", 2), "2": counter("both", 3)},
        in_full=[counter("both", 3), counter("in full", 4)],
    )
    assert values_of(scripted.reports) == {"by id": 4, "both": 6, "in full": 8}


def test_what_a_harness_has_told_amid_a_bundle_and_leaves_out_at_its_end_counts():
    """Java leaves out what has not changed since it was asked how far it is."""
    scripted = run_scripted(
        two_stages,
        ends,
        early=[{"1": counter("some", 2), "2": counter("other", 3)}] * 2,
        metrics={"2": counter("other", 7), "3": counter("third", 1)},
    )
    assert len(scripted.bundles) == 2
    assert values_of(scripted.reports) == {"some": 4, "other": 14, "third": 2}


def test_what_a_harness_has_told_amid_one_bundle_does_not_count_in_the_next():
    rests: list[beam_fn_api_pb2.DelayedBundleApplication] = []
    answered: list[beam_fn_api_pb2.ProcessBundleRequest] = []

    def leaves_a_rest_once(descriptor, request):
        if not answered:
            (step,) = (
                id_ for id_, each in descriptor.transforms.items() if each.inputs and each.outputs
            )
            (entry,) = descriptor.transforms[step].inputs
            rest = {"transform_id": step, "input_id": entry, "element": ELEMENT}
            rests.append(beam_fn_api_pb2.DelayedBundleApplication(application=rest))
        answered.append(request)
        return ends_of(descriptor)

    scripted = run_scripted(
        lambda pipeline: pipeline | beam.Impulse() | beam.Map(lambda element: element),
        leaves_a_rest_once,
        rests=rests,
        early=[{"1": counter("some", 2)}],
    )
    assert len(scripted.bundles) == 2
    assert values_of(scripted.reports) == {"some": 2}


def test_two_answers_of_a_bundle_make_one():
    first = answer({"a": b"1", "b": b"1"}, [counter("some", 1), counter("other", 1)])
    second = answer({"b": b"2", "c": b"2"}, [counter("other", 2), counter("third", 2)])
    assert latest(None, second) is second
    both = latest(first, second)
    assert dict(both.monitoring_data) == {"a": b"1", "b": b"2", "c": b"2"}
    assert list(both.monitoring_infos) == [counter("some", 1), *second.monitoring_infos]


def test_an_id_that_a_harness_does_not_explain_is_left_out_and_told_once(caplog):
    nameless = metrics_pb2.MonitoringInfo(payload=b"\1")
    with caplog.at_level(logging.WARNING):
        scripted = run_scripted(two_stages, ends, metrics={"1": nameless, "2": counter("named", 1)})
    assert sorted(scripted.named) == ["1", "2"]
    assert values_of(scripted.reports).keys() == {"named"}
    (told,) = [each for each in caplog.records if "metrics 1 are" in each.getMessage()]
    assert told.levelno == logging.WARNING


def test_a_harness_that_explains_nothing_and_sends_all_names_loses_nothing(caplog):
    nameless = metrics_pb2.MonitoringInfo(payload=b"\1")
    with caplog.at_level(logging.WARNING):
        scripted = run_scripted(
            two_stages, ends, metrics={"1": nameless}, in_full=[counter("named", 3)]
        )
    assert values_of(scripted.reports) == {"named": 6}
    assert not caplog.records


def test_a_harness_that_never_names_its_metrics_holds_up_a_slot_no_longer_than_it_may(caplog):
    worker = SdkWorker("id", Life())
    ids = ShortIds()
    told = worker.ask_amid_bundle(asking(["1"]), 0.05)
    assert "has not answered" in told.error
    with caplog.at_level(logging.WARNING):
        ids.learn(answer({"1": b""}), told)
    assert "has not answered" in caplog.text
    assert ids.unknown(answer({"1": b""})) == []
    assert list(ids.metrics(answer({"1": b""}))) == []


def test_ids_that_are_known_are_not_asked_for_again():
    ids = ShortIds()
    assert sorted(ids.unknown(answer({"a": b"", "b": b""}))) == ["a", "b"]
    ids.learn(answer({"a": b""}), names(a=counter("some", 1)))
    assert ids.unknown(answer({"a": b"", "b": b""})) == ["b"]
    (found,) = ids.infos(answer({"a": VarIntCoder().encode(9)}))
    assert found == counter("some", 9)


# --- Beam's harness -------------------------------------------------------------------------------


class _Counts(beam.DoFn):
    def process(self, element):
        _, number = element
        Metrics.counter("ns", "sum").inc(number)
        Metrics.distribution("ns", "sizes").update(number)
        Metrics.gauge("ns", "gauge").set(7)
        Metrics.string_set("ns", "texts").add(str(number % 3))
        Metrics.bounded_trie("ns", "trie").add(("a", str(number % 2)))
        yield element


def _counted(pipeline):
    counted = _pairs(pipeline) | "Count" >> beam.ParDo(_Counts())
    return counted | beam.Reshuffle() | "Again" >> beam.ParDo(_Counts())


def _told(reports):
    """All metrics but times, and sizes, which are of samples."""
    infos = [metrics_pb2.MonitoringInfo.FromString(info) for r in reports for info in r.metrics]
    found = {}
    for info in merge(infos):
        if info.urn.endswith("msecs:v1") or info.urn == monitoring_infos.SAMPLED_BYTE_SIZE_URN:
            continue
        value = monitoring_infos.extract_metric_result_map_value(info)
        if info.urn == monitoring_infos.USER_GAUGE_URN:
            value = value.value
        found[info.urn, frozenset(info.labels.items())] = value
    return found


@pytest.fixture
def answers(monkeypatch):
    """What harnesses answer when a bundle has ended."""
    found = []
    plain = FnHarness.responded

    def responded(self, response):
        found.append(response.process_bundle)
        plain(self, response)

    monkeypatch.setattr(FnHarness, "responded", responded)
    return found


def test_metrics_are_equal_by_id_alone_and_with_all_names(run, answers, monkeypatch):
    both = _told(run(_counted)[0])
    assert all(len(a.monitoring_infos) == len(a.monitoring_data) > 9 for a in answers)
    answers.clear()
    monkeypatch.setattr(sdk_worker, "SdkWorker", BriefWorker)
    assert _told(run(_counted)[0]) == both
    assert answers
    assert not any(a.monitoring_infos for a in answers)
    sums = [v for (_, labels), v in both.items() if ("NAME", "sum") in labels]
    assert sums == [sum(range(30))] * 2


def test_a_process_sends_ids_alone_and_its_answers_are_a_fraction_as_long(answers):
    harnesses = Harnesses()
    environment = environments.ProcessEnvironment(
        f"{sys.executable} -m sparkdrain.cli.main worker",
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capabilities=environments.python_sdk_capabilities(),
    )
    pipeline = beam.Pipeline()
    _counted(pipeline)
    try:
        reports = run_in_memory(
            pipeline, 1, environment=environment, outside=Outside(HarnessJob("job", {}), harnesses)
        )
    finally:
        harnesses.close()
    infos = [metrics_pb2.MonitoringInfo.FromString(info) for r in reports for info in r.metrics]
    assert answers
    assert not any(a.monitoring_infos for a in answers)
    assert values_of(reports) == {"sum": sum(range(30))}
    in_full = beam_fn_api_pb2.ProcessBundleResponse(monitoring_infos=infos)
    by_id = sum(
        beam_fn_api_pb2.ProcessBundleResponse(monitoring_data=a.monitoring_data).ByteSize()
        for a in answers
    )
    assert by_id * 3 < in_full.ByteSize()


def test_a_restriction_is_split_by_what_ids_alone_tell(stream, monkeypatch):
    monkeypatch.setattr(sdk_worker, "SdkWorker", BriefWorker)
    made = Counter()
    plain = FnHarness.made

    def spy(self, transform):
        found = plain(self, transform)
        made[found > 0] += 1
        return found

    monkeypatch.setattr(FnHarness, "made", spy)
    stream(lambda p: p | beam.Create([(0, 200)]) | beam.ParDo(Count()), slots=1)
    assert made[True]


def test_a_progress_without_a_bundle_has_no_metrics():
    worker = BriefWorker(sdk_worker.BundleProcessorCache(frozenset(), None, None, {}))
    request = beam_fn_api_pb2.ProcessBundleProgressRequest(instruction_id="gone")
    response = worker.process_bundle_progress(request, "ask")
    assert not response.process_bundle_progress.monitoring_infos
