"""The operations of a bundle descriptor, with compiled chains between them."""

from __future__ import annotations

import collections
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.graph import urns
from sparkdrain.harness.beam import memoize, proto_utils
from sparkdrain.harness.compiled.chain import CompiledOperation, Emission
from sparkdrain.harness.compiled.steps import Steps
from sparkdrain.harness.restrictions import ProcessRestrictions

if TYPE_CHECKING:
    from apache_beam.portability.api import beam_fn_api_pb2


def made_operations(
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor, factory: Any, *, compiled: bool
) -> collections.OrderedDict[str, Any]:
    """Operations by transform id, producers before consumers.

    Args:
        factory: makes an operation; it is told what producers see of each (``entry``), and the
            ``steps`` of compiled chains, or None.
        compiled: whether chains of simple transforms are compiled.
    """
    consumers = _consumers(descriptor)

    @memoize
    def operation(transform_id: str) -> Any:
        outputs = {
            tag: [entry(consumer) for consumer in consumers[pcollection]]
            for tag, pcollection in descriptor.transforms[transform_id].outputs.items()
        }
        return factory.create_operation(transform_id, outputs)

    @memoize
    def entry(transform_id: str) -> Any:
        """What producers see of a transform: its operation, or a compiled chain."""
        op = operation(transform_id)
        step = None if steps is None else steps[transform_id]
        return op if step is None or step.is_last else CompiledOperation(step, factory)

    steps = Steps(operation, consumers, factory, descriptor) if compiled else None
    factory.entry, factory.steps = entry, steps
    behind = {  # consumers are made first, since chains may be of any length
        id_: [consumer for output in proto.outputs.values() for consumer in consumers[output]]
        for id_, proto in descriptor.transforms.items()
    }
    made = [(id_, operation(id_)) for id_ in TopologicalSorter(behind).static_order()]
    for id_, op in made:
        if steps is not None and isinstance(op, ProcessRestrictions):
            step = steps.results(id_)
            if step is not None:
                op.emission = Emission(step, factory, factory.dofns[id_].dofn)
    return collections.OrderedDict(reversed(made))


def _consumers(
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor,
) -> dict[str, list[str]]:
    consumers: dict[str, list[str]] = collections.defaultdict(list)
    for id_, proto in descriptor.transforms.items():
        sides: set[str] = set()
        if proto.spec.urn in urns.PAR_DO_LIKE:
            payload = proto_utils.parse_Bytes(proto.spec.payload, beam_runner_api_pb2.ParDoPayload)
            sides = set(payload.side_inputs)
        for tag, pcollection in proto.inputs.items():
            if tag not in sides:
                consumers[pcollection].append(id_)
    return consumers
