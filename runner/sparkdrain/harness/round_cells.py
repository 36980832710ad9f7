"""The kinds of user state, as the Python SDK names them, for state that lasts between rounds.

Bytes are in the cells of the store's overlay. What has one value (values, accumulators) is decoded
at the first read and written back once, when the key's turn ends. Bags, sets and ordered lists put
each item there as it comes and never read to write.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from weakref import ref

from apache_beam.transforms import userstate
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.errors import UnreadableState
from sparkdrain.harness.again import Again
from sparkdrain.notes import add_note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from timers_state import KeyScope
    from timers_state.cells import Value

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


class Place(Protocol):
    """The window of a key that a cell belongs to."""

    @property
    def section(self) -> bytes:
        """The encoded window."""

    def scope(self) -> KeyScope:
        """The key's scope."""

    def keep(self) -> None:
        """Something is about to be kept here: it has to be forgotten when the window expires."""

    def put_off(self, cell: PutOff) -> None:
        """Call ``cell`` when the key's turn ends."""

    def where(self) -> str:
        """Key and window in words."""


class PutOff(Protocol):
    """A cell with something left to do.

    Attributes:
        kind: what it shares with those of other keys.
    """

    kind: Kind

    def store(self) -> None:
        """Bring the overlay up to date; called when the key's turn ends."""


class Kind:
    """What all cells of one ``StateSpec`` share.

    Args:
        transform: how errors name the DoFn.
        spec: of the Python SDK.
    """

    def __init__(self, transform: str, spec: Any) -> None:
        self.tag = str(spec.name).encode()
        self._transform = transform
        self._spec = spec
        impl = spec.coder.get_impl()
        self.encode: Callable[[Any], bytes] = impl.encode
        self.decode: Callable[[bytes], Any] = impl.decode

    def decoded(self, data: bytes, place: Place) -> Any:
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

    def all_decoded(self, items: Iterable[bytes], place: Place) -> Iterator[Any]:
        """The values that were written as ``items``."""
        decode = self.decode
        for data in items:
            try:
                value = decode(data)
            except Exception as error:
                raise UnreadableState(self._unreadable(data, place)) from error
            yield value

    def _unreadable(self, data: bytes, place: Place) -> str:
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


class CombiningKind(Kind):
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


class ValueCell(userstate.ReadModifyWriteRuntimeState):
    """A single value; None if there is none."""

    def __init__(self, kind: Kind, place: Place) -> None:
        self.kind = kind
        self._place = place
        self._cell: Value | None = None
        self._value = UNREAD
        self._changed = False

    def _stored(self) -> Value:
        cell = self._cell
        if cell is None:
            place = self._place
            cell = self._cell = place.scope().value(self.kind.tag, place.section)
        return cell

    def read(self) -> Any:
        value = self._value
        if value is UNREAD:
            cell = self._cell or self._stored()
            data = cell.get()
            value = None if data is None else self.kind.decoded(data, self._place)
            self._value = value
        return value

    def write(self, value: Any) -> None:
        self._value = value
        if not self._changed:
            self._changed = True
            place = self._place
            place.keep()
            place.put_off(self)

    def clear(self) -> None:
        self.write(None)

    def store(self) -> None:
        """See ``PutOff``."""
        self._changed = False
        value = self._value
        cell = self._cell or self._stored()
        if value is None:
            cell.clear()
        else:
            cell.set(self.kind.encoded(value))


class CombiningCell(userstate.CombiningValueRuntimeState):
    """An accumulator of a CombineFn; reads give its extracted output."""

    def __init__(self, kind: CombiningKind, place: Place) -> None:
        self.kind = kind
        self._fn = kind.fn
        self._place = place
        self._cell: Value | None = None
        self._accumulator = UNREAD
        self._changed = False
        self._empty = False

    def _stored(self) -> Value:
        cell = self._cell
        if cell is None:
            place = self._place
            cell = self._cell = place.scope().combining(self.kind.tag, place.section)
        return cell

    def _load(self) -> Any:
        accumulator = self._accumulator
        if accumulator is UNREAD:
            data = self._stored().get()
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
        self._change(empty=False)

    def clear(self) -> None:
        self._accumulator = self._fn.create_accumulator()
        self._change(empty=True)

    def _change(self, *, empty: bool) -> None:
        self._empty = empty
        if not self._changed:
            self._changed = True
            self._place.keep()
            self._place.put_off(self)

    def store(self) -> None:
        """See ``PutOff``."""
        self._changed = False
        if self._empty:
            self._stored().clear()
        else:
            try:
                accumulator = self._accumulator = self._fn.compact(self._accumulator)
            except Exception as error:
                self.kind.tell(error)
                raise
            self._stored().set(self.kind.encoded(accumulator))


class _Collection:
    """What cells with many items share: what was read stays readable after it was cleared."""

    def __init__(self, kind: Kind, place: Place) -> None:
        self.kind = kind
        self._place = place
        self._kept = False
        self._read: list[ref[Again[Any]]] = []

    def _keep(self) -> None:
        self._kept = True
        self._place.keep()

    def _again(self, source: Callable[[], Iterator[T]]) -> Again[T]:
        again = Again(source)
        if not self._read:
            self._place.put_off(self)
        self._read.append(ref(again))
        return again

    def store(self) -> None:
        """See ``PutOff``: what somebody still has of this key stays readable."""
        self._before_clear()

    def _before_clear(self) -> None:
        read, self._read = self._read, []
        for reference in read:
            again = reference()
            if again is not None:
                again.load()


class BagCell(_Collection, userstate.BagRuntimeState):
    """Values in the order of adding."""

    def __init__(self, kind: Kind, place: Place) -> None:
        super().__init__(kind, place)
        self._stored = place.scope().bag(kind.tag, place.section)

    def read(self) -> Iterable[Any]:
        items: list[bytes] = []
        size = 0
        for segment in self._stored.segments():
            items += segment
            size += sum(map(len, segment)) + _ITEM_BYTES * len(segment)
            if size > _AT_ONCE:
                del items
                return self._again(lambda: self.kind.all_decoded(self._stored.read(), self._place))
        return list(self.kind.all_decoded(items, self._place))

    def add(self, value: Any) -> None:
        if not self._kept:
            self._keep()
        try:
            data = self.kind.encode(value)
        except Exception as error:
            self.kind.tell(error)
            raise
        self._stored.append(data)

    def clear(self) -> None:
        self._before_clear()
        self._stored.clear()


class SetCell(_Collection, userstate.SetRuntimeState):
    """Distinct values; equal if their encodings are."""

    def __init__(self, kind: Kind, place: Place) -> None:
        super().__init__(kind, place)
        self._stored = place.scope().set(kind.tag, place.section)

    def read(self) -> Iterable[Any]:
        items = _few(self._stored.read(), len)
        if items is None:
            return self._again(lambda: self.kind.all_decoded(self._stored.read(), self._place))
        return list(self.kind.all_decoded(items, self._place))

    def add(self, value: Any) -> None:
        if not self._kept:
            self._keep()
        self._stored.add(self.kind.encoded(value))

    def clear(self) -> None:
        self._before_clear()
        self._stored.clear()


class OrderedListCell(_Collection, userstate.OrderedListRuntimeState):
    """Timestamped values in time order, ties in the order of adding."""

    def __init__(self, kind: Kind, place: Place) -> None:
        super().__init__(kind, place)
        self._stored = place.scope().ordered_list(kind.tag, place.section)

    def add(self, elem: tuple[Timestamp, Any]) -> None:
        if not self._kept:
            self._keep()
        self._stored.append(micros(elem[0]), self.kind.encoded(elem[1]))

    def read(self) -> Iterable[tuple[Timestamp, Any]]:
        return self._items(self._stored.read)

    def read_range(self, min_timestamp: Any, limit_timestamp: Any) -> Iterable[Any]:
        low, high = micros(min_timestamp), micros(limit_timestamp)
        return self._items(lambda: self._stored.read(low, high))

    def _items(
        self, source: Callable[[], Iterator[tuple[int, bytes]]]
    ) -> Iterable[tuple[Timestamp, Any]]:
        items = _few(source(), _second_length)
        if items is None:
            return self._again(lambda: self._decoded(source()))
        return list(self._decoded(items))

    def _decoded(self, items: Iterable[tuple[int, bytes]]) -> Iterator[tuple[Timestamp, Any]]:
        kind, place = self.kind, self._place
        return ((Timestamp(micros=time), kind.decoded(data, place)) for time, data in items)

    def clear(self) -> None:
        self._before_clear()
        self._stored.clear()

    def clear_range(self, min_timestamp: Any, limit_timestamp: Any) -> None:
        self._before_clear()
        self._stored.clear_range(micros(min_timestamp), micros(limit_timestamp))


def _few(items: Iterator[T], size_of: Callable[[T], int]) -> list[T] | None:
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


def _second_length(item: tuple[int, bytes]) -> int:
    return len(item[1])


ROUND_CELLS: dict[type, tuple[type[Kind], Callable[[Any, Place], Any]]] = {
    userstate.ReadModifyWriteStateSpec: (Kind, ValueCell),
    userstate.BagStateSpec: (Kind, BagCell),
    userstate.CombiningValueStateSpec: (CombiningKind, CombiningCell),
    userstate.SetStateSpec: (Kind, SetCell),
    userstate.OrderedListStateSpec: (Kind, OrderedListCell),
}
