"""A deprecated primitive Read becomes an Impulse and a transform that reads the source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.graph import urns
from sparkdrain.graph.beam import Stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def read_from_impulse(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Yield every stage, a Read (``beam:transform:read:v1``) replaced by two."""
    pcollections = context.components.pcollections
    for stage in stages:
        transform = stage.transforms[0]
        if transform.spec.urn != urns.READ:
            yield stage
            continue
        (output,) = transform.outputs.values()
        impulse = f"{transform.unique_name}/Impulse.out"
        pcollections[impulse].CopyFrom(pcollections[output])
        pcollections[impulse].unique_name = impulse
        pcollections[impulse].coder_id = context.bytes_coder_id
        yield Stage(
            f"{transform.unique_name}/Impulse",
            [
                beam_runner_api_pb2.PTransform(
                    unique_name=f"{transform.unique_name}/Impulse",
                    spec=beam_runner_api_pb2.FunctionSpec(urn=urns.IMPULSE),
                    outputs={"out": impulse},
                    environment_id=transform.environment_id,
                )
            ],
            parent=stage.parent,
        )
        yield Stage(
            stage.name,
            [
                beam_runner_api_pb2.PTransform(
                    unique_name=transform.unique_name,
                    spec=beam_runner_api_pb2.FunctionSpec(
                        urn=urns.IMPULSE_READ, payload=transform.spec.payload
                    ),
                    inputs={"in": impulse},
                    outputs=transform.outputs,
                    environment_id=transform.environment_id,
                )
            ],
            parent=stage.parent,
        )
