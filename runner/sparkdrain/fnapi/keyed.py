"""Where the elements of a KEYED edge leave a slot for an SDK harness, and its timers fire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from typing_extensions import override

from sparkdrain.fnapi.elements import prefixed
from sparkdrain.harness.harness import KeyedInlet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sparkdrain.fnapi.inlet import FnInlet
    from sparkdrain.graph.plan import TransformId
    from sparkdrain.harness.harness import Elements
    from sparkdrain.harness.limits import UpTo


class TimerBundles(Protocol):
    """Processes timers in bundles."""

    def finish(self) -> None:
        """Process all that was fed."""

    def fire_due(self, transform: str, up_to: UpTo) -> bool:
        """Fire timers that are due in a bundle of their own; whether there were any."""

    def has_come(self, transform: str, key: bytes, elements: list[Any]) -> None:
        """A DoFn gets elements of a key."""

    def expire(self, transform: str, up_to: UpTo) -> bool:
        """Forget windows that are over; whether the budget was enough."""


class FnKeyedInlet(KeyedInlet):
    """Sends the elements of keys.

    Args:
        stateful: the DoFns with state or timers that the edge feeds.
    """

    takes_pieces = False

    def __init__(
        self, inlet: FnInlet, bundles: TimerBundles, stateful: Sequence[TransformId]
    ) -> None:
        self._inlet = inlet
        self._bundles = bundles
        self._stateful = stateful

    @override
    def feed(
        self,
        keys: Iterable[tuple[bytes, Any]],
        elements: Elements,
        is_late: Callable[[Any], bool],
    ) -> None:
        del is_late  # it was dropped when it was decoded
        inlet = self._inlet
        for key, chunks in keys:
            head = prefixed(key)
            for some in elements(chunks):
                inlet.feed_of_key(head, some)
                for transform in self._stateful:
                    self._bundles.has_come(transform, key, some)
        # From now on the overlay has the timers, which hold time back.
        self._bundles.finish()

    @override
    def fire(self, transform: TransformId, up_to: UpTo) -> bool:
        while self._bundles.fire_due(transform, up_to):
            if up_to.budget.is_spent():
                return False
        return self._bundles.expire(transform, up_to)
