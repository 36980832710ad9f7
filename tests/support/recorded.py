"""What a pipeline in rounds emits: what is recorded in a round counts if the round is committed."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import environments

from sparkdrain.graph.translate import translate
from tests.support.in_memory import DEFAULTS as BATCH_DEFAULTS
from tests.support.in_memory import InMemoryRun
from tests.support.in_memory_rounds import InMemoryRounds

if TYPE_CHECKING:
    from collections.abc import Callable

_SEEN: list[Any] = []


class Record(beam.DoFn):
    """The last transform of a pipeline: its elements are what the functions here return."""

    def process(self, element: Any) -> None:
        _SEEN.append(element)


class Steady:
    """The pace of a job that does not learn: what a round may do is always the same."""

    def __init__(self, pace: Any, elements: int) -> None:
        self._pace = pace
        self.elements = elements

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pace, name)


class _Recorded(InMemoryRounds):
    """Takes what was seen out of each attempt, and keeps it if that is committed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.kept: list[list[Any]] = []
        self._attempt: list[Any] = []
        super().__init__(*args, **kwargs)
        if "elements" in kwargs:
            self.loop.pace = Steady(self.loop.pace, kwargs["elements"])
        tell = self.loop.tell

        def keep(schedule: Any, reports: Any) -> None:
            self.kept.append(self._attempt)
            tell(schedule, reports)

        self.loop.tell = keep

    def end_round(self) -> None:
        self._attempt = list(_SEEN)
        _SEEN.clear()
        super().end_round()


def emitted_in_rounds(build: Callable[[Any], Any], **settings: Any) -> list[list[Any]]:
    """What comes out of ``build`` in each committed round of a streaming job.

    Args:
        build: makes a PCollection of a pipeline.
        settings: see ``InMemoryRounds``; the number of ``elements`` stays as it
            is. ``edit`` is called with the pipeline's proto before they
            are made, ``begin`` with the rounds before they run, ``watch`` when they are over.
    """
    begin = settings.pop("begin", lambda rounds: None)
    edit = settings.pop("edit", lambda proto: None)
    watch = settings.pop("watch", lambda rounds: None)
    _SEEN.clear()
    proto = _recording(build).to_runner_api(
        default_environment=environments.EmbeddedPythonEnvironment()
    )
    edit(proto)
    rounds = _Recorded(translate(proto, streaming=True), **settings)
    try:
        begin(rounds)
        rounds.run_to_end()
        watch(rounds)
    finally:
        rounds.close()
    return rounds.kept


def emitted(build: Callable[[Any], Any], **settings: Any) -> list[Any]:
    """What comes out of ``build`` in a streaming job."""
    return [element for kept in emitted_in_rounds(build, **settings) for element in kept]


def emitted_in_batch(
    build: Callable[[Any], Any], edit: Callable[[Any], None] = lambda proto: None
) -> list[Any]:
    """What comes out of ``build`` in a bounded job."""
    _SEEN.clear()
    proto = _recording(build).to_runner_api(
        default_environment=environments.EmbeddedPythonEnvironment()
    )
    edit(proto)
    run = InMemoryRun(translate(proto), 2, BATCH_DEFAULTS)
    try:
        run.run()
    finally:
        shutil.rmtree(run.directory)
    return list(_SEEN)


def _recording(build: Callable[[Any], Any]) -> beam.Pipeline:
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    _ = build(pipeline) | "record" >> beam.ParDo(Record())
    return pipeline
