"""Has a splittable DoFn process a restriction as Beam does, without a pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.runners.sdf_utils import (
    RestrictionTrackerView,
    ThreadsafeRestrictionTracker,
    ThreadsafeWatermarkEstimator,
)
from apache_beam.transforms.core import DoFn, get_function_arguments

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Turn:
    """What came of processing a restriction for a while."""

    results: list[Any]
    residual: Any
    resume: float | None
    watermark: Any
    """What the residual begins with."""
    callbacks: list[Callable[[], None]]

    def records(self) -> list[tuple[int, bytes | None]]:
        return [
            pair
            for result in self.results
            for pair in zip(result.value.offsets, result.value.values, strict=True)
        ]


class Finalizer:
    def __init__(self) -> None:
        self.callbacks: list[Callable[[], None]] = []

    def register(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)


def provider_of(dofn: Any) -> Any:
    _, defaults = get_function_arguments(dofn, "process")
    (found,) = (one for one in defaults if isinstance(one, DoFn.RestrictionParam))
    return found.restriction_provider


def process(
    dofn: Any,
    element: Any,
    restriction: Any = None,
    watermark: Any = None,
    *,
    claims: int | None = None,
    stop_after: int | None = None,
    stop_behind_claims: int | None = None,
) -> Turn:
    """One call of ``process``.

    Args:
        dofn: set up.
        element: to process.
        restriction: None for the initial one.
        watermark: what its estimator said before.
        claims: after so many, the restriction is split before the next one.
        stop_after: after so many results, it is split from outside.
        stop_behind_claims: after so many claims, it is split before the DoFn hears of the last.
    """
    provider = provider_of(dofn)
    if restriction is None:
        restriction = provider.initial_restriction(element)
    tracker = ThreadsafeRestrictionTracker(provider.create_tracker(restriction))
    estimator = ThreadsafeWatermarkEstimator(ManualWatermarkEstimator(watermark))
    left: list[Any] = []

    def interrupt() -> None:
        reached = estimator.current_watermark()  # before the split, as Beam does it
        split = tracker.try_split(0)
        if split:
            left.append((split[1], reached))

    view = RestrictionTrackerView(tracker)
    claim, count = tracker.try_claim, 0

    def gate(position: Any) -> bool:
        nonlocal count
        count += 1
        if claims is not None and count > claims:
            interrupt()
        granted = bool(claim(position))
        if count == stop_behind_claims:
            interrupt()
        return granted

    tracker.try_claim = gate
    finalizer = Finalizer()
    arguments: dict[str, Any] = {"tracker": view, "watermark": estimator}
    if "finalizer" in get_function_arguments(dofn, "process")[0]:
        arguments["finalizer"] = finalizer
    results = []
    for number, result in enumerate(dofn.process(element, **arguments), 1):
        results.append(result)
        if number == stop_after:
            interrupt()
    tracker.check_done()
    deferred = tracker.deferred_status()
    reached = estimator.current_watermark()
    residual, watermark = (deferred[0], reached) if deferred else (*left, (None, reached))[0]
    resume = deferred[1].micros / 1e6 if deferred else None
    return Turn(results, residual, resume, watermark, finalizer.callbacks)
