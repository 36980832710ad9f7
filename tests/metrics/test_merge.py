from __future__ import annotations

import random

from apache_beam.metrics import monitoring_infos
from apache_beam.metrics.cells import (
    BoundedTrieData,
    DistributionData,
    GaugeData,
    HistogramData,
    StringSetData,
)
from apache_beam.portability.api import metrics_pb2
from apache_beam.utils.histogram import Histogram, LinearBucket
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.metrics.merge import Metrics, merge


class Report:
    def __init__(self, *infos):
        self.metrics = [info.SerializeToString() for info in infos]
        self.attempt = random.getrandbits(63)


def _counter(value, name="counter"):
    return monitoring_infos.int64_user_counter("ns", name, value, ptransform="step")


def merged(*infos):
    (info,) = merge(infos)
    return info


def _value(info):
    return monitoring_infos.extract_metric_result_map_value(info)


@given(st.lists(st.integers(0, 1000), min_size=1))
def test_counters_add_up_in_any_order(values):
    metrics = Metrics()
    for value in values:
        metrics.add(Report(_counter(value)))
    (info,) = metrics.committed()
    assert _value(info) == sum(values)
    assert dict(info.labels) == {"NAMESPACE": "ns", "NAME": "counter", "PTRANSFORM": "step"}


@given(st.lists(st.integers(-1000, 1000), min_size=2))
def test_distributions_know_the_whole(values):
    infos = [
        monitoring_infos.int64_user_distribution(
            "ns", "sizes", DistributionData(value, 1, value, value)
        )
        for value in values
    ]
    whole = infos[0]
    for info in infos[1:]:
        whole = merged(whole, info)
    expected = DistributionData(sum(values), len(values), min(values), max(values))
    assert _value(whole).data == expected


def test_of_gauges_the_latest_counts_whoever_comes_first():
    old = monitoring_infos.int64_user_gauge("ns", "gauge", GaugeData(1, timestamp=10))
    new = monitoring_infos.int64_user_gauge("ns", "gauge", GaugeData(2, timestamp=20))
    assert _value(merged(old, new)).value == 2
    assert _value(merged(new, old)).value == 2


def test_string_sets_unite():
    one, other = (
        monitoring_infos.user_set_string("ns", "set", StringSetData(texts))
        for texts in ({"a", "b"}, {"b", "c"})
    )
    assert _value(merged(one, other)) == {"a", "b", "c"}


def test_bounded_tries_unite():
    tries = []
    for path in (("a", "b"), ("a", "c")):
        data = BoundedTrieData()
        data.add(path)
        tries.append(monitoring_infos.user_bounded_trie("ns", "trie", data))
    together = _value(merged(*tries))
    assert together.size() == 2
    assert together.contains(("a", "b"))
    assert together.contains(("a", "c"))


def test_histograms_add_up():
    histograms = []
    for value in (1, 3):
        histogram = Histogram(LinearBucket(0, 1, 10))
        histogram.record(value)
        data = HistogramData(histogram)
        histograms.append(monitoring_infos.user_histogram("ns", "histogram", data))
    together = monitoring_infos.extract_histogram_value(merged(*histograms))
    assert together.histogram.total_count() == 2
    assert together.histogram.p90() > together.histogram.p50() > 1


def test_what_is_of_an_unknown_type_is_the_last_that_came():
    first, last = (
        metrics_pb2.MonitoringInfo(urn="some:metric", type="some:type", payload=payload)
        for payload in (b"1", b"2")
    )
    assert merged(first, last) == last


def test_what_is_heard_before_its_level_ends_counts_once_and_commits_with_the_level():
    metrics = Metrics()
    first, second = Report(_counter(3)), Report(_counter(4))
    for _ in range(2):
        metrics.hear(first)
    assert [_value(info) for info in metrics.attempted()] == [3]
    assert metrics.committed() == []
    for report in (first, second):
        metrics.add(report)
    assert [_value(info) for info in metrics.attempted()] == [7]
    assert [_value(info) for info in metrics.committed()] == [7]


def test_an_attempt_that_came_to_nothing_counts_as_attempted_only():
    metrics = Metrics()
    metrics.add(Report(_counter(3), _counter(1, "other")))
    metrics.begin_attempt()
    metrics.add(Report(_counter(4)))
    attempted = {info.labels["NAME"]: _value(info) for info in metrics.attempted()}
    committed = {info.labels["NAME"]: _value(info) for info in metrics.committed()}
    assert attempted == {"counter": 7, "other": 1}
    assert committed == {"counter": 4}
