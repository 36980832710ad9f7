"""What a slot knows of window functions of other SDKs: how their windows are encoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apache_beam.coders.coders import TimestampPrefixingOpaqueWindowCoder
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms.window import WindowFn
from google.protobuf.message import Message
from typing_extensions import override

from sparkdrain.graph.window_fns import has_own_windows, is_foreign, merges

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apache_beam.coders import Coder
    from apache_beam.transforms.window import BoundedWindow

_URN: Final = "sparkdrain:window_fn:foreign:v1"


class ForeignWindows(WindowFn):
    """Windows that only an SDK harness can assign, and merge.

    Args:
        merging: whether they merge.
    """

    def __init__(self, coder: Coder, *, merging: bool) -> None:
        self._coder = coder
        self._merging = merging

    @override
    def is_merging(self) -> bool:
        return self._merging

    @override
    def merge(self, merge_context: WindowFn.MergeContext) -> None:
        """See ``fnapi.merging``, which stands in for this."""
        raise NotImplementedError

    @override
    def assign(self, assign_context: WindowFn.AssignContext) -> Iterable[BoundedWindow]:
        raise NotImplementedError

    @override
    def get_window_coder(self) -> Coder:
        return self._coder


def with_foreign_windows(
    components: beam_runner_api_pb2.Components,
) -> beam_runner_api_pb2.Components:
    """The same, so that Beam's Python SDK can read it.

    ``ForeignWindows`` stand where it would not know the function, and each trigger of processing
    time has a delay, which Java leaves out if it is 0.
    """
    known = beam_runner_api_pb2.Components()
    known.CopyFrom(components)
    for strategy in known.windowing_strategies.values():
        _add_delays(strategy.trigger)
        if is_foreign(strategy):
            coder = "" if has_own_windows(strategy, known) else strategy.window_coder_id
            strategy.window_fn.payload = f"{merges(strategy):d}{coder}".encode()
            strategy.window_fn.urn = _URN
    return known


def _add_delays(message: Message) -> None:
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in [value] if isinstance(value, Message) else value:
            if isinstance(part, beam_runner_api_pb2.Trigger.AfterProcessingTime):
                if not part.timestamp_transforms:
                    part.timestamp_transforms.add().delay.delay_millis = 0
            else:
                _add_delays(part)


def _foreign_windows(payload: bytes, context: Any) -> ForeignWindows:
    merging, coder = payload[:1] == b"1", payload[1:].decode()
    own = TimestampPrefixingOpaqueWindowCoder()
    return ForeignWindows(context.coders.get_by_id(coder) if coder else own, merging=merging)


WindowFn.register_urn(_URN, bytes, _foreign_windows)
