"""Takes blocks apart by the doors in front of their elements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apache_beam.transforms.window import WindowedValue

from sparkdrain.shuffle.elements import cut_runs, mixed_run, read_runs
from sparkdrain.shuffle.grouped_blocks import decode_groups, encode_groups

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkdrain.rounds.sides.doors import Doors
    from sparkdrain.shuffle.coding import ElementCoding

Admits = Callable[[bytes], bool]
"""Whether a door lets elements through at once."""


@dataclass(frozen=True, slots=True)
class Lot:
    """A block of elements of one door; of those that are let through, if that is None."""

    door: bytes | None
    payload: Any
    count: int = 0
    earliest: int = 0
    elements: list[Any] | None = None
    """What is in the block, if it had to be decoded, and is let through as a whole."""


def _admitted(elements: list[Any], doors: Doors, admits: Admits, frontier: int) -> bool:
    """Whether all elements are let through."""
    admitted = set()
    for element in elements:
        for window in element.windows:
            if window not in admitted:
                if not all(d is not None and admits(d) for d in doors.split([window], frontier)):
                    return False
                admitted.add(window)
    return True


def _by_door(
    elements: list[Any], doors: Doors, admits: Admits, frontier: int
) -> tuple[dict[bytes | None, list[Any]], int]:
    """Elements by door, those that are let through under None; how many, per window, are late."""
    lots: dict[bytes | None, list[Any]] = defaultdict(list)
    dropped = 0
    for element in elements:
        let_in: list[Any] = []
        for door, windows in doors.split(element.windows, frontier).items():
            if door is None:
                dropped += len(windows)
            elif admits(door):
                let_in += windows
            else:
                lots[door].append(_in_windows(element, windows))
        if let_in:
            lots[None].append(_in_windows(element, let_in))
    return lots, dropped


def _in_windows(element: Any, windows: list[Any]) -> Any:
    if len(windows) == len(element.windows):
        return element
    return WindowedValue(element.value, element.timestamp, tuple(windows), element.pane_info)


def _earliest(elements: list[Any]) -> int:
    return min(element.timestamp_micros for element in elements)


class RunSorter:
    """Takes the blocks of FORWARD and SPREAD edges apart.

    Attributes:
        dropped: elements, per window, that came too late.
    """

    def __init__(self, doors: Doors, coding: ElementCoding) -> None:
        self._doors = doors
        self._coding = coding
        self.dropped = 0

    def measure(self, payload: memoryview) -> tuple[int, int]:
        """How many elements are in a block, and the earliest of their times."""
        found = []
        for context, values in read_runs(payload, self._coding):
            elements = values if context is None else [context]
            found.append((len(values), _earliest(elements)))
        return sum(count for count, _ in found), min(time for _, time in found)

    def sort(self, payload: memoryview, admits: Admits, frontier: int) -> Iterator[Lot]:
        """A block by doors; see ``Doors.split`` for ``frontier``."""
        for context, count, run in cut_runs(payload, self._coding):
            if context is not None:
                parts = self._doors.split(context.windows, frontier)
                doors = [door for door in parts if door is not None]
                if len(parts) == len(doors) and all(map(admits, doors)):
                    yield Lot(None, run)
                    continue
                if len(parts) == 1 and doors:
                    yield Lot(doors[0], run, count, context.timestamp_micros)
                    continue
            yield from self._each(run, admits, frontier)

    def _each(self, run: memoryview, admits: Admits, frontier: int) -> Iterator[Lot]:
        ((context, values),) = read_runs(run, self._coding)
        elements = values if context is None else [context.with_value(v) for v in values]
        if _admitted(elements, self._doors, admits, frontier):
            yield Lot(None, run, elements=elements)
            return
        lots, dropped = _by_door(elements, self._doors, admits, frontier)
        self.dropped += dropped
        for door, lot in lots.items():
            yield Lot(door, mixed_run(lot, self._coding), len(lot), _earliest(lot))


class GroupSorter:
    """Takes the blocks of KEYED edges apart; see ``RunSorter``."""

    def __init__(self, doors: Doors, coding: ElementCoding) -> None:
        self._doors = doors
        self._values = coding.windowed_values
        self.dropped = 0

    def measure(self, payload: memoryview) -> tuple[int, int]:
        """How many elements are in a block, and the earliest of their times."""
        _, groups = decode_groups(bytes(payload))
        found = [self._values.decode(chunk) for _, chunk in groups]
        return sum(map(len, found)), min(map(_earliest, found))

    def sort(self, payload: memoryview, admits: Admits, frontier: int) -> Iterator[Lot]:
        """A block by doors; see ``Doors.split`` for ``frontier``."""
        section, groups = decode_groups(bytes(payload))
        # By door: a key, its chunk, how many elements that has, and the earliest of their times.
        parts: dict[bytes | None, list[tuple[bytes, bytes, int, int]]] = defaultdict(list)
        whole = True
        for key, chunk in groups:
            elements = self._values.decode(chunk)
            if _admitted(elements, self._doors, admits, frontier):
                parts[None].append((key, chunk, len(elements), _earliest(elements)))
                continue
            whole = False
            lots, dropped = _by_door(elements, self._doors, admits, frontier)
            self.dropped += dropped
            for door, lot in lots.items():
                parts[door].append((key, self._values.encode(lot), len(lot), _earliest(lot)))
        if whole:
            yield Lot(None, payload)
            return
        for door, part in parts.items():
            keys, chunks, counts, times = map(list, zip(*part, strict=True))
            yield Lot(door, encode_groups(section, keys, chunks), sum(counts), min(times))
