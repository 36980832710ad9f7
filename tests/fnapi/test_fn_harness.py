"""Stages in a harness outside of the slot's process: here, a pool's, in a thread of this one."""

from __future__ import annotations

import threading
import time
from collections import Counter

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.metrics import Metrics
from apache_beam.portability.api import metrics_pb2
from apache_beam.transforms import environments, window

from sparkdrain.fnapi import large_groups, state_requests
from sparkdrain.fnapi.harness import Outside
from sparkdrain.fnapi.harnesses import HarnessJob
from sparkdrain.graph.translate import translate
from sparkdrain.loopback import loopback_pool
from tests.support.in_memory import DEFAULTS, InMemoryRun
from tests.support.seen import SEEN, see

TORN_DOWN: list = []


def _pairs(pipeline, count=30):
    return pipeline | beam.Create([("a" if n % 3 else "b", n) for n in range(count)])


def test_values_are_grouped_by_key(run):
    def build(pipeline):
        return (
            _pairs(pipeline)
            | beam.GroupByKey()
            | beam.MapTuple(lambda key, values: (key, sorted(values)))
            | beam.Map(see)
        )

    _, seen = run(build)
    assert seen == [
        ("a", [n for n in range(30) if n % 3]),
        ("b", [n for n in range(30) if n % 3 == 0]),
    ]


def test_a_lifted_combine_has_the_right_sums(run):
    _, seen = run(lambda p: _pairs(p) | beam.CombinePerKey(sum) | beam.Map(see))
    assert seen == [("a", 300), ("b", 135)]


def test_side_inputs_come_from_the_slot(run):
    def build(pipeline):
        numbers = pipeline | "Numbers" >> beam.Create([1, 2, 3])
        names = pipeline | "Names" >> beam.Create([("a", "A"), ("b", "B")])
        one = pipeline | "One" >> beam.Create([7])
        return (
            _pairs(pipeline, 2)
            | beam.Map(
                lambda pair, all_, by_key, single: (pair, sorted(all_), by_key[pair[0]], single),
                beam.pvalue.AsList(numbers),
                beam.pvalue.AsDict(names),
                beam.pvalue.AsSingleton(one),
            )
            | beam.Map(see)
        )

    _, seen = run(build)
    assert seen == [(("a", 1), [1, 2, 3], "A", 7), (("b", 0), [1, 2, 3], "B", 7)]


def test_a_side_input_larger_than_one_answer_comes_whole(run):
    def build(pipeline):
        large = pipeline | "Large" >> beam.Create(range(9)) | beam.Map(lambda n: bytes(1 << 20))
        return (
            pipeline
            | beam.Create([1])
            | "Use" >> beam.Map(lambda _, all_: sum(map(len, all_)), beam.pvalue.AsIter(large))
            | beam.Map(see)
        )

    _, seen = run(build)
    assert seen == [9 << 20]


def test_a_large_side_input_can_be_read_again_and_in_later_bundles(run, monkeypatch):
    """Python's cache keeps the first answer, and goes on from its token each time."""
    monkeypatch.setattr(state_requests, "_ANSWER_BYTES", 1000)
    monkeypatch.setattr(large_groups, "_HELD_GROUPS", 1)

    def build(pipeline):
        large = pipeline | "Large" >> beam.Create(range(5)) | beam.Map(lambda n: bytes([n]) * 600)
        all_ = [bytes([n]) * 600 for n in range(5)]
        return (
            pipeline
            | beam.Create(range(4))
            | beam.Map(lambda n: (n, bytes(2 << 20)))
            | beam.GroupByKey()
            | "Use"
            >> beam.Map(
                lambda pair, large: (pair[0], sorted(large) == sorted(large) == all_),
                beam.pvalue.AsIter(large),
            )
            | beam.Map(see)
        )

    # Each slot gives the side input a piece.
    _, seen = run(build)
    assert seen == [(n, True) for n in range(4)]


def test_windows_and_times_are_kept_through_flattens_and_reshuffles(run):
    def build(pipeline):
        def timed(first):
            return (
                pipeline
                | f"From {first}" >> beam.Create(range(first, first + 4))
                | f"Time {first}" >> beam.Map(lambda n: window.TimestampedValue(n, n))
            )

        return (
            (timed(0), timed(10))
            | beam.Flatten()
            | beam.WindowInto(window.FixedWindows(5))
            | beam.Reshuffle()
            | beam.Map(
                lambda n, time=beam.DoFn.TimestampParam, of=beam.DoFn.WindowParam: (
                    n,
                    float(time),
                    float(of.start),
                )
            )
            | beam.Map(see)
        )

    _, seen = run(build)
    assert seen == [(n, float(n), n // 5 * 5.0) for n in (0, 1, 10, 11, 12, 13, 2, 3)]


class _Slots(coders.Coder):
    """Of values that no slot may look at."""

    def encode(self, value):
        assert threading.current_thread() is not threading.main_thread()
        return str(value).encode()

    def decode(self, encoded):
        assert threading.current_thread() is not threading.main_thread()
        return int(encoded)

    def is_deterministic(self):
        return True


class _Own(int):
    pass


def test_a_slot_decodes_nothing_of_what_it_moves(run):
    coders.registry.register_coder(_Own, _Slots)

    def build(pipeline):
        def own(n) -> tuple[_Own, _Own]:
            return n % 2, n

        return (
            pipeline
            | beam.Create(range(6))
            | beam.Map(own)
            | beam.GroupByKey()
            | beam.MapTuple(lambda key, values: (key, sum(values)))
            | beam.Map(see)
        )

    _, seen = run(build)
    assert seen == [(0, 6), (1, 9)]


def test_groups_and_elements_larger_than_a_message_come_whole(run):
    def build(pipeline):
        return (
            pipeline
            | beam.Create(range(12))
            | beam.Map(lambda n: (n % 2, bytes(1 << 20)))
            | beam.GroupByKey()
            | beam.MapTuple(lambda key, values: (key, sum(map(len, values))))
            | beam.Map(see)
        )

    _, seen = run(build)
    assert seen == [(0, 6 << 20), (1, 6 << 20)]


def test_a_splittable_read_gives_each_record_once(run, tmp_path):
    file = tmp_path / "lines"
    file.write_text("".join(f"{n}\n" for n in range(500)))
    _, seen = run(lambda p: p | beam.io.ReadFromText(str(file)) | beam.Map(see))
    assert Counter(seen) == Counter(str(n) for n in range(500))


def test_what_user_code_raises_is_raised_with_its_step(run):
    def fail(n):
        message = f"no {n}"
        raise ValueError(message)

    def build(pipeline):
        return pipeline | beam.Create([7]) | "Parse" >> beam.Map(fail)

    with pytest.raises(RuntimeError, match=r"^no 7 \[while running 'Parse") as caught:
        run(build)
    assert type(caught.value).__name__ == "ValueError"
    assert "in fail" in caught.value.told


def test_metrics_of_user_code_are_in_the_reports(run):
    def count(n):
        Metrics.counter("ns", "seen").inc(n)

    reports, _ = run(lambda p: p | beam.Create([1, 2, 3]) | "Count" >> beam.Map(count))
    infos = [metrics_pb2.MonitoringInfo.FromString(info) for r in reports for info in r.metrics]
    found = [info for info in infos if info.labels.get("NAME") == "seen"]
    assert sum(coders.VarIntCoder().decode(info.payload) for info in found) == 6
    assert {info.labels["PTRANSFORM"] for info in found} == {"Count"}


class _Finalizes(beam.DoFn):
    def process(self, element, finalizer=beam.DoFn.BundleFinalizerParam):
        finalizer.register(lambda: SEEN.append("finalized"))
        yield element


class _Teardown(beam.DoFn):
    def process(self, element):
        yield element

    def teardown(self):
        TORN_DOWN.append(1)


def test_bundles_are_finalized_when_their_output_has_left(run):
    def build(pipeline):
        return pipeline | beam.Create([1]) | beam.ParDo(_Finalizes()) | beam.Map(see)

    assert run(build)[1] == ["finalized", 1] or run(build)[1] == [1, "finalized"]


def test_dofns_are_torn_down_with_the_last_level_that_has_them(run):
    TORN_DOWN.clear()
    run(lambda p: p | beam.Create([1]) | beam.ParDo(_Teardown()) | beam.Map(see))
    until = time.monotonic() + 20
    while not TORN_DOWN and time.monotonic() < until:
        time.sleep(0.05)
    assert TORN_DOWN


def test_places_may_be_mixed(run, harnesses):
    """One part of the pipeline runs in the slot's thread, the other in the harness."""
    here = environments.EmbeddedPythonEnvironment()

    class InSlot(beam.PTransform):
        def expand(self, values):
            return values | beam.Map(_in_slot)

    def _in_slot(pair):
        assert threading.current_thread() is threading.main_thread()
        return pair[0], pair[1] * 10

    pipeline = beam.Pipeline()
    SEEN.clear()
    _ = _pairs(pipeline) | "In slot" >> InSlot() | beam.CombinePerKey(sum) | beam.Map(see)
    external = environments.ExternalEnvironment(
        loopback_pool(), capabilities=environments.python_sdk_capabilities()
    )
    proto = pipeline.to_runner_api(default_environment=external)
    proto.components.environments["here"].CopyFrom(here.to_runner_api(None))
    for transform in proto.components.transforms.values():
        if transform.unique_name.startswith("In slot") and transform.environment_id:
            transform.environment_id = "here"
    InMemoryRun(translate(proto), 2, DEFAULTS, Outside(HarnessJob("job", {}), harnesses)).run()
    assert sorted(SEEN) == [("a", 3000), ("b", 1350)]
