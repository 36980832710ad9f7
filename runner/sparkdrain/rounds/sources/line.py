"""The restrictions of a round in their order: first those that have waited, then new ones."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from apache_beam.utils.windowed_value import WindowedValue

from sparkdrain.rounds.sources.residuals import Residual, rest_of
from sparkdrain.shuffle.elements import read_runs
from timers_state.keys import I64_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sparkdrain.rounds.sources.residuals import ResidualStore
    from sparkdrain.shuffle.coding import ElementCoding


class Arrivals:
    """New restrictions; their blocks are decoded one by one."""

    def __init__(self, coding: ElementCoding) -> None:
        self._coding = coding
        self._blocks: deque[bytes] = deque()
        self._elements: deque[Any] = deque()
        self.by_window = False
        """Whether to hand each of them out once per window."""
        self.truncate: Callable[[Residual], Residual | None] | None = None
        """Gives what is left of a restriction at its turn, while the job is drained; else None."""

    def add(self, payload: memoryview) -> None:
        """Another block."""
        self._blocks.append(bytes(payload))

    def __len__(self) -> int:
        return len(self._blocks) + len(self._elements)

    def pop(self) -> Residual | None:
        """Take out the first one of which something is left."""
        while (residual := self._next()) is not None:
            left = residual if self.truncate is None else self.truncate(residual)
            if left is not None:
                return left
        return None

    def _next(self) -> Residual | None:
        while self._blocks and not self._elements:
            self._elements.extend(self._decode(self._blocks.popleft()))
        if not self._elements:
            return None
        element = self._elements.popleft()
        # Until its estimator says more, what it makes is as old as the element itself, or younger.
        return Residual(element, element.timestamp.micros)

    def _decode(self, payload: bytes) -> Iterator[Any]:
        for context, values in read_runs(memoryview(payload), self._coding):
            elements = values if context is None else map(context.with_value, values)
            for element in elements:
                if self.by_window and len(element.windows) > 1:
                    # Beam cannot split an element in the midst of its windows.
                    for window in element.windows:
                        yield WindowedValue(
                            element.value, element.timestamp, (window,), element.pane_info
                        )
                else:
                    yield element


class RestrictionLine:
    """The restrictions that are due in a round, in their order, and what is left of them.

    Args:
        store: what was left of earlier rounds.
        now: processing time.
        most_delay: how long a restriction may be deferred, microseconds.
    """

    def __init__(
        self,
        store: ResidualStore,
        arrivals: Arrivals,
        now: int,
        most_delay: int = I64_MAX,
    ) -> None:
        self._store = store
        self._arrivals = arrivals
        self._now = now
        self._most_delay = most_delay
        self._interrupted: deque[Residual] = deque()
        self._deferred: list[tuple[Residual, int]] = []

    def __len__(self) -> int:
        """About how many there are."""
        return len(self._store) + len(self._arrivals) + len(self._interrupted)

    def pop(self) -> Residual | None:
        """Whose turn it is."""
        residual = self._store.pop(self._now) or self._arrivals.pop()
        if residual is None and self._interrupted:
            residual = self._interrupted.popleft()
        return residual

    def interrupted(self, residual: Residual) -> None:
        """Keep what is left of a restriction, which goes on as soon as there is time."""
        self._interrupted.append(self._store.copy(residual))

    def deferred(self, residual: Residual, micros: int) -> None:
        """Keep what is left of a restriction that goes on in a later round, after so much time."""
        delay = min(micros if micros > 0 else rest_of(self._now, residual.idle), self._most_delay)
        self._deferred.append((residual, self._now + delay))

    def keep(self) -> None:
        """The round is over."""
        while (residual := self._arrivals.pop()) is not None:
            self._store.put(residual, self._now)
        for residual in self._interrupted:
            self._store.put(residual, self._now)
        for residual, resume in self._deferred:
            self._store.put(residual, resume)
