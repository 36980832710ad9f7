"""Interactive Beam, which notebooks use, gets from Spark what a pipeline makes."""

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.interactive import interactive_beam, interactive_environment
from apache_beam.runners.interactive.interactive_runner import InteractiveRunner
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import FixedWindows

import sparkdrain
from sparkdrain.runner import is_read_at_once
from tests.stages.conftest import MASTER


@pytest.fixture(autouse=True)
def _environment():
    interactive_environment.new_env()
    yield
    interactive_environment.new_env()


@pytest.fixture
def notebook() -> beam.Pipeline:
    runner = InteractiveRunner(underlying_runner=sparkdrain.SparkDrainRunner())
    return beam.Pipeline(runner, options=PipelineOptions([MASTER, "--progress=off"]))


@pytest.mark.spark
def test_what_is_collected_is_there_and_is_used_by_the_next_cell(notebook):
    words = notebook | beam.Create(["a", "b", "a"])
    counts = words | beam.combiners.Count.PerElement()
    assert sorted(interactive_beam.collect(counts, raw_records=True)) == [("a", 2), ("b", 1)]
    tens = counts | beam.MapTuple(lambda word, count: (word, 10 * count))
    assert sorted(interactive_beam.collect(tens, raw_records=True)) == [("a", 20), ("b", 10)]


@pytest.mark.spark
def test_a_cell_that_fails_ends_with_the_users_exception(notebook):
    odds = notebook | beam.Create([1, 0]) | beam.Map(lambda number: 1 // number)
    with pytest.raises(RuntimeError, match=r"^ZeroDivisionError"):
        interactive_beam.collect(odds)


@pytest.mark.spark
def test_a_stream_that_ends_is_collected_too(notebook):
    ticks = notebook | PeriodicImpulse(start_timestamp=0, stop_timestamp=3, fire_interval=1)
    windows = ticks | beam.WindowInto(FixedWindows(10)) | beam.Map(lambda _: "tick")
    assert interactive_beam.collect(windows, raw_records=True) == ["tick"] * 3


@pytest.mark.parametrize(
    ("label", "is_awaited"), [("WriteCache_of_words", True), ("Write", False)], ids=["yes", "no"]
)
def test_only_pipelines_that_fill_the_cache_are_waited_for(label, is_awaited):
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create(["a"]) | label >> beam.Map(print)
    assert is_read_at_once(pipeline.to_runner_api()) == is_awaited
