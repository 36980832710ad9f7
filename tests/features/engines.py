"""Runs a small pipeline wherever it should give the same result."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState
from apache_beam.testing.util import assert_that, equal_to
from support.in_memory import DEFAULTS, run_in_memory

from sparkdrain import SparkDrainRunner
from sparkdrain.concurrency.submitted import refuse_impossible
from sparkdrain.graph.check import check
from sparkdrain.options import JobSettings

Build = Callable[[beam.Pipeline], beam.PCollection]

_COLLECTED: dict[int, list[Any]] = defaultdict(list)
_NUMBERS = itertools.count()


class InMemoryRunner(PipelineRunner):
    """The engine without Spark, in this process; fails as user code failed."""

    def __init__(self, *, compiled: bool) -> None:
        self._compiled = compiled

    def run_pipeline(self, pipeline: beam.Pipeline, options: PipelineOptions) -> PipelineResult:
        steps = dict(JobSettings.from_options(options).async_steps)
        refuse_impossible(pipeline, steps)
        check(pipeline.to_runner_api(), async_steps=steps)
        settings = replace(DEFAULTS, compiled=self._compiled, async_steps=tuple(steps.items()))
        self.reports = run_in_memory(pipeline, options=settings)
        result = PipelineResult(PipelineState.DONE)
        result.wait_until_finish = lambda duration=None: PipelineState.DONE
        return result


def spark_pipeline() -> beam.Pipeline:
    """A pipeline that runs on Spark."""
    flags = ["--spark_master_url=local[2]", "--progress=off"]
    return beam.Pipeline(SparkDrainRunner(), PipelineOptions(flags))


ENGINES: dict[str, Callable[[], beam.Pipeline]] = {
    "compiled": lambda: beam.Pipeline(InMemoryRunner(compiled=True), PipelineOptions([])),
    "not compiled": lambda: beam.Pipeline(InMemoryRunner(compiled=False), PipelineOptions([])),
    "spark": spark_pipeline,
}


def _collect(element: Any, number: int) -> None:
    _COLLECTED[number].append(element)


def on_fn_api_runner(build: Build) -> list[Any]:
    """What Beam's own runner makes of the pipeline."""
    number = next(_NUMBERS)
    with beam.Pipeline(FnApiRunner(), PipelineOptions([])) as pipeline:
        _ = build(pipeline) | "collect" >> beam.Map(_collect, number)
    return _COLLECTED.pop(number, [])


def compare(pipeline: beam.Pipeline, build: Build) -> None:
    """Check that ``pipeline`` gives what Beam's own runner gives, in any order."""
    gives(pipeline, build, on_fn_api_runner(build))


def gives(pipeline: beam.Pipeline, build: Build, expected: Any) -> None:
    """Check that ``pipeline`` gives ``expected``, in any order."""
    with pipeline:
        assert_that(build(pipeline), equal_to(list(expected)))
