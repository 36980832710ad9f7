"""What a splittable DoFn yields goes into a compiled chain, past Beam's output handler.

Beam still calls ``process``, tracks the restriction and takes splits; it only sees no results.
"""

from __future__ import annotations

import functools
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from apache_beam.io.watermark_estimators import (
    ManualWatermarkEstimator,
    MonotonicWatermarkEstimator,
    WalltimeWatermarkEstimator,
)
from apache_beam.transforms.core import DoFn, get_function_arguments

from sparkdrain.harness.compiled.chain import LazyChain
from sparkdrain.harness.compiled.generate import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.harness.compiled.steps import Step

# Counters follow after so many elements, however long a restriction takes.
_AT_ONCE: Final = 4096
_END: Final = object()
# They do not look at what is made.
_BLIND: Final = (ManualWatermarkEstimator, WalltimeWatermarkEstimator)


class Emission:
    """Takes the place of a DoFn's ``process``.

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
