"""Where the elements of a KEYED edge enter a stage that runs in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import override

from sparkdrain.harness.harness import KeyedInlet
from sparkdrain.harness.keyed.due import Due, DueInFlight
from sparkdrain.harness.keyed.errors import tell_key
from sparkdrain.shuffle.keyed_blocks import KeyedChunks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sparkdrain.graph.plan import TransformId
    from sparkdrain.harness.harness import Elements, KeyedEdge
    from sparkdrain.harness.keyed.due import StatefulDoFn
    from sparkdrain.harness.keyed.operation import KeyedOperation
    from sparkdrain.harness.keyed_state import KeyedState
    from sparkdrain.harness.large_place import LargePlace
    from sparkdrain.harness.limits import UpTo
    from sparkdrain.harness.operations import SourceOperation
    from sparkdrain.harness.small_place import SmallPlace
    from sparkdrain.harness.stateful import StatefulCalls


class CalledInlet(KeyedInlet):
    """Calls the stateful DoFns behind an edge, by generated code where possible, else by Beam.

    Args:
        source: takes windowed values for all consumers of the edge.
        dofns: those that use state or timers, by transform.
    """

    def __init__(
        self,
        edge: KeyedEdge,
        source: SourceOperation,
        dofns: Mapping[TransformId, StatefulDoFn],
    ) -> None:
        self._decode_key = edge.decode_key
        self._dofns = dofns
        self._feeder = _feeder(edge, source, list(dofns.values()))

    @property
    @override
    def takes_pieces(self) -> bool:
        # If all keys are in memory, or new.
        records = self._feeder.records
        return records is not None and records.is_complete

    @override
    def feed(
        self,
        keys: Iterable[tuple[bytes, Any]],
        elements: Elements,
        is_late: Callable[[Any], bool],
    ) -> None:
        self._feeder.feed(keys, elements, is_late)

    @override
    def fire(self, transform: TransformId, up_to: UpTo) -> bool:
        dofn = self._dofns.get(transform)
        if dofn is None:  # it declares state, and uses none
            return True
        kind = Due if dofn.flight is None else DueInFlight
        return kind(dofn, up_to, self._decode_key).fire()


def _feeder(
    edge: KeyedEdge, source: SourceOperation, dofns: Sequence[StatefulDoFn]
) -> BeamFeeder | CallingFeeder | FlightFeeder:
    for dofn in dofns:
        if dofn.calls is not None:  # then the edge feeds no other transform
            return CallingFeeder(source, dofn.calls, dofn.context, edge)
    flights = [dofn.flight for dofn in dofns if dofn.flight is not None]
    if flights and source.targets == flights[:1]:
        return FlightFeeder(source, flights[0], dofns[0].context, edge.decode_key)
    others = [dofn.context for dofn in dofns if dofn.flight is None]
    return BeamFeeder(source.feed_windowed, others, edge.decode_key, flights)


class BeamFeeder:
    """Feeds a source of Beam's operations, behind which there may be several stateful DoFns.

    Args:
        feed: takes windowed values for all consumers of the source.
        contexts: the state of DoFns that take one key after the other.
        operations: what runs the DoFns with keys in flight.
    """

    records = None  # each key is fed once

    def __init__(
        self,
        feed: Callable[[list[Any]], None],
        contexts: Sequence[KeyedState],
        decode_key: Callable[[bytes], Any],
        operations: Sequence[KeyedOperation] = (),
    ) -> None:
        self._feed = feed
        self._contexts = contexts
        self._decode_key = decode_key
        self._operations = operations

    def feed(
        self,
        keys: Iterable[tuple[bytes, Any]],
        elements: Elements,
        is_late: Callable[[Any], bool],
    ) -> None:
        """Feed what encoded keys have; what is late was dropped when it was decoded."""
        operations = self._operations
        for encoded, chunks in keys:
            key = self._decode_key(encoded)
            if not operations:
                self._feed_key(encoded, key, elements(chunks))
                continue
            # Other keys go on after each list, and the turn of this one is over then.
            for some in elements(chunks):
                self._feed_key(encoded, key, (some,))
                for operation in operations:
                    operation.make_room(operation.take_arrived(encoded, key))
        for operation in operations:
            operation.fed()

    def _feed_key(self, encoded: bytes, key: Any, lists: Iterable[list[Any]]) -> None:
        contexts = self._contexts
        for context in contexts:
            context.begin(encoded)
        try:
            for elements in lists:
                for element in elements:
                    element.value = (key, element.value)
                self._feed(elements)
                for context in contexts:
                    if context.place.is_outgrown:
                        context.place.end()
                        context.begin(encoded)
            for context in contexts:
                context.place.end()
        except BaseException as error:
            tell_key(error, key, contexts[0].place.window if contexts else None)
            raise


class CallingFeeder:
    """Calls the only DoFn behind a source."""

    def __init__(
        self, source: SourceOperation, calls: StatefulCalls, context: KeyedState, edge: KeyedEdge
    ) -> None:
        self._source = source
        self.records = context.small.records
        self._calls = calls
        self._context = context
        self._decode_key = edge.decode_key
        self._coding = edge.coding
        self._count = 0
        self._last: tuple[Any, Any] = (None, None)

    def feed(
        self,
        keys: Iterable[tuple[bytes, Any]],
        elements: Elements,
        is_late: Callable[[Any], bool],
    ) -> None:
        """Feed what encoded keys have."""
        calls = self._calls
        one_by_one = KeyedChunks(self._coding, is_late)
        self._count, self._last = 0, (None, None)

        def feed_key(encoded: bytes, chunks: Any) -> None:
            self._feed_key(encoded, elements(chunks))

        with calls.processing:
            count, key, element = calls.loop(keys, self._decode_key, one_by_one, feed_key, tell_key)
            if count:
                self._count += count
                self._last = key, element
            calls.flush()
        if self._count:
            self._source.fed(self._count, *self._last)

    def _feed_key(self, encoded: bytes, lists: Iterable[list[Any]]) -> None:
        """Feed all elements of a key."""
        key = self._decode_key(encoded)
        place, call = self._begin(encoded)
        element = None
        try:
            for elements in lists:
                self._count += len(elements)
                try:
                    call(key, elements)
                except BaseException as error:  # noqa: BLE001 - raised again, with the step's name
                    self._calls.timers.reraise(error)
                if elements:
                    element = elements[-1]
                if place.is_outgrown:
                    place.end()
                    place, call = self._begin(encoded)
            place.end()
        except BaseException as error:
            tell_key(error, key, place.window)
            raise
        if element is not None:
            self._last = key, element

    def _begin(
        self, encoded: bytes
    ) -> tuple[LargePlace | SmallPlace, Callable[[Any, list[Any]], None]]:
        place = self._context.begin(encoded)
        return place, self._calls.large if place.is_large else self._calls.small


class FlightFeeder:
    """Feeds the only DoFn behind a source, of which many keys are in flight."""

    def __init__(
        self,
        source: SourceOperation,
        operation: KeyedOperation,
        context: KeyedState,
        decode_key: Callable[[bytes], Any],
    ) -> None:
        self._source = source
        self.records = context.small.records
        self._operation = operation
        self._decode_key = decode_key
        self._count = 0
        self._last: tuple[bytes, Any] = b"", None

    def feed(
        self,
        keys: Iterable[tuple[bytes, Any]],
        elements: Elements,
        is_late: Callable[[Any], bool],
    ) -> None:
        """Feed what encoded keys have; what is late was dropped when it was decoded."""
        operation, decode_key, counted = self._operation, self._decode_key, self._counted
        flight, is_whole = operation.flight, operation.carried is None
        self._count = 0
        for encoded, chunks in keys:
            if is_whole and isinstance(chunks, (bytes, list)):
                flight.add(encoded, decode_key, counted(encoded, elements(chunks)))
                if flight.is_full:
                    operation.make_room()
                continue
            # They may be read from somewhere, where the next key is read then.
            for some in counted(encoded, elements(chunks)):
                operation.make_room(operation.add_some(encoded, decode_key, some))
        operation.fed()
        if self._count:
            encoded, element = self._last
            self._source.fed(self._count, decode_key(encoded), element)

    def _counted(self, encoded: bytes, lists: Iterable[list[Any]]) -> Iterator[list[Any]]:
        for elements in lists:
            if elements:
                self._count += len(elements)
                self._last = encoded, elements[-1]
            yield elements
