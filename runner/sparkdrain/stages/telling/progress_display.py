"""Shows a job's progress on standard error: a live table, or a plain line now and then."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO

from sparkdrain.stages.cluster.driver_address import driver_address
from sparkdrain.stages.telling.progress import progress_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkContext

    from sparkdrain.options import Progress as Mode
    from sparkdrain.stages.telling.progress import JobProgress

_LOGGER = logging.getLogger(__name__)

# What is over sooner needs no display.
_PATIENCE_SECONDS: Final = 1.0
_PLAIN_SECONDS: Final = 10.0
_FRAMES_PER_SECOND: Final = 4
# There is one terminal; of several jobs at a time only one can draw on it.
_TERMINAL: Final = threading.Lock()


def mode_for(asked: Mode, stream: TextIO, terminal: str) -> Literal["live", "plain", "off"]:
    """What to show if ``asked`` for: ``auto`` is live on a terminal that can draw.

    Args:
        asked: the option.
        stream: where it would be shown.
        terminal: its kind, as ``TERM`` says.
    """
    if asked != "auto":
        return asked
    return "live" if stream.isatty() and terminal not in {"", "dumb"} else "plain"


@contextmanager
def shown(progress: JobProgress, asked: Mode, context: SparkContext) -> Iterator[None]:
    """Show ``progress`` while entered, and what the job has done if it ends well."""
    mode = mode_for(asked, sys.stderr, os.environ.get("TERM", ""))
    if mode == "off":
        yield
        return
    with _listening(progress, context), _drawn(progress, live=mode == "live"):
        yield
    _print(progress.summary())


@contextmanager
def _listening(progress: JobProgress, context: SparkContext) -> Iterator[None]:
    """Have the slots of ``context`` report to ``progress``, if this machine can listen."""
    try:
        listener = progress_server(driver_address(context), progress.tick)
    except OSError as error:
        _LOGGER.warning("Progress is shown only when a level has ended: %s", error)
        yield
        return
    progress.endpoint = listener.endpoint
    try:
        yield
    finally:
        progress.endpoint = None
        listener.close()


@contextmanager
def _drawn(progress: JobProgress, *, live: bool) -> Iterator[None]:
    drawing = live and _TERMINAL.acquire(blocking=False)
    ended = threading.Event()
    draw = _live if drawing else _plain
    thread = threading.Thread(target=draw, args=(progress, ended), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        if drawing:
            _TERMINAL.release()


def _plain(progress: JobProgress, ended: threading.Event) -> None:
    while not ended.wait(_PLAIN_SECONDS):
        _print(progress.line())


def _live(progress: JobProgress, ended: threading.Event) -> None:
    if ended.wait(_PATIENCE_SECONDS):
        return
    from rich.console import Console  # noqa: PLC0415 - only who sees it pays for it
    from rich.live import Live  # noqa: PLC0415

    console = Console(file=sys.stderr)
    # What the program and its workers print goes above the table.
    with Live(
        get_renderable=lambda: _table(progress),
        console=console,
        refresh_per_second=_FRAMES_PER_SECOND,
    ):
        ended.wait()


def _table(progress: JobProgress) -> Any:
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=SIMPLE_HEAD, title=f"Job {progress.job_id}", title_justify="left")
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("steps", no_wrap=True, overflow="ellipsis", ratio=1)
    for name in ("elements", "rate", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in progress.rows():
        style = "dim" if not row[-1] else ""
        table.add_row(*(Text(cell) for cell in row), style=style)
    return table


def _print(line: str) -> None:
    # Nowhere to print: a windowed program, or a stream that was closed meanwhile.
    with contextlib.suppress(AttributeError, ValueError, OSError):
        print(line, file=sys.stderr, flush=True)  # noqa: T201 - that is what it is for
