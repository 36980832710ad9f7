"""Sessions of many elements, united before a trigger looks at one of them."""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import Any

from apache_beam.transforms.window import IntervalWindow

from sparkdrain.panes.times import timestamp

# As Beam's coder has them; the public properties make an object each.
_SPAN = attrgetter("_start_micros", "_end_micros")


def sessions_of(elements: list[Any], earliest_end: int) -> tuple[dict[Any, list[Any]], int]:
    """The sessions that elements with windows of Beam's ``Sessions`` make, and their elements.

    Sessions that only touch do not unite, as with Beam.

    Args:
        elements: windowed values.
        earliest_end: elements whose own window ends before this, in microseconds, are left out.

    Returns:
        Elements by window, and how many were left out.
    """
    spans = [(*_SPAN(window), element) for element in elements for window in element.windows]
    live = [span for span in spans if span[1] >= earliest_end]
    live.sort(key=itemgetter(0))
    sessions: dict[Any, list[Any]] = {}
    members: list[Any] = []
    first = last = 0
    for start, end, element in live:
        if members and start < last:
            last = max(last, end)
            members.append(element)
            continue
        if members:
            sessions[IntervalWindow(timestamp(first), timestamp(last))] = members
        first, last, members = start, end, [element]
    if members:
        sessions[IntervalWindow(timestamp(first), timestamp(last))] = members
    return sessions, len(spans) - len(live)
