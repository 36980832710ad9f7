"""The coder of pairs for what a stateful DoFn reads from before an exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkdrain.graph import urns
from sparkdrain.graph.beam import common_urns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apache_beam.portability.api import beam_runner_api_pb2

    from sparkdrain.graph.transform import Transform


def tell_pairs(
    pipeline: beam_runner_api_pb2.Pipeline,
    components: beam_runner_api_pb2.Components,
    transforms: Sequence[Transform],
) -> None:
    """Give untyped pairs their coder where a harness outside of the slot's process has them.

    A stateful DoFn reads what goes into the exchange before it, see ``skip_exchanges``. Of untyped
    elements, Beam's Python SDK says behind the exchange only that they are pairs.

    Args:
        pipeline: as it was submitted.
        components: the components of the optimized pipeline, whose coders change.
        transforms: the transforms of the optimized pipeline, each with its place.
    """
    places = {output: each.place for each in transforms for output in each.outputs}
    behind = _behind_exchanges(pipeline.components)
    for transform in transforms:
        # In process a slot tells keys from values without a coder, and checkpoints know the coder.
        for taken in transform.main_inputs if transform.keyed else ():
            if transform.place or places[taken]:
                collection = components.pcollections[taken]
                collection.coder_id = _coder_of_pairs(taken, behind, components)


def _behind_exchanges(components: beam_runner_api_pb2.Components) -> Mapping[str, Sequence[str]]:
    """What exchanges make of a PCollection."""
    behind: dict[str, list[str]] = {}
    for transform in components.transforms.values():
        if transform.spec.urn in urns.EXCHANGES:
            for taken in transform.inputs.values():
                behind.setdefault(taken, []).extend(transform.outputs.values())
    return behind


def _coder_of_pairs(
    taken: str,
    behind: Mapping[str, Sequence[str]],
    components: beam_runner_api_pb2.Components,
) -> str:
    """The coder of a PCollection, or if it is not one of pairs, of what exchanges make of it."""
    own = components.pcollections[taken].coder_id
    same = [taken]
    for name in same:
        coder = components.pcollections[name].coder_id
        if components.coders[coder].spec.urn == common_urns.coders.KV.urn:
            return coder
        same += behind.get(name, ())
    return own
