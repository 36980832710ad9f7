"""Metrics that user code counts for its whole process, in the slot's own process."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics, monitoring_infos
from apache_beam.metrics.cells import DistributionData
from apache_beam.metrics.execution import MetricsEnvironment
from apache_beam.portability.api import metrics_pb2

from sparkdrain.metrics.merge import merge
from tests.support.in_memory import run_in_memory


@pytest.fixture(autouse=True)
def _nothing_is_counted_yet():
    """A pool in this process leaves what it counted, as it tells all since the process began."""
    MetricsEnvironment.process_wide_container().metrics = {}


class Costs(beam.DoFn):
    """Counts for the process, as models of ``RunInference`` do."""

    def process(self, element):
        Metrics.distribution("ns", "cost", process_wide=True).update(element)
        Metrics.gauge("ns", "level", process_wide=True).set(7)
        Metrics.distribution("ns", "own").update(element)
        yield element


class _LastWords(Costs):
    def teardown(self):
        Metrics.distribution("ns", "cost", process_wide=True).update(1000)


class _Fails(Costs):
    def process(self, element):
        yield from super().process(element)
        raise ValueError(element)


def of_process(reports):
    """Metrics of user code that are of no step, by name."""
    infos = [metrics_pb2.MonitoringInfo.FromString(info) for r in reports for info in r.metrics]
    return {
        info.labels["NAME"]: monitoring_infos.extract_metric_result_map_value(info)
        for info in merge(infos)
        if monitoring_infos.is_user_monitoring_info(info) and "PTRANSFORM" not in info.labels
    }


def costs(pipeline, dofn=None):
    return pipeline | beam.Create([1, 2, 3, 4]) | beam.Reshuffle() | beam.ParDo(dofn or Costs())


@pytest.mark.parametrize("slots", [1, 2])
def test_a_metric_of_the_process_counts_once_whatever_stage_and_slot_asks(slots):
    pipeline = beam.Pipeline()
    _ = costs(pipeline) | "Shuffle" >> beam.Reshuffle() | "Again" >> beam.ParDo(Costs())
    found = of_process(run_in_memory(pipeline, slots))
    assert found["cost"].data == DistributionData(20, 8, 1, 4)
    assert found["level"].value == 7
    assert found.keys() == {"cost", "level"}


def test_what_is_counted_when_all_is_told_is_not_the_next_jobs():
    for _ in range(2):
        pipeline = beam.Pipeline()
        costs(pipeline, _LastWords())
        assert of_process(run_in_memory(pipeline, 1))["cost"].data == DistributionData(10, 4, 1, 4)


def test_what_is_counted_in_vain_is_not_the_next_attempts():
    pipeline = beam.Pipeline()
    costs(pipeline, _Fails())
    with pytest.raises(RuntimeError, match="ValueError: 1"):
        run_in_memory(pipeline, 1)
    assert not MetricsEnvironment.process_wide_container().metrics
