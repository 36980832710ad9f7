"""What lies where: how much of the state of each slot the hosts of the executors have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkdrain.local_state.files import FileContent
from sparkdrain.local_state.slot_files import held_bytes
from sparkdrain.rounds.driver.inheritances import inheritances
from sparkdrain.rounds.driver.locations import machine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from sparkdrain.checkpoints.manifest import Manifest
    from sparkdrain.hosts.executor import Executor
    from sparkdrain.rounds.driver.locations import Located


@dataclass(frozen=True, slots=True)
class _Held:
    """A question that a host answers: of each slot, by its number as text, how many bytes."""

    state_dir: str
    needed: Mapping[int, frozenset[FileContent]]

    def __call__(self) -> dict[str, int]:
        found = held_bytes(self.state_dir, self.needed)
        return {str(slot): size for slot, size in found.items()}


def holdings(
    taken: Manifest,
    slots: int,
    state_dir: str,
    ask: Callable[[Callable[[], dict[str, int]]], Mapping[Executor, Any]],
    located: Callable[[Executor], Located] = machine,
) -> dict[int, dict[str, int]]:
    """How many bytes of a slot's state each location has, by slot.

    Args:
        taken: the checkpoint that the job goes on from.
        state_dir: the folder of each host.
        ask: has each executor answer a question.
        located: where an executor is. Of two in one place, what the better one has counts.
    """
    needed: dict[int, frozenset[FileContent]] = {}
    for (_, slot), inherited in inheritances(taken.shards, taken.slots, slots).items():
        files = frozenset(
            FileContent(file.digest, file.size)
            for shard in inherited.shards
            for file in shard.files
            if file.path
        )
        needed[slot] = needed.get(slot, frozenset()) | files
    held: dict[int, dict[str, int]] = {slot: {} for slot in range(slots)}
    for executor, answer in ask(_Held(state_dir, needed)).items():
        for slot, size in answer.items():
            there, place = held[int(slot)], located(executor).location
            there[place] = max(size, there.get(place, 0))
    return {slot: found for slot, found in held.items() if found}
