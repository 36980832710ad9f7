"""A key whose state in a window is little, values, items and timers: an object with tuples.

What changes is replaced, never changed in place. So what was committed is kept aside by keeping
references, and what the store has is told apart from what it has not by comparing them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from timers_state.keys import EVENT, EXPIRY, Domain, TimerName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from timers_state.cells.cell import Cell

RECORD_BYTES: Final = 480
"""What a record costs in memory beside its key, window, values and timers."""

VALUE_BYTES: Final = 48
"""What a value costs beside its content."""

SET_TIMER_BYTES: Final = 64
"""What a family costs, whether its timer is set or not."""

SAVED_BYTES: Final = 200
"""What it costs to keep aside what was committed, beside the content of values."""

MOST_ITEM_BYTES: Final = 16 * 1024
"""Items that take more memory than this, in bytes, are too many for a record."""

OTHER_TIMER_BYTES: Final = 300
"""What a timer costs that is not one of ``Layout.families``, beside its payload."""

MOST_OTHER_TIMERS: Final = 64
"""More of these timers are more than a record can hold."""

Copied = tuple[int, Any]
"""What all items take in memory, in bytes, and a list or dict of them that is never changed."""
Values = tuple[Any, ...]
"""The bytes of a value, ``Copied`` of another kind, or None if there is nothing, for each state."""
Times = tuple[int | None, ...]
Payloads = tuple[bytes, ...]
Others = dict[TimerName, tuple[int, bytes]]
"""Time and payload of timers that follow processing time, of what these hold back, and of timers
with a dynamic tag. It is replaced, never changed."""
NO_OTHERS: Final[Others] = {}
Content = tuple[Values, Times, Payloads, int | None, Others]
"""Values, times of timers, their payloads, when the window expires, and other timers."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What the records of a state have.

    Attributes:
        values: kind of cell and tag of each state.
        families: names of the declared event timers; a timer without a dynamic tag has a place of
            its own.
        expires: whether windows end.
        others: whether there are timers that follow processing time.
    """

    values: tuple[tuple[type[Cell], bytes], ...]
    families: tuple[bytes, ...]
    expires: bool = True
    others: bool = False

    @property
    def empty(self) -> Content:
        """What a record has that has nothing."""
        return _nothing(len(self.values), len(self.families))

    def timers(self, content: Content) -> Others:
        """All timers that a record has; that its window expires is one without a name."""
        _, times, payloads, expiry, others = content
        found: Others = {} if expiry is None else {(EXPIRY, b"", b""): (expiry, b"")}
        for family, time, payload in zip(self.families, times, payloads, strict=True):
            if time is not None:
                found[EVENT, family, b""] = (time, payload)
        return {**found, **others}


@cache  # content goes from records to others of the same layout, and is compared by identity
def _nothing(values: int, families: int) -> Content:
    return (None,) * values, (None,) * families, (b"",) * families, None, NO_OTHERS


class Record:
    """State and timers of one key in one window.

    Attributes:
        key: encoded.
        window: encoded.
        more: the record of another window of the same key.
        values, times, payloads, expiry, others: see ``Content``.
        saved: what was committed, if the running round changed it.
        base: what the store has; None if it has nothing of this window.
        listed: under which time it is listed, see ``RecordTimes``; None: it is not.
        recent: whether it was used since room was last made.
    """

    __slots__ = (
        "base",
        "expiry",
        "key",
        "listed",
        "more",
        "others",
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
        self.values, self.times, self.payloads, self.expiry, self.others = content
        self.saved: Content | None = None
        self.base: Content | None = None
        self.listed: int | None = None
        self.recent = True

    def content(self) -> Content:
        """What it has now."""
        return self.values, self.times, self.payloads, self.expiry, self.others

    def committed(self) -> Content:
        """What it had when the round began."""
        return self.saved or self.content()

    def has_timers(self) -> bool:
        """Whether a timer is set."""
        return bool(self.others) or any(time is not None for time in self.times)

    def first_time(self) -> int | None:
        """When its first event timer fires."""
        times = self.times
        if self.others:
            times = (*times, *times_of(self.others, EVENT))
        if len(times) == 1:
            return times[0]
        return min((time for time in times if time is not None), default=None)

    def first_other(self, domain: Domain) -> int | None:
        """The first time of its other timers of a domain."""
        first = None
        for name, (time, _) in self.others.items():
            if name[0] is domain and (first is None or time < first):
                first = time
        return first


def times_of(others: Mapping[TimerName, tuple[int, bytes]], domain: Domain) -> Iterator[int]:
    """The times of a domain's timers."""
    return (time for name, (time, _) in others.items() if name[0] is domain)


def times_in(content: Content, domain: Domain) -> Iterator[int]:
    """The times of all timers that a record has in a domain."""
    _, times, _, expiry, others = content
    if domain is EXPIRY:
        times = (expiry,)
    elif domain is not EVENT:
        times = ()
    yield from (time for time in times if time is not None)
    yield from times_of(others, domain)


def size_of(content: Content) -> int:
    """What values, items, payloads and other timers cost in memory."""
    values, _, payloads, _, others = content
    size = sum(OTHER_TIMER_BYTES + len(payload) for _, payload in others.values()) if others else 0
    for value in values:
        if value is not None:
            size += VALUE_BYTES + (len(value) if type(value) is bytes else value[0])
    for payload in payloads:
        if payload:
            size += len(payload)
    return size
