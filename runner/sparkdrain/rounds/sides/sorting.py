"""Takes blocks apart by the doors in front of their elements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from apache_beam.transforms.window import WindowedValue
from typing_extensions import override

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


class Sorter(Protocol):
    """Takes the blocks of one edge apart."""

    dropped: int
    """Elements, per window, that came too late."""

    def measure(self, payload: memoryview) -> tuple[int, int]:
        """How many elements are in a block, and the earliest of their times."""

    def sort(self, payload: memoryview, admits: Admits, frontier: int) -> Iterator[Lot]:
        """A block by doors; see ``Doors.split`` for ``frontier``."""


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


class _Sorted:
    """Elements by door, and those that are let through under None."""

    def __init__(self, doors: Doors, admits: Admits, frontier: int) -> None:
        self._doors = doors
        self._admits = admits
        self._frontier = frontier
        self.lots: dict[bytes | None, list[Any]] = defaultdict(list)
        self.dropped = 0

    def add(self, element: Any) -> None:
        parts = self._doors.split(element.windows, self._frontier)
        let_in: list[Any] = []
        for door, windows in parts.items():
            if door is None:
                self.dropped += len(windows)
            elif self._admits(door):
                let_in += windows
            else:
                self.lots[door].append(_in_windows(element, windows))
        if let_in:
            self.lots[None].append(_in_windows(element, let_in))


def _in_windows(element: Any, windows: list[Any]) -> Any:
    if len(windows) == len(element.windows):
        return element
    return WindowedValue(element.value, element.timestamp, tuple(windows), element.pane_info)


def _earliest(elements: list[Any]) -> int:
    return min(element.timestamp_micros for element in elements)


class RunSorter(Sorter):
    """Sorts the elements of FORWARD and SPREAD edges."""

    def __init__(self, doors: Doors, coding: ElementCoding) -> None:
        self._doors = doors
        self._coding = coding
        self.dropped = 0

    @override
    def measure(self, payload: memoryview) -> tuple[int, int]:
        found = []
        for context, values in read_runs(payload, self._coding):
            elements = values if context is None else [context]
            found.append((len(values), _earliest(elements)))
        return sum(count for count, _ in found), min(time for _, time in found)

    @override
    def sort(self, payload: memoryview, admits: Admits, frontier: int) -> Iterator[Lot]:
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
        found = _Sorted(self._doors, admits, frontier)
        for element in elements:
            found.add(element)
        self.dropped += found.dropped
        for door, lot in found.lots.items():
            yield Lot(door, mixed_run(lot, self._coding), len(lot), _earliest(lot))


class GroupSorter(Sorter):
    """Sorts the elements of KEYED edges."""

    def __init__(self, doors: Doors, coding: ElementCoding) -> None:
        self._doors = doors
        self._values = coding.windowed_values
        self.dropped = 0

    @override
    def measure(self, payload: memoryview) -> tuple[int, int]:
        _, groups = decode_groups(bytes(payload))
        found = [self._values.decode(chunk) for _, chunk in groups]
        return sum(map(len, found)), min(map(_earliest, found))

    @override
    def sort(self, payload: memoryview, admits: Admits, frontier: int) -> Iterator[Lot]:
        section, groups = decode_groups(bytes(payload))
        parts: dict[bytes | None, tuple[list[bytes], list[bytes]]] = {}
        sizes: dict[bytes | None, list[tuple[int, int]]] = defaultdict(list)
        whole = True
        for key, chunk in groups:
            elements = self._values.decode(chunk)
            found = _Sorted(self._doors, admits, frontier)
            as_it_is = _admitted(elements, self._doors, admits, frontier)
            if as_it_is:
                found.lots[None] = elements
            else:
                whole = False
                for element in elements:
                    found.add(element)
                self.dropped += found.dropped
            for door, lot in found.lots.items():
                keys, chunks = parts.setdefault(door, ([], []))
                keys.append(key)
                chunks.append(chunk if as_it_is else self._values.encode(lot))
                sizes[door].append((len(lot), _earliest(lot)))
        if whole:
            yield Lot(None, payload)
            return
        for door, (keys, chunks) in parts.items():
            count = sum(size for size, _ in sizes[door])
            earliest = min(time for _, time in sizes[door])
            yield Lot(door, encode_groups(section, keys, chunks), count, earliest)
