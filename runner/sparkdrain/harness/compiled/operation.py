"""A compiled chain as an operation among Beam's."""

from __future__ import annotations

from typing import Any

from sparkdrain.harness.beam import operations
from sparkdrain.harness.compiled.chain import LazyChain
from sparkdrain.harness.compiled.emission import Emission
from sparkdrain.harness.compiled.steps import Step, recognise, results_of


class Steps:
    """The steps of a stage: each transform is looked at once."""

    def __init__(self, operation: Any, consumers: Any, factory: Any, descriptor: Any) -> None:
        self._operation = operation
        self._consumers = consumers
        self._factory = factory
        self._descriptor = descriptor
        self._steps: dict[str, Step | None] = {}

    def __getitem__(self, transform_id: str) -> Step | None:
        if transform_id not in self._steps:
            self._steps[transform_id] = self._recognise(transform_id)
        return self._steps[transform_id]

    def _recognise(self, transform_id: str) -> Step | None:
        proto = self._descriptor.transforms[transform_id]
        operation = self._operation(transform_id)
        return self._followed(recognise(transform_id, proto, operation, self._factory), proto)

    def results(self, transform_id: str) -> Step | None:
        """What a splittable DoFn makes, as the first step of a chain."""
        operation, handle = self._operation(transform_id), self._factory.dofns[transform_id]
        step = results_of(transform_id, operation, handle)
        return self._followed(step, self._descriptor.transforms[transform_id])

    def _followed(self, step: Step | None, proto: Any) -> Step | None:
        """``step`` with those behind it, if it can hand elements to them."""
        if step is None or step.is_last:
            return step
        tags = list(proto.outputs)
        main = tags[0] if len(tags) == 1 else "None"
        if main in proto.outputs:
            step.output = proto.outputs[main]
            step.consumers = self._consumers[step.output]
        if any(_wants_batches(self._operation(id_)) for id_ in step.consumers):
            return None
        return step


def _wants_batches(operation: Any) -> bool:
    return bool(operation.get_batching_preference().supports_batches)


def compile_from(
    transform_id: str, operation: Any, consumers: Any, factory: Any, descriptor: Any
) -> CompiledOperation | None:
    """The compiled chain that starts at a transform, or None if that is not simple."""
    step = _steps(operation, consumers, factory, descriptor)[transform_id]
    if step is None or step.is_last:
        return None
    return CompiledOperation(step, factory)


def compile_results(
    transform_id: str, operation: Any, consumers: Any, factory: Any, descriptor: Any
) -> Emission | None:
    """The chain for what a splittable DoFn makes, which it makes for it from now on; or None.

    Call it before the DoFn's operation is set up.
    """
    step = _steps(operation, consumers, factory, descriptor).results(transform_id)
    return None if step is None else Emission(step, factory, factory.dofns[transform_id].dofn)


def chain_of_results(transform_id: str, factory: Any) -> LazyChain | None:
    """The chain for what a DoFn makes, if others call it than Beam; or None."""
    steps: Steps | None = factory.steps
    step = None if steps is None else steps.results(transform_id)
    return None if step is None else LazyChain(step, factory)


def _steps(operation: Any, consumers: Any, factory: Any, descriptor: Any) -> Steps:
    if factory.steps is None:
        factory.steps = Steps(operation, consumers, factory, descriptor)
    steps: Steps = factory.steps
    return steps


class CompiledOperation(operations.Operation):
    """Does what the operation of its first step and all behind it would do.

    Only producers see it. Life cycle and metrics stay with the operations it stands for, which
    also run what a chain does not: tagged results, and what DoFns yield when a bundle ends.
    """

    def __init__(self, step: Step, factory: Any) -> None:
        operation = step.operation
        super().__init__(
            operation.name_context, None, factory.counter_factory, factory.state_sampler
        )
        self._chain = LazyChain(step, factory)
        self._state = operation.scoped_process_state
        self._context: Any = None

    def process(self, windowed_value: Any) -> None:
        """Process one element."""
        context = self._context
        if (
            context is None
            or context.timestamp_micros != windowed_value.timestamp_micros
            or context.windows is not windowed_value.windows
            or context.pane_info is not windowed_value.pane_info
        ):
            self._context = context = windowed_value
        chain = self._chain
        try:
            with self._state:
                chain.run((windowed_value.value,), context)
        except BaseException as error:  # noqa: BLE001 - raised again, with the step's name
            chain.reraise(error)

    def process_values(self, values: Any, context: Any) -> None:
        """Process elements that share a context."""
        chain = self._chain
        try:
            with self._state:
                chain.run(values, context)
        except BaseException as error:  # noqa: BLE001 - raised again, with the step's name
            chain.reraise(error)
