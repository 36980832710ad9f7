"""The elements and timers of a bundle, on their way to an SDK harness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import beam_fn_api_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sparkdrain.fnapi.worker import SdkWorker

# Bytes of elements that go in one message.
_MESSAGE_BYTES: Final = 2 << 20


class Outbound:
    """Sends one bundle: its request, and what it has.

    Args:
        instruction: the id of the bundle's instruction, from ``SdkWorker.expect``.
        request: begins the bundle.
        embedded: up to so many bytes go within the request, which waits for them; 0: the request
            goes at once.
    """

    def __init__(
        self,
        worker: SdkWorker,
        instruction: str,
        request: beam_fn_api_pb2.ProcessBundleRequest,
        *,
        embedded: int,
    ) -> None:
        self._worker = worker
        self._instruction = instruction
        self._unsent, self._bytes = beam_fn_api_pb2.Elements(), 0
        self._embedded = embedded
        # Beam's classes may be of a release without it.
        self._stream: str = getattr(request, "data_stream_id", "")
        self._request: beam_fn_api_pb2.ProcessBundleRequest | None = request
        if not embedded:
            self._begin()

    def add(self, source: str, data: bytes) -> None:
        """Send encoded elements."""
        self._unsent.data.add(instruction_id=self._instruction, transform_id=source, data=data)
        self._count(len(data))

    def add_timers(self, transform: str, family: str, data: bytes) -> None:
        """Send encoded timers."""
        self._unsent.timers.add(
            instruction_id=self._instruction,
            transform_id=transform,
            timer_family_id=family,
            timers=data,
        )
        self._count(len(data))

    def end(self, sources: Iterable[str], families: Iterable[tuple[str, str, bool]]) -> None:
        """Tell the harness that nothing more comes in the bundle.

        Args:
            sources: all of them.
            families: all families of timers: transform, family, and whether it gets an end.
        """
        for source in sources:
            self._unsent.data.add(
                instruction_id=self._instruction, transform_id=source, is_last=True
            )
        for transform, family, is_last in families:
            self._unsent.timers.add(
                instruction_id=self._instruction,
                transform_id=transform,
                timer_family_id=family,
                is_last=is_last,
            )
        if self._request is not None and self._bytes <= self._embedded:
            self._request.elements.CopyFrom(self._unsent)
            self._begin()
        else:
            self._send()

    def _count(self, size: int) -> None:
        self._bytes += size
        embedded = 0 if self._request is None else self._embedded
        if self._bytes > max(_MESSAGE_BYTES, embedded):
            self._send()

    def _send(self) -> None:
        self._begin()
        elements, self._unsent = self._unsent, beam_fn_api_pb2.Elements()
        self._bytes = 0
        self._worker.send(elements, self._stream)

    def _begin(self) -> None:
        request, self._request = self._request, None
        if request is not None:
            self._worker.process(self._instruction, request)
