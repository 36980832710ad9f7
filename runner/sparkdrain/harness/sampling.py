"""Sizes of elements, estimated for a few of them, as Beam's counters do for others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_ALWAYS = 10
_GROWTH = 1.5


class SampleSchedule:
    """True at the first calls, then at fewer and fewer."""

    __slots__ = ("_calls", "_next")

    def __init__(self) -> None:
        self._calls = 0
        self._next = 1

    def __call__(self) -> bool:
        """Whether it is time for a sample."""
        self._calls += 1
        if self._calls < self._next:
            return False
        grown = self._calls if self._calls < _ALWAYS else int(self._calls * _GROWTH)
        self._next = grown + 1
        return True


def size_sampler(receiver: Any) -> Callable[[Any, Any], None] | None:
    """What adds the size of ``(value, context)`` to the counters of a receiver."""
    counters = receiver.opcounter
    impl = counters.coder_impl
    if impl is None:
        return None

    def sample(value: Any, context: Any) -> None:
        size, observables = impl.get_estimated_size_and_observables(context.with_value(value))
        # The size of what is streamed is known when it was.
        if not observables:
            counters.mean_byte_counter.update(size)

    return sample
