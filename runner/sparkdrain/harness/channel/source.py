"""Elements from the data channel go into a compiled chain, many at a time."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.harness.beam import create_InputStream
from sparkdrain.harness.sampling import SampleSchedule, size_sampler
from sparkdrain.shuffle.coding import metadata_coder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sparkdrain.harness.compiled.chain import CompiledOperation

# Counters follow after so many elements, or about so many seconds, if elements take long.
_AT_ONCE: Final = 4096
_LONG_SECONDS: Final = 0.05
# A message whose elements differ in their metadata is read as Beam reads it.
_RUNS: Final = 16
_SHORT: Final = 4


class ChannelSource:
    """Takes the place of ``process_encoded`` and ``try_split`` of Beam's ``DataInputOperation``.

    The metadata of an element (time, windows and pane) is decoded only if its bytes are not those
    of the element before.

    An element has begun once ``index`` of the operation is its number. ``stop`` is looked at
    afterwards, and only an element that seems to be behind it waits for the lock of a split. A
    split looks at ``index`` again after it has set ``stop``. So one of both sees the other, and
    no element costs a lock.

    Args:
        operation: Beam's, set up; ``chain`` is its only consumer.
    """

    def __init__(self, operation: Any, chain: CompiledOperation) -> None:
        self._operation = operation
        self._chain = chain
        coder = operation.windowed_coder
        self._decode = coder.wrapped_value_coder.get_impl().decode_from_stream
        metadata = metadata_coder(coder.window_coder).get_impl()
        self._decode_metadata = metadata.decode_from_stream
        (self._receiver,) = operation.receivers
        self._size = size_sampler(self._receiver)
        self._due = SampleSchedule()
        self._known = b""
        self._context: Any = None
        self._most = 1
        self._splits = threading.Lock()
        self._is_over = False
        """Whether the next element belongs to the rest that a split has given away."""
        self._try_split = operation.try_split
        operation.try_split = self.try_split
        operation.process_encoded = self.process_encoded

    def process_encoded(self, data: bytes) -> None:
        """Process the elements of a message, up to the split if there was one."""
        operation, stream = self._operation, create_InputStream(data)
        before, runs = operation.index, 0
        self._is_over = False
        while stream.size() > 0 and not self._is_over:
            if runs >= _RUNS and operation.index - before < runs * _SHORT:
                self._process_each(stream)
                return
            runs += 1
            if self._begin():
                self._enter(data, stream)
                self._run(data, stream)

    def _enter(self, data: bytes, stream: Any) -> None:
        """Read the metadata at which the stream stands."""
        start = len(data) - stream.size()
        try:
            context = self._decode_metadata(stream, True)
        except Exception as error:
            raise self._named(error) from error
        known = data[start : len(data) - stream.size()]
        if known != self._known:
            self._known, self._context = known, context

    def _run(self, data: bytes, stream: Any) -> None:
        """Process the element that has begun, and those behind it with the same metadata."""
        operation, first, began = self._operation, self._operation.index, time.monotonic()
        values = self._values(data, stream)
        if self._size is not None and self._due():
            values = self._sampled(values, self._size)
        self._chain.process_values(values, self._context)
        self._receiver.opcounter.element_counter.update(operation.index - first + 1)
        if time.monotonic() - began < _LONG_SECONDS:
            self._most = min(self._most * 2, _AT_ONCE)
        else:
            self._most = max(self._most // 2, 1)

    def _values(self, data: bytes, stream: Any) -> Iterator[Any]:
        operation, known, end = self._operation, self._known, len(data)
        decode, size, read, length = self._decode, stream.size, stream.read, len(self._known)
        index = operation.index
        last = index + self._most - 1
        while True:
            try:
                value = decode(stream, True)
            except Exception as error:
                raise self._named(error) from error
            yield value
            if index >= last or not data.startswith(known, end - size()):
                return
            operation.index = index = index + 1
            if index >= operation.stop and self._was_split(index):
                return
            read(length)

    def _sampled(self, values: Iterator[Any], size: Callable[[Any, Any], object]) -> Iterator[Any]:
        """The same values, of which there is one at least; the size of the first is sampled."""
        first = next(values)
        size(first, self._context)
        yield first
        yield from values

    def _process_each(self, stream: Any) -> None:
        decode = self._operation.windowed_coder_impl.decode_from_stream
        while stream.size() > 0 and self._begin():
            try:
                element = decode(stream, True)
            except Exception as error:
                raise self._named(error) from error
            self._operation.output(element)

    def _begin(self) -> bool:
        """Whether the next element is this bundle's; it has begun then."""
        operation = self._operation
        operation.index = index = operation.index + 1
        return index < operation.stop or not self._was_split(index)

    def _was_split(self, index: int) -> bool:
        """Whether a split has given an element away that seemed to begin."""
        with self._splits:
            self._is_over = index >= self._operation.stop
            if self._is_over:
                self._operation.index = index - 1
            return self._is_over

    def try_split(self, *args: Any, **kwargs: Any) -> Any:
        """Split as Beam's operation does, though elements begin in the meantime."""
        operation = self._operation
        with self._splits:
            while True:
                before = operation.stop
                split = self._try_split(*args, **kwargs)
                if not split or operation.index < operation.stop:
                    return split
                operation.stop = before

    def _named(self, error: Exception) -> Exception:
        coder, step = self._operation.windowed_coder, self._operation.name_context.step_name
        message = f"the coder {coder} of step {step!r} cannot decode an element: {error!r}"
        return ValueError(message)
