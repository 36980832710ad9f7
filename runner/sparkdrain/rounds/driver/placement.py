"""Where the slots of a streaming job are: each on the executor whose processes have its state.

When a job goes on from a checkpoint, slots go where files of their state lie (``holdings``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.coordination.assignment import assign
from sparkdrain.coordination.copies import copies
from sparkdrain.local_state.files import FileContent
from sparkdrain.local_state.slot_files import held_bytes
from sparkdrain.rounds.driver.inheritances import inheritances
from sparkdrain.rounds.driver.locations import machine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set

    from sparkdrain.checkpoints.manifest import Manifest
    from sparkdrain.hosts.executor import Executor
    from sparkdrain.hosts.line import HostRecord
    from sparkdrain.rounds.driver.locations import Located

AT_HOME: Final = "tasksAtHome"
AWAY: Final = "tasksAway"


@dataclass(slots=True)
class Placement:
    """Where slots are, or are to be, over all lives of a job, and how often tasks were there.

    Attributes:
        slots: how many the job has.
        at_home: tasks that have run on the executor of their slot's host.
        away: those that have reached it over the network.
        held: for each slot, how many bytes of its state each location has, as far as is known.
        warm_copies: how many other locations are to have the state of a slot.
        located: where an executor is.
        displaced: slots that were elsewhere in the life before, and where they are to be.
        lost: executors that had slots in the life before, and are gone.
    """

    slots: int
    at_home: int = 0
    away: int = 0
    held: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    warm_copies: int = 0
    located: Callable[[Executor], Located] = machine
    displaced: Mapping[int, Executor] = field(default_factory=dict, init=False)
    lost: frozenset[Executor] = field(default=frozenset(), init=False)
    _homes: dict[int, Executor] = field(default_factory=dict)
    _known: dict[str, Executor] = field(default_factory=dict)

    def begin(self, executors: Sequence[Executor]) -> None:
        """The job's slots are about to be opened on these executors."""
        before = self._homes
        self._known = {executor.id: executor for executor in executors}
        self._homes = self._assigned(executors, self.held)
        self.displaced = {
            slot: home
            for slot, home in self._homes.items()
            if slot in before and before[slot].id != home.id
        }
        self.lost = frozenset(one for one in before.values() if one.id not in self._known)

    def places(self, hosts: Sequence[HostRecord]) -> tuple[str, ...]:
        """The place for the next task of each slot, as Spark names places.

        That is where its host is, or before it has one, where it was assigned to. Nothing where
        there is only one place.
        """
        for host in hosts:
            if host.executor is not None and not host.ended:
                # A machine may have more names than one; what counts is Spark's.
                found = self._known.get(host.executor.id, host.executor)
                self._homes[host.id.slot] = found
        if not self._homes:
            return ()
        homes = [self._homes.get(slot) for slot in range(self.slots)]
        return tuple("" if home is None else home.place for home in homes)

    def copies(self) -> dict[int, tuple[int, ...]]:
        """The slots whose published files a slot's host is to have as well, by slot."""
        if not self.warm_copies:
            return {}
        homes = {slot: self.located(home) for slot, home in self._homes.items()}
        return copies(homes, self.warm_copies)

    def without_slots(self, executors: Sequence[Executor]) -> frozenset[Executor]:
        """The executors that came after ``begin``, and would have slots if it were called now.

        None if an executor with slots is gone: the job's next life is about to begin.
        """
        moving = self.moving(executors)
        return frozenset(one for one in moving.values() if one.id not in self._known)

    def move(
        self, executors: Sequence[Executor], wanted: Mapping[int, Executor]
    ) -> dict[int, Executor]:
        """Slots belong to other executors from now on, as far as these still want them.

        Args:
            executors: those that are alive.
            wanted: slots that can move, and where to.

        Returns:
            Those that do.
        """
        moving = self.moving(executors)
        moved = {slot: one for slot, one in moving.items() if wanted.get(slot) == one}
        left = set(moving.values()) if len(moved) < len(moving) else set()
        if moved:
            self._known |= {one.id: one for one in executors if one not in left}
            self._homes |= moved
        return moved

    def is_near(self, slot: int, executor: Executor) -> bool:
        """Whether an executor can use the files of where a slot is."""
        home = self._homes.get(slot)
        return home is not None and (self.located(home).location == self.located(executor).location)

    def moving(self, executors: Sequence[Executor]) -> dict[int, Executor]:
        """As few slots as possible that would be elsewhere if the job began now, and where."""
        homes = {home.id for home in self._homes.values()}
        if not homes or not homes <= {one.id for one in executors}:
            return {}
        placed = self._assigned(executors, {})
        return {slot: one for slot, one in placed.items() if one.id != self._homes[slot].id}

    def _assigned(
        self, executors: Sequence[Executor], held: Mapping[int, Mapping[str, int]]
    ) -> dict[int, Executor]:
        last = {slot: self.located(home) for slot, home in self._homes.items()}
        placed = assign(range(self.slots), last, map(self.located, executors), held)
        return {slot: home.executor for slot, home in placed.items()}

    def ran(self, tasks: int, visits: int) -> None:
        """A level was run: so many tasks, of which so many were not at home."""
        self.away += min(tasks, visits)
        self.at_home += tasks - min(tasks, visits)

    def counts(self) -> dict[str, int]:
        """The counters, of a job that has more than one place to be in."""
        return {AT_HOME: self.at_home, AWAY: self.away} if self._homes else {}

    def told(self) -> str:
        """A text for the progress line; empty if there is nothing to tell."""
        if not self.away:
            return ""
        return f"{self.away:,} of {self.away + self.at_home:,} tasks away from their slot's state"


def too_few_locations(locations: Set[str], warm_copies: int) -> str:
    """What a user is told who wants more copies of state than there are other hosts; else empty."""
    others = len(locations or {""}) - 1
    if others >= warm_copies:
        return ""
    return (
        f"--warm_copies={warm_copies} wants the state of each slot on {warm_copies} more "
        f"{'hosts' if warm_copies > 1 else 'host'}, and the job has executors on {others + 1} now. "
        "The state is on as many hosts as there are."
    )


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
