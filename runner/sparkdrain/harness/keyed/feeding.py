"""Feeds the elements of keys to the stateful DoFns behind an edge, by Beam or in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkdrain.harness.keyed.errors import tell_key
from sparkdrain.shuffle.keyed_chunks import KeyedChunks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sparkdrain.harness.harness import Elements
    from sparkdrain.harness.keyed.operation import KeyedOperation
    from sparkdrain.harness.keyed_state import KeyedState
    from sparkdrain.harness.large_place import LargePlace
    from sparkdrain.harness.small_place import SmallPlace
    from sparkdrain.harness.stateful import StatefulCalls
    from sparkdrain.shuffle.coding import ElementCoding


class BeamFeeder:
    """Feeds a source of Beam's operations, behind which there may be several stateful DoFns.

    Args:
        feed: takes windowed values for all consumers of the source.
        contexts: the state of DoFns that take one key after the other.
        decode_key: makes a key of its bytes, by the coder of the input.
        operations: what runs the DoFns with keys in flight.
    """

    takes_pieces = False

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
        self,
        calls: StatefulCalls,
        context: KeyedState,
        decode_key: Callable[[bytes], Any],
        coding: ElementCoding,
    ) -> None:
        self._calls = calls
        self._context = context
        self._decode_key = decode_key
        self._coding = coding
        self._count = 0
        self._last: tuple[Any, Any] = (None, None)

    @property
    def takes_pieces(self) -> bool:
        """Whether all keys are records in memory, or new."""
        return self._context.small.records.is_complete

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

        with calls.processing():
            count, key, element = calls.loop(keys, self._decode_key, one_by_one, feed_key, tell_key)
            if count:
                self._count += count
                self._last = key, element
            calls.flush()
        if self._count:
            calls.fed(self._count, *self._last)

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
                    self._calls.reraise(error)
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
