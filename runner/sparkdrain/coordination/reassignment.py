"""From one assignment to another, step by step: a slot moves when its files are where it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from sparkdrain.coordination.assignment import SlotHome

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

H = TypeVar("H", bound=SlotHome)


@dataclass(frozen=True, slots=True)
class Lag:
    """How far copies of slots are behind.

    Attributes:
        behind: by slot and location, the bytes that the copy there lacks.
        little: how many bytes a slot may lack when it moves.
    """

    behind: Mapping[int, Mapping[str, int]]
    little: int = 0

    def of(self, slot: int, home: SlotHome) -> int | None:
        """The bytes that the slot's copy lacks there; None if there is no copy."""
        return self.behind.get(slot, {}).get(home.location)

    def is_little(self, slot: int, home: SlotHome) -> bool:
        """Whether the slot can be there at once."""
        lag = self.of(slot, home)
        return lag is not None and lag <= self.little


@dataclass(frozen=True, slots=True)
class AssignmentStep(Generic[H]):
    """What can be done now to get from one assignment to another.

    Attributes:
        homes: of each slot, after the step.
        warm: homes that are to fetch the files of slots meanwhile, by slot.
    """

    homes: Mapping[int, H]
    warm: Mapping[int, H]


def next_step(
    present: Mapping[int, H],
    wanted: Mapping[int, H],
    alive: Collection[H],
    lag: Lag,
    most: int = 2,
) -> AssignmentStep[H]:
    """The next step from one assignment to another. Pure; Kafka's KIP-441 is the model.

    A slot moves to its wanted home when its files are there. Its old home has it until then. A slot
    whose home is gone goes to where the least of its files is missing, and may move on later.

    Args:
        present: who has each slot. The home may be gone.
        wanted: who is to have it. All of these are alive.
        alive: all homes that are.
        lag: of the copies of slots.
        most: how many slots may be fetched at a time while another home has them.
    """
    homes = {slot: _next_home(slot, present.get(slot), wanted[slot], alive, lag) for slot in wanted}
    late = [slot for slot in sorted(wanted) if homes[slot] != wanted[slot]]
    return AssignmentStep(homes, {slot: wanted[slot] for slot in late[:most]})


def _next_home(slot: int, before: H | None, wanted: H, alive: Collection[H], lag: Lag) -> H:
    if before == wanted or lag.is_little(slot, wanted):
        return wanted
    if before is not None and before in alive:
        return before
    copies = {home: behind for home in alive if (behind := lag.of(slot, home)) is not None}
    return min(copies, key=lambda one: (copies[one], one != wanted, one), default=wanted)
