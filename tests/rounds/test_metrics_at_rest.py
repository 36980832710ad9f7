"""What stages tell of their metrics in rounds in which they have nothing to do."""

from __future__ import annotations

from collections import Counter

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics, monitoring_infos
from apache_beam.metrics.cells import DistributionData, DistributionResult
from apache_beam.metrics.execution import MetricsEnvironment
from apache_beam.portability.api import metrics_pb2
from apache_beam.transforms.window import FixedWindows

from sparkdrain.harness.bundle import StageBundle
from tests.support.in_memory_rounds import run_in_rounds
from tests.support.scripts import Mark, pairs_in_rounds

PAIRS = pairs_in_rounds(
    [("a", 1, 1), ("b", 5, 2)], Mark(3), Mark(4), Mark(5), [("a", 2, 6)], windows=FixedWindows(100)
)

_MARK = 4


@pytest.fixture(autouse=True)
def _nothing_is_counted_yet():
    MetricsEnvironment.process_wide_container().metrics = {}


def _counts(value):
    Metrics.counter("ns", "sums").inc(value)
    return value


def _run(at_mark=lambda: None):
    """A job in rounds, and how often each round asked a stage for its metrics.

    Args:
        at_mark: called in round 4, in which no stage has an element.
    """
    asked: Counter[int] = Counter()
    now = [0]

    def begin(header):
        now[0] = header.number
        if header.number == _MARK and header.level == 0:
            at_mark()

    ask = StageBundle.monitoring_infos

    def noted(bundle):
        asked[now[0]] += 1
        return ask(bundle)

    pipeline = beam.Pipeline()
    sums = PAIRS(pipeline) | beam.CombinePerKey(sum) | beam.Values()
    _ = sums | beam.Map(_counts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StageBundle, "monitoring_infos", noted)
        rounds = run_in_rounds(pipeline, slots=1, fail=begin)
    return rounds, asked


def _told(reports):
    """The metrics of user code, by name."""
    found = [
        metrics_pb2.MonitoringInfo.FromString(metric)
        for report in reports
        for metric in report.metrics
    ]
    return {
        info.labels["NAME"]: monitoring_infos.extract_metric_result_map_value(info)
        for info in found
        if monitoring_infos.is_user_monitoring_info(info)
    }


def test_stages_are_asked_for_their_metrics_in_rounds_with_elements_only():
    rounds, asked = _run()
    assert _told(rounds.schedule.reports()) == {"sums": 8}
    assert asked == {2: 1, 6: 1, 7: 1}  # the first elements, the last one, and the pane


def test_what_a_process_counts_while_its_stages_rest_is_told_in_that_round():
    costs = Metrics.distribution("ns", "beside", process_wide=True)
    rounds, _ = _run(lambda: costs.update(7))
    beside = {"beside": DistributionResult(DistributionData(7, 1, 7, 7))}
    reports = [report for each in rounds.rounds for report in each]
    assert _told(report for report in reports if report.number == _MARK) == beside
    assert _told(rounds.schedule.reports()) == {"sums": 8, **beside}
