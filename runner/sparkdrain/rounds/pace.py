"""How much work a round takes on, so that rounds last about as long as they should.

A round has a fixed cost and one per element. Sources may go on for a part of the target time; the
rest is for what they started. If rounds last longer than the target, sources get less, and more
again when there is room: a burst is worked off in rounds of the same length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sparkdrain.rounds.messages import RoundReport

_FIRST_ELEMENTS: Final = 50_000
_LEAST_ELEMENTS: Final = 100
_MOST_ELEMENTS: Final = 5_000_000
_SHARE: Final = 0.5


class Pace:
    """Adapts the budget of a round to a target.

    Args:
        target_seconds: how long a round should take.
    """

    def __init__(self, target_seconds: float) -> None:
        self._target = target_seconds
        self.seconds = target_seconds * _SHARE
        self.elements = _FIRST_ELEMENTS

    def took(self, seconds: float, reports: list[RoundReport]) -> None:
        """A round was committed that took so long."""
        ratio = self._target / max(seconds, 1e-3)
        if ratio < 1:
            shrunk = max(0.5, ratio)
            self.elements = max(_LEAST_ELEMENTS, int(self.elements * shrunk))
            self.seconds = max(self._target * 0.05, self.seconds * shrunk)
        else:
            self.elements = min(_MOST_ELEMENTS, int(self.elements * min(1.25, ratio)))
            self.seconds = min(self._target * _SHARE, self.seconds * 1.1)
        del reports
