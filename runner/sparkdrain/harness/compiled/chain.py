"""A chain that is generated when it first runs, and what has elements go into it.

That is an operation among Beam's, or a splittable DoFn whose results go past Beam's output handler.
"""

from __future__ import annotations

import functools
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, NoReturn

from apache_beam.io.watermark_estimators import (
    ManualWatermarkEstimator,
    MonotonicWatermarkEstimator,
    WalltimeWatermarkEstimator,
)
from apache_beam.transforms.core import DoFn, get_function_arguments

from sparkdrain.harness.beam import operations
from sparkdrain.harness.compiled.generate import Chain, Emitter, generate, refuse
from sparkdrain.harness.compiled.steps import StepKind
from sparkdrain.harness.step_name import raise_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.harness.compiled.steps import Step

# Counters follow after so many elements, however long a restriction takes.
_AT_ONCE: Final = 4096
_END: Final = object()
# They do not look at what is made.
_BLIND: Final = (ManualWatermarkEstimator, WalltimeWatermarkEstimator)


class LazyChain:
    """A step and everything behind it; names the step in errors.

    Args:
        factory: the maker of the stage's operations.
        observe: see ``Emitter``.
    """

    def __init__(
        self,
        step: Step,
        factory: Any,
        observe: Callable[[], Callable[[Any], None] | None] | None = None,
    ) -> None:
        self._step = step
        self._factory = factory
        self._observe = observe
        self._chain: Chain | None = None
        self.checks_results = step.checks_results
        """Whether a string or dict instead of an iterable of results is an error."""
        self.run: Callable[[Any, Any], None] = self._run_first
        """Runs values through the chain that share a context."""

    def _run_first(self, values: Any, context: Any) -> None:
        # Only now all operations are set up, from which counters come.
        emitter = Emitter(self._factory.steps, self._factory.entry, self._observe)
        self._chain = generate(self._step, emitter)
        self._factory.tracker.add(self._chain)
        self.run = self._chain.run
        self.run(values, context)

    def reraise(self, error: BaseException) -> NoReturn:
        """Name the step in an error that ``run`` raised, as Beam does, once."""
        step = self._failed_step(error)
        if step is None:
            raise error
        raise_named(error, step.operation.name_context)

    def _failed_step(self, error: BaseException) -> Step | None:
        """The step whose user code failed, or whose result could not be handed on."""
        first = self._step if self._step.kind is StepKind.RESULTS else None
        if self._chain is None:
            return first
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code is self._chain.code:
                line, chain = trace.tb_lineno, self._chain
                return chain.lines.get(line) or chain.leaving.get(line, first)
            trace = trace.tb_next
        return first


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


class Emission:
    """Takes the place of a DoFn's ``process``, whose results go into a chain.

    Beam still calls it, tracks the restriction and takes splits; Beam only sees no results.

    Args:
        step: what the DoFn makes, see ``StepKind.RESULTS``.
        factory: the maker of the stage's operations.
        dofn: the DoFn, which is its operation's alone.
    """

    def __init__(self, step: Step, factory: Any, dofn: Any) -> None:
        self._checks_results = step.checks_results
        self._estimator_name = _estimator_name(dofn)
        self._observe: Callable[[Any], None] | None = None
        self._chain = LazyChain(step, factory, lambda: self._observe)
        self._process = dofn.process
        self.context: Any = None
        """Time, windows and pane of the element being processed; None: Beam takes the results."""

        @functools.wraps(self._process)
        def process(*args: Any, **kwargs: Any) -> Any:
            return self._emit(args, kwargs)

        dofn.process = process

    def _emit(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        results = self._process(*args, **kwargs)
        if self.context is None or results is None:
            return results
        if self._checks_results and isinstance(results, str | bytes | dict):
            refuse(results)
        self._observe = _observer(kwargs.get(self._estimator_name))
        values = iter(results)
        while (first := next(values, _END)) is not _END:
            some = chain((first,), islice(values, _AT_ONCE))
            try:
                self._chain.run(some, self.context)
            except BaseException as error:  # noqa: BLE001 - raised again, with the step's name
                self._chain.reraise(error)
        return None


def _estimator_name(dofn: Any) -> str:
    names, defaults = get_function_arguments(dofn, "process")
    for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
        if isinstance(default, DoFn.WatermarkEstimatorParam):
            return str(name)
    return ""


def _observer(estimator: Any) -> Callable[[Any], None] | None:
    """What tells a watermark estimator, as ``process`` has it, of every context of a result."""
    if estimator is None:
        return None
    kind = type(estimator._watermark_estimator)  # noqa: SLF001
    if kind in _BLIND:
        return None
    observe = estimator.observe_timestamp
    if kind is not MonotonicWatermarkEstimator:
        return lambda context: observe(context.timestamp)
    last: int | None = None

    def observe_once(context: Any) -> None:
        nonlocal last
        micros = context.timestamp_micros
        if micros != last:
            last = micros
            observe(context.timestamp)

    return observe_once
