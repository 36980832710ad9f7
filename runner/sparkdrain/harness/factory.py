"""Builds the operations of a stage; where the runner has its own, those."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from apache_beam.io.iobase import BoundedSource
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.worker import operation_specs

from sparkdrain.graph import urns
from sparkdrain.graph.plan import EdgeId, TransformId
from sparkdrain.harness.beam import (
    BeamTransformFactory,
    create_pardo_operation,
    name_context,
    operations,
)
from sparkdrain.harness.combining import COMBINES
from sparkdrain.harness.compiled.chain import LazyChain
from sparkdrain.harness.concurrent.loop import event_loop
from sparkdrain.harness.concurrent.operation import ConcurrentOperation
from sparkdrain.harness.dofn import DoFnHandle, load_dofn
from sparkdrain.harness.keyed.operation import KeyedOperation
from sparkdrain.harness.keyed_state import KeyedState
from sparkdrain.harness.operations import ReadFromImpulse, SinkOperation, SourceOperation
from sparkdrain.harness.restrictions import ClaimGate, ProcessRestrictions, sees_windows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from apache_beam.coders import WindowedValueCoder

    from sparkdrain.concurrency.settings import AsyncStep
    from sparkdrain.harness.compiled.steps import Steps
    from sparkdrain.harness.compiled.tracker import StepTracker
    from sparkdrain.harness.concurrent.loop import SlotLoop
    from sparkdrain.harness.harness import Carrier, StateTerms, Writer

Consumers = dict[str, list[Any]]


class StageFactory(BeamTransformFactory):
    """Beam's operation factory with our ends, DoFns that are loaded once, and keyed state.

    ``StageBundle`` says what its parts are.
    """

    # A copy: what we register must not reach other runners in the same process.
    _known_urns = dict(BeamTransformFactory._known_urns)  # noqa: RUF012, SLF001

    writers: Mapping[EdgeId, Writer]
    states: dict[str, KeyedState]
    dofns: dict[str, DoFnHandle]
    state_terms: Callable[[str], StateTerms]
    slot_loop: Callable[[], SlotLoop]
    carriers: Mapping[TransformId, Carrier]
    flight_bytes: int
    entry: Callable[[str], Any]
    """What the producers of a transform see of it."""
    tracker: StepTracker
    steps: Steps | None
    async_steps: Mapping[str, AsyncStep]

    def main_input_coder(
        self, proto: beam_runner_api_pb2.PTransform, payload: Any
    ) -> WindowedValueCoder:
        """The windowed coder of the input that is not a side input."""
        (pcollection,) = (p for tag, p in proto.inputs.items() if tag not in payload.side_inputs)
        return self.get_windowed_coder(pcollection)

    def chain_of_results(self, transform_id: str) -> LazyChain | None:
        """The chain for what a DoFn makes that others call than Beam; None: Beam must see it."""
        step = None if self.steps is None else self.steps.results(transform_id)
        return None if step is None else LazyChain(step, self)


@StageFactory.register_urn(urns.SOURCE, None)
def create_source(
    factory: StageFactory,
    transform_id: str,
    proto: beam_runner_api_pb2.PTransform,
    payload: bytes,
    consumers: Consumers,
) -> Any:
    """The source of an edge, or of an impulse."""
    targets = [op for ops in consumers.values() for op in ops]
    return SourceOperation(
        name_context(transform_id, proto),
        factory.counter_factory,
        factory.state_sampler,
        targets,
        factory.get_only_output_coder(proto),
    )


@StageFactory.register_urn(urns.SINK, None)
def create_sink(
    factory: StageFactory,
    transform_id: str,
    proto: beam_runner_api_pb2.PTransform,
    payload: bytes,
    consumers: Consumers,
) -> Any:
    """The sink of an edge."""
    return SinkOperation(
        name_context(transform_id, proto),
        factory.counter_factory,
        factory.state_sampler,
        factory.writers[EdgeId(int(proto.spec.payload))],
    )


@StageFactory.register_urn(urns.PAR_DO, beam_runner_api_pb2.ParDoPayload)
def create_par_do(
    factory: StageFactory,
    transform_id: str,
    proto: beam_runner_api_pb2.PTransform,
    payload: beam_runner_api_pb2.ParDoPayload,
    consumers: Consumers,
) -> Any:
    """A ParDo; a stateful one gets its state from the store beside it."""
    chosen = factory.async_steps.get(proto.unique_name)
    handle = load_dofn(factory, transform_id, proto, payload, chosen)
    factory.dofns[transform_id] = handle
    context = None
    if handle.has_state:
        coder = factory.main_input_coder(proto, payload)
        terms = factory.state_terms(transform_id)
        context = KeyedState(transform_id, handle.dofn, coder.window_coder, terms)
        factory.states[transform_id] = context
    tags = list(proto.outputs)
    coders = factory.get_output_coders(proto)
    spec = operation_specs.WorkerDoFn(
        serialized_fn=handle.serialized,
        output_tags=tags,
        input=None,
        side_inputs=None,
        output_coders=[coders[tag] for tag in tags],
    )
    kind: Any = ConcurrentOperation if context is None else KeyedOperation
    if handle.concurrent is None:
        kind = operations.DoOperation
    operation = kind(
        name_context(transform_id, proto),
        spec,
        factory.counter_factory,
        factory.state_sampler,
        handle.side_inputs,
        context,
    )
    if handle.concurrent is not None:
        parts = handle.concurrent, handle, lambda: factory.chain_of_results(transform_id)
        carrier = factory.carriers.get(TransformId(transform_id))
        if context is not None:
            operation.prepare(
                *parts, factory.slot_loop(), carrier, context, most_bytes=factory.flight_bytes
            )
        else:
            operation.prepare(
                *parts,
                event_loop(),
                carrier,
                most_bytes=factory.flight_bytes,
                size_of=_sizes(factory.main_input_coder(proto, payload)),
            )
    return factory.augment_oldstyle_op(operation, proto.unique_name, consumers, tags)


def _sizes(coder: WindowedValueCoder) -> Callable[[Any], int]:
    """Tells about how many bytes elements take."""
    impl = coder.get_impl()

    def size_of(element: Any) -> int:
        try:
            size: int = impl.estimate_size(element)
        except Exception:  # noqa: BLE001 - between two steps of a stage nothing has to be encoded
            return sys.getsizeof(element.value)
        return size

    return size_of


@StageFactory.register_urn(urns.PROCESS_RESTRICTIONS, beam_runner_api_pb2.ParDoPayload)
def create_process_restrictions(
    factory: StageFactory,
    transform_id: str,
    proto: beam_runner_api_pb2.PTransform,
    payload: beam_runner_api_pb2.ParDoPayload,
    consumers: Consumers,
) -> Any:
    """The part of a splittable DoFn that calls ``process``."""
    handle = factory.dofns[transform_id] = load_dofn(factory, transform_id, proto, payload)
    gate = ClaimGate()
    gate.stand_before(handle.dofn)
    fn, kind = handle.serialized, ProcessRestrictions
    operation = create_pardo_operation(
        factory, transform_id, proto, consumers, fn, payload, operation_cls=kind
    )
    operation.claims = gate
    operation.by_window = bool(payload.side_inputs) or sees_windows(handle.dofn)
    return operation


@StageFactory.register_urn(urns.IMPULSE_READ, beam_runner_api_pb2.ReadPayload)
def create_read_from_impulse(
    factory: StageFactory,
    transform_id: str,
    proto: beam_runner_api_pb2.PTransform,
    payload: beam_runner_api_pb2.ReadPayload,
    consumers: Consumers,
) -> Any:
    """A bounded source that is read as a whole."""
    return ReadFromImpulse(
        name_context(transform_id, proto),
        factory.counter_factory,
        factory.state_sampler,
        consumers,
        BoundedSource.from_runner_api(payload.source, factory.context),
        factory.get_only_output_coder(proto),
    )


for _urn, _create in COMBINES.items():
    StageFactory.register_urn(_urn, beam_runner_api_pb2.CombinePayload)(_create)
