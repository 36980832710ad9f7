"""Metrics of jobs that really ran in several workers."""

from __future__ import annotations

import time

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.metrics.cells import DistributionData
from apache_beam.metrics.metric import MetricResults
from apache_beam.portability.api import beam_job_api_pb2
from apache_beam.transforms import userstate, window
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.utils.timestamp import Timestamp
from engines import spark_pipeline

from tests.support.process_options import process_options
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

# What the start of a session, and two small levels, may take on a busy machine.
_START_SECONDS = 300.0
_WORK_SECONDS = 60.0


class _Everything(beam.DoFn):
    """Counts in every way that there is, at every moment of its life."""

    def setup(self):
        self.counter = Metrics.counter("ns", "elements")
        self.distribution = Metrics.distribution("ns", "sizes")
        self.gauge = Metrics.gauge("ns", "gauge")
        self.strings = Metrics.string_set("ns", "strings")
        self.trie = Metrics.bounded_trie("ns", "trie")
        self.bundles = Metrics.counter("ns", "bundles")

    def process(self, element):
        self.counter.inc()
        self.distribution.update(element)
        self.gauge.set(7)
        self.strings.add(f"s{element}")
        self.trie.add(("a", str(element)))
        yield element

    def finish_bundle(self):
        self.bundles.inc()


def _committed(result, kind, name):
    (found,) = result.metrics().query(MetricsFilter().with_name(name))[kind]
    assert found.committed == found.attempted
    return found.committed


def test_every_kind_of_metric_is_put_together_from_all_slots():
    with spark_pipeline() as p:
        _ = p | beam.Create(range(100)) | beam.Reshuffle() | beam.ParDo(_Everything())
    assert _committed(p.result, MetricResults.COUNTERS, "elements") == 100
    sizes = _committed(p.result, MetricResults.DISTRIBUTIONS, "sizes")
    assert sizes.data == DistributionData(sum(range(100)), 100, 0, 99)
    assert _committed(p.result, MetricResults.GAUGES, "gauge").value == 7
    strings = _committed(p.result, MetricResults.STRINGSETS, "strings")
    assert strings == {f"s{n}" for n in range(100)}
    trie = _committed(p.result, MetricResults.BOUNDED_TRIES, "trie")
    assert trie.size() == 100
    assert all(trie.contains(("a", str(n))) for n in range(100))
    assert _committed(p.result, MetricResults.COUNTERS, "bundles") >= 2


def _count(name):
    Metrics.counter("ns", name).inc()


class _Sum(beam.CombineFn):
    def create_accumulator(self):
        return 0

    def add_input(self, accumulator, value):
        _count("added")
        return accumulator + value

    def merge_accumulators(self, accumulators):
        return sum(accumulators)

    def extract_output(self, accumulator):
        _count("extracted")
        return accumulator


class _Timer(beam.DoFn):
    TIMER = userstate.TimerSpec("timer", TimeDomain.WATERMARK)

    def process(self, element, timer=beam.DoFn.TimerParam(TIMER)):
        timer.set(Timestamp(1))

    @userstate.on_timer(TIMER)
    def fire(self):
        _count("fired")


class _Step(beam.DoFn):
    def __init__(self, name):
        self._name = name

    def process(self, element):
        _count(self._name)
        yield element


def test_metrics_belong_to_the_step_that_counts_them():
    with spark_pipeline() as p:
        pairs = p | beam.Create([("k", 1), ("k", 2), ("l", 3)])
        stepped = pairs | "One" >> beam.ParDo(_Step("c")) | "Two" >> beam.ParDo(_Step("c"))
        filtered = stepped | "Three" >> beam.Filter(lambda e: _count("c") or e[1] > 1)
        _ = filtered | "Sum" >> beam.CombinePerKey(_Sum())
        _ = filtered | "Timer" >> beam.ParDo(_Timer())
    found = p.result.metrics().query()[MetricResults.COUNTERS]
    counted = {
        (result.key.step.split("/")[0], result.key.metric.name): result.committed
        for result in found
        if result.key.metric.namespace == "ns"
    }
    assert counted == {
        ("One", "c"): 3,
        ("Two", "c"): 3,
        ("Three", "c"): 3,
        ("Sum", "added"): 2,
        ("Sum", "extracted"): 2,
        ("Timer", "fired"): 2,
    }


def test_metrics_can_be_asked_for_by_step_and_namespace():
    with spark_pipeline() as p:
        numbers = p | beam.Create([1])
        _ = numbers | "Outer" >> _Inner()
        _ = numbers | "Other" >> beam.ParDo(_Step("c"))

    def counters(metrics_filter):
        found = p.result.metrics().query(metrics_filter)[MetricResults.COUNTERS]
        return sorted(result.key.step for result in found)

    assert counters(MetricsFilter().with_step("Outer").with_name("c")) == ["Outer/Inner"]
    assert counters(MetricsFilter().with_namespace("ns")) == ["Other", "Outer/Inner"]
    assert counters(MetricsFilter().with_namespace("nobody")) == []


class _Inner(beam.PTransform):
    def expand(self, pcoll):
        return pcoll | "Inner" >> beam.ParDo(_Step("c"))


def test_elements_are_counted_where_windows_multiply_them():
    with spark_pipeline() as p:
        timed = p | beam.Create([1, 2]) | beam.Map(lambda t: window.TimestampedValue(t, t))
        windowed = timed | beam.WindowInto(window.SlidingWindows(4, 2))
        _ = windowed | "Look" >> beam.Map(lambda n, w=beam.DoFn.WindowParam: _count("windows") or n)
    assert _committed(p.result, MetricResults.COUNTERS, "windows") == 4


class _Seen(beam.DoFn):
    """Stateful."""

    SEEN = userstate.CombiningValueStateSpec("seen", sum)

    def process(self, pair, seen=beam.DoFn.StateParam(SEEN)):
        seen.add(1)
        yield pair


def test_an_element_that_passes_a_shuffle_is_counted_once():
    """Between stages are Reshuffles, keys with state, and a GroupByKey."""
    pipeline = beam.Pipeline(options=process_options(progress="off"))
    numbers = pipeline | beam.Create(range(50))
    pairs = numbers | "Key" >> beam.Map(lambda number: (str(number % 5), number))
    spread = pairs | "Spread" >> beam.Reshuffle()
    seen = spread | "Same" >> beam.Map(lambda pair: pair) | "Seen" >> beam.ParDo(_Seen())
    groups = seen | "Group" >> beam.GroupByKey()
    _ = groups | "Count" >> beam.MapTuple(lambda key, values: (key, len(list(values))))
    result = pipeline.run()
    result.wait_until_finish()
    elements = _element_counts(result)
    fifty = dict.fromkeys(("Create/Map(decode)", "Key", "Spread", "Same", "Seen"), 50)
    expected = {"Create/Impulse": 1, **fifty, "Group": 5, "Count": 5}
    assert {step: elements[step] for step in expected} == expected


def _element_counts(result) -> dict[str, int]:
    """How many elements are told of what each transform of one output makes, by its name."""
    asked = {"job_id": result.job_id}
    service = result._job_service
    pipeline = service.GetPipeline(beam_job_api_pb2.GetJobPipelineRequest(**asked)).pipeline
    metrics = service.GetJobMetrics(beam_job_api_pb2.GetJobMetricsRequest(**asked)).metrics
    told = {
        info.labels["PCOLLECTION"]: beam.coders.VarIntCoder().decode(info.payload)
        for info in metrics.committed
        if info.urn == "beam:metric:element_count:v1"
    }
    return {
        transform.unique_name: told.get(*transform.outputs.values(), 0)
        for transform in pipeline.components.transforms.values()
        if len(transform.outputs) == 1
    }


class _Gated(beam.DoFn):
    """Counts each element. The second one is held until a file is there, and then fails."""

    def __init__(self, gate):
        self._gate = gate

    def process(self, element):
        _count("seen")
        if element == 2:
            while not self._gate.exists():
                time.sleep(0.05)
            raise ValueError(element)


def _seen(result) -> tuple[int, int] | None:
    """How often elements were seen, attempted and committed; None if that is not told."""
    found = result.metrics().query(MetricsFilter().with_name("seen"))[MetricResults.COUNTERS]
    return (found[0].attempted, found[0].committed) if found else None


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["fails", "is cancelled"])
def test_what_finished_tasks_attempted_is_told_while_the_job_runs_and_afterwards(
    tmp_path, is_cancelled
):
    pipeline = spark_pipeline()
    gate = tmp_path / "gate"
    spread = pipeline | beam.Create([1, 2]) | beam.Reshuffle()
    _ = spread | beam.ParDo(_Gated(gate))
    result = pipeline.run()
    wait_until(lambda: result.state == "RUNNING", _START_SECONDS, 0.05)
    # One of the two slots of the level has ended, and the level has not.
    assert wait_until(lambda: _seen(result), _WORK_SECONDS, 0.05) == (1, None)
    if is_cancelled:
        result.cancel()
    else:
        gate.touch()
    with pytest.raises(RuntimeError):
        result.wait_until_finish()
    gate.touch()
    assert result.state == ("CANCELLED" if is_cancelled else "FAILED")
    assert _seen(result) == (1, None)


class _OfProcess(beam.DoFn):
    def process(self, element):
        Metrics.distribution("ns", "cost", process_wide=True).update(element)
        Metrics.distribution("ns", "cost").update(element)
        yield element


def test_a_metric_of_whole_processes_is_of_no_step():
    pipeline = spark_pipeline()
    _ = (
        pipeline
        | beam.Create([1, 2, 3, 4])
        | beam.Reshuffle()
        | "Each" >> beam.ParDo(_OfProcess())
        | "Shuffle" >> beam.Reshuffle()
        | "Again" >> beam.ParDo(_OfProcess())
    )
    result = pipeline.run()
    result.wait_until_finish()
    found = result.metrics().query(MetricsFilter().with_name("cost"))["distributions"]
    assert {each.key.step: each.result.data for each in found} == {
        None: DistributionData(20, 8, 1, 4),
        "Each": DistributionData(10, 4, 1, 4),
        "Again": DistributionData(10, 4, 1, 4),
    }
