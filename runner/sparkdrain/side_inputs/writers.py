"""Writes a side input by window, and by key if it is looked up by key.

In streaming every block goes to every slot that reads it. A block is one of grouped values
(``shuffle.grouped_blocks``). If the side input is complete with its window, the section is the
window, and the key that of a multimap, or empty. If its trigger decides, the key is empty, and the
values are whole elements with time and windows; or, if times do not matter, the section is the
window and the values are the elements alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.transforms.trigger import AccumulationMode, AfterWatermark, DefaultTrigger
from apache_beam.transforms.trigger import _Never as Never
from apache_beam.transforms.window import GlobalWindows

from sparkdrain.shuffle.group_sender import GroupSender
from sparkdrain.shuffle.grouping import GroupWriter, KeyedWriter, WindowedWriter

if TYPE_CHECKING:
    from apache_beam import coders

    from sparkdrain.graph.plan import Edge
    from sparkdrain.shuffle.group_sender import Router
    from sparkdrain.shuffle.outbox import Outbox, SparkPartition


def side_writer(
    edge: Edge,
    coder: coders.Coder,
    window_coder: coders.Coder,
    outbox: Outbox,
    route: Router,
    block_bytes: int,
) -> KeylessWriter | WindowedWriter:
    """The writer of ``edge``, whose elements ``coder`` is for."""
    # Beam asks for a key of a multimap by its nested encoding.
    encode_key = coder.key_coder().get_impl().encode_nested if edge.multimap else bytes
    value = coder.value_coder() if edge.multimap else coder
    values = GroupWriter(GroupSender(edge.id, encode_key, outbox, route, block_bytes), value)
    writer = WindowedWriter(values, window_coder)
    return writer if edge.multimap else KeylessWriter(writer)


class KeylessWriter:
    """Groups nothing: all elements are of one key."""

    def __init__(self, writer: KeyedWriter | WindowedWriter) -> None:
        self._writer = writer
        self.flush = writer.flush

    @property
    def elements(self) -> int:
        """Elements written."""
        return self._writer.elements

    def write(self, value: Any, context: Any) -> None:
        """Put an element to all others."""
        self._writer.write((b"", value), context)


def comes_with_window(windowing: Any) -> bool:
    """Whether the content of a window is all that is in it, once the window has ended.

    Early panes that are discarded are parts of it; Beam's own tests expect them together. The
    global window is different, since no reader waits for its end: its latest pane is its content.
    """
    trigger = windowing.triggerfn
    if windowing.windowfn.is_merging() or type(trigger) not in (
        DefaultTrigger,
        Never,
        AfterWatermark,
    ):
        return False
    if type(trigger) is not AfterWatermark or not (trigger.early or trigger.late):
        return True
    discards = windowing.accumulation_mode == AccumulationMode.DISCARDING
    return discards and windowing.windowfn != GlobalWindows()


def broadcast_writer(
    edge: Edge,
    coder: coders.Coder,
    windowing: Any,
    outbox: Outbox,
    block_bytes: int,
    *,
    by_window: bool,
) -> Any:
    """The writer of ``edge`` in the slot of ``outbox``.

    Args:
        by_window: if its trigger decides, values are grouped by window, without their times.
    """
    window = windowing.windowfn.get_window_coder()
    layout = outbox.layout
    everywhere: Any = _Everywhere(
        outbox, [layout.shard(edge.consumer, slot) for slot in range(layout.slots)]
    )

    def nowhere(keys: list[bytes]) -> list[SparkPartition]:
        return [layout.reports] * len(keys)

    sender = GroupSender(edge.id, bytes, everywhere, nowhere, block_bytes)
    if by_window and not comes_with_window(windowing):
        return KeylessWriter(WindowedWriter(GroupWriter(sender, coder), window))
    if not comes_with_window(windowing):
        return KeylessWriter(KeyedWriter(sender, coder, window))
    return side_writer(edge, coder, window, everywhere, nowhere, block_bytes)


class _Everywhere:
    """An outbox whose blocks go to all of some partitions, whichever is asked for."""

    def __init__(self, outbox: Outbox, partitions: list[SparkPartition]) -> None:
        self._outbox = outbox
        self._partitions = partitions
        self.producer = outbox.producer
        self.sent_bytes = 0

    def put(self, edge: int, partition: SparkPartition, payload: bytes) -> None:
        """See ``Outbox``; ``sent_bytes`` counts a block once."""
        self.sent_bytes += len(payload)
        for each in self._partitions:
            self._outbox.put(edge, each, payload)
