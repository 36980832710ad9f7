"""How the elements of one step are in flight, as users say it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

ResultOrder = Literal["none", "by_key", "input"]
ORDERS: Final = get_args(ResultOrder)
_LONGEST_BACKOFF: Final = 30.0


@dataclass(frozen=True, slots=True)
class Concurrency:
    """How many elements of a step may be in flight in a slot, and what becomes of each.

    Attributes:
        max_in_flight: elements in flight in one slot; 1: one after the other.
        order: in which order results leave. ``none``: as elements complete. ``by_key``: elements
            of one key are processed one after the other, in arrival order. ``input``: results
            leave in the order in which elements arrived.
        timeout: seconds that one attempt at an element may take; None: unlimited.
        retries: how often an element that fails is tried again.
        backoff: seconds before the first retry; each further pause is twice as long, up to 30 s.
        dead_letter: the tag of the output that an element goes to when it has failed for good, as
            ``(element, (type, repr, lines of the traceback))``; empty: the job fails.
        carry_over: whether elements in flight at the end of a round of a stream stay in flight, and
            leave in a later round. A round does not wait for them then.

    Raises:
        ValueError: a value is outside of its bounds; the message names it.
    """

    max_in_flight: int = 100
    order: ResultOrder = "none"
    timeout: float | None = None
    retries: int = 0
    backoff: float = 0.1
    dead_letter: str = ""
    carry_over: bool = False

    def __post_init__(self) -> None:
        _check(self.max_in_flight >= 1, "max_in_flight", self.max_in_flight, "1 or more elements")
        _check(self.order in ORDERS, "order", self.order, f"one of {', '.join(ORDERS)}")
        is_limit = self.timeout is None or self.timeout > 0
        _check(is_limit, "timeout", self.timeout, "more than 0 seconds, or None")
        _check(self.retries >= 0, "retries", self.retries, "0 or more times")
        _check(self.backoff >= 0, "backoff", self.backoff, "0 or more seconds")

    def pause(self, attempt: int) -> float:
        """Seconds to wait after a failed attempt; the first one has the number 0."""
        return min(self.backoff * 2.0 ** min(attempt, 32), _LONGEST_BACKOFF)


@dataclass(frozen=True, slots=True)
class AsyncStep:
    """What an option says about one step. It overrides what the pipeline's code says.

    Attributes:
        max_in_flight: see ``Concurrency``.
        carry_over: as in ``Concurrency``; if it is False, the value from the code holds.
    """

    max_in_flight: int
    carry_over: bool = False

    def over(self, settings: Concurrency) -> Concurrency:
        """The settings of a step whose code says ``settings``."""
        carry_over = settings.carry_over or self.carry_over
        return replace(settings, max_in_flight=self.max_in_flight, carry_over=carry_over)


def _check(is_right: bool, name: str, value: object, takes: str) -> None:
    if not is_right:
        msg = f"{name} of a concurrent step cannot be {value!r}: it takes {takes}"
        raise ValueError(msg)
