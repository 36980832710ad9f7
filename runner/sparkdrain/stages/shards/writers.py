"""Chooses the writer of an edge by the kind of the edge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sparkdrain.graph.plan import Edge, EdgeKind
from sparkdrain.shuffle.elements import ElementWriter
from sparkdrain.shuffle.group_sender import GroupSender
from sparkdrain.shuffle.grouping import FEW, GroupWriter, KeyedWriter, WindowedWriter
from sparkdrain.shuffle.keys import Owners, key_codec
from sparkdrain.side_inputs.writers import broadcast_writer, side_writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.shuffle.outbox import Outbox, SparkPartition
    from sparkdrain.stages.shards.codings import Codings

_FEW_TO_A_SLOT: Final = 1024


def writer_for(
    edge: Edge,
    codings: Codings,
    outbox: Outbox,
    block_bytes: int,
    by_window: Callable[[Any], bool],
) -> Any:
    """The writer of ``edge`` in the slot of ``outbox``.

    Args:
        codings: the coders of its PCollection.
        by_window: whether a GroupByKey's reader wants values by window, without their times.
    """
    outbox.names[edge.id] = codings.producer(edge)
    match edge.kind:
        case EdgeKind.FORWARD:
            # Slots beyond the layout's help with restrictions of others.
            slots = [outbox.slot % outbox.layout.slots]
            return _element_writer(edge, codings, outbox, block_bytes, slots)
        case EdgeKind.SPREAD:
            slots = list(range(outbox.layout.slots))
            return _element_writer(edge, codings, outbox, block_bytes, slots)
        case EdgeKind.GROUP if by_window(codings.windowing(edge)):
            sender = _by_key(edge, codings, outbox, block_bytes)
            values = GroupWriter(sender, codings.coder(edge).value_coder())
            return WindowedWriter(values, codings.window_coder(edge))
        case EdgeKind.GROUP | EdgeKind.KEYED:
            value, window = codings.coder(edge).value_coder(), codings.window_coder(edge)
            sender = _by_key(edge, codings, outbox, block_bytes)
            # The reader of a GroupByKey puts all of a key together, and is spared a part of that.
            few = _few(outbox.layout.slots) if edge.kind is EdgeKind.KEYED else 0
            return KeyedWriter(sender, value, window, few)
        case EdgeKind.BROADCAST:
            coder, windowing = codings.coder(edge), codings.windowing(edge)
            return broadcast_writer(
                edge, coder, windowing, outbox, block_bytes, by_window=by_window(windowing)
            )
        case EdgeKind.SIDE:
            return _side_writer(edge, codings, outbox, block_bytes)


def _few(slots: int) -> int:
    """How many elements are few, yet enough that blocks are not nearly empty."""
    return max(FEW, _FEW_TO_A_SLOT * slots)


def _element_writer(
    edge: Edge, codings: Codings, outbox: Outbox, block_bytes: int, slots: list[int]
) -> ElementWriter:
    targets = [outbox.layout.shard(edge.consumer, slot) for slot in slots]
    return ElementWriter(edge.id, codings.elements(edge), outbox, targets, block_bytes)


def _by_key(edge: Edge, codings: Codings, outbox: Outbox, block_bytes: int) -> GroupSender:
    """Sends each key to its slot."""
    layout = outbox.layout
    encode_key, _ = key_codec(codings.coder(edge).key_coder())
    route = Owners([layout.shard(edge.consumer, slot) for slot in range(layout.slots)]).of
    return GroupSender(edge.id, encode_key, outbox, route, block_bytes)


def _side_writer(edge: Edge, codings: Codings, outbox: Outbox, block_bytes: int) -> Any:
    """Every key goes to its bucket; of a side input without keys, each slot fills one."""
    layout = outbox.layout
    buckets = [layout.side(bucket) for bucket in range(layout.side_buckets)]
    own = buckets[outbox.slot % layout.side_buckets]

    def fill_own(keys: list[bytes]) -> list[SparkPartition]:
        return [own] * len(keys)

    coder, window = codings.coder(edge), codings.window_coder(edge)
    route = Owners(buckets).of if edge.multimap else fill_own
    return side_writer(edge, coder, window, outbox, route, block_bytes)
