"""Makes the state of a slot of what a checkpoint has of the old slots."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sparkdrain.checkpoints.rescale import (
    groups_of_slot,
    heir,
    heir_of_part,
    old_stores,
    sources_of,
)
from sparkdrain.checkpoints.restore import Restored, restore
from sparkdrain.errors import CheckpointRefused
from sparkdrain.graph.plan import EdgeKind
from sparkdrain.graph.state_ids import (
    DRAIN_STATE_ID,
    FINALIZERS_STATE_ID,
    edge_state_id,
    parked_state_id,
    side_state_id,
    stable_state_id,
    transform_state_id,
    truncated_state_ids,
)
from sparkdrain.panes.arrivals import values_in
from sparkdrain.rounds.carried import CarriedCoding, carried_state_ids, check_movable, key_of
from sparkdrain.rounds.sides.parking import Parking
from sparkdrain.rounds.slots.drain_memory import DrainMemory
from sparkdrain.rounds.sources.residuals import ResidualStore, count_in, written_in
from sparkdrain.rounds.stable import put_together
from sparkdrain.shuffle.grouped_blocks import decode_groups, part_of_slot
from sparkdrain.shuffle.keys import Owners
from timers_state import Overlay, open_store
from timers_state.errors import Unmovable
from timers_state.store.gather import GatherSource, Spread, gather, state_ids

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sparkdrain.checkpoints.paths import Paths
    from sparkdrain.checkpoints.storage import Storage
    from sparkdrain.graph.plan import Edge, Plan
    from sparkdrain.local_state.slot_files import SlotFiles
    from sparkdrain.rounds.messages import Inheritance
    from timers_state import Store

_MEMORY: Final = 16 << 20
_KEYED: Final = EdgeKind.KEYED, EdgeKind.GROUP


def take_over(
    plan: Plan,
    inheritance: Inheritance,
    slots: int,
    storage: Storage,
    paths: Paths,
    directory: Path,
    nearby: SlotFiles | None = None,
) -> Restored:
    """Make ``directory``, which must not be there, the store of a slot.

    If there were as many slots as there are, it is a copy. Else it needs room for all of the old
    slots that it has something of, beside it, and memory for a part of it.

    Args:
        nearby: has files that need not be fetched.

    Returns:
        Where the bytes of the old stores came from.

    Raises:
        CheckpointDamaged: a file is missing in storage, or is not what was written; names it.
        CheckpointFailed: storage or disk refuse.
        CheckpointRefused: state cannot be moved; names it. In any case, nothing is left.
    """
    if inheritance.before == slots:
        return restore(storage, paths, inheritance.shards[0], directory, nearby)
    try:
        with old_stores(storage, paths, inheritance.shards, directory, nearby) as (stores, found):
            _Move(plan, inheritance, slots, stores).run(directory)
            return found
    except Unmovable as error:
        shutil.rmtree(directory, ignore_errors=True)
        message = (
            f"The job cannot go on with {slots} slots instead of {inheritance.before}: {error}. "
            f"Resume it with --slots={inheritance.before}."
        )
        raise CheckpointRefused(message) from error
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


@dataclass(slots=True)
class _Ways:
    """How the state of a level is spread over slots, by state id."""

    by_key: set[int] = field(default_factory=set)
    everywhere: dict[int, Edge] = field(default_factory=dict)
    residuals: set[int] = field(default_factory=set)
    parked: dict[int, Edge] = field(default_factory=dict)
    stable: dict[int, Edge] = field(default_factory=dict)
    carried: dict[int, str] = field(default_factory=dict)

    @staticmethod
    def of(plan: Plan, level: int) -> _Ways:
        ways = _Ways({FINALIZERS_STATE_ID})
        ways.carried = carried_state_ids(plan, level)
        for stage in plan.levels[level]:
            ways.by_key |= {transform_state_id(plan, id_) for id_, _ in stage.transforms}
        for edge in plan.edges_into(level):
            own = edge_state_id(edge.id)
            match edge.kind:
                case EdgeKind.BROADCAST:
                    ways.everywhere |= dict.fromkeys((own, side_state_id(edge.id)), edge)
                    continue
                case EdgeKind.KEYED | EdgeKind.GROUP:
                    ways.by_key.add(own)
                case _:
                    ways.residuals |= {own, *truncated_state_ids(edge.id)}
            ways.parked[parked_state_id(edge.id)] = edge
            ways.stable[stable_state_id(edge.id)] = edge
        return ways


class _Move:
    """Makes the store of one slot from the stores of old slots.

    Args:
        stores: those of old slots, by slot.
    """

    def __init__(
        self, plan: Plan, inheritance: Inheritance, slots: int, stores: Mapping[int, Store]
    ) -> None:
        self._level, self._slot = inheritance.report.level, inheritance.report.slot
        self._slots, self._before = slots, inheritance.before
        self._givers = inheritance.givers
        self._stores = stores
        self._sources = sources_of(self._slot, self._before, slots)
        self._ways = _Ways.of(plan, self._level)

    def run(self, directory: Path) -> None:
        """Make the store."""
        sources = [
            GatherSource(
                store,
                groups_of_slot(old, self._before),
                {id_ for id_, edge in self._ways.everywhere.items() if self._gives(old, edge)},
            )
            for old, store in self._stores.items()
        ]
        gather(directory, sources, groups_of_slot(self._slot, self._slots), self._spread)
        with Overlay(open_store(directory), _MEMORY) as overlay:
            self._move_apart(overlay)
            overlay.prepare()
            overlay.commit()
            overlay.flush()

    def _gives(self, old: int, edge: Edge) -> bool:
        if edge.id not in self._givers:
            message = (
                "an earlier release made the checkpoint, and did not say who has all of the side "
                f"input of edge {edge.id}"
            )
            raise Unmovable(message)
        return self._givers[edge.id] == old

    def _spread(self, state_id: int) -> Spread:
        ways = self._ways
        if state_id in ways.by_key:
            return Spread.BY_KEY
        if state_id in ways.everywhere:
            return Spread.EVERYWHERE
        if state_id == DRAIN_STATE_ID or any(
            state_id in ids for ids in (ways.residuals, ways.parked, ways.stable, ways.carried)
        ):
            return Spread.APART
        message = f"it is not known what state {state_id} of level {self._level} is"
        raise Unmovable(message)

    def _move_apart(self, overlay: Overlay) -> None:
        """What a slot keeps whatever the keys."""
        ways, stores = self._ways, {old: self._stores[old] for old in self._sources}
        olds = {old: Overlay(store, _MEMORY) for old, store in stores.items()}
        for id_ in sorted(set[int]().union(*map(state_ids, stores.values()))):
            if id_ in ways.residuals:
                self._move_residuals(stores, overlay, id_)
            elif id_ in ways.carried:
                for old, store in stores.items():
                    check_movable(store, id_, ways.carried[id_])
                    CarriedCoding(overlay, id_).inherit(CarriedCoding(olds[old], id_))
                self._move_residuals(stores, overlay, id_)
            elif id_ in ways.parked:
                self._move_parked(olds, overlay, id_, keyed=ways.parked[id_].kind is EdgeKind.KEYED)
            elif id_ in ways.stable:
                keyed = ways.stable[id_].kind in _KEYED

                def part(old: int, payload: bytes, keyed: bool = keyed) -> bytes:
                    return self._part(old, payload, keyed=keyed)

                put_together(olds.items(), overlay, id_, part)
            elif id_ == DRAIN_STATE_ID:
                DrainMemory(overlay).inherit([DrainMemory(old) for old in olds.values()])

    def _move_residuals(self, stores: Mapping[int, Store], overlay: Overlay, state_id: int) -> None:
        """Residuals go where their key is; those without one are dealt out, for all sources."""
        into = ResidualStore(overlay, state_id, None)
        owners = Owners(range(self._slots))
        for old, store in stores.items():
            count = count_in(store, state_id)
            for number, (payload, resume) in enumerate(written_in(store, state_id)):
                key = key_of(payload) if state_id in self._ways.carried else None
                if key is not None:
                    (owner,) = owners.of([key])
                else:
                    owner = heir_of_part(old, self._before, self._slots, number, count)
                if owner == self._slot:
                    into.put_written(payload, resume)

    def _move_parked(
        self, olds: Mapping[int, Overlay], overlay: Overlay, state_id: int, *, keyed: bool
    ) -> None:
        into = Parking(overlay, state_id)
        parkings = {old: Parking(state, state_id) for old, state in olds.items()}
        into.passed = min(parking.passed for parking in parkings.values())
        for old, parking in parkings.items():
            for door, payload, count, earliest in parking.contents():
                part = self._part(old, payload, keyed=keyed)
                if not part:
                    continue
                into.of_drain = parking.of_drain
                size = values_in(chunk for _, chunk in decode_groups(part)[1]) if keyed else count
                into.park(door, part, size, earliest)

    def _part(self, old: int, payload: bytes, *, keyed: bool) -> bytes:
        """What of a block of an old slot comes here: its keys, or all of it if there are none."""
        if keyed:
            return part_of_slot(payload, self._slot, self._slots)
        return payload if heir(old, self._before, self._slots) == self._slot else b""
