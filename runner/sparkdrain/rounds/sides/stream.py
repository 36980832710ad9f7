"""One side input in one slot of a level: takes its elements in, says which windows are ready.

A window is ready when it has ended (the side input's frontier has passed it), or a pane of it has
fired. If the trigger waits for the end of the window, its content is all of its elements; late
ones, within the allowed lateness, are added. With any other trigger the content is the latest
pane: the side input is a GroupByKey of one key, see ``sparkdrain.panes``. A pane without elements
replaces nothing.
"""

from __future__ import annotations

from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from apache_beam import coders
from apache_beam.transforms.trigger import DefaultTrigger
from typing_extensions import override

from sparkdrain.graph.state_ids import edge_state_id, side_state_id
from sparkdrain.panes.choose import grouping_for
from sparkdrain.panes.grouping import GroupingTerms
from sparkdrain.panes.times import end_of
from sparkdrain.shuffle.grouped_blocks import decode_groups
from sparkdrain.side_inputs.windows import WindowedContent, chunk_of, count_of
from sparkdrain.side_inputs.writers import comes_with_window
from sparkdrain.stages.shards.input import Input
from sparkdrain.stages.shards.inputs import GroupInput
from sparkdrain.watermarks.frontier import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sparkdrain.graph.plan import Edge
    from sparkdrain.rounds.context import Context
    from sparkdrain.stages.shards.turn import Turn

_BATCH = 1024
_REMEMBERED = 10_000


class SideStream(Input):
    """What comes on a BROADCAST edge. It feeds nothing into a stage; a stage reads ``content``.

    As it is here, it is complete with its window.

    Attributes:
        content: the side input by window.
        keeps: how long after its end a window is read, in microseconds; None: always.
        passed: tells up to which time no main input will read windows again.
    """

    def __init__(self, context: Context, edge: Edge) -> None:
        self.content = WindowedContent(
            context.overlay, side_state_id(edge.id), multimap=edge.multimap
        )
        self.keeps: int | None = 0
        self.passed: Callable[[], int] = lambda: BEGIN
        self.window_coder = context.codings.window_coder(edge)
        self._decode_window = self.window_coder.get_impl().decode
        self._ready: set[bytes] = set()
        self._frontier = BEGIN
        windowing = context.codings.windowing(edge)
        trigger = windowing.triggerfn
        late = type(trigger) is DefaultTrigger or bool(getattr(trigger, "late", None))
        self._lateness = windowing.allowed_lateness.micros if late else 0
        self._dropped = 0

    def begin(self, frontier: int) -> None:
        """A round begins, before which the side input's frontier was at ``frontier``."""
        self._frontier = frontier

    def take(self, payload: memoryview) -> None:
        """Add a block to the content of its window."""
        section, groups = decode_groups(bytes(payload))
        for key, chunk in groups:
            if self._is_over(section):
                self._dropped += count_of(chunk)
            else:
                self.content.append(section, key, chunk)
                self._date(section)

    def _is_over(self, window: bytes) -> bool:
        """Whether what comes for a window is too late, and no main input will read it."""
        end = self.end_of(window)
        if end + self._lateness > self._frontier or self.keeps is None:
            return False
        return min(end + self.keeps, END) <= self.passed()

    @override
    def take_dropped(self) -> int:
        dropped, self._dropped = self._dropped, 0
        return dropped

    @override
    def advance(self, turn: Turn) -> None:
        self._frontier = turn.after

    def end_of(self, window: bytes) -> int:
        """When a window, in its encoding, is over."""
        return end_of(self._decode_window(window))

    def is_ready(self, window: bytes) -> bool:
        """Whether a window, in its encoding, may be read; once it is, it always is."""
        if window in self._ready:
            return True
        if self.end_of(window) > self._frontier and not self._has_fired(window):
            return False
        if len(self._ready) >= _REMEMBERED:
            self._ready = set()
        self._ready.add(window)
        return True

    def _has_fired(self, window: bytes) -> bool:
        return False

    def _date(self, window: bytes) -> None:
        if self.keeps is not None:
            self.content.date(window, min(self.end_of(window) + self.keeps, END))


class TriggeredStream(SideStream):
    """A side input of which a trigger makes panes."""

    def __init__(self, context: Context, edge: Edge) -> None:
        super().__init__(context, edge)
        coder = context.codings.coder(edge)
        self._entries = _entries_of(coder, multimap=edge.multimap)
        terms = GroupingTerms(
            context.codings.windowing(edge),
            coders.BytesCoder(),
            context.codings.elements(edge),
            context.overlay,
            edge_state_id(edge.id),
            context.options.memory_bytes,
            lambda: context.directory,
            on_time_always=False,
        )
        self._encode_window = self.window_coder.get_impl().encode
        publisher: Any = self
        self._groups = GroupInput(grouping_for(terms), publisher, edge_state_id(edge.id))

    @override
    def take(self, payload: memoryview) -> None:
        self._groups.take(payload)

    @override
    def process(self, turn: Turn) -> None:
        self._groups.process(turn)

    @override
    def wake(self) -> int | None:
        return self._groups.wake()

    @override
    def take_dropped(self) -> int:
        return self._groups.take_dropped()

    @override
    def commit(self) -> None:
        self._groups.commit()

    @override
    def close(self) -> None:
        self._groups.close()

    @override
    def begin(self, frontier: int) -> None:
        self._frontier = min(frontier, self._groups.hold())

    def feed(self, pairs: list[tuple[bytes, Any]], context: Any) -> None:
        """Make a pane the content of its window."""
        (window,) = map(self._encode_window, context.windows)
        for _, values in pairs:
            self.content.replace(window, self._entries(values))
        self._date(window)

    def advance(self, turn: Turn) -> None:
        """Fire what is due; a window of which something is still due has not ended."""
        self._groups.advance(turn)
        self._frontier = min(turn.after, self._groups.hold())

    def _has_fired(self, window: bytes) -> bool:
        return self.content.has_fired(window)


def _entries_of(
    coder: coders.Coder, *, multimap: bool
) -> Callable[[Iterable[Any]], Iterator[tuple[bytes, bytes]]]:
    """What makes pairs of key and chunk of the elements of a pane."""
    if not multimap:
        encode = coder.get_impl().encode_nested

        def plain(values: Iterable[Any]) -> Iterator[tuple[bytes, bytes]]:
            iterator = iter(values)
            while batch := list(islice(iterator, _BATCH)):
                yield b"", chunk_of([encode(value) for value in batch])

        return plain
    encode_key = coder.key_coder().get_impl().encode_nested
    encode_value = coder.value_coder().get_impl().encode_nested

    def keyed(values: Iterable[Any]) -> Iterator[tuple[bytes, bytes]]:
        encoded = ((encode_key(key), encode_value(value)) for key, value in values)
        for key, run in groupby(encoded, lambda entry: entry[0]):
            while batch := list(islice(run, _BATCH)):
                yield key, chunk_of([value for _, value in batch])

    return keyed


def side_stream_for(context: Context, edge: Edge) -> SideStream:
    """The side input that comes on ``edge``."""
    if comes_with_window(context.codings.windowing(edge)):
        return SideStream(context, edge)
    return TriggeredStream(context, edge)
