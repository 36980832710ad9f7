"""Makes the state of a slot of what a checkpoint has of the old slots."""

from __future__ import annotations

import shutil
from functools import partial
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
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import TypeAlias

    from sparkdrain.checkpoints.paths import Paths
    from sparkdrain.checkpoints.storage import Storage
    from sparkdrain.graph.plan import Edge, Plan
    from sparkdrain.local_state.slot_files import SlotFiles
    from sparkdrain.rounds.messages import Inheritance
    from timers_state import Store

    _Mover: TypeAlias = "Callable[[_Move, Overlay, int], None]"

_MEMORY: Final = 16 << 20


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
        self._mine = {old: stores[old] for old in sources_of(self._slot, self._before, slots)}
        self._olds: dict[int, Overlay] = {}
        # How the state of the level is spread over slots, by state id.
        self._by_key = {FINALIZERS_STATE_ID}
        self._everywhere: dict[int, Edge] = {}
        # What a slot keeps whatever the keys: moved by these.
        self._apart: dict[int, _Mover] = {DRAIN_STATE_ID: _Move._move_drain}
        for id_, name in carried_state_ids(plan, self._level).items():
            self._apart[id_] = partial(_Move._move_carried, name=name)
        for stage in plan.levels[self._level]:
            self._by_key |= {transform_state_id(plan, id_) for id_, _ in stage.transforms}
        for edge in plan.edges_into(self._level):
            self._add_edge(edge)

    def _add_edge(self, edge: Edge) -> None:
        own, keyed = edge_state_id(edge.id), edge.kind in (EdgeKind.KEYED, EdgeKind.GROUP)
        if edge.kind is EdgeKind.BROADCAST:
            self._everywhere |= dict.fromkeys((own, side_state_id(edge.id)), edge)
            return
        if keyed:
            self._by_key.add(own)
        else:
            residuals = (own, *truncated_state_ids(edge.id))
            self._apart |= dict.fromkeys(residuals, _Move._move_residuals)
        waits_keyed = edge.kind is EdgeKind.KEYED
        self._apart[parked_state_id(edge.id)] = partial(_Move._move_parked, keyed=waits_keyed)
        self._apart[stable_state_id(edge.id)] = partial(_Move._move_stable, keyed=keyed)

    def run(self, directory: Path) -> None:
        """Make the store."""
        sources = [
            GatherSource(
                store,
                groups_of_slot(old, self._before),
                {id_ for id_, edge in self._everywhere.items() if self._gives(old, edge)},
            )
            for old, store in self._stores.items()
        ]
        gather(directory, sources, groups_of_slot(self._slot, self._slots), self._spread)
        with Overlay(open_store(directory), _MEMORY) as overlay:
            self._olds |= {old: Overlay(store, _MEMORY) for old, store in self._mine.items()}
            for id_ in sorted(set[int]().union(*map(state_ids, self._mine.values()))):
                if id_ in self._apart:
                    self._apart[id_](self, overlay, id_)
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
        if state_id in self._by_key:
            return Spread.BY_KEY
        if state_id in self._everywhere:
            return Spread.EVERYWHERE
        if state_id in self._apart:
            return Spread.APART
        message = f"it is not known what state {state_id} of level {self._level} is"
        raise Unmovable(message)

    def _move_drain(self, overlay: Overlay, _state_id: int) -> None:
        DrainMemory(overlay).inherit([DrainMemory(old) for old in self._olds.values()])

    def _move_stable(self, overlay: Overlay, state_id: int, *, keyed: bool) -> None:
        put_together(self._olds.items(), overlay, state_id, partial(self._part, keyed=keyed))

    def _move_carried(self, overlay: Overlay, state_id: int, *, name: str) -> None:
        for old, store in self._mine.items():
            check_movable(store, state_id, name)
            CarriedCoding(overlay, state_id).inherit(CarriedCoding(self._olds[old], state_id))
        self._move_residuals(overlay, state_id, key_of)

    def _move_residuals(
        self,
        overlay: Overlay,
        state_id: int,
        key_in: Callable[[bytes], bytes | None] = lambda _: None,
    ) -> None:
        """Residuals go where their key is; those without one are dealt out, for all sources."""
        into = ResidualStore(overlay, state_id, None)
        owners = Owners(range(self._slots))
        for old, store in self._mine.items():
            count = count_in(store, state_id)
            for number, (payload, resume) in enumerate(written_in(store, state_id)):
                if (key := key_in(payload)) is not None:
                    (owner,) = owners.of([key])
                else:
                    owner = heir_of_part(old, self._before, self._slots, number, count)
                if owner == self._slot:
                    into.put_written(payload, resume)

    def _move_parked(self, overlay: Overlay, state_id: int, *, keyed: bool) -> None:
        into = Parking(overlay, state_id)
        parkings = {old: Parking(state, state_id) for old, state in self._olds.items()}
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
