"""The kinds of user state, as the Python SDK names them: what user code gets of each.

A cell is made once for each state of a DoFn, and works on the key and window that have their turn.
Single values are decoded at the first read, and encoded once, when the turn ends. Other kinds put
each item into the key's record, or into its scope.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from weakref import ref

from apache_beam.transforms import userstate
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.errors import UnreadableState, Unsupported
from sparkdrain.harness.again import Again
from sparkdrain.map_state import (
    MapRuntimeState,
    MapStateSpec,
    MultimapRuntimeState,
    MultimapStateSpec,
)
from sparkdrain.notes import add_note
from timers_state.cells.bag import Bag
from timers_state.cells.map import Map
from timers_state.cells.multimap import Multimap
from timers_state.cells.ordered_list import OrderedList
from timers_state.cells.set import Set
from timers_state.cells.value import Combining, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sparkdrain.harness.key_place import KeyPlace
    from timers_state.cells.cell import Cell

T = TypeVar("T")

# Up to so many encoded bytes are handed out as a list; more of them are read piece by piece.
_AT_ONCE: Final = 256 << 10
_ITEM_BYTES: Final = 16
UNREAD: Final[Any] = object()
"""What cells have that were not read yet."""
ELSEWHERE: Final = (
    "Use state and timers in process and in callbacks of timers only; a timer can do what is to be "
    "done later"
)


class SpecKind:
    """What all cells of one ``StateSpec`` share.

    Args:
        transform: how errors name the DoFn.
        spec: the ``StateSpec`` as Beam's Python SDK declares it.
    """

    def __init__(self, transform: str, spec: Any) -> None:
        self.tag = str(spec.name).encode()
        self._transform = transform
        self._spec = spec
        impl = spec.coder.get_impl()
        self.encode: Callable[[Any], bytes] = impl.encode
        self.decode: Callable[[bytes], Any] = impl.decode

    def decoded(self, data: bytes, place: KeyPlace) -> Any:
        """The value that was written as ``data``.

        Raises:
            UnreadableState: it was not, by this coder.
        """
        try:
            return self.decode(data)
        except Exception as error:
            raise UnreadableState(self._unreadable(data, place)) from error

    def encoded(self, value: Any) -> bytes:
        """The bytes of a value that user code has left behind; an error names the state."""
        try:
            return self.encode(value)
        except Exception as error:
            self.tell(error)
            raise

    def tell(self, error: Exception) -> None:
        """Note down which state could not be written."""
        add_note(error, f"[while writing state {self._spec.name!r} of {self._transform!r}]")

    def all_decoded(self, items: Iterable[bytes], place: KeyPlace) -> Iterator[Any]:
        """The values that were written as ``items``."""
        decode = self.decode
        for data in items:
            try:
                value = decode(data)
            except Exception as error:
                raise UnreadableState(self._unreadable(data, place)) from error
            yield value

    def _unreadable(self, data: bytes, place: KeyPlace) -> str:
        return (
            f"state {self._spec.name!r} of {self._transform!r} for {place.where()} cannot be read "
            f"with {self._spec.coder!r}: {len(data)} bytes that begin with {data[:16].hex()!r} "
            "were written with another coder; give the state another name, or its coder back"
        )

    def out_of_turn(self) -> str:
        """Says that a cell was changed when no key had its turn."""
        return (
            f"state {self._spec.name!r} was changed where no key has its turn, as in "
            f"finish_bundle: that would be lost. {ELSEWHERE}"
        )

    def close(self) -> None:
        """Nothing to give back."""


class CombiningKind(SpecKind):
    """The CombineFn of a ``CombiningValueStateSpec``, set up once for all keys."""

    def __init__(self, transform: str, spec: Any) -> None:
        super().__init__(transform, spec)
        self.fn = copy.deepcopy(spec.combine_fn)
        self.fn.setup()
        # Many a pipeline gives the coder of the inputs where that of the accumulator is meant.
        try:
            self.encode(self.fn.create_accumulator())
        except Exception:  # noqa: BLE001 - coders raise whatever they like
            impl = self.fn.get_accumulator_coder().get_impl()
            self.encode, self.decode = impl.encode, impl.decode

    def close(self) -> None:
        """Tear the CombineFn down."""
        self.fn.teardown()


class MapKind(SpecKind):
    """A map or multimap: ``keys`` encodes its keys, and the kind itself its values."""

    def __init__(self, transform: str, spec: MapStateSpec) -> None:
        super().__init__(transform, spec)
        self.keys = SpecKind(transform, userstate.StateSpec(spec.name, spec.key_coder))


class ValueCell(userstate.ReadModifyWriteRuntimeState):
    """A single value; None if there is none. No calls where they can be spared.

    Attributes:
        value: what was read or written.
    """

    def __init__(self, kind: SpecKind, place: KeyPlace, number: int) -> None:
        self.value = UNREAD
        self.is_changed = False
        self.kind = kind
        self.part = self
        self._place = place
        self._number = number
        self._decode = kind.decode
        self._encode = kind.encode
        self._put = place.records.put_value

    def read(self) -> Any:
        value = self.value
        if value is UNREAD:
            data = self._place.record.values[self._number]
            if data is None:
                value = None
            else:
                try:
                    value = self._decode(data)
                except Exception:  # noqa: BLE001 - the kind says what is wrong
                    value = self.kind.decoded(data, self._place)
            self.value = value
        return value

    def write(self, value: Any) -> None:
        self.value = value
        self.is_changed = True

    def clear(self) -> None:
        self.value = None
        self.is_changed = True

    def store(self) -> None:
        self.is_changed = False
        data = self.value
        place = self._place
        if place.expires:
            place.keep()
        if data is not None:
            try:
                data = self._encode(data)
            except Exception:  # noqa: BLE001 - the kind says what is wrong
                data = self.kind.encoded(data)
        self._put(place.record, self._number, data)

    def renew(self) -> None:
        self.value = UNREAD


class CombiningCell(userstate.CombiningValueRuntimeState):
    """An accumulator of a CombineFn; reads give its extracted output.

    Attributes:
        is_changed: whether something was added, or the accumulator was cleared.
    """

    def __init__(self, kind: CombiningKind, place: KeyPlace, number: int) -> None:
        self.is_changed = False
        self.kind = kind
        self.part = self
        self._fn = kind.fn
        self._place = place
        self._number = number
        self._put = place.records.put_value
        self._accumulator = UNREAD
        self._empty = False

    def _load(self) -> Any:
        accumulator = self._accumulator
        if accumulator is UNREAD:
            data = self._place.record.values[self._number]
            accumulator = self._accumulator = (
                self._fn.create_accumulator()
                if data is None
                else self.kind.decoded(data, self._place)
            )
        return accumulator

    def read(self) -> Any:
        # Copied: extracting may consume what it is given.
        return self._fn.extract_output(copy.copy(self._load()))

    def add(self, value: Any) -> None:
        self._accumulator = self._fn.add_input(self._load(), value)
        self._empty = False
        self.is_changed = True

    def clear(self) -> None:
        self._accumulator = self._fn.create_accumulator()
        self._empty = self.is_changed = True

    def store(self) -> None:
        self.is_changed = False
        place = self._place
        if place.expires:
            place.keep()
        data = None
        if not self._empty:
            try:
                accumulator = self._accumulator = self._fn.compact(self._accumulator)
            except Exception as error:
                self.kind.tell(error)
                raise
            data = self.kind.encoded(accumulator)
        self._put(place.record, self._number, data)

    def renew(self) -> None:
        self._accumulator = UNREAD


class Collection:
    """What cells with many items share: what was read stays readable after a clear.

    Attributes:
        part: what is renewed and stored when keys have their turns: the items if keys are small,
            else the cell.
        is_changed: whether user code may still have items that were not read yet.
    """

    def __init__(self, kind: SpecKind, place: KeyPlace, number: int) -> None:
        self.kind = kind
        self.is_changed = False
        self._place = place
        self._number = number
        self._small = self._items = place.items(number)
        self.part: Any = self if self._small is None else self._small
        self._read: list[ref[Again[Any]]] = []

    def clear(self) -> None:
        self._before_clear()
        self._stored().clear()

    def store(self) -> None:
        """Make sure that what user code has read stays readable after the turn."""
        self.is_changed = False
        self._before_clear()

    def renew(self) -> None:
        self._items = None

    def _stored(self) -> Any:
        items = self._items
        if items is None:
            items = self._items = self._place.open(self._number)
        return items

    def _to_change(self) -> Any:
        """The items of a large key, which are about to get more."""
        if self._place.expires:
            self._place.keep()
        return self._stored()

    def _read_of(
        self,
        source: Callable[[], Iterable[Any]],
        decoded: Callable[[Iterable[Any]], Iterator[T]],
        size_of: Callable[[Any], int],
    ) -> Iterable[T]:
        """All items of ``source``, decoded; piece by piece if they are very many."""
        if self._small is not None:
            return list(decoded(source()))
        items = _few(source(), size_of)
        return self._again(lambda: decoded(source())) if items is None else list(decoded(items))

    def _values(self, items: Iterable[bytes]) -> Iterator[Any]:
        return self.kind.all_decoded(items, self._place)

    def _again(self, source: Callable[[], Iterator[T]]) -> Again[T]:
        again = Again(source)
        self.is_changed = True
        self._read.append(ref(again))
        return again

    def _before_clear(self) -> None:
        read, self._read = self._read, []
        for reference in read:
            again = reference()
            if again is not None:
                again.load()


class BagCell(Collection, userstate.BagRuntimeState):
    """Values in the order of adding."""

    def read(self) -> Iterable[Any]:
        kind, place, stored = self.kind, self._place, self._stored()
        if self._small is not None:
            return list(kind.all_decoded(stored.read(), place))
        items: list[bytes] = []
        size = 0
        for segment in stored.segments():
            items += segment
            size += sum(map(len, segment)) + _ITEM_BYTES * len(segment)
            if size > _AT_ONCE:
                del items
                return self._again(lambda: kind.all_decoded(stored.read(), place))
        return list(kind.all_decoded(items, place))

    def add(self, value: Any) -> None:
        data = self.kind.encoded(value)
        (self._small or self._to_change()).append(data)


class SetCell(Collection, userstate.SetRuntimeState):
    """Distinct values, in the order of their encodings; equal if these are."""

    def read(self) -> Iterable[Any]:
        return self._read_of((self._small or self._stored()).read, self._values, len)

    def add(self, value: Any) -> None:
        data = self.kind.encoded(value)
        (self._small or self._to_change()).add(data)


class OrderedListCell(Collection, userstate.OrderedListRuntimeState):
    """Timestamped values in time order, ties in the order of adding."""

    def add(self, elem: tuple[Timestamp, Any]) -> None:
        data = self.kind.encoded(elem[1])
        (self._small or self._to_change()).append(micros(elem[0]), data)

    def read(self) -> Iterable[tuple[Timestamp, Any]]:
        return self._within()

    def read_range(self, min_timestamp: Any, limit_timestamp: Any) -> Iterable[Any]:
        return self._within(micros(min_timestamp), micros(limit_timestamp))

    def _within(self, *limits: int) -> Iterable[tuple[Timestamp, Any]]:
        stored = self._stored()
        return self._read_of(lambda: stored.read(*limits), self._decoded, lambda item: len(item[1]))

    def _decoded(self, items: Iterable[tuple[int, bytes]]) -> Iterator[tuple[Timestamp, Any]]:
        kind, place = self.kind, self._place
        return ((Timestamp(micros=time), kind.decoded(data, place)) for time, data in items)

    def clear_range(self, min_timestamp: Any, limit_timestamp: Any) -> None:
        self._before_clear()
        self._stored().clear_range(micros(min_timestamp), micros(limit_timestamp))


class _Keyed(Collection):
    """What maps and multimaps share."""

    kind: MapKind

    def put(self, key: Any, value: Any) -> None:
        name, data = self.kind.keys.encoded(key), self.kind.encoded(value)
        (self._small or self._to_change()).put(name, data)

    def remove(self, key: Any) -> None:
        self._before_clear()
        self._stored().remove(self.kind.keys.encoded(key))

    def keys(self) -> Iterable[Any]:
        kind, place = self.kind.keys, self._place
        return self._read_of(self._stored().keys, lambda items: kind.all_decoded(items, place), len)


class MapCell(_Keyed, MapRuntimeState):
    """A map; keys are equal if their encodings are."""

    def get(self, key: Any, default: Any = None) -> Any:
        kind = self.kind
        data = self._stored().get(kind.keys.encoded(key))
        return default if data is None else kind.decoded(data, self._place)

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self._read_of(
            self._stored().items, self._decoded, lambda item: len(item[0]) + len(item[1])
        )

    def _decoded(self, items: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[Any, Any]]:
        kind, place = self.kind, self._place
        keys = kind.keys
        return ((keys.decoded(name, place), kind.decoded(data, place)) for name, data in items)


class MultimapCell(_Keyed, MultimapRuntimeState):
    """A multimap; keys are equal if their encodings are."""

    def get(self, key: Any) -> Iterable[Any]:
        stored, name = self._stored(), self.kind.keys.encoded(key)
        return self._read_of(lambda: stored.get(name), self._values, len)


def _few(items: Iterable[T], size_of: Callable[[T], int]) -> list[T] | None:
    """All of them, or None if they are too many to be held."""
    found: list[T] = []
    size = 0
    for item in items:
        found.append(item)
        size += size_of(item) + _ITEM_BYTES
        if size > _AT_ONCE:
            return None
    return found


def micros(timestamp: Any) -> int:
    """A timestamp of a user, in any of Beam's forms, as microseconds."""
    return Timestamp.of(timestamp).micros


class StateKind(NamedTuple):
    """How a kind of state is kept.

    Attributes:
        kind: what the cells of one ``StateSpec`` share.
        cell: what user code gets.
        stored: the cell of a scope; a record has the same in small, see ``small.kinds``.
    """

    kind: Callable[[str, Any], Any]
    cell: Callable[[Any, KeyPlace, int], Any]
    stored: type[Cell]


STATE_KINDS: Final[dict[type, StateKind]] = {
    userstate.ReadModifyWriteStateSpec: StateKind(SpecKind, ValueCell, Value),
    userstate.BagStateSpec: StateKind(SpecKind, BagCell, Bag),
    userstate.CombiningValueStateSpec: StateKind(CombiningKind, CombiningCell, Combining),
    userstate.SetStateSpec: StateKind(SpecKind, SetCell, Set),
    userstate.OrderedListStateSpec: StateKind(SpecKind, OrderedListCell, OrderedList),
    MultimapStateSpec: StateKind(MapKind, MultimapCell, Multimap),
    MapStateSpec: StateKind(MapKind, MapCell, Map),
}


def state_kind(transform_id: str, spec: Any) -> StateKind:
    """How a state is kept.

    Raises:
        Unsupported: the kind of the state is not known.
    """
    for class_ in type(spec).__mro__:
        if class_ in STATE_KINDS:
            return STATE_KINDS[class_]
    message = f"{transform_id!r}: state {spec.name!r} is of a kind not known here"
    raise Unsupported(message)
