"""Where elements leave a slot for an SDK harness."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from typing_extensions import override

from sparkdrain.fnapi.elements import (
    encode_groups,
    encode_pair,
    encode_values,
    prefixed,
)
from sparkdrain.graph.plan import EdgeKind
from sparkdrain.harness.harness import Inlet, KeyedInlet
from sparkdrain.shuffle.values import encoded_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from apache_beam.portability.api import beam_fn_api_pb2

    from sparkdrain.fnapi.elements import Metadata
    from sparkdrain.fnapi.large_groups import LargeGroups
    from sparkdrain.graph.plan import TransformId
    from sparkdrain.harness.harness import Elements
    from sparkdrain.harness.limits import UpTo

_FEW_BYTES: Final = 256 << 10
# A bundle of restrictions is to take about that long. What waits outside of it can be given away in
# whole.
_BUNDLE_SECONDS: Final = 0.1
_MOST: Final = 1024


class Bundles(Protocol):
    """What inlets ask of the harness that they feed."""

    ending: str
    """Names the bundle that a harness has all the input of; "" if there is none."""

    def end_bundle(self) -> None:
        """Process all that was fed, but for what the DoFn puts off."""

    def finish(self) -> None:
        """Process all that was fed."""

    def split_ending(
        self, bundle: str, source: TransformId, keep: float, elements: int
    ) -> beam_fn_api_pb2.ProcessBundleSplitResponse:
        """Split the bundle of this name; empty if that cannot be. From any thread.

        Args:
            bundle: its name.
            source: whose elements are to be split.
            keep: the part of what is left that it is to keep.
            elements: how many it has had.
        """

    def has_come(self, transform: TransformId, key: bytes, elements: list[Any]) -> None:
        """A DoFn gets elements of a key."""

    def fire_due(self, transform: TransformId, up_to: UpTo) -> bool:
        """Fire timers that are due in a bundle of their own; whether there were any."""

    def expire(self, transform: TransformId, up_to: UpTo) -> bool:
        """Forget windows that are over; whether the budget was enough."""


class FnInlet(Inlet):
    """Collects elements in the encoding of the data channel.

    Args:
        send: takes encoded elements.
        metadata: encodes timestamp, windows and pane.
        kind: the kind of the edge that elements come on; None for a root.
    """

    def __init__(
        self, send: Callable[[bytes], None], metadata: Metadata, kind: EdgeKind | None
    ) -> None:
        self.handled = 0
        self.metadata = metadata
        """Encodes and decodes timestamp, windows and pane."""
        self._send = send
        self._encode_metadata = metadata.encode
        self._kind = kind
        self._parts: list[bytes] = []
        self._size = 0
        self._context: Any = None
        self._metadata = b""

    def _metadata_of(self, context: Any) -> bytes:
        known = self._context
        if context is not known:
            # Elements that were decoded one by one may share their metadata all the same.
            if (
                known is None
                or context.timestamp_micros != known.timestamp_micros
                or context.windows != known.windows
                or context.pane_info != known.pane_info
            ):
                self._metadata = self._encode_metadata(context)
            self._context = context
        return self._metadata

    @override
    def feed(self, values: list[Any], context: Any) -> None:
        metadata = self._metadata_of(context)
        self.handled += len(values)
        self.add(encode_values(metadata, values))

    @override
    def feed_windowed(self, elements: list[Any]) -> None:
        self.handled += len(elements)
        encode: Callable[[Any], bytes]
        encode = encode_pair if self._kind is EdgeKind.KEYED else prefixed
        self.add(
            b"".join([self._metadata_of(element) + encode(element.value) for element in elements])
        )

    def feed_of_key(self, head: bytes, elements: list[Any]) -> None:
        """Take windowed values of one key, given the key with its length."""
        self.handled += len(elements)
        self.add(
            b"".join(
                [
                    self._metadata_of(element) + head + prefixed(element.value)
                    for element in elements
                ]
            )
        )

    def add(self, data: bytes) -> None:
        """Take encoded elements."""
        self._parts.append(data)
        self._size += len(data)
        if self._size >= _FEW_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand on what was collected."""
        if self._parts:
            parts, self._parts, self._size = self._parts, [], 0
            self._send(b"".join(parts))

    def ended(self) -> None:
        """The bundle has ended."""

    @override
    def split(self, keep: float) -> list[Any]:
        return []


class GroupInlet(FnInlet):
    """Collects groups: keys with their values.

    Args:
        send: takes encoded elements.
        groups: encodes the values that are not bytes.
        end_bundle: processes all that was fed.
    """

    def __init__(
        self,
        send: Callable[[bytes], None],
        metadata: Metadata,
        groups: LargeGroups,
        end_bundle: Callable[[], object],
    ) -> None:
        super().__init__(send, metadata, EdgeKind.GROUP)
        self._groups = groups
        self._end_bundle = end_bundle

    @override
    def feed(self, values: list[Any], context: Any) -> None:
        metadata = self._metadata_of(context)
        self.handled += len(values)
        for some in encode_groups(metadata, values, self._groups.encode):
            self.add(some)
            if self._groups.is_full:
                self._end_bundle()

    @override
    def feed_windowed(self, elements: list[Any]) -> None:
        for element in elements:  # they have waited for a side input
            key, values = element.value
            self.feed([(key, encoded_values([values]))], element)


class LentInlet(FnInlet):
    """Feeds few restrictions at a time, as many as take a moment. Another slot may take some."""

    def __init__(
        self,
        send: Callable[[bytes], None],
        metadata: Metadata,
        kind: EdgeKind | None,
        source: TransformId,
        harness: Bundles,
    ) -> None:
        super().__init__(send, metadata, kind)
        self._source = source
        self._harness = harness
        self._few = 1
        self._sent: list[bytes] = []

    @override
    def feed_windowed(self, elements: list[Any]) -> None:
        for element in elements:
            super().feed_windowed([element])
            if len(self._sent) < self._few:
                continue
            began = time.monotonic()
            self._harness.end_bundle()
            is_short = time.monotonic() - began < _BUNDLE_SECONDS
            self._few = min(2 * self._few, _MOST) if is_short else max(self._few // 2, 1)

    @override
    def add(self, data: bytes) -> None:
        self._sent.append(data)
        super().add(data)

    @override
    def ended(self) -> None:
        self._sent = []

    @override
    def split(self, keep: float) -> list[Any]:
        bundle, sent = self._harness.ending, self._sent
        if not bundle or bundle != self._harness.ending:
            return []  # ``sent`` may be of another bundle
        answer = self._harness.split_ending(bundle, self._source, keep, len(sent))
        given = [rest.application.element for rest in answer.residual_roots]
        for channel in answer.channel_splits:
            given += sent[channel.first_residual_element :]
            # They are not of this bundle any more, and cannot be given twice.
            del sent[channel.first_residual_element :]
        return list(map(self.metadata.windowed, given))


class FnKeyedInlet(KeyedInlet):
    """Sends the elements of keys.

    Args:
        stateful: the DoFns with state or timers that the edge feeds.
    """

    takes_pieces = False

    def __init__(self, inlet: FnInlet, harness: Bundles, stateful: Sequence[TransformId]) -> None:
        self._inlet = inlet
        self._harness = harness
        self._stateful = stateful

    @override
    def feed(
        self,
        keys: Iterable[tuple[bytes, Any]],
        elements: Elements,
        is_late: Callable[[Any], bool],
    ) -> None:
        del is_late  # it was dropped when it was decoded
        inlet = self._inlet
        for key, chunks in keys:
            head = prefixed(key)
            for some in elements(chunks):
                inlet.feed_of_key(head, some)
                for transform in self._stateful:
                    self._harness.has_come(transform, key, some)
        # From now on the overlay has the timers, which hold time back.
        self._harness.finish()

    @override
    def fire(self, transform: TransformId, up_to: UpTo) -> bool:
        while self._harness.fire_due(transform, up_to):
            if up_to.budget.is_spent():
                return False
        return self._harness.expire(transform, up_to)
