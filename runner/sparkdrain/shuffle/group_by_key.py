"""What a GroupByKey of bounded input hands out: windows, panes, timestamps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.transforms.window import WindowedValue
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

from sparkdrain.shuffle.keys import key_codec
from sparkdrain.shuffle.values import ValueDecoder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkdrain.shuffle.merging import GroupMerger

_BATCH = 1024
# The one pane of a window whose input has ended.
ONLY_PANE = PaneInfo(
    is_first=True, is_last=True, timing=PaneInfoTiming.ON_TIME, index=0, nonspeculative_index=0
)


def in_millis(time: Timestamp) -> Timestamp:
    """``time`` as every other element has it that came through a shuffle: in whole milliseconds.

    So Beam's coder for windowed values has it; the ends of time stay as they are.
    """
    if MIN_TIMESTAMP < time < MAX_TIMESTAMP:
        millis = abs(time.micros) // 1000
        return Timestamp(micros=1000 * millis if time.micros >= 0 else -1000 * millis)
    return time


def window_groups(
    merger: GroupMerger, key_coder: Any, value_coder: Any, window_coder: Any
) -> Iterator[tuple[Any, list[Any]]]:
    """One pane per key and window, at its end: ``(key, values)`` pairs, with what they share."""
    _, decode_key = key_codec(key_coder)
    values = ValueDecoder(value_coder).values
    decode_window = window_coder.get_impl().decode
    section: bytes | None = None
    context: Any = None
    pairs: list[Any] = []
    for found, key, chunks in merger.groups():
        if found != section or len(pairs) >= _BATCH:
            if pairs:
                yield context, pairs
                pairs = []
            if found != section:
                section = found
                window = decode_window(found)
                end = in_millis(window.max_timestamp())
                context = WindowedValue(None, end, (window,), ONLY_PANE)
        pairs.append((decode_key(key), values(chunks)))
    if pairs:
        yield context, pairs
