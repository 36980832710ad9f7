"""What an overlay has in memory: scopes, what of them was erased, and the running round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, NoReturn
from weakref import WeakValueDictionary

from timers_state.errors import StoreFailed
from timers_state.keys import DEFAULT_GROUPS, MAX_GROUPS
from timers_state.residents import Residents
from timers_state.rounds import Rounds
from timers_state.sealed import refuse

if TYPE_CHECKING:
    from timers_state.ahead import Taken
    from timers_state.due_index import DueIndex
    from timers_state.keys import Domain
    from timers_state.residents import Ident
    from timers_state.scope import KeyScope
    from timers_state.store import Store
    from timers_state.timers import Timers

ABSENT_BYTES: Final = 128
"""What it costs in memory to know of a key that the store has nothing of it."""

_NOTHING_TAKEN: Final[Taken] = {}


class Holdings(ABC):
    """The scopes of an overlay, and what they may still take.

    Scopes: a scope in ``_scopes`` counts against the budget. A scope in ``_resting`` has no content
    and lasts as long as a caller holds it.

    Rows: the next batch removes the rows of keys in ``_erased``, all rows of the states in
    ``_erased_states``, and the timers in ``_taken``, whose keys have nothing in memory.
    ``_residents`` are the keys that the store may have rows of; None means any key. ``_absent``
    has, by state, keys that the store has no rows of.

    Prefetch: ``_fetched_bytes`` is what a key is expected to cost that is read ahead.
    """

    __slots__ = (
        "_absent",
        "_budget",
        "_erased",
        "_erased_states",
        "_fetched_bytes",
        "_free",
        "_lost",
        "_residents",
        "_rested",
        "_resting",
        "_rounds",
        "_scopes",
        "_spilling",
        "_taken",
        "groups",
        "store",
    )

    def __init__(
        self,
        store: Store,
        budget_bytes: int,
        groups: int = DEFAULT_GROUPS,
    ) -> None:
        if not 1 <= groups <= MAX_GROUPS:
            message = f"the number of key groups must be in [1, {MAX_GROUPS}], not {groups}"
            raise ValueError(message)
        self.store = store
        self.groups = groups
        self._budget = budget_bytes
        self._free = budget_bytes
        self._spilling = False
        self._lost = False
        self._rounds = Rounds()
        self._scopes: dict[Ident, KeyScope] = {}
        self._rested = False
        self._resting: WeakValueDictionary[Ident, KeyScope] = WeakValueDictionary()
        self._erased: dict[Ident, None] = {}
        self._erased_states: set[int] = set()
        self._taken: dict[Ident, Taken] = {}
        self._residents = Residents() if store.sequence == 0 else None
        self._absent: dict[int, set[bytes]] = {}
        self._fetched_bytes = 1024

    @abstractmethod
    def lease(self, scope: KeyScope) -> None:
        """Makes a scope active and gives it room, from the budget or by writing everything out."""

    @abstractmethod
    def _make_room(self, need: int) -> bool:
        """Makes room; says whether that was possible without writing everything out."""

    @abstractmethod
    def forget(self, state_id: int, key: bytes) -> None:
        """Ends the life of a key: all its state and timers are gone, and its scope is stale."""

    def changed_scopes(self) -> list[KeyScope]:
        """Where scopes put themselves that become active."""
        return self._rounds.changed

    def index_of(self, state_id: int, domain: Domain) -> DueIndex:
        """The index of timers across keys."""
        return self._in_round().index(self, state_id, domain)

    def reach(self) -> Store:
        """The store, or what refuses in its place."""
        return self.store

    def unwritten_timers(self, state_id: int, key: bytes, domain: Domain) -> Timers | None:
        """See ``due_index.Memory``."""
        scope = self._scopes.get((state_id, key))
        return None if scope is None else scope.held_timers(domain)

    def is_erased(self, state_id: int, key: bytes) -> bool:
        """See ``due_index.Memory``."""
        return (state_id, key) in self._erased or state_id in self._erased_states

    def is_all_erased(self, state_id: int) -> bool:
        """See ``due_index.Memory``."""
        return state_id in self._erased_states

    def keys_that_differ(self, state_id: int, domain: Domain) -> list[bytes]:
        """See ``due_index.Memory``."""
        differ = [key for id_, key in (*self._erased, *self._taken) if id_ == state_id]
        for (id_, key), scope in self._scopes.items():
            if id_ == state_id and scope.stored:
                timers = scope.held_timers(domain)
                if timers is not None and timers.differs:
                    differ.append(key)
        return differ

    def taken_of(self, state_id: int, key: bytes) -> Taken | None:
        """See ``due_index.Memory``."""
        ident = (state_id, key)
        if ident in self._scopes or ident in self._erased:
            return None
        if self._rested and ident in self._resting:
            return None
        return self._taken.get(ident, _NOTHING_TAKEN)

    def _keep(self, scope: KeyScope, cost: int) -> None:
        """Keeps a scope that rests, at that cost; lets go of it if there is none."""
        self._free += scope.leased - cost
        scope.leased = cost
        if not cost:
            ident = (scope.state_id, scope.key)
            del self._scopes[ident]
            self._resting[ident] = scope
            self._rested = True

    def _keep_aside(self, scope: KeyScope) -> None:
        """Keeps what was committed of a scope that is about to change."""
        rounds = self._rounds
        image = scope.image()
        rounds.images[scope.state_id, scope.key] = image
        rounds.image_bytes += image[4]
        self._free -= image[4]
        scope.unwritten = False

    def _may_be_stored(self, ident: Ident) -> bool:
        if self._absent and ident[1] in self._absent.get(ident[0], ()):
            return False
        residents = self._residents
        if residents is not None and ident not in residents:
            return False
        return ident not in self._erased and ident[0] not in self._erased_states

    def _forget_absent(self) -> None:
        """The store is about to change in what the round has done."""
        if self._absent:
            self._free += ABSENT_BYTES * sum(map(len, self._absent.values()))
            self._absent = {}

    def _written(self, *, whole: bool) -> None:
        """Something in memory is about to be in the store; everything if ``whole``."""
        self._rounds.written(whole=whole)

    def _in_round(self) -> Rounds:
        """The running round; raises if it is prepared, or everything is lost."""
        rounds = self._rounds
        if rounds.prepared is not None:
            refuse()
        if self._lost:
            self._refuse_lost()
        return rounds

    def _kill_all(self) -> None:
        for scope in (*self._scopes.values(), *self._resting.values()):
            scope.kill()
        self._scopes = {}
        self._absent = {}
        self._resting = WeakValueDictionary()
        self._free = self._budget
        self._free -= sum(records.leased for records in self._rounds.records.values())

    def _lose(self) -> None:
        """What was in memory is gone, perhaps something that was committed."""
        for records in self._rounds.records.values():
            records.drop_all()
        self._kill_all()
        self._lost = True

    def _refuse_lost(self) -> NoReturn:
        message = (
            "what was committed and not written is lost, since writing failed before: the last "
            "snapshot has the state of its time"
        )
        raise StoreFailed(message)
