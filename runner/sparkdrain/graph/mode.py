"""Whether a job runs in rounds or as a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.graph import urns

if TYPE_CHECKING:
    from sparkdrain.options import JobSettings

_UNBOUNDED = beam_runner_api_pb2.IsBounded.UNBOUNDED


def is_streaming(pipeline: beam_runner_api_pb2.Pipeline, settings: JobSettings) -> bool:
    """Whether ``pipeline`` is to run in rounds: it asks for it, or could not end otherwise."""
    components = pipeline.components
    return (
        settings.streaming
        or any(p.is_bounded == _UNBOUNDED for p in components.pcollections.values())
        or any(t.spec.urn == urns.TEST_STREAM for t in components.transforms.values())
    )
