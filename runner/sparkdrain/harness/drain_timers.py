"""A bound for timers that are set again and again while a job is drained.

Once time is at its end, a timer that its own callback sets again would never be the last. So timers
have a generation: those that were pending, or that an element sets, have none; a timer that a
callback sets is one generation younger than the one that fired. So many generations fire; the next
one is refused, counted, and told.

A timer of event time within a window that ends, later than the one that fired, is of the same
generation as that: such a loop comes to its end by itself.
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import TYPE_CHECKING, Final

from timers_state.keys import EVENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from timers_state import Domain

# No encoding of a pane begins like that.
_MARK: Final = b"\xff"
_GENERATION: Final = struct.Struct(">cI")


def marked(generation: int, payload: bytes) -> bytes:
    """A timer's payload, with its generation."""
    return _GENERATION.pack(_MARK, generation) + payload if generation else payload


class TimerBound:
    """A limit on the timers that one DoFn sets at the end of time.

    It is in force while a callback runs that fired because time is at its end.

    Attributes:
        repeats: how many generations of timers fire; None: the job is not drained, or not yet.
        is_on: whether a timer that is set now is set by such a callback.
        refused: how many timers were refused, by family.
    """

    __slots__ = ("_domain", "_generation", "_time", "is_on", "refused", "repeats")

    def __init__(self) -> None:
        self.repeats: int | None = None
        self.is_on = False
        self.refused: Counter[bytes] = Counter()
        self._generation = 0
        self._domain: Domain = EVENT
        self._time = 0

    def another(self) -> TimerBound:
        """The same bound, for a callback that runs beside others."""
        made = TimerBound()
        made.repeats, made.refused = self.repeats, self.refused
        return made

    def fires(self, domain: Domain, time: int, payload: bytes) -> bytes:
        """A timer fires; the rest of its payload."""
        generation = 0
        if payload[:1] == _MARK:
            _, generation = _GENERATION.unpack_from(payload)
            payload = payload[_GENERATION.size :]
        if self.repeats is not None:
            self.is_on = True
            self._generation, self._domain, self._time = generation, domain, time
        return payload

    def admits(
        self,
        family: bytes,
        domain: Domain,
        time: int,
        window: object,
        expiry_of: Callable[[object], int] | None,
    ) -> int | None:
        """The generation of a timer that the callback sets; None if it is refused."""
        ends_by_itself = (
            domain is self._domain is EVENT
            and expiry_of is not None
            and self._time < time < expiry_of(window)
        )
        generation = self._generation + (not ends_by_itself)
        assert self.repeats is not None
        if generation <= self.repeats:
            return generation
        self.refused[family] += 1
        return None
