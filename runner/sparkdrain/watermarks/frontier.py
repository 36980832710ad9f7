"""A frontier: the time before which nothing more will come. Integers, in microseconds.

Laws: a frontier never goes back; that of several inputs is the least of theirs; a stage's output
frontier is never beyond its input's, nor beyond anything that it holds back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

BEGIN: Final = -9_223_372_036_854_775_000
"""Before all time: nothing is known."""
END: Final = 9_223_372_036_854_775_000
"""The end of time: nothing more will come."""


class FrontierWentBack(ValueError):
    """A frontier went back, which breaks the promise that nothing older comes."""


def least(frontiers: Iterable[int]) -> int:
    """The frontier of several inputs together; without any, nothing will come."""
    return min(frontiers, default=END)


def advanced(before: int, after: int, what: str) -> int:
    """``after``, which must not lie before ``before``.

    Raises:
        FrontierWentBack: it does; the message names ``what``.
    """
    if after < before:
        message = f"the frontier of {what} went back from {before} to {after} (microseconds)"
        raise FrontierWentBack(message)
    return after


def output_frontier(before: int, inputs: Iterable[tuple[int, int]]) -> int:
    """A stage's output frontier.

    A hold that is set behind ``before`` cannot take anything back; what it stands for is late.

    Args:
        before: what it was.
        inputs: for each input its frontier, and the earliest time that it holds back.
    """
    return max(before, least(min(frontier, hold) for frontier, hold in inputs))
