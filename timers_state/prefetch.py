"""Bringing keys into memory before they are used: many of them in one pass over the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from timers_state.holdings import ABSENT_BYTES
from timers_state.keys import owners_in_time
from timers_state.record_loading import MOST_ROWS
from timers_state.room import Room

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timers_state.record_loading import KeyRows, Placed
    from timers_state.records import Records
    from timers_state.residents import Ident

_SHARE: Final = 8
"""At most this part of the budget is for keys that were brought into memory and not used yet."""

_WORTH: Final = 4
"""If there is room for less than this part of the keys, they are left."""

_MOST_BYTES: Final = 16 * 1024
"""A key with more of it in its cells is read when it is used."""

_AT_ONCE: Final = 128
"""How many keys are read before they are made records."""


class Prefetch(Room):
    """Holdings that are told which keys will be used."""

    __slots__ = ()

    def has_to_prefetch(self, state_id: int) -> bool:
        """Whether ``prefetch`` may have something to do in this round, as far as is known.

        If not, no key of a state is in the store only; or the running round has more than there is
        room for, so that whatever is read is written soon.
        """
        rounds = self._in_round()
        records = rounds.records.get(state_id)
        if records is None or records.is_complete:
            return False
        return self.store.sequence > 0 and not rounds.marked

    def prefetch(self, state_id: int, keys: Sequence[bytes]) -> int:
        """Reads what the store has of keys that are about to be used, if keys may be records.

        Apart from time, that does not show: what was read is as if it had stayed in memory after a
        round, and goes when there is no room. A key that the store has not got is not looked for
        again in this round. Keys with much in them, or that are in use, are left as they are.

        Do not call this amid the turn of a key that has records.

        Args:
            state_id: of the keys.
            keys: in the order in which they will be used; some thousands are best.

        Returns:
            How many of them, from the first, were looked at; at least one, if there is any. Ask for
            the others when these were used.

        Raises:
            StateError: the store is damaged, or cannot be read.
        """
        rounds = self._in_round()
        records = rounds.records.get(state_id)
        if records is None or not self.has_to_prefetch(state_id):
            return len(keys)
        self._free += ABSENT_BYTES * len(self._absent.pop(state_id, ()))
        count, wanted = self._wanted(records, keys)
        room = self._room_for(len(wanted))
        most = room // self._fetched_bytes
        if most < len(wanted):
            if _WORTH * most < len(wanted):
                return count  # these go without
            count, wanted = wanted[most][0], wanted[:most]
        chosen = [key for _, key in wanted]
        placed = sorted(zip(owners_in_time(chosen, self.groups), chosen, strict=True))
        self._fetch(records, placed, room)
        return count

    def _wanted(
        self, records: Records, keys: Sequence[bytes]
    ) -> tuple[int, list[tuple[int, bytes]]]:
        """Keys that only the store may have, and where they are; how many were looked at for it."""
        state_id, heads = records.state_id, records.heads
        most = self._budget // _SHARE // self._fetched_bytes
        wanted: dict[bytes, int] = {}
        count = 0
        for number, key in enumerate(keys):
            count += 1
            record = heads.get(key)
            if record is not None:
                record.recent = True  # so that it is not what makes room for the others
                continue
            ident = (state_id, key)
            scope = self._scopes.get(ident)
            if scope is not None:
                scope.recent = True
            elif key not in wanted and self._is_fetched(ident):
                wanted[key] = number
                if len(wanted) > most:
                    break
        return count, [(number, key) for key, number in wanted.items()]

    def _is_fetched(self, ident: Ident) -> bool:
        """Whether a key without scope is in the store, and nothing of it was in use."""
        if ident in self._taken:
            return False
        if self._rested and ident in self._resting:
            return False
        return self._may_be_stored(ident)

    def _room_for(self, count: int) -> int:
        """Bytes for so many keys, if there is that much without writing what the round changed."""
        rounds = self._in_round()
        share = min(self._budget // _SHARE, count * self._fetched_bytes)
        if self._free < 2 * share:
            has_records = any(records.heads for records in self._all_records())
            if has_records or len(rounds.changed) < len(self._scopes):
                self._let_go(2 * share)
        return max(0, min(share, self._free // 2))

    def _fetch(self, records: Records, placed: list[Placed], room: int) -> None:
        """Brings keys into memory until there is no more room."""
        start, left = 0, room + room // 4  # they may cost more than those before
        most_bytes = min(_MOST_BYTES, max(self._fetched_bytes, room // _AT_ONCE))
        while start < len(placed) and left > 0:
            some = placed[start : start + _AT_ONCE]
            start += len(some)
            rows = records.loading.reader.read(self.store, some, MOST_ROWS, most_bytes)
            left -= self._fetch_records(records, some, rows)
        if start:
            spent = room + room // 4 - left
            self._fetched_bytes = max(ABSENT_BYTES, spent // start)

    def _fetch_records(self, records: Records, placed: list[Placed], rows: list[KeyRows]) -> int:
        """Has keys as records, if they can be; returns what they cost."""
        spent = taken = 0
        found = records.loading.load(self.store, placed, rows)
        for (_, key), loaded in zip(placed, found, strict=True):
            if loaded:
                taken += records.take_in(loaded)
            elif loaded is not None:
                spent += self._note_absent(records.state_id, key)
        self._free -= taken
        records.leased += taken
        records.room += taken
        return spent + taken

    def _note_absent(self, state_id: int, key: bytes) -> int:
        """The store has nothing of a key; returns what it costs to know that."""
        self._absent.setdefault(state_id, set()).add(key)
        self._free -= ABSENT_BYTES
        return ABSENT_BYTES
