"""What becomes of restrictions when the job is drained: a finite part of each, or nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sparkdrain.harness.beam import common
from sparkdrain.notes import add_note

if TYPE_CHECKING:
    from sparkdrain.rounds.sources.line import Arrivals
    from sparkdrain.rounds.sources.residuals import Residual


class Truncation:
    """Calls ``RestrictionProvider.truncate`` of one splittable DoFn.

    By default a bounded restriction is kept whole, and of an unbounded one nothing. Only None
    means nothing: a restriction that is false is one all the same.

    Args:
        dofn: the DoFn.
        name_context: tells the step in an error.
    """

    def __init__(self, dofn: Any, name_context: Any) -> None:
        self._provider = common.DoFnSignature(dofn).get_restriction_provider()
        self.name_context = name_context

    def of(self, residual: Residual) -> Residual | None:
        """What is to be processed of a restriction that was never truncated, if anything is.

        Raises:
            Exception: what ``truncate`` raises; a note tells the element.
            ValueError: the size of what is left is below zero.
        """
        windowed = residual.element
        (element, (restriction, estimator_state)), _ = windowed.value
        try:
            left = self._provider.truncate(element, restriction)
            if left is None:
                return None
            size = self._provider.restriction_size(element, left)
        except Exception as error:
            note = f"while truncating {restriction!r} of {element!r}, to drain the job"
            add_note(error, note)
            raise
        if size < 0:
            message = (
                f"Expected size >= 0 but received {size} for {left!r}, a truncated restriction."
            )
            raise ValueError(message)
        value = ((element, (left, estimator_state)), size)
        return replace(residual, element=windowed.with_value(value))


class TruncatedArrivals:
    """New restrictions, each of them truncated when it is its turn.

    Args:
        arrivals: as they came.
        truncation: of their DoFn.
    """

    def __init__(self, arrivals: Arrivals, truncation: Truncation) -> None:
        self._arrivals = arrivals
        self._truncation = truncation

    def __bool__(self) -> bool:
        return bool(self._arrivals)

    def __len__(self) -> int:
        return len(self._arrivals)

    def pop(self) -> Residual | None:
        """Take out the first one of which something is left."""
        while (residual := self._arrivals.pop()) is not None:
            truncated = self._truncation.of(residual)
            if truncated is not None:
                return truncated
        return None
