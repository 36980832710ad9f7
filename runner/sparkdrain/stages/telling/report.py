"""What a slot tells the driver when its task ends: its account, and Python warnings.

The program that has made the pipeline is to hear the warnings. They are noted in the worker, travel
in the slot's report, and are issued again in the driver: each once for a job, by the program's own
filters.
"""

from __future__ import annotations

import logging
import sys
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.v1 import levels_pb2
from sparkdrain.wire import ControlMessage, sent_as

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOGGER = logging.getLogger(__name__)

# What comes after is shown where it is issued.
_MOST: Final = 100
_LONGEST: Final = 10_000


@sent_as(levels_pb2.Warned)
@dataclass(frozen=True, slots=True)
class Warned:
    """One warning.

    Attributes:
        category: module and name of its class.
    """

    text: str
    category: tuple[str, str]
    file: str
    line: int

    def issue(self) -> None:
        """Issue it in this process. Where warnings are errors it is logged: it comes too late."""
        module, name = self.category
        category = getattr(sys.modules.get(module), name, None)
        if not isinstance(category, type) or not issubclass(category, Warning):
            category = UserWarning
        try:
            warnings.warn_explicit(self.text, category, self.file, self.line)
        except Warning:
            _LOGGER.warning("%s: %s", name, self.text)


@contextmanager
def noted() -> Iterator[list[Warned]]:
    """Note the warnings that are issued while entered, in any thread, instead of showing them.

    If an exception ends it, no report takes the warnings along, and they are shown.
    """
    shown: Any = warnings.showwarning
    notes: dict[Warned, tuple[Any, ...]] = {}
    listed: list[Warned] = []

    def note(message: Any, category: Any, filename: str, lineno: int, *rest: Any) -> None:
        kind = (category.__module__, category.__qualname__)
        warned = Warned(str(message)[:_LONGEST], kind, filename, lineno)
        if len(listed) >= _MOST:
            shown(message, category, filename, lineno, *rest)
        elif warned not in notes:
            notes[warned] = (message, category, filename, lineno, *rest)
            listed.append(warned)

    warnings.showwarning = note  # type: ignore[assignment]
    try:
        yield listed
    except BaseException:
        for told in notes.values():
            shown(*told)
        raise
    finally:
        # User code may have put something else there.
        if warnings.showwarning is note:
            warnings.showwarning = shown


def forget_warnings() -> None:
    """Have warnings that were issued before in this process be issued again."""
    warnings.onceregistry.clear()  # type: ignore[attr-defined]
    # On leaving it, Python forgets what modules have issued.
    with warnings.catch_warnings():
        pass


@sent_as(levels_pb2.SlotReport)
@dataclass(frozen=True, slots=True)
class SlotReport(ControlMessage):
    """The account of one task; control data only, never elements."""

    level: int
    slot: int
    attempt: int
    inputs: dict[tuple[int, int], int]
    """The attempt of each producer (level, slot) whose output was read."""
    side_bytes: dict[int, int]
    """Bytes written per side-input partition."""
    metrics: list[bytes] = field(default_factory=list)
    """Serialized ``MonitoringInfo`` protos."""
    elements: int = 0
    sent_bytes: int = 0
    spilled: int = 0
    gifts: int = 0
    """How many times restrictions were given away to other slots."""
    handled: int = 0
    """Elements of each stage's busiest PCollection."""
    warned: tuple[Warned, ...] = ()
    """What the program is to hear."""
