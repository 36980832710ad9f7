"""Records `examples/ticks.py` while it runs and is drained, and writes docs/drain.svg.

The picture shows each line at the time at which the program printed it, and begins anew at its
end. Run it with `python docs/record.py`, on a machine that does nothing else.
"""

from __future__ import annotations

import os
import pty
import re
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
_PROGRAM: Final = ["examples/ticks.py", "--runner=SparkDrainRunner", "--drain_on_signal=INT"]
_DRAIN_AFTER_SECONDS: Final = 21.0
# How long the last line stays before the picture begins anew.
_REST_SECONDS: Final = 6.0
_LINE, _MARGIN, _WIDTH = 18, 16, 1020
# Warnings of packages that have nothing to do with the job.
_LEFT_OUT: Final = re.compile(r"apitools|WARNING: |WARN |^Setting default log|^To adjust logging")


@dataclass(frozen=True, slots=True)
class Line:
    """What the terminal showed.

    Attributes:
        at: seconds since the program began.
        text: one line.
    """

    at: float
    text: str


def record() -> list[Line]:
    """Run the program in a terminal, press Ctrl-C there, and wait for its end."""
    began = time.monotonic()
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, *_PROGRAM])  # noqa: S606 - no shell is wanted
    lines = [Line(0.0, f"$ python {' '.join(_PROGRAM)}")]
    signal.signal(signal.SIGALRM, lambda *_: os.write(terminal, b"\x03"))
    signal.setitimer(signal.ITIMER_REAL, _DRAIN_AFTER_SECONDS)
    with os.fdopen(terminal, encoding="utf-8", errors="replace") as shown, suppress(OSError):
        # OSError: a terminal ends so.
        lines.extend(Line(time.monotonic() - began, text.rstrip()) for text in shown)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the program ended with status {status}"
    return [line for line in lines if line.text and not _LEFT_OUT.search(line.text)]


def picture(lines: list[Line]) -> str:
    """An SVG in which each line appears at its time."""
    length = lines[-1].at + _REST_SECONDS
    height = 2 * _MARGIN + _LINE * len(lines)
    styles, rows = [], []
    for number, line in enumerate(lines):
        share = 100 * line.at / length
        styles.append(
            f"@keyframes l{number}{{0%,{share:.2f}%{{opacity:0}}"
            f"{share + 0.01:.2f}%,100%{{opacity:1}}}}"
        )
        y = _MARGIN + _LINE * (number + 1) - 5
        kind = _kind(line.text)
        rows.append(
            f'<text x="{_MARGIN}" y="{y}" class="{kind}" '
            f'style="animation:l{number} {length:.1f}s infinite">{escape(line.text)}</text>'
        )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
            "<title>A job counts ticks until Ctrl-C; then it is drained, and the open window is "
            "counted</title>",
            "<style>",
            "text{font:12px ui-monospace,Menlo,Consolas,monospace;white-space:pre;fill:#cdd6e0}",
            ".dim{fill:#7d8a99}.key{fill:#f2c14e}.good{fill:#7bd88f}",
            *styles,
            # Who wants no motion sees the end.
            "@media(prefers-reduced-motion:reduce){text{animation:none!important}}",
            "</style>",
            f'<rect width="{_WIDTH}" height="{height}" rx="8" fill="#17202a"/>',
            *rows,
            "</svg>",
            "",
        ]
    )


def _kind(text: str) -> str:
    if text.startswith("$") or "^C" in text:
        return "key"
    if text.startswith("Drain"):
        return "good"
    return "dim" if text.startswith("round") else ""


if __name__ == "__main__":
    (ROOT / "docs/drain.svg").write_text(picture(record()), encoding="utf-8")
