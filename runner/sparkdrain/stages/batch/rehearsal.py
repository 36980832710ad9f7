"""A small job of the runner's own: after it Java, Spark and workers have loaded what jobs need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apache_beam as beam
from apache_beam.transforms.environments import EmbeddedPythonEnvironment

from sparkdrain.drain.signal import DrainSignal
from sparkdrain.invocation import Invocation, Unobserved
from sparkdrain.stages.batch.execute import execute
from sparkdrain.types import CancelToken

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sparkdrain.options import JobSettings


def rehearse(settings: JobSettings) -> None:
    """Run it in the session that ``settings`` ask for.

    Raises:
        BadSetup: Spark could not be used.
    """
    pipeline = beam.Pipeline()
    build(pipeline)
    environment = EmbeddedPythonEnvironment.default()
    execute(
        Invocation(
            "rehearsal",
            "rehearsal",
            pipeline.to_runner_api(default_environment=environment),
            settings,
            {},
            (),
            Unobserved(),
            CancelToken(),
            DrainSignal(),
        )
    )


def build(pipeline: beam.Pipeline) -> None:
    """Add a GroupByKey, a combine and a side input, which check each other."""
    pairs = pipeline | beam.Create([(key % 3, key) for key in range(9)])
    sums = pairs | beam.CombinePerKey(sum)
    _ = pairs | beam.GroupByKey() | beam.Map(_compare, beam.pvalue.AsDict(sums))


def _compare(group: tuple[int, Iterable[int]], sums: dict[int, int]) -> None:
    key, values = group
    assert sum(values) == sums[key]
