"""The stack of a thread that another one looks at, for people to read."""

from __future__ import annotations

import re
import traceback
from typing import TYPE_CHECKING, Final

from sparkdrain.harness.compiled.frames import frame_of
from sparkdrain.stages.telling.failure import is_of_runner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkdrain.harness.step_book import Frame

_MOST_FRAMES: Final = 200
_SHOWN_FRAMES: Final = 30
# A line as ``faulthandler`` writes it.
_DUMPED: Final = re.compile(r'^\s+File "(.*)", line (\d+) in (.*)$', re.MULTILINE)


def stack_of(thread: int | None) -> list[Frame]:
    """The calls that a thread is in, the innermost first."""
    frames: list[Frame] = []
    with frame_of(thread) as innermost:
        frame = innermost
        while frame is not None and len(frames) < _MOST_FRAMES:
            code = frame.f_code
            frames.append((code.co_filename, frame.f_lineno or 0, code.co_name))
            frame = frame.f_back
    return frames


def dumped(text: str) -> list[Frame]:
    """The stack that ``faulthandler`` has written, the innermost call first."""
    return [(name, int(line), function) for name, line, function in _DUMPED.findall(text)]


def shown(frames: Sequence[Frame]) -> str:
    """A stack as Python prints it; of user code only calls of the user or of a library."""
    kept = [frame for frame in frames if not is_of_runner(frame[0])] or frames
    left_out = len(kept) - _SHOWN_FRAMES
    lines = [f"  [... {left_out} calls left out ...]\n"] if left_out > 0 else []
    summary = traceback.StackSummary.from_list(
        [
            traceback.FrameSummary(name, line, function)
            for name, line, function in reversed(kept[:_SHOWN_FRAMES])
        ]
    )
    return "".join([*lines, *summary.format()]).rstrip()
