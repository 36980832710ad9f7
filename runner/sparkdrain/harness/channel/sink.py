"""Elements from a compiled chain go onto the data channel."""

from __future__ import annotations

from typing import Any

from sparkdrain.harness.beam import FLUSHED_AT
from sparkdrain.shuffle.coding import metadata_coder


class ChannelSink:
    """Writes what Beam's ``DataOutputOperation`` would write, to the same stream.

    The metadata of elements (time, windows and pane) is encoded once for those that share it.
    """

    def __init__(self, operation: Any) -> None:
        self._operation = operation
        coder = operation.windowed_coder
        self._encode = coder.wrapped_value_coder.get_impl().encode_to_stream
        self._encode_metadata = metadata_coder(coder.window_coder).get_impl().encode
        self._context: Any = None
        self._metadata = b""

    def write(self, value: Any, context: Any) -> None:
        """Write an element.

        Raises:
            Exception: the coder of the PCollection cannot encode it.
        """
        if context is not self._context:
            self._metadata = self._encode_metadata(context.with_value(None))
            self._context = context
        stream = self._operation.output_stream
        stream.write(self._metadata)
        self._encode(value, stream, True)
        if stream.size() > FLUSHED_AT:
            stream.maybe_flush()
