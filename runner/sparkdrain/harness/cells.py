"""The kinds of user state, as the Python SDK names them, for the key being processed."""

from __future__ import annotations

import bisect
import copy
from collections.abc import Callable, Iterable
from typing import Any

from apache_beam.transforms import userstate
from apache_beam.utils.timestamp import Timestamp

Scope = Callable[[], Any]


class ValueCell(userstate.ReadModifyWriteRuntimeState):  # type: ignore[misc]
    """A single value; None if it was never written."""

    def __init__(self, spec: Any, scope: Scope) -> None:
        self._value: Any = None

    def read(self) -> Any:
        return self._value

    def write(self, value: Any) -> None:
        self._value = value

    def clear(self) -> None:
        self._value = None

    def close(self) -> None: ...


class BagCell(userstate.BagRuntimeState):  # type: ignore[misc]
    """Values in the order of adding."""

    def __init__(self, spec: Any, scope: Scope) -> None:
        self._values: list[Any] = []
        self.add = self._values.append

    def read(self) -> Iterable[Any]:
        return list(self._values)

    def clear(self) -> None:
        self._values.clear()

    def close(self) -> None: ...


class CombiningCell(userstate.CombiningValueRuntimeState):  # type: ignore[misc]
    """An accumulator of a CombineFn; reads give its extracted output."""

    def __init__(self, spec: Any, scope: Scope) -> None:
        self._fn = copy.deepcopy(spec.combine_fn)
        self._fn.setup()
        self._accumulator = self._fn.create_accumulator()

    def read(self) -> Any:
        return self._fn.extract_output(self._accumulator)

    def add(self, value: Any) -> None:
        self._accumulator = self._fn.add_input(self._accumulator, value)

    def clear(self) -> None:
        self._accumulator = self._fn.create_accumulator()

    def close(self) -> None:
        self._fn.teardown()


class SetCell(userstate.SetRuntimeState):  # type: ignore[misc]
    """Distinct values; equal if their encodings are."""

    def __init__(self, spec: Any, scope: Scope) -> None:
        self._encode = spec.coder.get_impl().encode
        self._values: dict[bytes, Any] = {}

    def read(self) -> Iterable[Any]:
        return list(self._values.values())

    def add(self, value: Any) -> None:
        self._values[self._encode(value)] = value

    def clear(self) -> None:
        self._values.clear()

    def close(self) -> None: ...


class OrderedListCell(userstate.OrderedListRuntimeState):  # type: ignore[misc]
    """Timestamped values in time order, ties in the order of adding."""

    def __init__(self, spec: Any, scope: Scope) -> None:
        self._times: list[int] = []
        self._values: list[tuple[Timestamp, Any]] = []

    def add(self, elem: tuple[Timestamp, Any]) -> None:
        timestamp, value = elem
        micros = Timestamp.of(timestamp).micros
        at = bisect.bisect_right(self._times, micros)
        self._times.insert(at, micros)
        self._values.insert(at, (Timestamp.of(timestamp), value))

    def read(self) -> Iterable[tuple[Timestamp, Any]]:
        return list(self._values)

    def read_range(self, min_timestamp: Any, limit_timestamp: Any) -> Iterable[Any]:
        return self._values[self._range(min_timestamp, limit_timestamp)]

    def clear(self) -> None:
        self._times.clear()
        self._values.clear()

    def clear_range(self, min_timestamp: Any, limit_timestamp: Any) -> None:
        cut = self._range(min_timestamp, limit_timestamp)
        del self._times[cut]
        del self._values[cut]

    def _range(self, low: Any, high: Any) -> slice:
        return slice(
            bisect.bisect_left(self._times, Timestamp.of(low).micros),
            bisect.bisect_left(self._times, Timestamp.of(high).micros),
        )

    def close(self) -> None: ...


CELLS: dict[type, Callable[[Any, Scope], Any]] = {
    userstate.ReadModifyWriteStateSpec: ValueCell,
    userstate.BagStateSpec: BagCell,
    userstate.CombiningValueStateSpec: CombiningCell,
    userstate.SetStateSpec: SetCell,
    userstate.OrderedListStateSpec: OrderedListCell,
}
