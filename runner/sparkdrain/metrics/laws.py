"""The law of each type of metrics: how two payloads of the type become one.

The laws are associative and commutative, so slots, bundles and rounds may come in any order. Two
of them are so within bounds: sums of fractions up to rounding, and tries as long as nothing is cut.

A law also tells what has been added to a metric that only grows. Joined with the metric as it was,
this makes the metric as it is.
"""

from __future__ import annotations

import itertools
import logging
import math
import operator
import struct
from collections import Counter
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from apache_beam import coders
from apache_beam.coders import coder_impl
from apache_beam.metrics.cells import BoundedTrieData
from apache_beam.portability import common_urns
from apache_beam.portability.api import metrics_pb2
from google.protobuf.message import DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_T = TypeVar("_T")

_LOGGER = logging.getLogger(__name__)
_TYPES: Final = common_urns.monitoring_info_types
_INT: Final = coders.VarIntCoder().get_impl()
_TEXTS: Final = coders.IterableCoder(coders.StrUtf8Coder())
# As SDKs do: a set takes no more texts when those that it has are longer than this, in characters.
_MOST_TEXT: Final = 1_000_000
# Payloads of the largest values do not tell how many are wanted.
_MOST_VALUES: Final = 1000
# Beam's, for a trie that does not tell how many leaves it may have.
_LEAVES: Final = 100
_HALF: Final = 1 << 63
_COUNT_BYTES: Final = 4
_DOUBLE_BYTES: Final = 8
_UNREADABLE: Final = (
    DecodeError,
    EOFError,
    IndexError,
    OverflowError,
    RuntimeError,
    ValueError,
    struct.error,
)


class Law(NamedTuple):
    """How payloads of a type are put together.

    Attributes:
        read: the value of a payload.
        join: the value that two values make.
        write: the payload of a value.
        since: the value that has been added, given a value as it was, and as it is.
    """

    read: Callable[[bytes], Any]
    join: Callable[[Any, Any], Any]
    write: Callable[[Any], bytes]
    since: Callable[[Any, Any], Any]


class _Number(NamedTuple):
    """Whole numbers, or fractions.

    Attributes:
        take: reads one of a stream.
        codec: writes one.
        several: writes an iterable of them.
        order: what they are sorted by.
        since: what has been added, given a number as it was, and as it is.
    """

    take: Callable[[Any], Any]
    codec: Any
    several: Any
    order: Callable[[Any], Any]
    zero: float
    add: Callable[[Any, Any], Any]
    since: Callable[[Any, Any], Any]
    least: Callable[[Any, Any], Any]
    most: Callable[[Any, Any], Any]


def joined(type_urn: str, one: bytes, other: bytes) -> bytes:
    """The payload that two payloads of a type make, in the order in which they came.

    A type without a law has the payload that came last. A payload that cannot be read counts for
    nothing. Either is told in the log, once for each type.
    """
    law = LAWS.get(type_urn)
    if law is None:
        _tell_of_type(type_urn)
        return other
    try:
        return law.write(law.join(law.read(one), law.read(other)))
    except _UNREADABLE:
        _tell_of_payload(type_urn)
        return one if _can_be_read(law, one) else other


def since(type_urn: str, before: bytes, after: bytes) -> bytes:
    """The payload of what has been added to a metric that only grows.

    A type without a law has the payload that came last, and so has a payload that cannot be read.
    """
    law = LAWS.get(type_urn)
    if law is None:
        return after
    try:
        return law.write(law.since(law.read(before), law.read(after)))
    except _UNREADABLE:
        return after


def apart(type_urn: str, payload: bytes) -> bytes:
    """What keeps payloads of one name and type apart: the buckets of a histogram; else nothing."""
    if type_urn != _HISTOGRAM:
        return b""
    try:
        options = metrics_pb2.HistogramValue.FromString(payload).bucket_options
        return options.SerializeToString(deterministic=True)
    except DecodeError:
        return b""


def complete(type_urn: str, payload: bytes) -> bytes:
    """A payload with all parts of its type, as clients of Beam read them.

    An SDK may leave out the parts of a distribution of nothing.
    """
    if payload == b"\0" and type_urn in _DISTRIBUTIONS:
        law = LAWS[type_urn]
        return law.write(law.read(payload))
    return payload


def _can_be_read(law: Law, payload: bytes) -> bool:
    try:
        law.read(payload)
    except _UNREADABLE:
        return False
    return True


@cache
def _tell_of_type(type_urn: str) -> None:
    _LOGGER.warning(
        "Metrics of the type %r cannot be put together: this version of the runner does not know "
        "the type. Such a metric has the value that came last, of any one slot. A newer version "
        "of sparkdrain may know the type.",
        type_urn,
    )


@cache
def _tell_of_payload(type_urn: str) -> None:
    _LOGGER.warning(
        "A metric of the type %r has a payload that cannot be read, and is left out. See whether "
        "the SDK of the pipeline encodes the type as Beam's metrics.proto says.",
        type_urn,
    )


# --- sums, distributions, latest values -----------------------------------------------------------


def _take_int(stream: Any) -> int:
    value: int = stream.read_var_int64()
    if stream.size() < 0:
        raise EOFError
    return value


def _take_double(stream: Any) -> float:
    if stream.size() < _DOUBLE_BYTES:
        raise EOFError
    value: float = stream.read_bigendian_double()
    return value


def _take_text(stream: Any) -> str:
    size = _take_int(stream)
    if not 0 <= size <= stream.size():
        raise EOFError
    text: bytes = stream.read(size)
    return text.decode("utf-8")


def _take_several(take: Callable[[Any], _T], payload: bytes) -> list[_T]:
    """Values as the coder of iterables has them. Beam's coder reads on where there is nothing."""
    stream = coder_impl.create_InputStream(payload)
    if stream.size() < _COUNT_BYTES:
        raise EOFError
    count = stream.read_bigendian_int32()
    found: list[_T] = []
    counts = iter((count,)) if count >= 0 else iter(partial(_take_int, stream), 0)
    for some in counts:
        found += [take(stream) for _ in range(some)]
    return found


def _reads(*takes: Callable[[Any], Any]) -> Callable[[bytes], tuple[Any, ...]]:
    """What reads values that stand one behind the other."""

    def read(payload: bytes) -> tuple[Any, ...]:
        stream = coder_impl.create_InputStream(payload)
        return tuple(take(stream) for take in takes)

    return read


def _read_int(payload: bytes) -> int:
    return _take_int(coder_impl.create_InputStream(payload))


def _read_double(payload: bytes) -> float:
    return _take_double(coder_impl.create_InputStream(payload))


def _writes(*codecs: Any) -> Callable[[Iterable[Any]], bytes]:
    def write(values: Iterable[Any]) -> bytes:
        stream = coder_impl.create_OutputStream()
        for codec, value in zip(codecs, values, strict=True):
            codec.encode_to_stream(value, stream, True)
        encoded: bytes = stream.get()
        return encoded

    return write


def _wrapped(value: int) -> int:
    """A number as 64 bits hold it."""
    return (value + _HALF) % (2 * _HALF) - _HALF


def _add(one: int, other: int) -> int:
    return _wrapped(one + other)


def _added(before: int, after: int) -> int:
    return _wrapped(after - before)


def _as_it_is(before: Any, after: Any) -> Any:
    # Joined with what was, it is itself.
    return after


def _upwards(value: float) -> tuple[bool, float, float]:
    """A total order of fractions. What is not a number is above all, and 0.0 is above -0.0."""
    if math.isnan(value):
        return True, 0.0, 0.0
    return False, value, math.copysign(1.0, value)


def _least(one: float, other: float) -> float:
    """The lesser fraction; not a number if either is not."""
    if math.isnan(one) or math.isnan(other):
        return math.nan
    return min(one, other, key=_upwards)


def _distribution(number: _Number) -> Law:
    """The law of count, sum, least and greatest value. If the count is 0, nothing else counts."""
    read_all = _reads(_take_int, *[number.take] * 3)
    nothing = (0, number.zero, number.zero, number.zero)

    def read(payload: bytes) -> tuple[Any, ...]:
        return read_all(payload) if _read_int(payload) else nothing

    def join(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
        if not one[0] or not other[0]:
            return one if one[0] else other
        return (
            _add(one[0], other[0]),
            number.add(one[1], other[1]),
            number.least(one[2], other[2]),
            number.most(one[3], other[3]),
        )

    def since(before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[Any, ...]:
        if before[0] == after[0]:
            return nothing
        return _added(before[0], after[0]), number.since(before[1], after[1]), *after[2:]

    return Law(read, join, _writes(_INT, *[number.codec] * 3), since)


def _latest(number: _Number) -> Law:
    """The law of time and value. Of one time, the greater value is the later one."""

    def join(one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any]:
        return max(one, other, key=lambda part: (part[0], number.order(part[1])))

    return Law(_reads(_take_int, number.take), join, _writes(_INT, number.codec), _as_it_is)


# --- values of which the first ones count ---------------------------------------------------------


def _first(number: _Number, *, largest: bool) -> Law:
    """The law of the largest or the smallest values, these first.

    How many are wanted is not in a payload. So all are kept, up to a bound, and a reader takes as
    many as it wants.
    """

    def join(one: list[Any], other: list[Any]) -> list[Any]:
        return sorted(one + other, key=number.order, reverse=largest)[:_MOST_VALUES]

    def since(before: list[Any], after: list[Any]) -> list[Any]:
        left = Counter(map(number.order, before))
        added = []
        for value in after:
            place = number.order(value)
            if left[place]:
                left[place] -= 1
            else:
                added.append(value)
        return added

    return Law(partial(_take_several, number.take), join, number.several.encode, since)


# --- progress -------------------------------------------------------------------------------------


def _progress(number: _Number) -> Law:
    """The law of the work of all active elements; there is a number for each."""
    return Law(
        lambda payload: math.fsum(_take_several(number.take, payload)),
        number.add,
        lambda work: number.several.encode([work]),
        number.since,
    )


# --- texts ----------------------------------------------------------------------------------------


def _unite(one: set[str], other: set[str]) -> set[str]:
    """Both sets, up to Beam's bound; the first ones by their order, whatever came first."""
    together = one | other
    if sum(map(len, together)) <= _MOST_TEXT:
        return together
    kept, size = set(), 0
    for text in sorted(together):
        kept.add(text)
        size += len(text)
        if size > _MOST_TEXT:
            break
    return kept


def _read_trie(payload: bytes) -> metrics_pb2.BoundedTrie:
    trie = metrics_pb2.BoundedTrie.FromString(payload)
    if trie.bound <= 0:
        trie.bound = _LEAVES
    return trie


def _graft(one: metrics_pb2.BoundedTrie, other: metrics_pb2.BoundedTrie) -> metrics_pb2.BoundedTrie:
    together = BoundedTrieData.from_proto(one).combine(BoundedTrieData.from_proto(other)).to_proto()
    # Beam forgets a bound that is not its own.
    together.bound = min(one.bound, other.bound)
    return together


def _write_proto(message: Any) -> bytes:
    encoded: bytes = message.SerializeToString(deterministic=True)
    return encoded


# --- histograms -----------------------------------------------------------------------------------


def _pile(
    one: metrics_pb2.HistogramValue, other: metrics_pb2.HistogramValue
) -> metrics_pb2.HistogramValue:
    """The sum of two histograms of equal buckets, see ``apart``. Missing buckets are empty."""
    pairs = itertools.zip_longest(one.bucket_counts, other.bucket_counts, fillvalue=0)
    return metrics_pb2.HistogramValue(
        # It has also counted what is in no bucket.
        count=one.count + other.count,
        bucket_options=one.bucket_options,
        bucket_counts=[some + others for some, others in pairs],
    )


def _piled(
    before: metrics_pb2.HistogramValue, after: metrics_pb2.HistogramValue
) -> metrics_pb2.HistogramValue:
    """What has been added to a histogram."""
    counts = list(after.bucket_counts)
    for index, count in enumerate(before.bucket_counts):
        counts[index] -= count
    return metrics_pb2.HistogramValue(
        count=after.count - before.count, bucket_options=after.bucket_options, bucket_counts=counts
    )


_INTS: Final = _Number(
    take=_take_int,
    codec=_INT,
    several=coders.IterableCoder(coders.VarIntCoder()),
    order=int,
    zero=0,
    add=_add,
    since=_added,
    least=min,
    most=max,
)
_DOUBLES: Final = _Number(
    take=_take_double,
    codec=coders.FloatCoder().get_impl(),
    several=coders.IterableCoder(coders.FloatCoder()),
    order=_upwards,
    zero=0.0,
    add=operator.add,
    since=lambda before, after: after - before,
    least=_least,
    most=partial(max, key=_upwards),
)
_HISTOGRAM: Final[str] = _TYPES.HISTOGRAM.urn
_DISTRIBUTIONS: Final[dict[str, Law]] = {
    _TYPES.DISTRIBUTION_INT64_TYPE.urn: _distribution(_INTS),
    _TYPES.DISTRIBUTION_DOUBLE_TYPE.urn: _distribution(_DOUBLES),
}

LAWS: Final[dict[str, Law]] = {
    _TYPES.SUM_INT64_TYPE.urn: Law(_read_int, _add, _INT.encode, _added),
    _TYPES.SUM_DOUBLE_TYPE.urn: Law(
        _read_double, operator.add, _DOUBLES.codec.encode, _DOUBLES.since
    ),
    **_DISTRIBUTIONS,
    _TYPES.LATEST_INT64_TYPE.urn: _latest(_INTS),
    _TYPES.LATEST_DOUBLE_TYPE.urn: _latest(_DOUBLES),
    _TYPES.TOP_N_INT64_TYPE.urn: _first(_INTS, largest=True),
    _TYPES.TOP_N_DOUBLE_TYPE.urn: _first(_DOUBLES, largest=True),
    _TYPES.BOTTOM_N_INT64_TYPE.urn: _first(_INTS, largest=False),
    _TYPES.BOTTOM_N_DOUBLE_TYPE.urn: _first(_DOUBLES, largest=False),
    _TYPES.PROGRESS_TYPE.urn: _progress(_DOUBLES),
    _TYPES.SET_STRING_TYPE.urn: Law(
        lambda payload: set(_take_several(_take_text, payload)),
        _unite,
        lambda texts: _TEXTS.encode(sorted(texts)),
        _as_it_is,
    ),
    _TYPES.BOUNDED_TRIE_TYPE.urn: Law(_read_trie, _graft, _write_proto, _as_it_is),
    _HISTOGRAM: Law(metrics_pb2.HistogramValue.FromString, _pile, _write_proto, _piled),
}
"""The laws of all types in Beam's ``MonitoringInfoTypeUrns``, by the URN of the type."""
