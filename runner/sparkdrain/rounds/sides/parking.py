"""Elements that wait for side inputs, as blocks in the slot's state, in pages.

Per door there is a scope of the overlay with a bag for each page; one scope for all has the table
of doors. A page is taken out as a whole.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkdrain.watermarks.frontier import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timers_state import KeyScope, Overlay

_ENTRY = struct.Struct(">QQqQ")
_PAGE = struct.Struct(">Q")
_COUNT = struct.Struct(">I")
_TIME = struct.Struct(">q")
_PAGE_BYTES = 1 << 20
_MARKS = b"\0", b"\1"
_TABLE, _DOOR = b"t", b"d"
_DOORS, _PASSED = b"d", b"p"


@dataclass(slots=True)
class _Queue:
    """What waits before a door: pages ``[first, end)``, and the earliest time of an element."""

    first: int
    end: int
    earliest: int
    count: int = 0
    """How many elements wait."""
    room: int = 0
    """Bytes that still go to the last page."""


class Parking:
    """Elements that wait before the doors of one transform.

    Elements that the drain has caused wait in queues of their own. ``of_drain`` selects which
    queues the methods use.

    Args:
        state_id: nothing else uses it there.
    """

    def __init__(self, overlay: Overlay, state_id: int) -> None:
        self._overlay = overlay
        self._state_id = state_id
        self._queues = {
            door: _Queue(*_ENTRY.unpack(entry)) for door, entry in self._table().map(_DOORS).items()
        }
        self.of_drain = False
        passed = self._table().value(_PASSED).get()
        self._passed: int = BEGIN if passed is None else _TIME.unpack(passed)[0]

    def _table(self) -> KeyScope:
        return self._overlay.scope(self._state_id, _TABLE)

    @property
    def passed(self) -> int:
        """The time up to which everything has passed, as it was last set."""
        return self._passed

    @passed.setter
    def passed(self, time: int) -> None:
        if time != self._passed:
            self._passed = time
            self._table().value(_PASSED).set(_TIME.pack(time))

    def _name(self, door: bytes) -> bytes:
        return door + _MARKS[self.of_drain]

    def doors(self) -> list[bytes]:
        """The doors before which something waits, the first to have been waited at first."""
        mark = _MARKS[self.of_drain]
        return [name[:-1] for name in self._queues if name[-1:] == mark]

    def all_doors(self) -> set[bytes]:
        """The doors before which anything waits."""
        return {name[:-1] for name in self._queues}

    def is_waiting(self, door: bytes) -> bool:
        """Whether something waits before a door."""
        return self._name(door) in self._queues

    def hold(self) -> int:
        """The earliest time of what waits; END if nothing does."""
        return min((queue.earliest for queue in self._queues.values()), default=END)

    def count(self) -> int:
        """How many elements wait."""
        return sum(queue.count for queue in self._queues.values())

    def park(self, door: bytes, payload: bytes, count: int, earliest: int) -> None:
        """Have a block of ``count`` elements wait, of which the earliest has that time."""
        door = self._name(door)
        queue = self._queues.get(door)
        if queue is None:
            queue = self._queues[door] = _Queue(0, 0, END)
        if queue.room <= 0:
            queue.end += 1
            queue.room = _PAGE_BYTES
        queue.room -= len(payload)
        queue.count += count
        queue.earliest = min(queue.earliest, earliest)
        scope = self._overlay.scope(self._state_id, _DOOR + door)
        scope.bag(_PAGE.pack(queue.end - 1)).append(_COUNT.pack(count) + payload)
        self._save(door, queue)

    def contents(self) -> Iterator[tuple[bytes, bytes, int, int]]:
        """All that waits and is to be parked elsewhere: ``park``'s arguments, door by door.

        ``of_drain`` is set as the block has it. The last number is the time of the door.
        """
        for name, queue in self._queues.items():
            scope = self._overlay.scope(self._state_id, _DOOR + name)
            self.of_drain = name[-1:] == _MARKS[True]
            for page in range(queue.first, queue.end):
                for item in scope.bag(_PAGE.pack(page)).read():
                    (count,) = _COUNT.unpack_from(item)
                    yield name[:-1], item[_COUNT.size :], count, queue.earliest

    def _save(self, door: bytes, queue: _Queue) -> None:
        entry = _ENTRY.pack(queue.first, queue.end, queue.earliest, queue.count)
        self._table().map(_DOORS).put(door, entry)

    def take_out(self, door: bytes) -> Iterator[list[tuple[bytes, int]]]:
        """The blocks that wait before a door, with their counts, page by page in their order.

        A page is gone when it was handed out; what is left if one stops goes on waiting.
        """
        door = self._name(door)
        queue = self._queues[door]
        while queue.first < queue.end:
            scope = self._overlay.scope(self._state_id, _DOOR + door)
            bag = scope.bag(_PAGE.pack(queue.first))
            items = list(bag.read())
            bag.clear()
            queue.first += 1
            queue.count -= sum(_COUNT.unpack_from(item)[0] for item in items)
            if queue.first == queue.end:
                del self._queues[door]
                self._table().map(_DOORS).remove(door)
                scope.forget()
            else:
                self._save(door, queue)
            yield [(item[_COUNT.size :], _COUNT.unpack_from(item)[0]) for item in items]
