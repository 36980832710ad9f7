"""A TestStream with several outputs becomes one source per output: each has its own watermark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.graph import urns
from sparkdrain.graph.beam import Stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STREAM = "sparkdrain:test_stream"
"""Annotation: which TestStream an output belongs to. Two may have the same script."""


def separate_test_streams(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Yield all stages; of a TestStream, one for each output, all with the whole script."""
    for stage in stages:
        transform = stage.transforms[0]
        if transform.spec.urn != urns.TEST_STREAM:
            yield stage
            continue
        for tag, pcollection in sorted(transform.outputs.items()):
            part = beam_runner_api_pb2.PTransform()
            part.CopyFrom(transform)
            if len(transform.outputs) > 1:
                part.unique_name = f"{transform.unique_name}/{tag}"
            part.outputs.clear()
            part.outputs[tag] = pcollection
            part.annotations[STREAM] = transform.unique_name.encode()
            yield Stage(part.unique_name, [part], parent=stage.parent)
