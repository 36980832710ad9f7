"""Builds the operations of lifted combines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import apache_beam as beam
from apache_beam.runners.worker import operation_specs
from apache_beam.transforms.window import TimestampCombiner

from sparkdrain.graph import urns
from sparkdrain.harness.beam import BeamTransformFactory, name_context
from sparkdrain.harness.operations import CombinePhaseOperation
from sparkdrain.harness.precombine import PrecombineOperation

if TYPE_CHECKING:
    from apache_beam.portability.api import beam_runner_api_pb2


def _create_precombine(
    factory: Any,
    transform_id: str,
    proto: beam_runner_api_pb2.PTransform,
    payload: beam_runner_api_pb2.CombinePayload,
    consumers: dict[str, list[Any]],
) -> Any:
    """The first phase of a lifted combine.

    It is Beam's own if timestamps must be combined too, or if the coder shows no key.
    """
    windowing = factory.get_input_windowing(proto)
    coder = factory.get_only_input_coder(proto)
    at_end = windowing.timestamp_combiner == TimestampCombiner.OUTPUT_AT_EOW
    if not at_end or not coder.wrapped_value_coder.is_kv_coder():
        create, _ = BeamTransformFactory._known_urns[urns.PRECOMBINE]  # noqa: SLF001
        return create(factory, transform_id, proto, payload, consumers)
    operation = PrecombineOperation(
        name_context(transform_id, proto),
        operation_specs.WorkerPartialGroupByKey(b"", None, [factory.get_only_output_coder(proto)]),
        factory.counter_factory,
        factory.state_sampler,
        beam.CombineFn.from_runner_api(payload.combine_fn, factory.context),
        coder.key_coder(),
        coder.window_coder,
    )
    return factory.augment_oldstyle_op(operation, proto.unique_name, consumers)


def _combine_phase(phase: str) -> Any:
    def create(
        factory: Any,
        transform_id: str,
        proto: beam_runner_api_pb2.PTransform,
        payload: beam_runner_api_pb2.CombinePayload,
        consumers: dict[str, list[Any]],
    ) -> Any:
        combine_fn = beam.CombineFn.from_runner_api(payload.combine_fn, factory.context)
        operation = CombinePhaseOperation(
            name_context(transform_id, proto),
            operation_specs.WorkerCombineFn(
                b"", phase, None, [factory.get_only_output_coder(proto)]
            ),
            factory.counter_factory,
            factory.state_sampler,
            combine_fn,
            phase,
        )
        return factory.augment_oldstyle_op(operation, proto.unique_name, consumers)

    return create


COMBINES: Final = {
    urns.PRECOMBINE: _create_precombine,
    urns.MERGE_ACCUMULATORS: _combine_phase("merge"),
    urns.EXTRACT_OUTPUTS: _combine_phase("extract"),
}
"""What makes the operation of a phase, by URN."""
