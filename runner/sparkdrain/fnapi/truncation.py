"""The stage that has a harness truncate restrictions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from apache_beam.portability.api import beam_runner_api_pb2
from typing_extensions import override

from sparkdrain.graph import urns
from sparkdrain.graph.plan import TransformId
from sparkdrain.graph.readers import protos_of
from sparkdrain.harness.harness import Writer

if TYPE_CHECKING:
    from sparkdrain.graph.plan import Stage

_TRUNCATED: Final = "sparkdrain-truncated"


class Truncated(Writer):
    """Keeps what is left of restrictions."""

    def __init__(self) -> None:
        self._left: list[Any] = []

    @override
    def write(self, value: Any, context: Any) -> None:
        self._left.append(context.with_value(value))

    def take(self) -> list[Any]:
        """What is left of those that were truncated since the last call."""
        taken, self._left = self._left, []
        return taken


def truncating(
    stage: Stage,
    source: TransformId,
    transform: TransformId,
    components: beam_runner_api_pb2.Components,
) -> tuple[Stage, beam_runner_api_pb2.Components]:
    """A stage that truncates what comes in at a source, and sends it back to the same edge.

    Args:
        stage: the one that processes the restrictions.
        source: where restrictions enter that stage.
        transform: the splittable DoFn's.

    Returns:
        The stage, and the components that it needs.
    """
    protos = protos_of(stage)
    edge = dict(stage.sources)[source]
    assert edge is not None
    truncate, end = protos[transform], beam_runner_api_pb2.PTransform()
    (restrictions,) = protos[source].outputs.values()
    own = beam_runner_api_pb2.Components()
    own.CopyFrom(components)
    own.pcollections[_TRUNCATED].CopyFrom(components.pcollections[restrictions])
    truncate.spec.urn = urns.TRUNCATE_RESTRICTIONS
    truncate.outputs.clear()
    truncate.outputs["out"] = _TRUNCATED
    end.unique_name, end.spec.urn = _TRUNCATED, urns.SINK
    end.inputs["in"] = _TRUNCATED
    sink = TransformId(_TRUNCATED)
    return replace(
        stage,
        name=f"{stage.name}-truncating",
        transforms=tuple(
            (id_, proto.SerializeToString())
            for id_, proto in ((source, protos[source]), (transform, truncate), (sink, end))
        ),
        sources=((source, edge),),
        sinks=((sink, edge),),
        side_inputs=tuple(side for side in stage.side_inputs if side.transform == transform),
    ), own
