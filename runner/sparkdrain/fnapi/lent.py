"""Where restrictions enter a stage of an SDK harness, of which another slot may take some."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from typing_extensions import override

from sparkdrain.fnapi.elements import unprefixed
from sparkdrain.fnapi.inlet import FnInlet

if TYPE_CHECKING:
    from collections.abc import Callable

    from apache_beam.portability.api import beam_fn_api_pb2

    from sparkdrain.fnapi.elements import Metadata
    from sparkdrain.graph.plan import EdgeKind, TransformId

# A bundle is to take about that long. What waits outside of it can be given away in whole.
_BUNDLE_SECONDS: Final = 0.1
_MOST: Final = 1024


class SplitBundle(Protocol):
    """A bundle that can be split when all of its input is there."""

    ending: str
    """Names the bundle that a harness has all the input of; "" if there is none."""

    def end_bundle(self) -> None:
        """Process all that was fed, but for what the DoFn puts off."""

    def split_ending(
        self, bundle: str, source: TransformId, keep: float, elements: int
    ) -> beam_fn_api_pb2.ProcessBundleSplitResponse:
        """Split that bundle; empty if it has ended, or cannot be split now. From any thread.

        Args:
            bundle: its name.
            source: whose elements are to be split.
            keep: the part of what is left that it is to keep.
            elements: how many it has had.
        """


class LentInlet(FnInlet):
    """Feeds few restrictions at a time, as many as take a moment.

    Args:
        send: takes encoded elements.
    """

    def __init__(
        self,
        send: Callable[[bytes], None],
        metadata: Metadata,
        kind: EdgeKind | None,
        source: TransformId,
        bundle: SplitBundle,
    ) -> None:
        super().__init__(send, metadata, kind)
        self._source = source
        self._bundle = bundle
        self._few = 1
        self._sent: list[bytes] = []

    @override
    def feed_windowed(self, elements: list[Any]) -> None:
        for element in elements:
            super().feed_windowed([element])
            if len(self._sent) < self._few:
                continue
            began = time.monotonic()
            self._bundle.end_bundle()
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
        bundle, sent = self._bundle.ending, self._sent
        if not bundle or bundle != self._bundle.ending:
            return []  # ``sent`` may be of another bundle
        answer = self._bundle.split_ending(bundle, self._source, keep, len(sent))
        given = [rest.application.element for rest in answer.residual_roots]
        for channel in answer.channel_splits:
            given += sent[channel.first_residual_element :]
            # They are not of this bundle any more, and cannot be given twice.
            del sent[channel.first_residual_element :]
        return [self._decode(data) for data in given]

    def _decode(self, data: bytes) -> Any:
        context, position = self.metadata.decode(data, 0)
        return context.with_value(unprefixed(data, position)[0])
