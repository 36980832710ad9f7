"""What is passed to ``process``: what markers stand for, side inputs, and what users have given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apache_beam import DoFn
from apache_beam.internal.util import ArgumentPlaceholder

from sparkdrain.harness.beam import common

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sparkdrain.harness.dofn import DoFnHandle


@dataclass(frozen=True, slots=True)
class Side:
    """A side input.

    Attributes:
        number: among those of the DoFn.
        views: what user code sees of it, by window; it may change from round to round.
    """

    number: int
    views: Any


@dataclass(frozen=True, slots=True)
class Given:
    """A value that was given together with the DoFn."""

    number: int
    value: Any


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument.

    Attributes:
        keyword: under which it is passed; empty: by position.
        what: a marker of Beam's, a ``Side``, or a ``Given``.
    """

    keyword: str
    what: Any

    def written(self, value: str) -> str:
        """As source text; ``value`` is what is passed."""
        return f"{self.keyword}={value}" if self.keyword else value


def arguments_of(process: Any, handle: DoFnHandle, known: Collection[Any]) -> list[Argument] | None:
    """What Beam passes to ``process``, in its order; None if that is more than what is known.

    Args:
        process: Beam's view of the method.
        known: markers, beside those of states and timers.
    """
    markers, passed, keywords = common._get_arg_placeholders(  # noqa: SLF001 - what Beam does
        process, list(handle.args), dict(handle.kwargs)
    )
    places = dict(markers)
    sides = (Side(number, views) for number, views in enumerate(handle.side_inputs))
    found = []
    for number, value in enumerate(passed):
        if number in places:
            marker = places[number]
            if not isinstance(marker, (DoFn.StateParam, DoFn.TimerParam)) and marker not in known:
                return None
            found.append(Argument("", marker))
        else:
            found.append(Argument("", _given(number, value, sides)))
    for number, (keyword, value) in enumerate(sorted(keywords.items()), len(passed)):
        found.append(Argument(keyword, _given(number, value, sides)))
    return found


def _given(number: int, value: Any, sides: Iterator[Side]) -> Side | Given:
    return next(sides) if isinstance(value, ArgumentPlaceholder) else Given(number, value)
