"""Readers of edges, one for each kind: they feed a stage what came on an edge."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from apache_beam.transforms.window import GlobalWindows, TimestampCombiner

from sparkdrain.graph.plan import Edge, EdgeKind
from sparkdrain.harness.beam import Always
from sparkdrain.panes.budget import Unlimited
from sparkdrain.panes.choose import grouping_for
from sparkdrain.panes.choose import groups_by_window as fires_at_window_ends
from sparkdrain.shuffle.elements import read_runs
from sparkdrain.shuffle.group_by_key import WindowGroups
from sparkdrain.shuffle.merging import GroupMerger
from sparkdrain.stages.keyed_reader import KeyedReader
from sparkdrain.stages.restrictions import RestrictionReader
from sparkdrain.watermarks.frontier import BEGIN, END
from timers_state import Overlay, RoundStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sparkdrain.shuffle.coding import ElementCoding
    from sparkdrain.stages.codings import Codings
    from sparkdrain.stages.shard import Source
    from sparkdrain.stages.state import SlotState


def groups_by_window(windowing: Any) -> bool:
    """Whether a GroupByKey of bounded input needs to know no more than keys and windows.

    So it is if windows do not merge, the only pane comes at the end, and its timestamp is the
    end of the window.
    """
    # Always fires per element in Beam's model unless all is global.
    return fires_at_window_ends(windowing) or (
        type(windowing.triggerfn) is Always
        and windowing.windowfn == GlobalWindows()
        and windowing.timestamp_combiner == TimestampCombiner.OUTPUT_AT_EOW
    )


def reader_for(
    edge: Edge,
    codings: Codings,
    memory_bytes: int,
    scratch: Callable[[], Path],
    state: SlotState,
    *,
    restrictions: bool,
) -> Any:
    """What takes the blocks of ``edge`` and feeds its elements into a stage."""
    match edge.kind:
        case EdgeKind.SPREAD if restrictions:
            return RestrictionReader(codings.elements(edge))
        case EdgeKind.FORWARD | EdgeKind.SPREAD:
            return ElementReader(codings.elements(edge))
        case EdgeKind.KEYED:
            return KeyedReader(edge, codings, state, memory_bytes, scratch)
        case _:
            coder = codings.coder(edge)
            key, value = coder.key_coder(), coder.value_coder()
            windowing = codings.windowing(edge)
            if groups_by_window(windowing):
                merger = GroupMerger(memory_bytes, scratch)
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

    def hand_out(self, sources: Sequence[Source]) -> None:
        """All was fed."""

    def close(self) -> None:
        """Nothing is kept."""


class _Collecting:
    """Collects all blocks before anything is fed."""

    def __init__(self, merger: GroupMerger) -> None:
        self._merger = merger

    @property
    def spilled(self) -> int:
        """Bytes that went to disk."""
        return self._merger.spilled_bytes

    def take(self, payload: memoryview, sources: Sequence[Source]) -> None:
        """Collect a block."""
        self._merger.add(bytes(payload))

    def close(self) -> None:
        """Give disk space back."""
        self._merger.close()


class GroupReader(_Collecting):
    """Feeds ``(key, values)`` pairs."""

    def __init__(self, merger: GroupMerger, groups: WindowGroups) -> None:
        super().__init__(merger)
        self._groups = groups

    def hand_out(self, sources: Sequence[Source]) -> None:
        """Feed all groups."""
        for context, pairs in self._groups.with_context():
            for source in sources:
                source.feed(pairs, context)


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
        self._overlay = Overlay(store, memory_bytes // 3)
        memory = memory_bytes // 3
        self._grouping = grouping_for(windowing, key, element, self._overlay, 0, memory, scratch)

    @property
    def spilled(self) -> int:
        """Bytes that went to disk."""
        return self._grouping.spilled_bytes

    def take(self, payload: memoryview, sources: Sequence[Source]) -> None:
        """Collect a block."""
        self._grouping.take(payload)

    def hand_out(self, sources: Sequence[Source]) -> None:
        """Feed all panes: those that elements bring about, then those of the end of time."""
        grouping = self._grouping
        for batches in (grouping.process(BEGIN, 0), grouping.advance(END, END, Unlimited())):
            for context, pairs in batches:
                for source in sources:
                    source.feed(pairs, context)

    def close(self) -> None:
        """Give disk space back."""
        self._overlay.close()
