"""Where the code of an element stands, for people to read."""

from __future__ import annotations

import asyncio
import concurrent.futures
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.harness.compiled.frames import frame_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from sparkdrain.harness.step_book import Frame

_MOST_FRAMES: Final = 200
_LIBRARIES: Final = (
    str(Path(asyncio.__file__).parent),
    str(Path(concurrent.futures.__file__).parent),
    str(Path(__file__).parents[2]),
    "<",
)


def standing(element: Any, made: Any) -> list[Frame]:
    """The calls that an element waits in, the innermost first; from any thread.

    Empty if it is between two of them.
    """
    thread = getattr(element, "thread", None)
    if thread is not None:
        return of_thread(thread)
    frames: list[Frame] = []
    while made is not None and len(frames) < _MOST_FRAMES:
        frame: FrameType | None = getattr(made, "cr_frame", getattr(made, "ag_frame", None))
        if frame is not None:
            frames.append(_shown(frame))
        made = getattr(made, "cr_await", getattr(made, "ag_await", None))
    return frames[::-1]


def of_thread(thread: int | None) -> list[Frame]:
    """The calls that a thread is in, the innermost first."""
    frames: list[Frame] = []
    with frame_of(thread) as innermost:
        frame = innermost
        while frame is not None and len(frames) < _MOST_FRAMES:
            frames.append(_shown(frame))
            frame = frame.f_back
    return frames


def _shown(frame: FrameType) -> Frame:
    return frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name


def frames_of(error: BaseException) -> list[Frame]:
    """The calls that an error came through, the innermost first."""
    frames: list[Frame] = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.insert(0, (code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    return frames


def line_of(frames: Sequence[Frame]) -> str:
    """The innermost line that is neither Python's, nor ours."""
    for name, line, function in frames:
        if not name.startswith(_LIBRARIES):
            return f"{name}:{line} in {function}"
    return f"{frames[0][0]}:{frames[0][1]} in {frames[0][2]}" if frames else "an unknown line"
