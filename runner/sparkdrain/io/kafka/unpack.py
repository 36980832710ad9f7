"""Makes elements of batches of records, and decodes keys and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from typing_extensions import override

from sparkdrain.io.kafka.client import NAMESPACE, NO_HEADERS
from sparkdrain.io.kafka.errors import UnreadableRecord
from sparkdrain.io.kafka.records import BadRecord, KafkaRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apache_beam.coders import Coder

    from sparkdrain.io.kafka.client import FetchedRecords

BAD: Final = "bad"
"""Tag of the output of records that could not be decoded."""
_LONGEST: Final = 80


class UnpackPairs(beam.DoFn):
    """Makes pairs of key and value, undecoded; each has its record's timestamp."""

    @override
    def process(self, batch: FetchedRecords) -> Iterator[TimestampedValue]:
        last, stamp = None, None
        for time, key, value in zip(batch.times, batch.keys, batch.values, strict=True):
            if time != last:
                # Records of the same time share its object, which runners may make use of.
                last, stamp = time, Timestamp(micros=time * 1000)
            yield TimestampedValue((key, value), stamp)


class UnpackRecords(beam.DoFn):
    """Decodes records, and makes pairs or `KafkaRecord` of them.

    Args:
        key_coder: decodes keys; None leaves them bytes.
        value_coder: decodes values; None leaves them bytes.
        with_metadata: whether to make records of ``kind``.
        set_aside: whether a record that cannot be decoded goes to the output ``BAD``; else it
            fails the bundle.
        kind: takes topic, partition, offset, time, key, value and headers.
    """

    def __init__(
        self,
        key_coder: Coder | None,
        value_coder: Coder | None,
        *,
        with_metadata: bool,
        set_aside: bool,
        kind: Callable[..., Any] = KafkaRecord,
        namespace: str = NAMESPACE,
    ) -> None:
        self._key_coder = key_coder
        self._value_coder = value_coder
        self._with_metadata = with_metadata
        self._set_aside = set_aside
        self._kind = kind
        self._bad = Metrics.counter(namespace, "bad_records")

    @override
    def setup(self) -> None:
        self._key = _decoder(self._key_coder)
        self._value = _decoder(self._value_coder)

    @override
    def process(self, batch: FetchedRecords) -> Iterator[Any]:
        last, stamp = None, None
        for index, time in enumerate(batch.times):
            if time != last:
                last, stamp = time, Timestamp(micros=time * 1000)
            key, value, part = batch.keys[index], batch.values[index], "key"
            try:
                if key is not None:
                    key = self._key(key)
                part = "value"
                if value is not None:
                    value = self._value(value)
            except Exception as error:
                if not self._set_aside:
                    raise UnreadableRecord(_problem(batch, index, part)) from error
                self._bad.inc()
                why = f"{part}: {type(error).__name__}: {error}"
                key, value = batch.keys[index], batch.values[index]
                bad = _made(BadRecord, batch, index, key, value, why)
                yield TaggedOutput(BAD, TimestampedValue(bad, stamp))
                continue
            made = (key, value)
            if self._with_metadata:
                made = _made(self._kind, batch, index, key, value)
            yield TimestampedValue(made, stamp)


def _made(
    kind: Callable[..., Any], batch: FetchedRecords, index: int, key: Any, value: Any, *more: Any
) -> Any:
    headers = batch.headers[index] if batch.headers else NO_HEADERS
    at = batch.partition
    offset, time = batch.offsets[index], batch.times[index]
    return kind(at.topic, at.number, offset, time, key, value, headers, *more)


def _decoder(coder: Coder | None) -> Callable[[bytes], Any]:
    return (lambda data: data) if coder is None else coder.decode


def _problem(batch: FetchedRecords, index: int, part: str) -> str:
    data = (batch.keys if part == "key" else batch.values)[index]
    shown = repr(data[:_LONGEST] if data else data)
    return (
        f"the {part} of the record at {batch.partition}, offset {batch.offsets[index]}, cannot be "
        f"decoded: {shown}. To go on without such records, use "
        "with_exception_handling() of what reads them."
    )
