"""Reshuffle as an older Beam had it, if --update_compatibility_version asks for that."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import util
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.windowed_value import PaneInfoTiming
from engines import InMemoryRunner

from sparkdrain import SparkDrainRunner
from sparkdrain.graph.exchanges import as_written
from sparkdrain.graph.plan import EdgeKind
from sparkdrain.graph.translate import translate

UNKNOWN = PaneInfoTiming.to_string(PaneInfoTiming.UNKNOWN)
ON_TIME = PaneInfoTiming.to_string(PaneInfoTiming.ON_TIME)
# The version, and the timing of panes behind a Reshuffle.
VERSIONS = pytest.mark.parametrize(
    ("version", "timing"),
    [(None, ON_TIME), ("2.65.0", ON_TIME), ("2.64.0", UNKNOWN), ("2.9", UNKNOWN)],
)
EXCHANGES = pytest.mark.parametrize("exchange", [beam.Reshuffle, util.ReshufflePerKey])


@pytest.fixture(autouse=True)
def _without_dill(monkeypatch):
    """Beam wants an old release of dill for keys without a type, as ``assert_that`` has them."""
    monkeypatch.setattr("apache_beam.coders.coders._should_force_use_dill", lambda: False)


def _flags(version: str | None) -> list[str]:
    return [f"--update_compatibility_version={version}"] if version else []


class Tell(beam.DoFn):
    def process(
        self,
        element,
        time=beam.DoFn.TimestampParam,
        window=beam.DoFn.WindowParam,
        pane=beam.DoFn.PaneInfoParam,
    ):
        yield element[0], int(time), int(window.start), PaneInfoTiming.to_string(pane.timing)


def reshuffled(pipeline: beam.Pipeline, exchange: type) -> beam.PCollection:
    """Panes of windows, then an exchange."""
    return (
        pipeline
        | beam.Create([("a", 1), ("b", 11)], reshuffle=False)
        | beam.Map(lambda pair: TimestampedValue(pair, pair[1])).with_output_types(tuple[str, int])
        | beam.WindowInto(FixedWindows(10))
        | beam.GroupByKey()
        | "Exchange" >> exchange()
        | beam.ParDo(Tell())
    )


@VERSIONS
@EXCHANGES
def test_panes_are_as_the_version_has_them(version, timing, exchange):
    runner = InMemoryRunner(compiled=True)
    with beam.Pipeline(runner, PipelineOptions(_flags(version))) as pipeline:
        wanted = [("a", 9, 0, timing), ("b", 19, 10, timing)]
        assert_that(reshuffled(pipeline, exchange), equal_to(wanted))


@pytest.mark.spark
@pytest.mark.parametrize("mode", [[], ["--streaming"]], ids=["batch", "streaming"])
def test_on_spark_too(mode):
    flags = ["--spark_master_url=local[2]", "--progress=off", *mode, *_flags("2.64.0")]
    with beam.Pipeline(SparkDrainRunner(), PipelineOptions(flags)) as pipeline:
        wanted = [("a", 9, 0, UNKNOWN), ("b", 19, 10, UNKNOWN)]
        assert_that(reshuffled(pipeline, beam.Reshuffle), equal_to(wanted))


@VERSIONS
def test_the_runners_own_exchange_is_used_as_long_as_it_does_the_same(version, timing):
    options = PipelineOptions(_flags(version))
    pipeline = beam.Pipeline(options=options)
    reshuffled(pipeline, beam.Reshuffle)
    proto = pipeline.to_runner_api()
    before = proto.SerializeToString(deterministic=True)
    plan = translate(as_written(proto, options.get_all_options()))
    kinds = {edge.kind for edge in plan.edges}
    assert (EdgeKind.SPREAD in kinds) == (timing == ON_TIME)
    assert proto.SerializeToString(deterministic=True) == before
