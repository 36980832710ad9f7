"""How long the state of windows lasts, for DoFns in a harness outside of the slot's process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sparkdrain.watermarks.frontier import END
from timers_state import Domain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sparkdrain.harness.harness import StateTerms
    from sparkdrain.harness.limits import UpTo
    from timers_state import KeyScope

_EXPIRY: Final = b"expiry"
_MOST_KNOWN: Final = 10_000
_CLOCKS: Final = (Domain.EVENT, Domain.PROCESSING)


class WindowLives:
    """Forgets the windows of one stateful DoFn when they are over.

    A window that expires is a timer of the domain ``EXPIRY``. A window that still has timers lasts
    until they have fired.

    Args:
        terms: where and how long the DoFn's state is kept.
    """

    def __init__(self, terms: StateTerms, window: Any) -> None:
        self._terms = terms
        self._window = window
        self._known: set[tuple[bytes, bytes]] = set()

    def scope(self, key: bytes) -> KeyScope:
        """All that is kept of a key."""
        return self._terms.overlay.scope(self._terms.state_id, key)

    def keep(self, key: bytes, section: bytes) -> None:
        """Something is kept of a window from now on, given in its encoding."""
        expiry_of = self._terms.expiry_of
        if expiry_of is None or (key, section) in self._known:
            return
        expiry = expiry_of(self._window.decode(section))
        self.scope(key).timers(Domain.EXPIRY).set(expiry, _EXPIRY, b"", section)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known.add((key, section))

    def is_over(self, section: bytes, up_to: int) -> bool:
        """Whether a window has expired at a time."""
        expiry_of = self._terms.expiry_of
        return expiry_of is not None and expiry_of(self._window.decode(section)) <= up_to

    def end(self, windows: Iterable[tuple[bytes, bytes]]) -> None:
        """Forget windows that have expired, if no timer is left and their expiry was due before."""
        for key, section in windows:
            if self.scope(key).timers(Domain.EXPIRY).time_of(_EXPIRY, b"", section) is None:
                self._end(key, section)

    def expire(self, up_to: UpTo) -> bool:
        """Forget windows that are over; whether the budget was enough."""
        overlay, state_id = self._terms.overlay, self._terms.state_id
        if up_to.event == END:
            # Nothing is due any more, so nothing is kept.
            if overlay.first_time(state_id, Domain.EXPIRY) is not None:
                self._known.clear()
                overlay.forget_all(state_id)
            return True
        while (key := overlay.next_due(state_id, Domain.EXPIRY, up_to.event)) is not None:
            for timer in self.scope(key).timers(Domain.EXPIRY).due(up_to.event):
                self._end(key, timer.window)
            up_to.budget.spend(1)
            if up_to.budget.is_spent():
                return False
        return True

    def _end(self, key: bytes, section: bytes) -> None:
        scope = self.scope(key)
        if any(scope.timers(domain).is_any_set(section) for domain in _CLOCKS):
            return
        self._known.discard((key, section))
        scope.forget_window(section)
