"""A key whose state in a window is little, values, bags, sets and timers: an object with tuples.

What changes is replaced, never changed in place. So what was committed is kept aside by keeping
references, and what the store has is told apart from what it has not by comparing them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from timers_state.cells import Bag, Set, Value

RECORD_BYTES: Final = 480
"""What a record costs in memory beside its key, window, values and timers."""

VALUE_BYTES: Final = 48
"""What a value costs beside its content."""

SET_TIMER_BYTES: Final = 64
"""What a family costs, whether its timer is set or not."""

SAVED_BYTES: Final = 200
"""What it costs to keep aside what was committed, beside the content of values."""

MOST_ITEM_BYTES: Final = 16 * 1024
"""A bag or set that takes more, see ``Items``, is more than a record can hold."""

Values = tuple[Any, ...]
"""Of values their bytes, of bags and sets ``Items``; None if there is nothing."""
Times = tuple[int | None, ...]
Payloads = tuple[bytes, ...]
Content = tuple[Values, Times, Payloads, int | None]
"""Values, times of timers, their payloads, and when the window expires."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What the records of a state have.

    Attributes:
        values: kind of cell and tag of each value, bag and set.
        families: of the event timers; none has a dynamic tag.
        expires: whether windows end.
    """

    values: tuple[tuple[type[Value] | type[Bag] | type[Set], bytes], ...]
    families: tuple[bytes, ...]
    expires: bool = True

    @property
    def empty(self) -> Content:
        """What a record has that has nothing."""
        values, families = len(self.values), len(self.families)
        return (None,) * values, (None,) * families, (b"",) * families, None


class Record:
    """State and timers of one key in one window.

    Attributes:
        key: encoded.
        window: encoded.
        more: the record of another window of the same key.
        values, times, payloads, expiry: see ``Content``.
        saved: what was committed, if the running round changed it.
        base: what the store has; None if it has nothing of this window.
        listed: under which time it is listed, see ``RecordTimes``; None: it is not.
        recent: whether it was used since somebody looked for what could go.
    """

    __slots__ = (
        "base",
        "expiry",
        "key",
        "listed",
        "more",
        "payloads",
        "recent",
        "saved",
        "times",
        "values",
        "window",
    )

    def __init__(self, key: bytes, window: bytes, content: Content) -> None:
        self.key = key
        self.window = window
        self.more: Record | None = None
        self.values, self.times, self.payloads, self.expiry = content
        self.saved: Content | None = None
        self.base: Content | None = None
        self.listed: int | None = None
        self.recent = True

    def content(self) -> Content:
        """What it has now."""
        return self.values, self.times, self.payloads, self.expiry

    def committed(self) -> Content:
        """What it had when the round began."""
        return self.saved or (self.values, self.times, self.payloads, self.expiry)

    def has_timers(self) -> bool:
        """Whether a timer is set."""
        return any(time is not None for time in self.times)

    def first_time(self) -> int | None:
        """When its first timer fires."""
        times = self.times
        if len(times) == 1:
            return times[0]
        return min((time for time in times if time is not None), default=None)


def size_of(content: Content) -> int:
    """What values, bags, sets and payloads cost in memory."""
    values, _, payloads, _ = content
    size = 0
    for value in values:
        if value is not None:
            size += VALUE_BYTES + (len(value) if type(value) is bytes else value[0])
    for payload in payloads:
        if payload:
            size += len(payload)
    return size
