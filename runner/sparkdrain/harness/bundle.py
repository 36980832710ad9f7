"""One bundle of one stage, run in this process by Beam's own operations."""

from __future__ import annotations

import collections
import contextlib
from typing import TYPE_CHECKING, Any

from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2, metrics_pb2

from sparkdrain.graph import urns
from sparkdrain.harness.beam import (
    BundleProcessor,
    ExecutionContext,
    MetricsContainer,
    memoize,
    proto_utils,
    statesampler,
    taken_finalizers,
)
from sparkdrain.harness.compiled.operation import chain_of_results, compile_from, compile_results
from sparkdrain.harness.compiled.times import StepTimes
from sparkdrain.harness.compiled.tracker import StepTracker
from sparkdrain.harness.dofn import not_remembered
from sparkdrain.harness.factory import StageFactory
from sparkdrain.harness.operations import ProcessRestrictions
from sparkdrain.harness.stateful import stateful_calls
from sparkdrain.harness.step_name import raise_named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sparkdrain.graph.plan import EdgeId, Stage, TransformId
    from sparkdrain.harness.drain_hook import DrainHook
    from sparkdrain.harness.factory import MakeState
    from sparkdrain.harness.operations import SourceOperation, Writer
    from sparkdrain.harness.stateful import StatefulCalls
    from sparkdrain.harness.step_book import StepBook


class StageBundle(BundleProcessor):
    """Runs the transforms of a stage over the elements that are fed into its sources.

    Order of calls: ``start``, feeds to the sources, ``finish``; ``teardown`` in every case.
    """

    def __init__(
        self,
        stage: Stage,
        components: beam_runner_api_pb2.Components,
        writers: Mapping[EdgeId, Writer],
        state_handler: Any,
        make_state: MakeState,
        *,
        compiled: bool,
        changing_side_inputs: bool = False,
        book: StepBook | None = None,
    ) -> None:
        self._book = book
        self._stage = stage
        self._writers = writers
        self._make_state = make_state
        self._compile = compiled
        self._calls: dict[str, StatefulCalls | None] = {}
        self.states: dict[str, Any] = {}
        self.dofns: dict[str, Any] = {}
        self._context: Any = None
        self._times = StepTimes(lambda: None)
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
        factory.states = self.states
        factory.dofns = self.dofns
        factory.make_state = self._make_state
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
            if not self._compile:
                return op
            return compile_from(transform_id, operation, consumers, factory, descriptor) or op

        factory.entry = entry
        factory.tracker = StepTracker(self.state_sampler, self._book)
        order = _consumers_first(descriptor, consumers)
        made = [(id_, operation(id_)) for id_ in order]
        for id_, op in made if self._compile else ():
            if isinstance(op, ProcessRestrictions):
                op.emission = compile_results(id_, operation, consumers, factory, descriptor)
        if self._book is not None:
            for id_, handle in self.dofns.items():
                self._book.dofn(handle.dofn, operation(id_).name_context.step_name)
        return collections.OrderedDict(reversed(made))

    def source(self, transform_id: TransformId) -> SourceOperation:
        """The operation that takes in the elements of a source."""
        return self.ops[transform_id]

    def stateful_calls(self, source: TransformId, transform: TransformId) -> StatefulCalls | None:
        """The calls of a stateful DoFn behind a source; None if Beam makes them."""
        if not self._compile:
            return None
        if transform not in self._calls:
            operation, handle = self.ops[transform], self.dofns[transform]
            context = self.states[transform]
            chain = chain_of_results(transform, self.factory)
            found = stateful_calls(self.ops[source], operation, handle, context, chain)
            self._calls[transform] = found
        return self._calls[transform]

    def start(self) -> None:
        """Start the bundle: ``start_bundle`` of every DoFn."""
        self.state_sampler.start()
        self._times = StepTimes(self.factory.tracker.look)
        if self._compile:
            self._times.start()
        self._start_operations()

    def _start_operations(self) -> None:
        self._context = ExecutionContext()
        for op in reversed(self.ops.values()):
            op.execution_context = self._context
            op.start()

    def enter(self) -> None:
        """Make this bundle the one to which metrics and logs of this thread belong."""
        statesampler.set_current_tracker(self.tracker)

    @property
    def tracker(self) -> Any:
        """What Beam's metrics ask for the present step."""
        return self.factory.tracker if self._compile else self.state_sampler

    def at_work(self) -> tuple[str, bytes | None]:
        """The step whose code runs, or "", and the encoded key that it has, or None if not known.

        For another thread: nothing that is told needs to be true any more.
        """
        name = getattr(self.tracker.current_state(), "name_context", None)
        if name is None:
            return "", None
        context = self.states.get(name.transform_id)
        return name.step_name, None if context is None else context.key_at_work()

    def take_residuals(self) -> list[tuple[Any, Any]]:
        """Restrictions that were deferred since the last call, each with its operation."""
        residuals = self._context.delayed_applications
        self._context.delayed_applications = []
        return residuals

    def drain_hooks(self) -> list[DrainHook]:
        """Of those DoFns that want to know when they are drained."""
        return [handle.hook for handle in self.dofns.values() if handle.hook is not None]

    def tell_more(self, transform: TransformId, *, more: bool) -> None:
        """Tell a DoFn whether further elements are safe; see ``StableParDo``."""
        handle = self.dofns.get(transform)
        told = None if handle is None else getattr(handle.dofn, "more_is_safe", None)
        if told is not None:
            told(more)

    def finish(self) -> None:
        """End the bundle: ``finish_bundle`` of every DoFn.

        Raises:
            Exception: of user code, or it has used state there, where no key has its turn.
        """
        for context in self.states.values():
            context.rest()
        for op in self.ops.values():
            op.finish()
        for transform_id, context in self.states.items():
            try:
                context.check_turn_is_over()
            except RuntimeError as error:
                raise_named(error, self.ops[transform_id].name_context)

    def restart(self) -> None:
        """End the bundle and start the next one, on the same DoFns.

        Nothing of a bounded job is durable before its end, so finalizers run as late as they can
        without keeping those waiting who depend on them: between two bundles.
        """
        self.finish()
        self.finalize()
        self._start_operations()

    def resume(self) -> None:
        """Start the next bundle on the same DoFns; the one before was finished."""
        self._start_operations()

    def forget_side_inputs(self) -> None:
        """What side inputs are is read anew; no finalizer of their readers may wait."""
        for transform in {side.transform for side in self._stage.side_inputs}:
            _reset(self.ops[transform])

    def infos(self) -> list[metrics_pb2.MonitoringInfo]:
        """All metrics of the bundle."""
        return self._times.shared_out(self.monitoring_infos())

    @property
    def needs_finalization(self) -> bool:
        """Whether there are callbacks that wait for the bundle to be committed."""
        return any(op.needs_finalization() for op in self.ops.values())

    def finalize(self) -> None:
        """Run the callbacks that wait for the bundle to be committed."""
        for op in self.ops.values():
            if op.needs_finalization():
                op.finalize_bundle()
                _reset(op)

    def take_finalizers(self) -> list[tuple[str, Callable[[], object]]]:
        """The callbacks that wait for the bundle to be committed; the caller runs them.

        Returns:
            (transform id, callback) pairs.
        """
        taken = []
        for id_, op in self.ops.items():
            if op.needs_finalization():
                with taken_finalizers() as callbacks:
                    op.finalize_bundle()
                _reset(op)
                taken += [(id_, callback) for callback in callbacks]
        return taken

    def teardown(self) -> None:
        """Tear all DoFns down; errors of one do not keep the others from it."""
        # First: what comes below may fail, and threads would go on for ever.
        self._times.stop()
        self._stop_sampling()
        error: Exception | None = None
        for op in self.ops.values():
            try:
                op.teardown()
            except Exception as failure:  # noqa: BLE001 - the first is raised below
                error = error or failure
        for context in self.states.values():
            context.close()
        for handle in self.dofns.values():
            handle.close()
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
    counted, op.metrics_container = op.metrics_container, MetricsContainer(None)
    op.reset()
    op.metrics_container = counted


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


def _consumers_first(
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor, consumers: dict[str, list[str]]
) -> list[str]:
    """All transforms, each behind those that take its outputs; chains may be of any length."""
    ordered: list[str] = []
    seen: set[str] = set()
    pending = [(id_, False) for id_ in descriptor.transforms]
    while pending:
        id_, expanded = pending.pop()
        if expanded:
            ordered.append(id_)
        elif id_ not in seen:
            seen.add(id_)
            pending.append((id_, True))
            for pcollection in descriptor.transforms[id_].outputs.values():
                pending.extend((consumer, False) for consumer in consumers[pcollection])
    return ordered
