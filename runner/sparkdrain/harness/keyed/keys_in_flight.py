"""Keys that have their turns at a time, at DoFns of which many elements are in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sparkdrain.harness.keyed.errors import tell_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sparkdrain.harness.concurrent.operation import ConcurrentOperation

_OVER: Final = object()


class KeyTurn:
    """What one key has to do, one thing after the other.

    Attributes:
        encoded, key: the key.
        steps: each hands something over, which has to be complete before the next step.
        in_flight: how much was handed over and is not complete.
        timer: family and tag of the timer that fires, if one does.
    """

    __slots__ = ("encoded", "in_flight", "key", "steps", "timer")

    def __init__(self, encoded: bytes, key: Any) -> None:
        self.encoded = encoded
        self.key = key
        self.steps: Iterator[None] = iter(())
        self.in_flight = 0
        self.timer: tuple[bytes, bytes] | tuple[()] = ()

    def tell(self, error: BaseException, window: Any) -> None:
        """Note down the key and the rest with an error of user code."""
        tell_key(error, self.key, window, *self.timer)


class KeysInFlight:
    """Has keys take their turns beside each other, in the order in which they come.

    All calls come from the slot's thread, and all keys are done when it goes elsewhere.

    Args:
        operations: of the DoFns that the keys have turns at. They share a loop.
    """

    def __init__(self, operations: Sequence[ConcurrentOperation]) -> None:
        self._operations = operations
        self._most = min(operation.max_in_flight for operation in operations)
        self._active: dict[bytes, KeyTurn] = {}

    def begin(self, turn: KeyTurn) -> None:
        """Begin a turn, when fewer keys than may be are in flight, and this key is not."""
        while turn.encoded in self._active or len(self._active) >= self._most:
            self.land_some()
        self._active[turn.encoded] = turn
        self._go_on(turn)

    @property
    def are_any(self) -> bool:
        """Whether a turn has begun and is not over."""
        return bool(self._active)

    def land(self) -> None:
        """Wait until all turns are over."""
        while self._active:
            self.land_some()

    def land_some(self) -> None:
        """Wait until a turn can go on, and have it do so."""
        while not (landed := self._landed()):
            self._operations[0].wait()
        for turn in landed:
            self._go_on(turn)

    def _landed(self) -> list[KeyTurn]:
        landed = []
        for operation in self._operations:
            for turn in operation.landed():
                turn.in_flight -= 1
                if not turn.in_flight:
                    landed.append(turn)
        return landed

    def _go_on(self, turn: KeyTurn) -> None:
        for operation in self._operations:
            operation.turn = turn
        try:
            while next(turn.steps, _OVER) is not _OVER:
                if turn.in_flight:
                    return
        except BaseException as error:
            turn.tell(error, None)
            raise
        del self._active[turn.encoded]
