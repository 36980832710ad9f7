"""Puts an identity between two barriers that follow each other, so that a stage stands there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.graph import urns
from sparkdrain.graph.beam import Stage, proto_utils

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def separate_barriers(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Yield all stages; whatever only a stage can write is then produced by one.

    The output of a GroupByKey or exchange is read by a stage. Where it goes straight into
    another barrier (a GroupByKey, an exchange, a stateful DoFn, a side input), an identity
    (``beam:dofn:identity:0.1``) becomes that stage.
    """
    stages = list(stages)
    from_runner = {
        output
        for stage in stages
        for transform in stage.transforms
        if transform.spec.urn in urns.RUNNER
        for output in transform.outputs.values()
    }
    copies: dict[str, str] = {}
    for stage in stages:
        transform = stage.transforms[0]
        for tag in _barrier_tags(transform):
            pcollection = transform.inputs[tag]
            if pcollection not in from_runner:
                continue
            if pcollection not in copies:
                copies[pcollection] = f"{pcollection}/Identity.out"
                yield _identity(pcollection, copies[pcollection], stage, context)
            transform.inputs[tag] = copies[pcollection]
        yield stage


def _barrier_tags(transform: beam_runner_api_pb2.PTransform) -> list[str]:
    if transform.spec.urn in urns.RUNNER:
        return sorted(transform.inputs)
    if transform.spec.urn not in urns.PAR_DO_LIKE:
        return []
    payload = proto_utils.parse_Bytes(transform.spec.payload, beam_runner_api_pb2.ParDoPayload)
    keyed = payload.state_specs or payload.timer_family_specs or payload.requires_time_sorted_input
    whole = keyed or payload.requires_stable_input
    return [tag for tag in sorted(transform.inputs) if whole or tag in payload.side_inputs]


def _identity(source: str, copy: str, consumer: Any, context: Any) -> Any:
    pcollections = context.components.pcollections
    pcollections[copy].CopyFrom(pcollections[source])
    pcollections[copy].unique_name = copy
    name = f"{source}/Identity"
    transform = beam_runner_api_pb2.PTransform(
        unique_name=name,
        spec=beam_runner_api_pb2.FunctionSpec(urn=urns.IDENTITY),
        inputs={"in": source},
        outputs={"out": copy},
        environment_id=consumer.transforms[0].environment_id,
    )
    return Stage(name, [transform], parent=consumer.parent)
