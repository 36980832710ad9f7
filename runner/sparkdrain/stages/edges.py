"""The two ends of each kind of edge: who writes it and who hands it out again."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from apache_beam import coders
from apache_beam.transforms.window import TimestampCombiner

from sparkdrain.graph.plan import Edge, EdgeKind
from sparkdrain.harness.beam import Always
from sparkdrain.panes.budget import Unlimited
from sparkdrain.panes.grouping import grouping_for
from sparkdrain.panes.grouping import groups_by_window as fires_at_window_ends
from sparkdrain.shuffle.coding import ElementCoding
from sparkdrain.shuffle.elements import ElementWriter, read_runs
from sparkdrain.shuffle.group_by_key import WindowGroups
from sparkdrain.shuffle.grouping import GroupWriter, KeyedWriter, SideWriter, WindowedWriter
from sparkdrain.shuffle.keys import key_codec, slots_of
from sparkdrain.shuffle.merging import GroupMerger
from sparkdrain.side_inputs.broadcast import broadcast_writer
from sparkdrain.stages.restrictions import RestrictionReader
from sparkdrain.watermarks.frontier import BEGIN, END
from timers_state import Overlay, RoundStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from apache_beam.portability.api import beam_runner_api_pb2

    from sparkdrain.shuffle.outbox import Outbox, Partition
    from sparkdrain.stages.shard import Source


class Codings:
    """The coders of PCollections, as the shuffle needs them."""

    def __init__(self, context: Any, components: beam_runner_api_pb2.Components) -> None:
        self._context = context
        self._components = components

    def coder(self, edge: Edge) -> coders.Coder:
        """The element coder of the PCollection that the edge carries."""
        return self._context.coders.get_by_id(
            self._components.pcollections[edge.pcollection].coder_id
        )

    def coder_of(self, id_: str) -> coders.Coder:
        """The coder of that id."""
        return self._context.coders.get_by_id(id_)

    def producer(self, edge: Edge) -> str:
        """The name of the transform whose output it carries, as people know it."""
        name = self._components.pcollections[edge.pcollection].unique_name
        # Python's own are the length of the transform's name, that name, and the output's.
        for digits in range(1, len(name)):
            if not name[:digits].isdecimal():
                break
            start, end = digits, digits + int(name[:digits])
            if name[end : end + 1] == ".":
                return name[start:end]
        return name

    def windowing(self, edge: Edge) -> Any:
        """The windowing of that PCollection."""
        return self._context.windowing_strategies.get_by_id(
            self._components.pcollections[edge.pcollection].windowing_strategy_id
        )

    def window_coder(self, edge: Edge) -> coders.Coder:
        """The coder of its windows."""
        return self.windowing(edge).windowfn.get_window_coder()

    def elements(self, edge: Edge, coder: coders.Coder | None = None) -> ElementCoding:
        """How its elements are encoded (or only a part of them, that ``coder`` is for)."""
        return ElementCoding.of(coder or self.coder(edge), self.window_coder(edge))


def groups_by_window(windowing: Any) -> bool:
    """Whether a GroupByKey of bounded input needs to know no more than keys and windows.

    So it is if windows do not merge, the only pane comes at the end, and its timestamp is the
    end of the window.
    """
    # Always fires per element in Beam's model unless all is global.
    return fires_at_window_ends(windowing) or (
        type(windowing.triggerfn) is Always
        and _global(windowing)
        and windowing.timestamp_combiner == TimestampCombiner.OUTPUT_AT_EOW
    )


def _global(windowing: Any) -> bool:
    from apache_beam.transforms.window import GlobalWindows  # noqa: PLC0415

    return windowing.windowfn == GlobalWindows()


def writer_for(
    edge: Edge,
    codings: Codings,
    outbox: Outbox,
    block_bytes: int,
    by_window: Callable[[Any], bool] = groups_by_window,
) -> Any:
    """The writer of ``edge`` in the slot of ``outbox``.

    Args:
        edge: the edge.
        codings: the coders of its PCollection.
        outbox: where blocks go.
        block_bytes: the size at which they go.
        by_window: whether a GroupByKey's reader wants values by window, without their times.
    """
    layout, slot = outbox.layout, outbox.slot
    outbox.names[edge.id] = codings.producer(edge)
    match edge.kind:
        case EdgeKind.FORWARD | EdgeKind.SPREAD:
            # Slots beyond the layout's help with restrictions of others.
            slots = range(layout.slots) if edge.kind is EdgeKind.SPREAD else [slot % layout.slots]
            targets = [layout.shard(edge.consumer, s) for s in slots]
            coding = codings.elements(edge)
            return ElementWriter(edge.id, coding, outbox, targets, block_bytes)
        case EdgeKind.GROUP | EdgeKind.KEYED:
            shards = [layout.shard(edge.consumer, s) for s in range(layout.slots)]

            def route(keys: list[bytes]) -> list[Partition]:
                return [shards[number] for number in slots_of(keys, len(shards))]

            encode_key, _ = key_codec(codings.coder(edge).key_coder())
            value, window = codings.coder(edge).value_coder(), codings.window_coder(edge)
            if edge.kind is EdgeKind.GROUP and by_window(codings.windowing(edge)):
                writer = GroupWriter(edge.id, encode_key, value, outbox, route, block_bytes)
                return WindowedWriter(writer, window)
            element = coders.WindowedValueCoder(value, window)
            return KeyedWriter(
                GroupWriter(edge.id, encode_key, element, outbox, route, block_bytes)
            )
        case EdgeKind.BROADCAST:
            coder, windowing = codings.coder(edge), codings.windowing(edge)
            return broadcast_writer(
                edge, coder, windowing, outbox, block_bytes, by_window=by_window(windowing)
            )
        case EdgeKind.SIDE:
            # Of a side input without keys, each slot fills a bucket.
            own = slot % layout.side_buckets
            buckets = [layout.side(bucket) for bucket in range(layout.side_buckets)]

            def spread(keys: list[bytes]) -> list[Partition]:
                if not edge.multimap:
                    return [buckets[own]] * len(keys)
                return [buckets[number] for number in slots_of(keys, len(buckets))]

            coder, window = codings.coder(edge), codings.window_coder(edge)
            value = coder.value_coder() if edge.multimap else coder
            # Beam asks for a key of a multimap by its nested encoding.
            encode_key = coder.key_coder().get_impl().encode_nested if edge.multimap else bytes
            return SideWriter(
                GroupWriter(edge.id, encode_key, value, outbox, spread, block_bytes),
                window,
                multimap=edge.multimap,
            )


def reader_for(
    edge: Edge,
    codings: Codings,
    memory_bytes: int,
    scratch: Callable[[], Path],
    *,
    restrictions: bool,
) -> Any:
    """What takes the blocks of ``edge`` and feeds its elements into a stage."""
    match edge.kind:
        case EdgeKind.SPREAD if restrictions:
            return RestrictionReader(codings.elements(edge))
        case EdgeKind.FORWARD | EdgeKind.SPREAD:
            return ElementReader(codings.elements(edge))
        case _:
            coder = codings.coder(edge)
            key, value = coder.key_coder(), coder.value_coder()
            merger = GroupMerger(memory_bytes, scratch)
            if edge.kind is EdgeKind.KEYED:
                return KeyedReader(edge, codings.elements(edge, value), key, merger)
            windowing = codings.windowing(edge)
            if groups_by_window(windowing):
                return GroupReader(
                    merger, WindowGroups(key, value, codings.window_coder(edge), merger)
                )
            return TriggeredReader(
                windowing, key, codings.elements(edge, value), memory_bytes, scratch
            )


class ElementReader:
    """Feeds the elements of an exchange as its blocks come in."""

    spilled = 0

    def __init__(self, coding: ElementCoding) -> None:
        self._coding = coding

    def take(self, payload: memoryview, sources: Sequence[Source]) -> None:
        """Feed a block."""
        for context, values in read_runs(payload, self._coding):
            for source in sources:
                if context is None:
                    source.feed_windowed(values)
                else:
                    source.feed(values, context)

    def drain(self, sources: Sequence[Source]) -> None:
        """All was fed."""

    def close(self) -> None:
        """Nothing is kept."""


class GroupReader:
    """Collects all blocks, then feeds ``(key, values)`` pairs."""

    def __init__(self, merger: GroupMerger, groups: Any) -> None:
        self._merger = merger
        self._groups = groups

    @property
    def spilled(self) -> int:
        """Bytes that went to disk."""
        return self._merger.spilled_bytes

    def take(self, payload: memoryview, sources: Sequence[Source]) -> None:
        """Collect a block."""
        self._merger.add(bytes(payload))

    def drain(self, sources: Sequence[Source]) -> None:
        """Feed all groups."""
        for context, pairs in self._groups.batches():
            for source in sources:
                source.feed(pairs, context)

    def close(self) -> None:
        """Give disk space back."""
        self._merger.close()


class TriggeredReader:
    """A GroupByKey whose panes need more than keys and windows: as in streaming, in one round."""

    def __init__(
        self,
        windowing: Any,
        key: Any,
        element: ElementCoding,
        memory_bytes: int,
        scratch: Callable[[], Path],
    ) -> None:
        store = RoundStore(scratch() / f"panes-{uuid.uuid4().hex}")
        self._overlay = Overlay(store, memory_bytes // 3, rounds=True)
        memory = memory_bytes // 3
        self._grouping = grouping_for(windowing, key, element, self._overlay, 0, memory, scratch)

    @property
    def spilled(self) -> int:
        """Bytes that went to disk."""
        return self._grouping.spilled_bytes

    def take(self, payload: memoryview, sources: Sequence[Source]) -> None:
        """Collect a block."""
        self._grouping.take(payload)

    def drain(self, sources: Sequence[Source]) -> None:
        """Feed all panes: those that elements bring about, then those of the end of time."""
        grouping = self._grouping
        for batches in (grouping.process(BEGIN, 0), grouping.advance(END, END, Unlimited())):
            for context, pairs in batches:
                for source in sources:
                    source.feed(pairs, context)

    def close(self) -> None:
        """Give disk space back."""
        self._overlay.close()


class KeyedReader:
    """Feeds stateful DoFns: all elements of a key, then its timers, then the next key."""

    def __init__(self, edge: Edge, coding: ElementCoding, key: Any, merger: GroupMerger) -> None:
        self._edge = edge
        self._coding = coding
        _, self._decode_key = key_codec(key)
        self._merger = merger

    @property
    def spilled(self) -> int:
        """Bytes that went to disk."""
        return self._merger.spilled_bytes

    def take(self, payload: memoryview, sources: Sequence[Source]) -> None:
        """Collect a block."""
        self._merger.add(bytes(payload))

    def drain(self, sources: Sequence[Source]) -> None:
        """Feed all keys."""
        decode_key = self._decode_key
        for _, encoded, chunks in self._merger.groups():
            key = decode_key(encoded)
            for source in sources:
                source.shard.open().begin_key(encoded)
            for elements in self._elements(chunks):
                for element in elements:
                    element.value = (key, element.value)
                for source in sources:
                    source.feed_windowed(elements)
            for source in sources:
                source.shard.open().end_key(key)

    def _elements(self, chunks: list[Any]) -> Iterator[list[Any]]:
        decode = self._coding.windowed_values.decode
        batches = (decode(c if isinstance(c, bytes) else c.load()) for c in chunks)
        if not self._edge.time_sorted:
            yield from batches
            return
        elements = [element for batch in batches for element in batch]
        elements.sort(key=lambda element: element.timestamp_micros)
        yield elements

    def close(self) -> None:
        """Give disk space back."""
        self._merger.close()
