"""Keys that have nothing but timers, in memory: these fire without waking the keys' scopes.

A scope that is about to change is kept aside first, made active, and looked at again when the round
ends. Where all that happens to a key is that its timers fire, it is put aside as it is instead:
nothing of it is left if the round stays, and all of it is there if it does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from timers_state.keys import Domain
from timers_state.room import Room
from timers_state.round_scope import RoundScope

if TYPE_CHECKING:
    from timers_state.ahead import DueKey, StoredTimer
    from timers_state.holdings import Ident
    from timers_state.scope import KeyScope


class BareKey:
    """A scope that rests, and which of its timers were taken since it was put aside."""

    __slots__ = ("domain", "left", "scope", "taken")

    def __init__(self, scope: RoundScope, domain: Domain, left: int) -> None:
        self.scope = scope
        self.domain = domain
        self.left = left
        self.taken: list[StoredTimer] = []


class BareKeys(Room):
    """Holdings from which timers are taken while the scopes of their keys rest."""

    __slots__ = ()

    def read_held(
        self, state_id: int, domain: Domain, up_to: int, most: int, *, at_end: bool
    ) -> list[DueKey]:
        """Keys with timers in memory that are due, about ``most`` timers of them.

        A key of which there is nothing else comes with its timers, if all are due: ``take`` each
        that fires, until somebody asks for the key's scope, which knows of all that happened. For
        other keys, ask their scopes. Who does neither gets them again.

        Args:
            state_id: of the keys.
            domain: of the timers.
            up_to: when they fire, at most.
            most: how many.
            at_end: time is at its end, so that windows of such keys need not expire.
        """
        self._complete()
        index = self._in_round().index(self, state_id, domain)
        besides = Domain.EXPIRY if at_end else domain

        def timers_of(key: bytes) -> list[StoredTimer] | None:
            scope = self._scopes.get((state_id, key))
            if not isinstance(scope, RoundScope):
                return None
            timers = scope.bare_timers(domain, besides)
            return timers if timers and timers[-1][0] <= up_to else None

        return index.read_held(up_to, most, timers_of)

    def flush(self) -> None:
        """See ``WriteBack``."""
        self._check_open_round()
        self._complete()
        for bare in self._bare.values():
            self._keep_aside(bare.scope)
        self._drop_bare()
        super().flush()

    def _take_bare(self, ident: Ident, domain: Domain, timer: StoredTimer) -> bool:
        """Takes out a timer of a key that is bare; whether it still is."""
        bare = self._bare.get(ident)
        if bare is None:
            self._complete()
            scope = self._scopes.get(ident)
            if not isinstance(scope, RoundScope) or scope.active or scope.stored:
                return False
            del self._scopes[ident]
            self._in_round().index(self, ident[0], domain).drop(ident[1])
            bare = self._bare[ident] = BareKey(scope, domain, timer[6])
        elif not bare.left:
            return False
        bare.taken.append(timer)
        bare.left -= 1
        self._partly = ident if bare.left else None
        return True

    def _complete(self) -> None:
        """A key of which not all timers were taken is one like others again."""
        ident = self._partly
        if ident is not None:
            self.scope(*ident)

    def _first(
        self, state_id: int, domain: Domain, up_to: int | None = None
    ) -> tuple[int, bytes] | None:
        self._complete()
        return super()._first(state_id, domain, up_to)

    def _open(self, ident: Ident) -> KeyScope:
        if not self._bare or ident not in self._bare:
            return super()._open(ident)
        self._check_open_round()
        bare = self._bare.pop(ident)
        self._partly = None
        scope = self._scopes[ident] = bare.scope
        self.lease(scope)
        timers = scope.timers(bare.domain)
        for time, window, family, tag, *_ in bare.taken:
            timers.is_gone(window, (family, tag), time)
        first = timers.next_held()
        if first is not None:
            self._in_round().index(self, ident[0], bare.domain).note(first, ident[1], alone=True)
        return scope

    def _drop_bare(self) -> None:
        """The round stays, or what it has put aside is kept in another way."""
        for bare in self._bare.values():
            self._free += bare.scope.leased
            bare.scope.kill()
        self._bare = {}

    def _restore_bare(self) -> None:
        """The round never was."""
        self._scopes.update((ident, bare.scope) for ident, bare in self._bare.items())
        self._bare = {}
        self._partly = None
