"""Where elements leave a slot for an SDK harness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from sparkdrain.fnapi.elements import encode_groups, encode_pair, encode_values, prefixed
from sparkdrain.graph.plan import EdgeKind
from sparkdrain.harness.harness import Inlet
from sparkdrain.shuffle.values import encoded_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.fnapi.elements import Metadata
    from sparkdrain.fnapi.large_groups import LargeGroups

_FEW_BYTES: Final = 256 << 10


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
