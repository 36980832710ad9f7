"""Bringing keys into memory before they are used: many of them in one pass over the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from timers_state.keys import owners_in_time
from timers_state.overlay.residence import ABSENT_BYTES, STORED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timers_state.overlay.budget import MemoryBudget
    from timers_state.overlay.residence import Residence
    from timers_state.overlay.room import Room
    from timers_state.overlay.round import Round
    from timers_state.small.loading import Placed
    from timers_state.small.records import Records

_SHARE: Final = 8
"""At most this part of the budget is for keys that were brought into memory and not used yet."""

_WORTH: Final = 4
"""If there is room for less than this part of the keys, they are left."""

_MOST_BYTES: Final = 16 * 1024
"""A key with more of it in its cells is read when it is used."""

_AT_ONCE: Final = 128
"""How many keys are read before they are made records."""


@dataclass(slots=True)
class Prefetch:
    """Reads records of keys that will be used."""

    budget: MemoryBudget
    running: Round
    residence: Residence
    room: Room
    expected_bytes: int = 1024

    def is_needed(self, state_id: int) -> bool:
        """Whether there may be keys of a state that only the store has."""
        self.running.check()
        records = self.residence.records.get(state_id)
        if records is None or records.is_complete:
            return False
        return self.running.store.sequence > 0 and not self.running.is_marked

    def read(self, state_id: int, keys: Sequence[bytes]) -> int:
        """Reads keys from the store; returns how many of them, from the first, were looked at."""
        if not self.is_needed(state_id):
            return len(keys)
        records = self.residence.records[state_id]
        self.residence.forget_absent(state_id)
        count, wanted = self._wanted(records, keys)
        room = self._room_for(len(wanted))
        most = room // self.expected_bytes
        if most < len(wanted):
            if _WORTH * most < len(wanted):
                return count  # these go without
            count, wanted = wanted[most][0], wanted[:most]
        chosen = [key for _, key in wanted]
        placed = sorted(zip(owners_in_time(chosen), chosen, strict=True))
        self._fetch(records, placed, room)
        return count

    def _wanted(
        self, records: Records, keys: Sequence[bytes]
    ) -> tuple[int, list[tuple[int, bytes]]]:
        """Keys that only the store may have, and where they are; how many were looked at for it."""
        state_id, use = records.state_id, self.residence.use
        most = self.budget.size // _SHARE // self.expected_bytes
        wanted: dict[bytes, int] = {}
        count = 0
        for number, key in enumerate(keys):
            count += 1
            if use(state_id, key) is STORED and key not in wanted:
                wanted[key] = number
                if len(wanted) > most:
                    break
        return count, [(number, key) for key, number in wanted.items()]

    def _room_for(self, count: int) -> int:
        """Bytes for so many keys, if there is that much without writing what the round changed."""
        share = min(self.budget.size // _SHARE, count * self.expected_bytes)
        if self.budget.free < 2 * share:
            self.room.let_go_if_any(2 * share)
        return max(0, min(share, self.budget.free // 2))

    def _fetch(self, records: Records, placed: list[Placed], room: int) -> None:
        """Brings keys into memory until there is no more room."""
        start, spent, most = 0, 0, room + room // 4  # they may cost more than those before
        most_bytes = min(_MOST_BYTES, max(self.expected_bytes, room // _AT_ONCE))
        while start < len(placed) and spent < most:
            some = placed[start : start + _AT_ONCE]
            start += len(some)
            spent += self._fetch_records(records, some, most_bytes)
        if start:
            self.expected_bytes = max(ABSENT_BYTES, spent // start)

    def _fetch_records(self, records: Records, placed: list[Placed], most_bytes: int) -> int:
        """Has keys as records, if they can be; returns what they cost."""
        spent = taken = 0
        found = records.loading.load(self.running.store, placed, most_bytes)
        for (_, key), loaded in zip(placed, found, strict=True):
            if loaded:
                taken += records.take_in(loaded)
            elif loaded is not None:
                self.residence.is_absent(records.state_id, key)
                spent += ABSENT_BYTES
        self.budget.free -= records.get_room(taken)
        return spent + taken
