"""The harness in this process: a stage, run by Beam's own operations and generated code."""

from __future__ import annotations

import collections
import contextlib
from typing import TYPE_CHECKING, Any, Final

from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2, metrics_pb2
from typing_extensions import override

from sparkdrain.harness.beam import (
    BundleProcessor,
    ExecutionContext,
    MetricsContainer,
    statesampler,
    taken_finalizers,
)
from sparkdrain.harness.compiled.tracker import StepTimes, StepTracker
from sparkdrain.harness.concurrent.loop import SlotLoop
from sparkdrain.harness.concurrent.operation import ConcurrentOperation
from sparkdrain.harness.dofn import not_remembered
from sparkdrain.harness.factory import StageFactory
from sparkdrain.harness.harness import Harness
from sparkdrain.harness.keyed.due import StatefulDoFn
from sparkdrain.harness.keyed.inlet import CalledInlet
from sparkdrain.harness.keyed.operation import KeyedOperation
from sparkdrain.harness.operations import counted
from sparkdrain.harness.process_metrics import taken
from sparkdrain.harness.restrictions import OperatedRestrictions, remainder
from sparkdrain.harness.stateful import beam_timers, stateful_calls
from sparkdrain.harness.step_name import raise_named
from sparkdrain.harness.tree import made_operations
from sparkdrain.metrics.merge import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sparkdrain.concurrency.settings import AsyncStep
    from sparkdrain.graph.plan import EdgeId, Stage, TransformId
    from sparkdrain.harness.dofn import DoFnHandle
    from sparkdrain.harness.harness import Carrier, KeyedEdge, Remainder, StateTerms, Writer
    from sparkdrain.harness.keyed_state import KeyedState
    from sparkdrain.harness.operations import SourceOperation
    from sparkdrain.harness.step_book import Frame, StepBook

# What Beam puts before the name that a user has given to a timer.
_TIMER: Final = "ts-"


class StageBundle(BundleProcessor, Harness):
    """Runs the transforms of a stage by Beam's operations, or by generated code in their place.

    Args:
        writers: what takes the elements of each edge out of the stage.
        state_handler: answers what DoFns ask for side inputs.
        state_terms: where each stateful DoFn has its state, by transform id.
        changing_side_inputs: whether a side input may change after it was ready.
        book: where lines of code are noted with their steps.
        async_steps: by name of a step, what an option says of how it waits.
        carriers: by transform, what keeps elements that are in flight beyond a bundle.
        flight_bytes: what the elements of one step may take that are in flight.
    """

    def __init__(
        self,
        stage: Stage,
        components: beam_runner_api_pb2.Components,
        writers: Mapping[EdgeId, Writer],
        state_handler: Any,
        state_terms: Callable[[str], StateTerms],
        *,
        compiled: bool,
        changing_side_inputs: bool = False,
        book: StepBook | None = None,
        async_steps: Mapping[str, AsyncStep] | None = None,
        carriers: Mapping[TransformId, Carrier] | None = None,
        flight_bytes: int,
    ) -> None:
        self._flight_bytes = flight_bytes
        self._book = book
        self._async_steps = async_steps or {}
        self._carriers = carriers or {}
        self._stage = stage
        self._writers = writers
        self._state_terms = state_terms
        self._compile = compiled
        self._keyed: dict[TransformId, CalledInlet] = {}
        self._states: dict[str, KeyedState] = {}
        self._dofns: dict[str, DoFnHandle] = {}
        self._slot_loop: SlotLoop | None = None
        self._context: Any = None
        self._times = StepTimes(lambda: None)
        self._of_process = Tally()
        self._is_open = False
        self._told: list[metrics_pb2.MonitoringInfo] | None = None
        self.ops: collections.OrderedDict[str, Any] = collections.OrderedDict()
        try:
            with not_remembered() if changing_side_inputs else contextlib.nullcontext():
                super().__init__(frozenset(), _descriptor(stage, components), state_handler, None)
        except BaseException:
            # A DoFn failed to be set up: those that were are torn down; the others fail to be.
            with contextlib.suppress(Exception):
                self.teardown()
            raise

    def create_execution_tree(
        self, descriptor: beam_fn_api_pb2.ProcessBundleDescriptor
    ) -> collections.OrderedDict[str, Any]:
        """Operations by transform id, producers before consumers."""
        self.factory = factory = StageFactory(
            self.runner_capabilities,
            descriptor,
            None,
            self.counter_factory,
            self.state_sampler,
            self.state_handler,
            None,
        )
        factory.writers = self._writers
        factory.states = self._states
        factory.dofns = self._dofns
        factory.async_steps = self._async_steps
        factory.carriers = self._carriers
        factory.flight_bytes = self._flight_bytes
        factory.state_terms = self._state_terms
        factory.slot_loop = self._open_slot_loop
        factory.tracker = StepTracker(self.state_sampler, self._book)
        operations = made_operations(descriptor, factory, compiled=self._compile)
        if self._book is not None:
            for id_, handle in self._dofns.items():
                self._book.dofn(handle.dofn, operations[id_].name_context.step_name)
        return operations

    def _open_slot_loop(self) -> SlotLoop:
        if self._slot_loop is None:
            self._slot_loop = SlotLoop()
        return self._slot_loop

    @override
    def inlet(self, source: TransformId) -> SourceOperation:
        return self.ops[source]

    @override
    def keyed(self, edge: KeyedEdge) -> CalledInlet:
        inlet = self._keyed.get(edge.source)
        if inlet is None:
            source = self.inlet(edge.source)
            using = [id_ for id_ in edge.stateful if id_ in self._states]
            dofns = {id_: self._stateful_dofn(source, id_) for id_ in using}
            inlet = self._keyed[edge.source] = CalledInlet(edge, source, dofns)
        return inlet

    def _stateful_dofn(self, source: SourceOperation, transform: TransformId) -> StatefulDoFn:
        operation, context = self.ops[transform], self._states[transform]
        handle, calls = self._dofns[transform], None
        if self._compile and handle.concurrent is None:
            chain = self.factory.chain_of_results(transform)
            calls = stateful_calls(source, operation, handle, context, chain)
        by_beam = beam_timers(operation.process_timer, context.timers)
        timers = by_beam if calls is None else calls.timers
        flight = operation if isinstance(operation, KeyedOperation) else None
        return StatefulDoFn(context, calls, timers, flight)

    @override
    def restrictions(self, source: TransformId, transform: TransformId) -> OperatedRestrictions:
        feed, dofn = self.inlet(source).feed_windowed, self._dofns[transform].dofn
        return OperatedRestrictions(transform, self.ops[transform], dofn, feed, self.take_deferred)

    @override
    def start(self) -> None:
        if not self.state_sampler.started:
            self.state_sampler.start()
            self._times = StepTimes(self.factory.tracker.look)
            if self._compile:
                self._times.start()
        self.enter()
        self._is_open, self._told = True, None
        self._context = ExecutionContext()
        for op in reversed(self.ops.values()):
            op.execution_context = self._context
            op.start()

    @override
    def enter(self) -> None:
        statesampler.set_current_tracker(self.tracker)

    @property
    def tracker(self) -> Any:
        """What Beam's metrics ask for the present step."""
        has_keys_in_flight = self._slot_loop is not None
        return self.factory.tracker if self._compile or has_keys_in_flight else self.state_sampler

    @override
    def at_work(self) -> tuple[str, bytes | None]:
        name = getattr(self.tracker.current_state(), "name_context", None)
        if name is None:
            return "", None
        op = self.ops.get(name.transform_id)
        if isinstance(op, KeyedOperation):
            return name.step_name, op.flight.key_at_work()
        context = self._states.get(name.transform_id)
        return name.step_name, None if context is None else context.key_at_work()

    @override
    def handled(self) -> int:
        return max((count for op in self.ops.values() for count in counted(op)), default=0)

    @override
    def take_deferred(self) -> list[Remainder]:
        deferred, self._context.delayed_applications = self._context.delayed_applications, []
        return [remainder(op.name_context.transform_id, left) for op, left in deferred]

    @override
    def resume(self, rest: Remainder) -> None:
        op = self.ops[rest.transform]
        if isinstance(op, ConcurrentOperation):
            op.resume(rest.element, rest.failed)
        elif isinstance(op, KeyedOperation):
            op.resume(rest.element, rest.key)
        elif (context := self._states.get(rest.transform)) is not None:
            context.begin(rest.key)
            op.process(rest.element)
            context.place.end()
        else:
            op.process(rest.element)

    @override
    def stack(self) -> Sequence[Frame]:
        at_work = getattr(self.tracker.current_state(), "name_context", None)
        op = None if at_work is None else self.ops.get(at_work.transform_id)
        return op.standing() if isinstance(op, (ConcurrentOperation, KeyedOperation)) else ()

    @override
    def land(self) -> None:
        for op in self.ops.values():
            if isinstance(op, (ConcurrentOperation, KeyedOperation)):
                op.land()

    @override
    def tell_more(self, transform: TransformId, *, more: bool) -> None:
        handle = self._dofns.get(transform)
        told = None if handle is None else getattr(handle.dofn, "more_is_safe", None)
        if told is not None:
            told(more)

    @override
    def take_refused(self) -> list[tuple[str, str, int]]:
        refused = [
            (transform, family.decode().removeprefix(_TIMER), count)
            for transform, context in self._states.items()
            for family, count in context.bound.refused.items()
        ]
        for context in self._states.values():
            context.bound.refused.clear()
        return refused

    @override
    def finish(self, *, drained: bool = False) -> None:
        hooks = [handle.hook for handle in self._dofns.values() if handle.hook is not None]
        for hook in hooks:
            hook.is_due = drained
        for context in self._states.values():
            context.rest()
        for op in self.ops.values():
            op.finish()
        for transform_id, context in self._states.items():
            try:
                context.check_turn_is_over()
            except RuntimeError as error:
                raise_named(error, self.ops[transform_id].name_context)
        self._is_open = False

    @override
    def forget_side_inputs(self) -> None:
        for transform in {side.transform for side in self._stage.side_inputs}:
            _reset(self.ops[transform])

    @override
    def infos(self) -> list[metrics_pb2.MonitoringInfo]:
        news = taken()
        for info in news:
            self._of_process.add(info)
        if self._told is not None and not news:
            return self._told
        infos = self._times.shared_out(self.monitoring_infos()) + self._of_process.infos()
        self._told = None if self._is_open else infos
        return infos

    @property
    @override
    def needs_finalization(self) -> bool:
        return any(op.needs_finalization() for op in self.ops.values())

    @override
    def finalize(self) -> None:
        for op in self.ops.values():
            if op.needs_finalization():
                op.finalize_bundle()
                _reset(op)

    @override
    def take_finalizers(self) -> list[tuple[str, Callable[[], object]]]:
        taken = []
        for id_, op in self.ops.items():
            if op.needs_finalization():
                with taken_finalizers() as callbacks:
                    op.finalize_bundle()
                _reset(op)
                taken += [(id_, callback) for callback in callbacks]
        return taken

    @override
    def acknowledgement(self, transform: str, data: str) -> Callable[[], object]:
        made: Callable[[], object] = self._dofns[transform].dofn.acknowledgement(data)
        return made

    @override
    def teardown(self) -> None:
        # First: what comes below may fail, and threads would go on for ever.
        self._times.stop()
        self._stop_sampling()
        error: Exception | None = None
        for op in self.ops.values():
            try:
                op.teardown()
            except Exception as failure:  # noqa: BLE001 - the first is raised below
                error = error or failure
        if self._slot_loop is not None:
            self._slot_loop.close()
        for context in self._states.values():
            context.close()
        for handle in self._dofns.values():
            handle.close()
        taken()  # what was counted in vain, or since the stage has told, is not the next one's
        if error is not None:
            raise error

    def _stop_sampling(self) -> None:
        """Have Beam's sampler end when it looks up next; this does not wait for that.

        It looks up every 0.2 s, and has nothing in hand but the sampler, which its thread keeps.
        """
        sampler = self.state_sampler
        if sampler.started and not sampler.finished:
            statesampler.set_current_tracker(None)
            sampler.finished = True


def _reset(op: Any) -> None:
    """Have an operation forget its finalizers, and what it knows of side inputs.

    Beam's can do that only if it also forgets all that it has counted.
    """
    metrics, op.metrics_container = op.metrics_container, MetricsContainer(None)
    op.reset()
    op.metrics_container = metrics


def _descriptor(
    stage: Stage, components: beam_runner_api_pb2.Components
) -> beam_fn_api_pb2.ProcessBundleDescriptor:
    descriptor = beam_fn_api_pb2.ProcessBundleDescriptor(id=stage.name)
    for id_, serialized in stage.transforms:
        descriptor.transforms[id_].ParseFromString(serialized)
    for name in ("windowing_strategies", "coders", "environments"):
        target = getattr(descriptor, name)
        for key, value in getattr(components, name).items():
            target[key].CopyFrom(value)
    for transform in list(descriptor.transforms.values()):
        for pcollection in (*transform.inputs.values(), *transform.outputs.values()):
            descriptor.pcollections[pcollection].CopyFrom(components.pcollections[pcollection])
    return descriptor
