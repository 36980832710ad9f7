"""State machines as data: a table of legal steps, and a walk along it that keeps its history."""

from __future__ import annotations

import enum
from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from sparkdrain.errors import SparkDrainError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

S = TypeVar("S", bound=enum.Enum)
E = TypeVar("E", bound=enum.Enum)

# How many steps an error shows. A job makes checkpoints for as long as it runs.
_SHOWN: Final = 12


class IllegalStep(SparkDrainError):
    """An event came in a state that has no step for it; shows the steps that led to the state."""


class Walk(Generic[S, E]):
    """A state that changes along the steps of a table, and in no other way.

    Args:
        subject: whose state it is; errors begin with it.
        steps: the next state, by state and event. ``follow`` asks for the events of a state in
            the order of the table.
    """

    def __init__(self, subject: str, steps: Mapping[tuple[S, E], S], start: S) -> None:
        self._subject = subject
        self._steps = steps
        self._state = start
        self._history = deque([start.name], maxlen=_SHOWN)

    @property
    def state(self) -> S:
        """The present state."""
        return self._state

    def take(self, event: E) -> S:
        """Make the step of an event; returns the new state.

        Raises:
            IllegalStep: the present state has no step for the event.
        """
        following = self._steps.get((self._state, event))
        if following is None:
            message = (
                f"{self._subject} cannot take the event {event.name} after "
                f"{' -> '.join(self._history)}. This is a bug of sparkdrain: please report this "
                "message. With --resume, the job goes on from its newest checkpoint."
            )
            raise IllegalStep(message)
        self._state = following
        self._history.append(f"({event.name}) {following.name}")
        return following

    def follow(self, has_happened: Callable[[E], bool]) -> S:
        """Make steps for as long as an event has happened that the present state has a step for.

        Args:
            has_happened: asked for the events of the present state only.
        """
        while True:
            events = [event for state, event in self._steps if state is self._state]
            happened = next((event for event in events if has_happened(event)), None)
            if happened is None:
                return self._state
            self.take(happened)
