"""The earliest timers over all keys, of small keys and of large ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timers_state.keys import DOMAINS
from timers_state.overlay.due_index import DueIndex

if TYPE_CHECKING:
    from timers_state.keys import Domain
    from timers_state.overlay.due_index import DueKey
    from timers_state.overlay.residence import Residence
    from timers_state.overlay.round import Round


class DueTimes:
    """An index of times for each state and domain; records have theirs beside it."""

    def __init__(self, residence: Residence, running: Round) -> None:
        self._residence = residence
        self._round = running
        self._indexes: dict[tuple[int, Domain], DueIndex] = {}

    def index(self, state_id: int, domain: Domain) -> DueIndex:
        """The timers of all keys of a state that follow one clock, but for small keys."""
        index = self._indexes.get((state_id, domain))
        if index is None:
            index = DueIndex(self._residence, self._round, state_id, domain)
            self._indexes[state_id, domain] = index
        return index

    def first(
        self, state_id: int, domain: Domain, up_to: int | None = None
    ) -> tuple[int, bytes] | None:
        """Time and key of the earliest timer; some earlier time after ``up_to``, if it is later."""
        records = self._residence.records.get(state_id)
        if records is None:
            return self.index(state_id, domain).first()
        first = records.first(domain, up_to)
        if records.is_complete:
            return first
        other = self.index(state_id, domain).first()
        if first is None or (other is not None and other[0] <= first[0]):
            return other
        return first

    def read(self, state_id: int, domain: Domain, up_to: int, most: int) -> list[DueKey]:
        """Keys with timers in the store that are due, about ``most`` timers."""
        records = self._residence.records.get(state_id)
        if records is not None and records.is_complete:
            return []
        return self.index(state_id, domain).read_due(up_to, most)

    def count(self, state_id: int, domain: Domain) -> int:
        """How many timers all keys of a state have; passes over each row that the store has."""
        records = self._residence.records.get(state_id)
        if records is None:
            return self.index(state_id, domain).count()
        count = records.count(domain)
        return count if records.is_complete else count + self.index(state_id, domain).count()

    def drop(self, state_id: int, key: bytes) -> None:
        """A key was forgotten."""
        for domain in DOMAINS:
            index = self._indexes.get((state_id, domain))
            if index is not None:
                index.drop(key)

    def drop_all(self, state_id: int) -> None:
        """All keys of a state were forgotten."""
        for (state, _), index in self._indexes.items():
            if state == state_id:
                index.drop_all()

    def written(self, *, whole: bool) -> None:
        """Something in memory is about to be in the store; all of it if ``whole``."""
        for index in self._indexes.values():
            index.written(whole=whole)

    def restart(self) -> None:
        """The store went back to what it was, and no large key is in memory."""
        for index in self._indexes.values():
            index.restart()
