"""Writes a side input by window, and by key if it is looked up by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkdrain.shuffle.grouping import GroupWriter, SideWriter

if TYPE_CHECKING:
    from apache_beam import coders

    from sparkdrain.graph.plan import Edge
    from sparkdrain.shuffle.group_sender import Router
    from sparkdrain.shuffle.outbox import Outbox


def side_writer(
    edge: Edge,
    coder: coders.Coder,
    window_coder: coders.Coder,
    outbox: Outbox,
    route: Router,
    block_bytes: int,
) -> SideWriter:
    """The writer of ``edge``, whose elements ``coder`` is for."""
    # Beam asks for a key of a multimap by its nested encoding.
    encode_key = coder.key_coder().get_impl().encode_nested if edge.multimap else bytes
    value = coder.value_coder() if edge.multimap else coder
    writer = GroupWriter(edge.id, encode_key, value, outbox, route, block_bytes)
    return SideWriter(writer, window_coder, multimap=edge.multimap)
