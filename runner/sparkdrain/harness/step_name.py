"""Names the step in an error: of user code as Beam does, else by the operations on the stack."""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING, Any, NoReturn

from sparkdrain.notes import add_note, notes_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType


def raise_named(error: BaseException, name_context: Any) -> NoReturn:
    """Raise ``error``, which is being handled, with the name of a step behind its message.

    The notes of ``error`` move to the new error. An error that names a step already is raised as
    it is.
    """
    if getattr(error, "_tagged_with_step", False):
        raise error
    annotation = f" [while running '{name_context.logging_name()}']"
    notes = notes_of(error)
    if notes:
        error.__notes__ = []  # type: ignore[attr-defined]
    new: Any
    try:
        new = type(error)(error.args[0] + annotation, *error.args[1:])
        new._tagged_with_step = True  # noqa: SLF001
    except Exception:  # noqa: BLE001 - user exceptions may be made in any way
        text = traceback.format_exception_only(type(error), error)[-1].strip()
        new = RuntimeError(text + annotation)
        new._tagged_with_step = True  # noqa: SLF001
    for note in notes:
        add_note(new, note)
    raise new.with_traceback(sys.exc_info()[2])


def step_of(frames: Iterable[FrameType]) -> str | None:
    """The step whose operation is innermost among the frames; Beam itself names only DoFns."""
    step = None
    for frame in frames:
        context = getattr(frame.f_locals.get("self"), "name_context", None)
        step = getattr(context, "step_name", None) or step
    return step
