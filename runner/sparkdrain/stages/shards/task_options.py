"""The settings that a slot needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sparkdrain.concurrency.settings import AsyncStep

_FLIGHT_SHARE: Final = 8


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """The settings that a task needs.

    Attributes:
        memory_bytes: for grouping, before it spills.
        compiled: whether chains of simple transforms run as generated code.
        async_steps: names of steps, and how many elements of each may be in flight.
        state_bytes: for state in streaming, of all levels of a slot; 0: a part of the above.
        samples: whether harnesses in other processes are asked for samples of elements.
    """

    block_bytes: int
    memory_bytes: int
    compiled: bool
    state_bytes: int = 0
    async_steps: tuple[tuple[str, AsyncStep], ...] = ()
    samples: bool = False

    @property
    def flight_bytes(self) -> int:
        """What the elements of one step may take that are in flight in a slot."""
        return self.memory_bytes // _FLIGHT_SHARE
