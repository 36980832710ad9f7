"""The accumulator of a combine function: a value of another kind."""

from __future__ import annotations

from typing import ClassVar

from timers_state.cells.value import Value
from timers_state.keys import Kind


class Combining(Value):
    """A cell that holds nothing or one encoded accumulator; merging is the caller's business."""

    KIND: ClassVar[Kind] = Kind.COMBINING
    __slots__ = ()
