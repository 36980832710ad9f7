"""Slots of a running job move to executors that came after it had begun.

The job goes on until a checkpoint is published that was begun after it was known who is to move.
Then it stands still for another one, which has little to upload. From that one the slots that move
are opened anew. All others stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sparkdrain.hosts.executor import Executor
    from sparkdrain.rounds.driver.newcomers import Newcomers
    from sparkdrain.rounds.driver.placement import Placement


class Moves(Protocol):
    """Says when slots are to move, and has them move."""

    def are_wanted(self) -> bool:
        """Whether a slot is to be elsewhere."""

    def begin(self, number: int) -> frozenset[int]:
        """End the slots that move; in round ``number`` they are opened where they belong."""

    def over(self, seconds: float) -> None:
        """They are there; the job has stood still for that long."""


class NoMoves(Moves):
    """Slots stay where they are."""

    @override
    def are_wanted(self) -> bool:
        return False

    @override
    def begin(self, number: int) -> frozenset[int]:
        return frozenset()

    @override
    def over(self, seconds: float) -> None:
        pass


class SlotMoves(Moves):
    """See ``Moves``.

    Args:
        placement: where slots are.
        newcomers: finds executors without slots.
        executors: those that are alive.
        reopen: ends slots, and lets them be opened in a round.
        tell: takes a text for the user.
    """

    def __init__(
        self,
        placement: Placement,
        newcomers: Newcomers,
        executors: Callable[[], Sequence[Executor]],
        reopen: Callable[[frozenset[int], int], object],
        tell: Callable[[str], object],
    ) -> None:
        self._placement = placement
        self._newcomers = newcomers
        self._executors = executors
        self._reopen = reopen
        self._tell = tell
        self._moved: Mapping[int, Executor] = {}

    @override
    def are_wanted(self) -> bool:
        return bool(self._newcomers.found())

    @override
    def begin(self, number: int) -> frozenset[int]:
        self._moved = self._placement.move(self._executors())
        self._newcomers.forget()
        slots = frozenset(self._moved)
        if slots:
            self._reopen(slots, number)
        return slots

    @override
    def over(self, seconds: float) -> None:
        there = sorted(set(self._moved.values()))
        for one in there:
            slots = sorted(slot for slot, home in self._moved.items() if home == one)
            self._tell(
                f"{'Slots' if len(slots) > 1 else 'Slot'} {', '.join(map(str, slots))} moved to "
                f"executor {one.id} on {one.host}, which came after the job had begun. The job "
                f"stood still for {seconds:.1f} s."
            )
