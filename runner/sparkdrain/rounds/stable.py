"""Stable input: elements wait until a checkpoint has them, so they never come in another way.

A DoFn whose effects leave the job asks for it (``beam:requirement:pardo:stable_input:v1``). Blocks
are parked as they came, in the slot's state. When a checkpoint that has them is published, they go
on, in the same order. If the job is taken up from that checkpoint, the same blocks go on again in
the same order. Blocks that are parked hold the frontier.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from sparkdrain.stages.shards.input import Input, Inside
from sparkdrain.watermarks.frontier import BEGIN, least

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sparkdrain.stages.shards.input import Count
    from sparkdrain.stages.shards.turn import Turn
    from timers_state import KeyScope, Overlay

_NUMBER: Final = struct.Struct(">Q")
_BATCH: Final = struct.Struct(">q?")
_BATCHES, _NEXT = b"b", b"n"


class Coverage:
    """What of the parked batches checkpoints have, in the life of one slot; not part of its state.

    Batches of an input are numbered. What a slot was restored with is in the checkpoint.
    """

    def __init__(self, *, restored: bool) -> None:
        self._restored = restored
        self._begun: deque[tuple[int, dict[int, int]]] = deque()
        self._safe: dict[int, int] = {}

    def first_seen(self, state_id: int, end: int) -> None:
        """An input is there for the first time, with batches up to ``end``."""
        self._safe.setdefault(state_id, end if self._restored else 0)

    def begun(self, checkpoint: int, ends: dict[int, int]) -> None:
        """A checkpoint has been begun: if it succeeds, it has the batches up to these."""
        self._begun.append((checkpoint, ends))

    def published(self, checkpoint: int) -> None:
        """A checkpoint is there."""
        while self._begun and self._begun[0][0] <= checkpoint:
            number, ends = self._begun.popleft()
            if number == checkpoint:
                self._safe.update(ends)

    def safe(self, state_id: int) -> int:
        """The number of the first batch that may still be lost."""
        return self._safe[state_id]


class StableInput(Input):
    """Parks what comes for another input until it is safe; an ``Input``.

    Args:
        state_id: nothing else uses it there.
        tell_more: told, after elements were handed on, whether further ones are safe.
    """

    def __init__(
        self,
        inner: Input,
        overlay: Overlay,
        state_id: int,
        coverage: Coverage,
        tell_more: Callable[[bool], None],
    ) -> None:
        self.inner = inner
        self._tell_more = tell_more
        self.state_id = state_id
        self._overlay = overlay
        self._coverage = coverage
        batches = self._scope().map(_BATCHES)
        self._parked = {
            _NUMBER.unpack(number)[0]: _BATCH.unpack(batch) for number, batch in batches.items()
        }
        kept = self._scope().value(_NEXT).get()
        self.end: int = 0 if kept is None else _NUMBER.unpack(kept)[0]
        """The number of the batch that comes next."""
        self._taken = False
        coverage.first_seen(state_id, self.end)

    def _scope(self) -> KeyScope:
        return self._overlay.scope(self.state_id, b"")

    @property
    @override
    def reason(self) -> str:
        return "checkpoint" if self._held() < self.inner.hold() else self.inner.reason

    @property
    def waits(self) -> bool:
        """Whether there is something that no checkpoint has."""
        return any(number >= self._coverage.safe(self.state_id) for number in self._parked)

    def take(self, payload: memoryview) -> None:
        """Park a block."""
        self._scope().bag(_NUMBER.pack(self.end)).append(bytes(payload))
        self._taken = True

    def process(self, turn: Turn) -> None:
        """Hand on what is safe."""
        before = min(turn.before, self._held())
        if self._taken:
            self._park(turn)
        for payload in self._released(turn):
            self.inner.take(memoryview(payload))
        self.inner.process(self._behind(turn, before))
        self._tell_more(self._more_is_safe())

    def _park(self, turn: Turn) -> None:
        # Nothing that came in this round is older than what was said before it.
        batch = (turn.before, turn.of_drain)
        self._parked[self.end] = batch
        self._scope().map(_BATCHES).put(_NUMBER.pack(self.end), _BATCH.pack(*batch))
        self.end += 1
        self._scope().value(_NEXT).set(_NUMBER.pack(self.end))
        self._taken = False

    def _released(self, turn: Turn) -> Iterator[bytes]:
        safe = self._coverage.safe(self.state_id)
        for number, (_, of_drain) in sorted(self._parked.items()):
            if number >= safe or of_drain != turn.of_drain or turn.budget.is_spent():
                continue
            bag = self._scope().bag(_NUMBER.pack(number))
            yield from bag.read()
            bag.clear()
            self._scope().map(_BATCHES).remove(_NUMBER.pack(number))
            del self._parked[number]

    def _behind(self, turn: Turn, before: int) -> Turn:
        return replace(turn, before=before, after=max(before, min(turn.after, self._held())))

    @override
    def advance(self, turn: Turn) -> None:
        self.inner.advance(self._behind(turn, min(turn.before, self._held())))

    def _held(self) -> int:
        return least(time for time, _ in self._parked.values())

    @override
    def hold(self) -> int:
        return min(self._held(), self.inner.hold())

    def _more_is_safe(self) -> bool:
        return any(number < self._coverage.safe(self.state_id) for number in self._parked)

    @override
    def wake(self) -> int | None:
        if self._more_is_safe():
            return BEGIN
        return self.inner.wake()

    @override
    def take_dropped(self) -> int:
        return self.inner.take_dropped()

    @override
    def commit(self) -> None:
        self.inner.commit()

    @override
    def inside(self, count: Count) -> Inside:
        return Inside(parked=len(self._parked)) + self.inner.inside(count)

    @override
    def close(self) -> None:
        self.inner.close()


def put_together(
    olds: Iterable[tuple[int, Overlay]],
    overlay: Overlay,
    state_id: int,
    part: Callable[[int, bytes], bytes],
) -> None:
    """Make of what waits in old slots what waits in a new one; batches keep their order.

    Args:
        olds: the states of old slots, by slot.
        overlay: the state of the new one.
        part: given an old slot and a block of it, the part for the new one; may be empty.
    """
    scope = overlay.scope(state_id, b"")
    batches = [
        (_BATCH.unpack(batch), old, number, source.scope(state_id, b""))
        for old, source in olds
        for number, batch in source.scope(state_id, b"").map(_BATCHES).items()
    ]
    end = 0
    for batch, old, number, source in sorted(batches, key=lambda entry: (entry[0][0], *entry[1:3])):
        bag = scope.bag(_NUMBER.pack(end))
        is_empty = True
        for payload in source.bag(number).read():
            if mine := part(old, payload):
                bag.append(mine)
                is_empty = False
        if is_empty:
            continue
        scope.map(_BATCHES).put(_NUMBER.pack(end), _BATCH.pack(*batch))
        end += 1
    scope.value(_NEXT).set(_NUMBER.pack(end))
