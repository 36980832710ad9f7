"""Feeds the elements of keys to the stateful DoFns behind an edge, by Beam or in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from sparkdrain.keyed.errors import tell_key
from sparkdrain.shuffle.keyed_chunks import KeyedChunks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sparkdrain.harness.keyed_state import KeyedState
    from sparkdrain.harness.large_place import LargePlace
    from sparkdrain.harness.small_place import SmallPlace
    from sparkdrain.harness.stateful import StatefulCalls
    from sparkdrain.keyed.inlet import Inlet
    from sparkdrain.keyed.stateful import Stateful
    from sparkdrain.shuffle.coding import ElementCoding


Batches = Callable[[Any], "Iterator[list[Any]]"]
"""The elements of what one key has in a round."""


class Feeder(Protocol):
    """Feeds elements of one key after the other.

    Attributes:
        takes_pieces: whether a key may as well come several times, since a turn costs little.
    """

    @property
    def takes_pieces(self) -> bool:
        """See above."""

    def feed(self, keys: Iterable[tuple[bytes, Any]], batches: Batches) -> None:
        """Feed what encoded keys have; all of each before the next key is asked for."""


class BeamFeeder:
    """Feeds a source of Beam's operations, behind which there may be several stateful DoFns."""

    takes_pieces = False

    def __init__(
        self,
        feed: Callable[[list[Any]], None],
        contexts: list[KeyedState],
        decode_key: Callable[[bytes], Any],
    ) -> None:
        self._feed = feed
        self._contexts = contexts
        self._decode_key = decode_key

    def feed(self, keys: Iterable[tuple[bytes, Any]], batches: Batches) -> None:
        """See ``Feeder``."""
        for encoded, chunks in keys:
            self._feed_key(encoded, batches(chunks))

    def _feed_key(self, encoded: bytes, batches: Iterable[list[Any]]) -> None:
        key = self._decode_key(encoded)
        contexts = self._contexts
        for context in contexts:
            context.large.begin(encoded)
        try:
            for elements in batches:
                for element in elements:
                    element.value = (key, element.value)
                self._feed(elements)
            for context in contexts:
                context.large.end()
        except BaseException as error:
            tell_key(error, key, contexts[0].large.window if contexts else None)
            raise


class CallingFeeder:
    """Calls the only DoFn behind a source."""

    def __init__(
        self,
        calls: StatefulCalls,
        decode_key: Callable[[bytes], Any],
        chunks: KeyedChunks,
    ) -> None:
        self._calls = calls
        self._decode_key = decode_key
        self._chunks = chunks
        self._count = 0
        self._last: tuple[Any, Any] = (None, None)

    @property
    def takes_pieces(self) -> bool:
        """See ``Feeder``: all keys are records in memory, or new."""
        return self._calls.records.place.records.is_complete

    def feed(self, keys: Iterable[tuple[bytes, Any]], batches: Batches) -> None:
        """See ``Feeder``."""
        calls = self._calls
        self._count = 0

        def feed_key(encoded: bytes, chunks: Any) -> None:
            self._feed_key(encoded, batches(chunks))

        with calls.processing():
            count, key, element = calls.records.loop(
                keys, self._decode_key, self._chunks, feed_key, tell_key
            )
            if count:
                self._count += count
                self._last = key, element
            calls.flush()
        if self._count:
            calls.fed(self._count, *self._last)

    def _feed_key(self, encoded: bytes, batches: Iterable[list[Any]]) -> None:
        """Feed all elements of a key."""
        calls, records = self._calls, self._calls.records
        key = self._decode_key(encoded)
        place: LargePlace | SmallPlace = records.place
        call = records.feed
        if not place.begin(encoded):
            place, call = self._large(encoded)
        element = None
        try:
            for elements in batches:
                self._count += len(elements)
                try:
                    call(key, elements)
                except BaseException as error:  # noqa: BLE001 - raised again, with the step's name
                    calls.reraise(error)
                if elements:
                    element = elements[-1]
                if place.is_outgrown:
                    place.end()
                    place, call = self._large(encoded)
            place.end()
        except BaseException as error:
            tell_key(error, key, place.window)
            raise
        if element is not None:
            self._last = key, element

    def _large(self, encoded: bytes) -> tuple[LargePlace, Callable[[Any, list[Any]], None]]:
        place = self._calls.place
        place.begin(encoded)
        return place, self._calls.feed


def feeder_for(
    inlet: Inlet,
    stateful: Sequence[Stateful],
    coding: ElementCoding,
    decode_key: Callable[[bytes], Any],
    is_late: Callable[[Any], bool],
) -> Feeder:
    """What feeds the DoFns behind an edge.

    Args:
        inlet: where the edge enters the stage.
        stateful: the DoFns.
        coding: of the values.
        decode_key: of the keys.
        is_late: whether an element with one window is to be dropped.
    """
    bundle = inlet.bundle()
    contexts = [bundle.states[one.transform] for one in stateful]
    if len(contexts) == 1:
        calls = bundle.stateful_calls(inlet.transform, stateful[0].transform)
        if calls is not None:
            return CallingFeeder(calls, decode_key, KeyedChunks(coding, is_late))
    return BeamFeeder(inlet.operation().feed_windowed, contexts, decode_key)
