"""What a slot remembers of a drain from round to round, as part of its state."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from sparkdrain.graph.state_ids import DRAIN_STATE_ID
from sparkdrain.watermarks.frontier import END

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from timers_state import Overlay

_NUMBER: Final = struct.Struct(">I")
_TIME: Final = struct.Struct(">q")
_NATURAL, _MIXED, _HEARD, _TOLD, _RUN = b"n", b"m", b"h", b"t", b"r"
_ID: Final = b"id"


class DrainMemory:
    """Facts about a drain that one slot of one level has seen itself.

    They lie in the slot's store. So an undone round undoes them, a checkpoint keeps them, and a
    resumed slot has exactly what it had after the round that the checkpoint covers.
    """

    def __init__(self, overlay: Overlay) -> None:
        scope = overlay.scope(DRAIN_STATE_ID, b"")
        self._natural = scope.map(_NATURAL)
        self._mixed = scope.map(_MIXED)
        self._heard = scope.map(_HEARD)
        self._told = scope.map(_TOLD)
        self._run = scope.map(_RUN)

    def begin(self, run_id: str) -> None:
        """Forget which producers and which DoFns were drained, if that was in another run."""
        if self._run.get(_ID) != run_id.encode():
            self._heard.clear()
            self._told.clear()
            self._run.put(_ID, run_id.encode())

    def inherit(self, others: Sequence[DrainMemory]) -> None:
        """Take over from the old slots whose state this slot begins with.

        The drain messages that the old slots heard are left out. They came from producers that
        are gone, and the new producers have state of several old ones.
        """
        for other in others:
            self._add(other)
        told = [other.told() for other in others]
        for stage in set.intersection(*told) if told else ():
            self.tell(stage)

    def _add(self, other: DrainMemory) -> None:
        for edge, time in other._natural.items():
            known = self._natural.get(edge)
            if known is None or _TIME.unpack(time) < _TIME.unpack(known):
                self._natural.put(edge, time)
        for edge, mark in other._mixed.items():
            self._mixed.put(edge, mark)
        for name, run_id in other._run.items():
            self._run.put(name, run_id)

    # --- producers ----------------------------------------------------------------------------

    def heard(self) -> frozenset[tuple[int, int]]:
        """(edge, producer): whose drain messages came, in rounds that were committed or now."""
        return frozenset(
            (_NUMBER.unpack(edge)[0], producer)
            for edge, producers in self._heard.items()
            for (producer,) in _NUMBER.iter_unpack(producers)
        )

    def hear(self, told: Iterable[tuple[int, int]]) -> None:
        """Remember all (edge, producer) pairs that are known, in place of those known before."""
        edges: dict[int, list[int]] = {}
        for edge, producer in sorted(told):
            edges.setdefault(edge, []).append(producer)
        for edge, producers in edges.items():
            self._heard.put(_NUMBER.pack(edge), b"".join(map(_NUMBER.pack, producers)))

    # --- DoFns --------------------------------------------------------------------------------

    def is_told(self, stage: int) -> bool:
        """Whether the DoFns of a stage, by its number in the level, know that it is drained."""
        return self._told.get(_NUMBER.pack(stage)) is not None

    def told(self) -> set[int]:
        """The numbers of the stages whose DoFns know it."""
        return {_NUMBER.unpack(stage)[0] for stage in self._told.keys()}  # noqa: SIM118 - a cell, no dict

    def tell(self, stage: int) -> None:
        """The DoFns of a stage know it now."""
        self._told.put(_NUMBER.pack(stage), b"")

    # --- time and marks -----------------------------------------------------------------------

    def natural(self, edge: int, before: int) -> int:
        """The frontier of an edge as it would be without the drain: as it was when that began.

        Whatever moves it later may be the drain, firing window after window on its way to the end
        of time. What it fires is taken in the second part: nothing may be late for that.

        Args:
            before: its frontier before the present round, microseconds.
        """
        known = self._natural.get(_NUMBER.pack(edge))
        if known is not None:
            time: int = _TIME.unpack(known)[0]
            return time
        # An edge that was at the end of time before the drain began got there without it.
        if before < END:
            self._natural.put(_NUMBER.pack(edge), _TIME.pack(before))
        return before

    def mix(self, edge: int) -> None:
        """What is caused by drain was put to other things that came on an edge."""
        if not self.is_mixed(edge):
            self._mixed.put(_NUMBER.pack(edge), b"")

    def is_mixed(self, edge: int) -> bool:
        """Whether that was so."""
        return self._mixed.get(_NUMBER.pack(edge)) is not None
