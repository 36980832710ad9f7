"""A compiled chain as an operation among Beam's."""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING, Any

from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import TimestampedValue, WindowedValue

from sparkdrain.harness.beam import operations
from sparkdrain.harness.compiled.generate import Chain, Emitter, generate
from sparkdrain.harness.compiled.steps import Step, recognise
from sparkdrain.harness.compiled.windowing import WindowAssigner
from sparkdrain.harness.sampling import size_sampler

if TYPE_CHECKING:
    from collections.abc import Callable


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
        step = recognise(transform_id, proto, operation, self._factory)
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

    def operation(self, transform_id: str) -> Any:
        """Beam's operation for a transform."""
        return self._operation(transform_id)


def _wants_batches(operation: Any) -> bool:
    return bool(operation.get_batching_preference().supports_batches)


def compile_from(
    transform_id: str, operation: Any, consumers: Any, factory: Any, descriptor: Any
) -> CompiledOperation | None:
    """The compiled chain that starts at a transform, or None if that is not simple."""
    if factory.steps is None:
        factory.steps = Steps(operation, consumers, factory, descriptor)
    step = factory.steps[transform_id]
    if step is None or step.is_last:
        return None
    return CompiledOperation(step, factory)


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
        self._step = step
        self._factory = factory
        self._chain: Chain | None = None
        self._run: Callable[[Any, Any], None] | None = None
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
        run = self._run or self._compile()
        try:
            with self._state:
                run((windowed_value.value,), context)
        except Exception as error:  # noqa: BLE001 - raised again, with the step's name
            self._reraise(error)

    def process_values(self, values: Any, context: Any) -> None:
        """Process elements that share a context."""
        run = self._run or self._compile()
        try:
            with self._state:
                run(values, context)
        except Exception as error:  # noqa: BLE001 - raised again, with the step's name
            self._reraise(error)

    def _compile(self) -> Callable[[Any, Any], None]:
        steps = self._factory.steps
        emitter = Emitter(
            step_of=lambda id_: steps[id_],
            leave=lambda id_: self._factory.entry(id_).process,
            counter=_counter,
            sizer=_sizer,
            unwrap=_Unwrap,
        )
        self._chain = generate(self._step, emitter)
        self._factory.tracker.add(self._chain)
        self._run = self._chain.run
        return self._run

    def _reraise(self, error: Exception) -> None:
        """Name the step in the error as Beam does, once."""
        step = self._failed_step(error)
        if step is None or getattr(error, "_tagged_with_step", False):
            raise error
        annotation = f" [while running '{step.operation.name_context.logging_name()}']"
        try:
            new: Any = type(error)(error.args[0] + annotation, *error.args[1:])
            new._tagged_with_step = True  # noqa: SLF001
        except Exception:  # noqa: BLE001 - user exceptions may be made in any way
            text = traceback.format_exception_only(type(error), error)[-1].strip()
            new = RuntimeError(text + annotation)
            new._tagged_with_step = True  # noqa: SLF001
        raise new.with_traceback(sys.exc_info()[2])

    def _failed_step(self, error: Exception) -> Step | None:
        if self._chain is None:
            return None
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code is self._chain.code:
                return self._chain.lines.get(trace.tb_lineno)
            trace = trace.tb_next
        return None


def _counter(step: Step) -> Callable[[int], None] | None:
    receivers = step.operation.receivers
    if not receivers:
        return None
    index = _main_index(step)
    return None if index is None else receivers[index].opcounter.element_counter.update


def _sizer(step: Step) -> Callable[[Any, Any], None] | None:
    index = _main_index(step)
    return None if index is None else size_sampler(step.operation.receivers[index])


def _main_index(step: Step) -> int | None:
    tags = getattr(step.operation.spec, "output_tags", None)
    if tags is None or len(tags) == 1:
        return 0
    return tags.index("None") if "None" in tags else None


class _Unwrap:
    """Takes a tagged, timestamped or windowed result apart, as Beam's operations do."""

    def __init__(self, step: Step) -> None:
        operation = step.operation
        self._assign = WindowAssigner(step.windowfn)
        tags = operation.spec.output_tags
        self._receivers = dict(zip(tags, operation.receivers, strict=False))
        index = _main_index(step)
        self._main = None if index is None else tags[index]

    def __call__(self, result: Any, context: Any) -> tuple[Any, Any]:
        """Value and context for the main output, or no context: it went to another output."""
        if type(result) is not TaggedOutput:
            return self._windowed(result, context)
        if not isinstance(result.tag, str):
            msg = f"In a TaggedOutput the tag must be a string, not {type(result.tag)}"
            raise TypeError(msg)
        value, context = self._windowed(result.value, context)
        if result.tag == self._main:
            return value, context
        receiver = self._receivers.get(result.tag)
        if receiver is not None:
            receiver.receive(context.with_value(value))
        return None, None

    def _windowed(self, result: Any, context: Any) -> tuple[Any, Any]:
        times = len(context.windows)
        if isinstance(result, TimestampedValue):
            context = self._assign.at(result.timestamp, result.value)
            result = result.value
        elif isinstance(result, WindowedValue):
            context, result = result, result.value
        else:
            return result, context
        if times != 1:
            windows = list(context.windows) * times
            context = WindowedValue(None, context.timestamp, windows, context.pane_info)
        return result, context
