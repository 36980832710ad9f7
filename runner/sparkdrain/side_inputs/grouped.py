"""Writes a side input by window, and by key if it is looked up by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkdrain.shuffle.grouping import GroupWriter, WindowedWriter

if TYPE_CHECKING:
    from apache_beam import coders

    from sparkdrain.graph.plan import Edge
    from sparkdrain.shuffle.group_sender import Router
    from sparkdrain.shuffle.grouping import KeyedWriter
    from sparkdrain.shuffle.outbox import Outbox


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
    values = GroupWriter(edge.id, encode_key, value, outbox, route, block_bytes)
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
