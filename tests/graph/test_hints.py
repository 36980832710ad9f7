from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import environments, resources

from sparkdrain.graph.notices import unkept_hints
from sparkdrain.graph.translate import translate


def proto_of(*hinted: str, options=None, **hints):
    """A small pipeline in which some steps have hints."""
    options = options or PipelineOptions([])
    pipeline = beam.Pipeline(options=options)
    steps = {name: beam.Map(lambda one: (one, 1)) for name in ("First", "Second", "Third")}
    made = pipeline | beam.Create([1])
    for name, step in steps.items():
        hint = step.with_resource_hints(**hints) if name in hinted else step
        made = made | name >> hint
    _ = made | beam.GroupByKey()
    environment = environments.EmbeddedPythonEnvironment(
        resource_hints=resources.resource_hints_from_options(options)
    )
    return pipeline.to_runner_api(default_environment=environment)


def test_each_hint_is_told_with_its_steps_and_the_property_of_spark():
    (warning,) = unkept_hints(proto_of("First", "Third", min_ram="2GB"))
    assert warning.startswith(
        "The resource hint min_ram=2000000000 of 'First', 'Third' has no effect"
    )
    assert "with spark.executor.memory and spark.executor.cores (--spark_conf" in warning


@pytest.mark.parametrize(
    ("hint", "value", "shown"),
    [
        ("accelerator", "type:gpu;count:1", "accelerator=type:gpu;count:1 of 'First' has"),
        ("cpu_count", "4", "cpu_count=4 of"),
        ("max_active_bundles_per_worker", "2", "max_active_bundles_per_worker=2 of"),
    ],
)
def test_every_hint_of_beam_has_its_name(hint, value, shown):
    (warning,) = unkept_hints(proto_of("First", **{hint: value}))
    assert shown in warning


def test_a_hint_for_the_whole_pipeline_names_a_few_steps_only():
    options = PipelineOptions(["--resource_hint=min_ram=1GB"])
    (warning,) = unkept_hints(proto_of(options=options))
    assert " more has no effect" in warning
    assert warning.count("'") == 6


def test_a_pipeline_without_hints_is_not_warned_of():
    assert unkept_hints(proto_of()) == []


def test_a_hint_changes_nothing_of_the_plan():
    def shape(proto):
        plan = translate(proto)
        return [
            [[name for name, _ in stage.transforms] for stage in level] for level in plan.levels
        ]

    assert shape(proto_of("Second", min_ram="2GB")) == shape(proto_of())
