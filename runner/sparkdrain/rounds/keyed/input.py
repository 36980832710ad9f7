"""Stateful DoFns: elements of a round key after key, then the timers that are due."""

from __future__ import annotations

from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from apache_beam.transforms.window import GlobalWindows, WindowedValue
from typing_extensions import override

from sparkdrain.graph.plan import EdgeKind
from sparkdrain.graph.readers import stateful_behind
from sparkdrain.graph.state_ids import edge_state_id
from sparkdrain.harness.harness import KeyedEdge, StateTerms
from sparkdrain.harness.limits import UpTo
from sparkdrain.panes.times import end_of
from sparkdrain.rounds.keyed.time_sorted import SortedWait
from sparkdrain.shuffle.keyed_blocks import KeyedBlocks
from sparkdrain.shuffle.keys import key_codec
from sparkdrain.stages.shards.input import Input, Inside
from sparkdrain.watermarks.frontier import BEGIN, END
from timers_state import Domain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sparkdrain.graph.plan import Edge, Plan, Stage
    from sparkdrain.graph.readers import Stateful
    from sparkdrain.harness.harness import Elements
    from sparkdrain.rounds.context import Context
    from sparkdrain.stages.shards.codings import Codings
    from sparkdrain.stages.shards.input import Count
    from sparkdrain.stages.shards.source import Source
    from sparkdrain.stages.shards.turn import Turn
    from timers_state import Overlay

_MILLISECOND: Final = 1000
# Keys whose records are read at once: the more there are, the closer they are to each other in the
# store. How much memory they may take is up to the overlay.
_MOST: Final = 4096


class KeyedInput(Input):
    """The elements of a KEYED edge, and the timers of the DoFns behind it.

    In a turn, keys come one after the other: all that a key has to do is done before the next one.
    Order of a key: its elements; event timers that are due, in time order; then the same for
    processing time, event timers first again after each. What a callback sets takes part. When the
    input has ended, all processing-time timers are due, as in a bounded pipeline.
    """

    reason = "timers"

    def __init__(self, context: Context, edge: Edge, stage: Stage, source: Source) -> None:
        coder, windowing = context.codings.coder(edge), context.codings.windowing(edge)
        coding = context.codings.elements(edge, coder.value_coder())
        _, decode_key = key_codec(coder.key_coder())
        self._shard = source.shard
        self._stateful = list(stateful_behind(context.plan, stage, edge))
        transforms = [one.transform for one in self._stateful]
        self._edge = KeyedEdge(source.transform, transforms, coding, decode_key)
        self._expiry_of = expiry_for(windowing)
        self._overlay = context.overlay
        # A round's input.
        self._blocks = KeyedBlocks(context.options.memory_bytes, lambda: context.directory)
        # Where elements wait for their time, if they must come in time order.
        self._wait: SortedWait | None = None
        if edge.time_sorted:
            lateness = windowing.allowed_lateness.micros
            self._wait = SortedWait(context.overlay, edge_state_id(edge.id), coding, lateness)
        self._dropped = 0
        self._hold = END
        self._wake: int | None = None

    # --- elements -----------------------------------------------------------------------------

    @override
    def take(self, payload: memoryview) -> None:
        self._blocks.add(payload)

    @override
    def process(self, turn: Turn) -> None:
        late = turn.before if self._expiry_of is not None else BEGIN
        decode = self._edge.coding.windowed_values.decode
        is_late = partial(self._is_late, late)

        def elements(chunks: Any) -> Iterator[list[Any]]:
            lists = map(decode, (chunks,) if type(chunks) is bytes else chunks)
            return lists if late == BEGIN else (self._timely(each, late) for each in lists)

        if self._wait is not None:
            keys = iter(self._blocks.groups(self._ahead))
            waited = self._waited(keys, elements, self._wait, turn)
            first = next(waited, None)
            if first is not None:
                inlet = self._shard.open().keyed(self._edge)
                inlet.feed(chain((first,), waited), lambda lists: lists, is_late)
        elif self._blocks.are_any():
            inlet = self._shard.open().keyed(self._edge)
            pieces = self._blocks.pieces() if inlet.takes_pieces else None
            groups = self._blocks.groups(self._ahead) if pieces is None else pieces
            inlet.feed(groups, elements, is_late)
        self._blocks.clear()

    def _ahead(self, table: dict[bytes, Any]) -> Iterable[tuple[bytes, Any]]:
        """What a table has, by encoded key; records of keys that are fed are read before."""
        ids = [one.state_id for one in self._stateful]
        # Elements that have to wait are not fed.
        if self._wait is not None or not any(map(self._overlay.has_to_prefetch, ids)):
            return table.items()
        return _read_ahead(table, self._overlay, ids)

    def _waited(
        self,
        keys: Iterator[tuple[bytes, Any]],
        elements: Elements,
        wait: SortedWait,
        turn: Turn,
    ) -> Iterator[tuple[bytes, Iterator[list[Any]]]]:
        """Keys, and their elements that are to be fed now."""
        for encoded, chunks in keys:
            yield encoded, wait.take(encoded, elements(chunks), turn)
        yield from wait.due(turn)

    def _timely(self, elements: list[Any], late: int) -> list[Any]:
        """The elements whose windows have not all expired. Of one that is on time, none has."""
        if all(element.timestamp_micros >= late for element in elements):
            return elements
        timely = []
        for element in elements:
            left = tuple(window for window in element.windows if not self._expired(window, late))
            self._dropped += len(element.windows) - len(left)
            if len(left) == len(element.windows):
                timely.append(element)
            elif left:
                timely.append(
                    WindowedValue(element.value, element.timestamp, left, element.pane_info)
                )
        return timely

    def _is_late(self, late: int, element: Any) -> bool:
        """Whether an element with one window is to be dropped."""
        if element.timestamp_micros >= late:
            return False
        return self._expired(element.windows[0], late)

    def _expired(self, window: Any, frontier: int) -> bool:
        assert self._expiry_of is not None
        return self._expiry_of(window) <= frontier

    # --- timers -------------------------------------------------------------------------------

    @override
    def advance(self, turn: Turn) -> None:
        # Another DoFn comes first in each round, so that none takes the whole budget.
        self._stateful = [*self._stateful[1:], *self._stateful[:1]]
        in_time = [self._fire(one, turn) for one in self._stateful]
        if turn.draining and turn.after == END:
            self._forget_beyond()
        self._hold = self._first_hold(turn.after)
        self._wake = self._first_wake() if all(in_time) else turn.now

    def _fire(self, one: Stateful, turn: Turn) -> bool:
        """Fire what is due for one DoFn; whether the budget was enough."""
        processing = END if turn.after == END else turn.now
        due = (
            (Domain.EVENT, turn.after),
            (Domain.EXPIRY, turn.after),
            (Domain.PROCESSING, processing),
        )
        is_any = any(self._overlay.next_due(one.state_id, *each) is not None for each in due)
        if not is_any and not self._shard.waits(one.transform):
            return True
        up_to = UpTo(turn.after, processing, turn.budget, turn.repeats)
        return self._shard.open().keyed(self._edge).fire(one.transform, up_to)

    def _forget_beyond(self) -> None:
        """Nothing that was set for a time beyond the end of time will ever fire."""
        for one in self._stateful:
            for domain in (Domain.EVENT, Domain.PROCESSING):
                first = self._overlay.first_time(one.state_id, domain)
                while first is not None and first > END:
                    key = self._overlay.next_due(one.state_id, domain, first)
                    assert key is not None
                    self._overlay.scope(one.state_id, key).timers(domain).pop_due(first)
                    first = self._overlay.first_time(one.state_id, domain)

    def _first_hold(self, frontier: int) -> int:
        """The earliest time that is held back; which one, does not matter behind the frontier."""
        firsts = [
            first
            for one in self._stateful
            for domain in (Domain.EVENT, Domain.HOLD)
            if (first := self._overlay.first_time(one.state_id, domain, frontier)) is not None
        ]
        if self._wait is not None:
            firsts.append(self._wait.hold())
        first = min(firsts, default=END)
        # What is sent has whole milliseconds.
        return END if first >= END else max(first - first % _MILLISECOND, BEGIN)

    def _first_wake(self) -> int | None:
        firsts = [
            first
            for one in self._stateful
            if (first := self._overlay.first_time(one.state_id, Domain.PROCESSING)) is not None
        ]
        first = min(firsts, default=END + 1)
        return first if first <= END else None

    # --- what the slot asks -------------------------------------------------------------------

    # Hold and wake are as they were at the end of ``advance``.

    @override
    def hold(self) -> int:
        return self._hold

    @override
    def wake(self) -> int | None:
        return self._wake

    @override
    def take_dropped(self) -> int:
        dropped, self._dropped = self._dropped, 0
        if self._wait is not None:
            dropped += self._wait.take_dropped()
        return dropped

    @override
    def inside(self, count: Count) -> Inside:
        ids = [one.state_id for one in self._stateful]
        return Inside(
            windows=sum(count(id_, Domain.EXPIRY) for id_ in ids),
            timers=sum(count(id_, d) for id_ in ids for d in (Domain.EVENT, Domain.PROCESSING)),
            parked=0 if self._wait is None else self._wait.keys(count),
        )

    @override
    def close(self) -> None:
        self._blocks.clear()


def _read_ahead(
    table: dict[bytes, Any], overlay: Overlay, state_ids: Sequence[int]
) -> Iterator[tuple[bytes, Any]]:
    keys, groups = list(table), iter(table.items())
    at = 0
    while at < len(keys):
        next_ones = keys[at : at + _MOST]
        count = min(overlay.prefetch(state_id, next_ones) for state_id in state_ids)
        yield from islice(groups, count)
        at += count


def state_terms(
    plan: Plan, stage: Stage, codings: Codings, overlay: Overlay
) -> dict[str, StateTerms]:
    """Where and how long each stateful DoFn of a stage keeps its state, by transform."""
    edges = {edge.id: edge for edge in plan.edges}
    return {
        one.transform: StateTerms(overlay, one.state_id, expiry_for(codings.windowing(edges[id_])))
        for _, id_ in stage.sources
        if id_ is not None and edges[id_].kind is EdgeKind.KEYED
        for one in stateful_behind(plan, stage, edges[id_])
    }


def expiry_for(windowing: Any) -> Callable[[Any], int] | None:
    """Tells the time at which nothing more is kept of a window; None if windows last for ever."""
    if windowing.windowfn == GlobalWindows():
        return None
    lateness = windowing.allowed_lateness.micros
    return lambda window: min(end_of(window) + lateness, END)
