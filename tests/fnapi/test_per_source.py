"""Stages of a harness that takes the elements of one source in a bundle, as Go's does."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms import environments

from sparkdrain.fnapi import harness as fn_harness
from sparkdrain.fnapi import per_source
from sparkdrain.fnapi.harness import Outside
from sparkdrain.fnapi.harnesses import Harnesses, HarnessJob
from sparkdrain.graph.environments import is_go
from sparkdrain.loopback import loopback_pool
from tests.support.in_memory import run_in_memory
from tests.support.seen import SEEN, see

GO = "beam:version:sdk_base:go:apache/beam_go_sdk:2.77.0"


@pytest.fixture
def sources(monkeypatch):
    """How many sources each stage had that a harness was given."""
    told = []
    tell = fn_harness.descriptor_for

    def count(stage, *more, **settings):
        told.append(len(stage.sources))
        return tell(stage, *more, **settings)

    monkeypatch.setattr(fn_harness, "descriptor_for", count)
    return told


def _run():
    SEEN.clear()
    pipeline = beam.Pipeline()
    ones = pipeline | "1" >> beam.Create([1, 2, 3], reshuffle=False)
    twos = pipeline | "2" >> beam.Create([4, 5, 6], reshuffle=False)
    least = beam.pvalue.AsSingleton(twos | beam.CombineGlobally(min))
    shuffled = twos | beam.Reshuffle()
    flat = (ones, twos, ones, shuffled) | beam.Flatten()
    _ = flat | beam.Map(lambda n: (n % 2, n)) | beam.CombinePerKey(sum) | beam.Map(see)
    _ = flat | "compared" >> beam.Map(lambda n, least: n + least, least) | "see" >> beam.Map(see)
    harnesses = Harnesses()
    environment = environments.ExternalEnvironment(
        loopback_pool(), capabilities=environments.python_sdk_capabilities()
    )
    try:
        run_in_memory(
            pipeline,
            2,
            environment=environment,
            outside=Outside(HarnessJob("job", {}), harnesses),
        )
    finally:
        harnesses.close()
    return sorted(SEEN, key=repr)


def test_gos_harness_is_known_by_what_its_sdk_is_based_on():
    environment = beam_runner_api_pb2.Environment(capabilities=["beam:x:v1", GO])
    assert is_go(environment)


def test_each_source_has_a_bundle_of_its_own_and_nothing_is_lost(sources, monkeypatch):
    monkeypatch.setattr(per_source, "is_go", lambda _: True)
    expected = [(0, 24), (1, 18), *(n + 4 for n in [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6])]
    assert _run() == sorted(expected, key=repr)
    assert set(sources) == {1}


def test_other_harnesses_take_several_sources_at_once(sources):
    _run()
    assert max(sources) > 1
