"""The kinds of user state, as the Python SDK names them, for the key being processed.

A cell keeps Python objects. When its key outgrows its memory, ``save`` moves the content to the
cell of the store that it was given, where all further calls go.
"""

from __future__ import annotations

import bisect
import copy
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from apache_beam.coders import coder_impl
from apache_beam.transforms import userstate
from apache_beam.utils.timestamp import Timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from timers_state import KeyScope

T = TypeVar("T")


class Place(Protocol):
    """Where a cell lives: its key's account of memory, and its place in the store."""

    @property
    def tag(self) -> bytes:
        """The name of the state."""

    @property
    def window(self) -> bytes:
        """The encoded window."""

    def scope(self) -> KeyScope:
        """The key's scope in the store."""

    def grow(self, items: int, sample: bytes) -> None:
        """Account for that many more items like ``sample``; may save all cells of the key."""


# How many items a cell takes between two times that it accounts for them.
_STEP = 256


class Again(Generic[T]):
    """An iterable that can be iterated again: each time it asks anew."""

    __slots__ = ("__weakref__", "_items", "_source")

    def __init__(self, source: Callable[[], Iterator[T]]) -> None:
        self._source = source
        self._items: list[T] | None = None

    def __iter__(self) -> Iterator[T]:
        return self._source() if self._items is None else iter(self._items)

    def load(self) -> None:
        """Hold all items from now on: the source is about to lose them."""
        if self._items is None:
            self._items = list(self._source())

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


coder_impl.FastPrimitivesCoderImpl.register_iterable_like_type(Again)


class ValueCell(userstate.ReadModifyWriteRuntimeState):
    """A single value; None if it was never written."""

    def __init__(self, spec: Any, place: Place) -> None:
        self._impl = spec.coder.get_impl()
        self._place = place
        self._value: Any = None
        self._stored: Any = None

    def open(self) -> None:
        self._stored = self._place.scope().value(self._place.tag, self._place.window)

    def save(self) -> None:
        self.open()
        if self._value is not None:
            self._stored.set(self._impl.encode(self._value))
        self._value = None

    def read(self) -> Any:
        if self._stored is None:
            return self._value
        data = self._stored.get()
        return None if data is None else self._impl.decode(data)

    def write(self, value: Any) -> None:
        if self._stored is None:
            self._value = value
        else:
            self._stored.set(self._impl.encode(value))

    def clear(self) -> None:
        self._value = None
        if self._stored is not None:
            self._stored.clear()

    def close(self) -> None:
        """Nothing to give back."""


class BagCell(userstate.BagRuntimeState):
    """Values in the order of adding."""

    def __init__(self, spec: Any, place: Place) -> None:
        self._impl = spec.coder.get_impl()
        self._place = place
        self._values: list[Any] = []
        self._step = _STEP
        self._stored: Any = None

    def open(self) -> None:
        self._stored = self._place.scope().bag(self._place.tag, self._place.window)

    def save(self) -> None:
        self.open()
        values, self._values = self._values, []
        self._stored.extend([self._impl.encode(value) for value in values])

    def read(self) -> Iterable[Any]:
        if self._stored is None:
            return list(self._values)
        return Again(lambda: map(self._impl.decode, self._stored.read()))

    def add(self, value: Any) -> None:
        if self._stored is not None:
            self._stored.append(self._impl.encode(value))
            return
        self._values.append(value)
        if len(self._values) >= self._step:
            self._step += _STEP
            self._place.grow(_STEP, self._impl.encode(value))

    def clear(self) -> None:
        self._values.clear()
        if self._stored is not None:
            self._stored.clear()

    def close(self) -> None:
        """Nothing to give back."""


class CombiningCell(userstate.CombiningValueRuntimeState):
    """An accumulator of a CombineFn; reads give its extracted output."""

    def __init__(self, spec: Any, place: Place) -> None:
        self._fn = copy.deepcopy(spec.combine_fn)
        self._fn.setup()
        self._coder = spec.coder
        self._impl: Any = None
        self._place = place
        self._accumulator = self._fn.create_accumulator()
        self._stored: Any = None

    def open(self) -> None:
        # Many a pipeline gives the coder of the inputs where that of the accumulator is meant.
        try:
            self._impl = self._coder.get_impl()
            self._impl.encode(self._fn.create_accumulator())
        except Exception:  # noqa: BLE001 - coders raise whatever they like
            self._impl = self._fn.get_accumulator_coder().get_impl()
        self._stored = self._place.scope().combining(self._place.tag, self._place.window)

    def save(self) -> None:
        accumulator = self._accumulator
        self.open()
        self._stored.set(self._impl.encode(accumulator))

    def _load(self) -> Any:
        data = self._stored.get()
        return self._fn.create_accumulator() if data is None else self._impl.decode(data)

    def read(self) -> Any:
        if self._stored is not None:
            return self._fn.extract_output(self._load())
        # Copied: extracting may consume what it is given.
        return self._fn.extract_output(copy.copy(self._accumulator))

    def add(self, value: Any) -> None:
        if self._stored is None:
            self._accumulator = self._fn.add_input(self._accumulator, value)
        else:
            self._stored.set(self._impl.encode(self._fn.add_input(self._load(), value)))

    def clear(self) -> None:
        self._accumulator = self._fn.create_accumulator()
        if self._stored is not None:
            self._stored.clear()

    def close(self) -> None:
        """Tear the CombineFn down."""
        self._fn.teardown()


class SetCell(userstate.SetRuntimeState):
    """Distinct values; equal if their encodings are."""

    def __init__(self, spec: Any, place: Place) -> None:
        self._impl = spec.coder.get_impl()
        self._place = place
        self._values: dict[bytes, Any] = {}
        self._step = _STEP
        self._stored: Any = None

    def open(self) -> None:
        self._stored = self._place.scope().set(self._place.tag, self._place.window)

    def save(self) -> None:
        self.open()
        values, self._values = self._values, {}
        for encoded in values:
            self._stored.add(encoded)

    def read(self) -> Iterable[Any]:
        if self._stored is None:
            return list(self._values.values())
        return Again(lambda: map(self._impl.decode, self._stored.read()))

    def add(self, value: Any) -> None:
        encoded = self._impl.encode(value)
        if self._stored is not None:
            self._stored.add(encoded)
            return
        self._values[encoded] = value
        if len(self._values) >= self._step:
            self._step += _STEP
            self._place.grow(_STEP, encoded)

    def clear(self) -> None:
        self._values.clear()
        if self._stored is not None:
            self._stored.clear()

    def close(self) -> None:
        """Nothing to give back."""


class OrderedListCell(userstate.OrderedListRuntimeState):
    """Timestamped values in time order, ties in the order of adding."""

    def __init__(self, spec: Any, place: Place) -> None:
        self._impl = spec.coder.get_impl()
        self._place = place
        self._times: list[int] = []
        self._values: list[tuple[Timestamp, Any]] = []
        self._step = _STEP
        self._stored: Any = None

    def open(self) -> None:
        self._stored = self._place.scope().ordered_list(self._place.tag, self._place.window)

    def save(self) -> None:
        self.open()
        times, self._times = self._times, []
        values, self._values = self._values, []
        for micros, (_, value) in zip(times, values, strict=True):
            self._stored.append(micros, self._impl.encode(value))

    def add(self, elem: tuple[Timestamp, Any]) -> None:
        timestamp, value = Timestamp.of(elem[0]), elem[1]
        micros = timestamp.micros
        if self._stored is not None:
            self._stored.append(micros, self._impl.encode(value))
            return
        at = bisect.bisect_right(self._times, micros)
        self._times.insert(at, micros)
        self._values.insert(at, (timestamp, value))
        if len(self._values) >= self._step:
            self._step += _STEP
            self._place.grow(_STEP, self._impl.encode(value))

    def read(self) -> Iterable[tuple[Timestamp, Any]]:
        if self._stored is None:
            return list(self._values)
        return Again(lambda: map(self._decoded, self._stored.read()))

    def read_range(self, min_timestamp: Any, limit_timestamp: Any) -> Iterable[Any]:
        if self._stored is None:
            return self._values[self._range(min_timestamp, limit_timestamp)]
        low, high = micros(min_timestamp), micros(limit_timestamp)
        return Again(lambda: map(self._decoded, self._stored.read(low, high)))

    def _decoded(self, item: tuple[int, bytes]) -> tuple[Timestamp, Any]:
        return Timestamp(micros=item[0]), self._impl.decode(item[1])

    def clear(self) -> None:
        self._times.clear()
        self._values.clear()
        if self._stored is not None:
            self._stored.clear()

    def clear_range(self, min_timestamp: Any, limit_timestamp: Any) -> None:
        if self._stored is not None:
            self._stored.clear_range(micros(min_timestamp), micros(limit_timestamp))
            return
        cut = self._range(min_timestamp, limit_timestamp)
        del self._times[cut]
        del self._values[cut]

    def _range(self, low: Any, high: Any) -> slice:
        return slice(
            bisect.bisect_left(self._times, micros(low)),
            bisect.bisect_left(self._times, micros(high)),
        )

    def close(self) -> None:
        """Nothing to give back."""


def micros(timestamp: Any) -> int:
    """A timestamp of a user, in any of Beam's forms, as microseconds."""
    return Timestamp.of(timestamp).micros


CELLS: dict[type, Callable[[Any, Place], Any]] = {
    userstate.ReadModifyWriteStateSpec: ValueCell,
    userstate.BagStateSpec: BagCell,
    userstate.CombiningValueStateSpec: CombiningCell,
    userstate.SetStateSpec: SetCell,
    userstate.OrderedListStateSpec: OrderedListCell,
}
