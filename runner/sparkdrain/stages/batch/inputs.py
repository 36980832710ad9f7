"""Which input an edge is in a batch job: each has one turn, in which time goes to its end."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Any

from apache_beam.transforms.trigger import Always
from apache_beam.transforms.window import GlobalWindows, TimestampCombiner
from typing_extensions import override

from sparkdrain.graph.plan import Edge, EdgeKind
from sparkdrain.graph.readers import processed_by, stateful_behind
from sparkdrain.graph.state_ids import edge_state_id
from sparkdrain.panes.choose import grouping_for
from sparkdrain.panes.grouping import GroupingTerms
from sparkdrain.panes.triggered import needs_no_times
from sparkdrain.shuffle.elements import mixed_run, read_runs
from sparkdrain.shuffle.group_by_key import window_groups
from sparkdrain.shuffle.merging import GroupMerger
from sparkdrain.stages.batch.keyed_rounds import KeyedRounds
from sparkdrain.stages.shards.input import Input
from sparkdrain.stages.shards.inputs import ElementInput, GroupInput
from sparkdrain.stages.shards.turn import Budget, Turn
from sparkdrain.watermarks.frontier import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sparkdrain.fnapi.merging import WindowMergers
    from sparkdrain.graph.plan import Stage
    from sparkdrain.shuffle.coding import ElementCoding
    from sparkdrain.stages.batch.state import SlotState
    from sparkdrain.stages.shards.codings import Codings
    from sparkdrain.stages.shards.source import Source


def parts_of_turn() -> tuple[Turn, Turn]:
    """What inputs are told when all blocks were taken, and what they are told then.

    In the second part all timers are due, those of processing time too.
    """
    first = Turn(BEGIN, END, 0, Budget(1 << 62, 1.0, lambda: 0.0))
    return first, replace(first, now=END)


def groups_by_window(windowing: Any) -> bool:
    """Whether a GroupByKey of bounded input needs to know no more than keys and windows.

    So it is if windows do not merge, the only pane comes at the end, and its timestamp is the
    end of the window.
    """
    # Always fires per element in Beam's model unless all is global.
    return needs_no_times(windowing) or (
        type(windowing.triggerfn) is Always
        and windowing.windowfn == GlobalWindows()
        and windowing.timestamp_combiner == TimestampCombiner.OUTPUT_AT_EOW
    )


def input_for(
    edge: Edge,
    stage: Stage,
    source: Source,
    codings: Codings,
    memory_bytes: int,
    state: SlotState,
    mergers: WindowMergers,
) -> Input:
    """The input that ``edge`` is for ``stage``, through ``source``."""
    match edge.kind:
        case EdgeKind.SPREAD if processed_by(stage, source.transform) is not None:
            return LentRestrictions(codings.elements(edge), source)
        case EdgeKind.FORWARD | EdgeKind.SPREAD:
            return ElementInput(codings.elements(edge), source)
        case EdgeKind.KEYED:
            stateful = stateful_behind(state.plan, stage, edge)
            return KeyedRounds(edge, source, stateful, codings, state, memory_bytes)
        case _:
            coder = codings.coder(edge)
            key, value = coder.key_coder(), coder.value_coder()
            windowing = codings.windowing(edge)
            if groups_by_window(windowing):
                merger = GroupMerger(memory_bytes, state.scratch)
                groups = window_groups(merger, key, value, codings.window_coder(edge))
                return MergedGroups(merger, groups, source)
            coding, overlay = codings.elements(edge, value), state.more("panes")
            id_, memory = edge_state_id(edge.id), memory_bytes // 3
            terms = GroupingTerms(
                windowing,
                key,
                coding,
                overlay,
                id_,
                memory,
                state.scratch,
                merge=mergers.of(codings.strategy(edge), codings.window_coder(edge)),
            )
            return GroupInput(grouping_for(terms), source, id_)


class MergedGroups(Input):
    """A GroupByKey that needs to know no more than keys and windows."""

    def __init__(
        self, merger: GroupMerger, groups: Iterator[tuple[Any, list[Any]]], source: Source
    ) -> None:
        self._merger = merger
        self._groups = groups
        self._source = source

    @property
    @override
    def spilled(self) -> int:
        return self._merger.spilled_bytes

    @override
    def take(self, payload: memoryview) -> None:
        self._merger.add(bytes(payload))

    @override
    def advance(self, turn: Turn) -> None:
        for context, pairs in self._groups:
            self._source.feed(pairs, context)

    @override
    def close(self) -> None:
        self._merger.close()


class LentRestrictions(Input):
    """Takes in restrictions and feeds them; another thread may take some of them away.

    Every restriction is either fed or given away, and never both.
    """

    def __init__(self, coding: ElementCoding, source: Source) -> None:
        self._coding = coding
        self._source = source
        self._lock = threading.Lock()
        self._blocks: deque[bytes] = deque()
        self._waiting: deque[Any] = deque()
        self._split: Callable[[float], list[Any]] = _nothing

    @override
    def take(self, payload: memoryview) -> None:
        # Restrictions are small, and their encoding is smaller.
        with self._lock:
            self._blocks.append(bytes(payload))

    @override
    def advance(self, turn: Turn) -> None:
        """Process all that is not given away in the meantime."""
        self._split = self._source.split
        while (element := self._next()) is not None:
            self._source.feed_windowed([element])

    def _next(self) -> Any:
        with self._lock:
            while not self._waiting:
                if not self._blocks:
                    return None
                self._waiting.extend(self._elements(self._blocks.popleft()))
            return self._waiting.popleft()

    def _elements(self, payload: bytes) -> list[Any]:
        elements: list[Any] = []
        for context, values in read_runs(memoryview(payload), self._coding):
            if context is None:
                elements += values
            else:
                elements += map(context.with_value, values)
        return elements

    def give(self, fraction: float) -> bytes | None:
        """Give away about that part of what is left, as a block; None if there is nothing.

        Whole restrictions if any are waiting, else a part of the one being processed. May be
        called from any thread.
        """
        with self._lock:
            while self._blocks:
                self._waiting.extend(self._elements(self._blocks.popleft()))
            count = ceil(len(self._waiting) * fraction)
            given = [self._waiting.pop() for _ in range(count)]
        if not given:
            given = self._split(1 - fraction)
        return mixed_run(given, self._coding) if given else None


def _nothing(keep: float) -> list[Any]:
    return []
