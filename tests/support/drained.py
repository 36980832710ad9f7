"""Pipelines in rounds that are drained at a moment of the test's choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkdrain.drain.limits import Limits
from sparkdrain.drain.notification import DrainNotification
from tests.support.recorded import emitted_in_rounds

if TYPE_CHECKING:
    from collections.abc import Callable

RUN = "job/1"


def request(rounds: Any, repeats: int = 10) -> None:
    """Have rounds drained from the next one on."""
    rounds.loop.drain.timer_repeats = repeats
    rounds.loop.drain.signal.request(DrainNotification.create(RUN, 0))


def drain_after(number: int, rounds: Any, repeats: int = 10) -> None:
    """Have rounds drained when so many were committed."""
    if number <= 0:
        request(rounds, repeats)
        return
    tell = rounds.loop.tell

    def look(schedule: Any, reports: Any) -> None:
        tell(schedule, reports)
        if schedule.number >= number:
            request(rounds, repeats)

    rounds.loop.tell = look


def emitted_when_drained(
    build: Callable[[Any], Any], after: int, **settings: Any
) -> tuple[list[Any], list[Any]]:
    """What came out before the drain was requested, and after; see ``recorded``.

    Args:
        build: makes a PCollection of a pipeline.
        after: the round after which the job is drained; 0: it is from the start.
        settings: see ``emitted_in_rounds``; ``repeats``: see ``DrainOrder``.
    """
    repeats = settings.pop("repeats", 10)
    begin = settings.pop("begin", lambda rounds: None)

    def begun(rounds: Any) -> None:
        drain_after(after, rounds, repeats)
        begin(rounds)

    kept = emitted_in_rounds(build, begin=begun, **settings)
    before = [element for part in kept[:after] for element in part]
    return before, [element for part in kept[after:] for element in part]


def limited(rounds: Any) -> None:
    """Give a drain 0.2 s for each element; a job that goes on for 50 rounds fails its test."""
    rounds.loop.drain.limits = Limits(element=0.2)
    tell = rounds.loop.tell

    def look(schedule: Any, reports: Any) -> None:
        tell(schedule, reports)
        assert schedule.number < 50, "rounds leave it in flight for ever"

    rounds.loop.tell = look
