"""Restrictions that wait between rounds: part of the slot's state, committed and undone with it."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.watermarks.frontier import END
from timers_state import Domain
from timers_state.keys import key_of_time_row, prefix_end, time_domain_prefix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timers_state import KeyScope, Overlay, Store

_COUNTS: Final = struct.Struct(">QQ")
_TAG: Final = struct.Struct(">Q")
_HEAD: Final = struct.Struct(">q??B")
_FAMILY: Final = b"residual"
_COUNTS_CELL: Final = b"counts"
# How long one rests that had nothing to give, and does not say when to ask it again; microseconds.
_FIRST_REST: Final = 5_000
_MOST_REST: Final = 200_000
MOST_IDLE: Final = 15
"""Counting further changes nothing."""


@dataclass(frozen=True, slots=True)
class Residual:
    """A restriction to process.

    Attributes:
        element: a windowed value, as ``beam:transform:sdf_process_sized_element_and_...:v1``
            takes it: element, restriction, state of the watermark estimator, size.
        hold: no element that it makes is to be older, microseconds.
        known: whether that is what its watermark estimator has said. Of an element that is carried
            over: whether others must not overtake it.
        started: whether it was processed before. Of an element that is carried over: whether it
            comes with its encoded key.
        idle: how often in a row it had nothing to give and did not say when it would have. Of an
            element that is carried over: how many attempts at it have failed.
    """

    element: Any
    hold: int
    known: bool = False
    started: bool = False
    idle: int = 0


class ResidualStore:
    """The residuals of one edge in one slot, in the order in which they want to go on.

    Each is a timer at its resume time; a second one, at its watermark, is its hold.

    Args:
        state_id: what the residuals are kept under.
        coder: coder impl of the windowed value.
    """

    def __init__(self, overlay: Overlay, state_id: int, coder: Any) -> None:
        self._overlay = overlay
        self._state_id = state_id
        self._coder = coder
        self._counts: tuple[int, int] | None = None

    def _scope(self) -> KeyScope:
        return self._overlay.scope(self._state_id, b"")

    def _load(self) -> tuple[int, int]:
        if self._counts is None:
            kept = self._scope().value(_COUNTS_CELL).get()
            self._counts = (0, 0) if kept is None else _COUNTS.unpack(kept)
        return self._counts

    def _save(self, count: int, numbers: int) -> None:
        self._counts = (count, numbers)
        self._scope().value(_COUNTS_CELL).set(_COUNTS.pack(count, numbers))

    def put(self, residual: Residual, resume: int) -> int:
        """Keep a residual until ``resume``, processing time; of equal times, the first is first.

        Returns:
            Its number, see ``remove``.
        """
        head = _HEAD.pack(residual.hold, residual.known, residual.started, residual.idle)
        return self.put_written(head + self._coder.encode(residual.element), resume)

    def put_written(self, payload: bytes, resume: int) -> int:
        """As ``put``, a residual as another store has it, see ``written_in``."""
        count, number = self._load()
        scope, tag = self._scope(), _TAG.pack(number)
        hold = _HEAD.unpack_from(payload)[0]
        scope.timers(Domain.PROCESSING).set(resume, _FAMILY, tag, payload=payload)
        scope.timers(Domain.HOLD).set(hold, _FAMILY, tag)
        self._save(count + 1, number + 1)
        return number

    def remove(self, number: int) -> None:
        """Take out a residual that ``put`` has given this number, and that is still there."""
        scope, tag = self._scope(), _TAG.pack(number)
        scope.timers(Domain.PROCESSING).clear(_FAMILY, tag)
        scope.timers(Domain.HOLD).clear(_FAMILY, tag)
        count, numbers = self._load()
        self._save(count - 1, numbers)

    def pop(self, now: int) -> Residual | None:
        """Take out the first one that wants to go on by ``now``."""
        scope = self._scope()
        timer = scope.timers(Domain.PROCESSING).pop_due(now)
        if timer is None:
            return None
        scope.timers(Domain.HOLD).clear(_FAMILY, timer.tag)
        hold, known, started, idle = _HEAD.unpack_from(timer.payload)
        count, numbers = self._load()
        self._save(count - 1, numbers)
        element = self._coder.decode(timer.payload[_HEAD.size :])
        return Residual(element, hold, known, started, idle)

    def copy(self, residual: Residual) -> Residual:
        """The same as it would come out of the store: it shares nothing with the original."""
        return replace(residual, element=self._coder.decode(self._coder.encode(residual.element)))

    def __len__(self) -> int:
        return self._load()[0]

    def hold(self) -> int:
        """The earliest hold of all residuals; END if there is none."""
        first = self._overlay.first_time(self._state_id, Domain.HOLD)
        return END if first is None else first

    def wake(self) -> int | None:
        """When the first one wants to go on; None if there is none."""
        return self._overlay.first_time(self._state_id, Domain.PROCESSING)


def count_in(store: Store, state_id: int) -> int:
    """How many residuals a slot's store has under a state id."""
    lower = time_domain_prefix(state_id, Domain.PROCESSING)
    return sum(1 for _ in store.iterate_rows(lower, prefix_end(lower)))


def undecoded(payload: bytes) -> Residual:
    """A residual as ``written_in`` gives it; its element stays encoded."""
    hold, known, started, idle = _HEAD.unpack_from(payload)
    return Residual(payload[_HEAD.size :], hold, known, started, idle)


def written_in(store: Store, state_id: int) -> Iterator[tuple[bytes, int]]:
    """The residuals in a slot's store for ``put_written``, in order, each with its resume time."""
    lower = time_domain_prefix(state_id, Domain.PROCESSING)
    for row, payload in store.iterate(lower, prefix_end(lower)):
        time, *_ = key_of_time_row(row)
        yield payload, time


def rest_of(now: int, idle: int) -> int:
    """Microseconds from ``now`` until a source that had nothing is asked again.

    That is at the next multiple of a period, so that all that rest wake up together: first 5 ms,
    each time twice that, at most 200 ms.

    Args:
        now: processing time, microseconds.
        idle: how often in a row it had nothing.
    """
    if idle == 0:
        return 0
    period = min(_MOST_REST, _FIRST_REST << min(idle - 1, MOST_IDLE))
    return period - now % period
