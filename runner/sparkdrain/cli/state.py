"""``sparkdrain state``: what this host keeps of published state, and for which jobs."""

from __future__ import annotations

import os
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sparkdrain.local_state.files import LocalFiles
from sparkdrain.local_state.folder import FolderRefused, StateFolder
from sparkdrain.local_state.notes import found_notes
from sparkdrain.local_state.sweep import sweep

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from sparkdrain.local_state.notes import FoundNote

_DAY: Final = 86_400.0
_BUSY: Final = (
    "A job is keeping files in {} at this moment, so nothing was removed. Ask again in a moment."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What can be asked."""
    parser.add_argument(
        "question",
        choices=("list", "remove"),
        help="list: a line for each job; remove: files of slots that no process on this host has",
    )
    parser.add_argument("directory", help="what --state_dir says, on this host")
    parser.add_argument("--job", default="", metavar="NAME", help="only state of this job")
    parser.add_argument(
        "--days",
        type=float,
        default=0.0,
        metavar="N",
        help="with remove: only state that no process has had for N days",
    )


def state(arguments: argparse.Namespace, console: Console | None = None) -> int:
    """Answer; 0 if the folder is there, and what was to be removed is gone, else 1."""
    console = console or Console()
    try:
        folder = StateFolder.at(arguments.directory)
        if not folder.files.is_dir() or not folder.notes.is_dir():
            console.print(f"There is no local state in {escape(str(folder.path))}.")
            return 1
        if arguments.question == "list":
            console.print(_table(folder, arguments.job))
            return 0
        return _remove(folder, arguments, console, time.time())
    except BlockingIOError:
        console.print(f"[red]{escape(_BUSY.format(arguments.directory))}", soft_wrap=True)
    except (FolderRefused, OSError) as error:
        console.print(f"[red]{escape(str(error))}", soft_wrap=True)
    return 1


def _table(folder: StateFolder, job: str) -> Table:
    sizes = LocalFiles(folder.files).sizes()
    jobs: dict[tuple[str, str], list[FoundNote]] = {}
    named: set[str] = set()
    for found in found_notes(folder.notes):
        note = found.note
        jobs.setdefault(("", "") if note is None else (note.job, note.home), []).append(found)
        named |= _names(found)
    table = Table("job", "checkpoints", "slots", "files", "bytes", "last used", "")
    for (name, home), notes in sorted(jobs.items()):
        if name and job in ("", name):
            files = set[str]().union(*map(_names, notes)) & sizes.keys()
            table.add_row(escape(name), escape(home), *_row(notes, [sizes[f] for f in files]))
    unnamed = [size for file, size in sizes.items() if file not in named]
    if unnamed and not job:
        table.add_row("of no job", "", *_row(jobs.get(("", ""), []), unnamed))
    return table


def _row(notes: Sequence[FoundNote], sizes: Sequence[int]) -> list[str]:
    slots = {each.note.slot for each in notes if each.note is not None}
    used = max((each.seen for each in notes), default=None)
    shown = "" if used is None else f"{datetime.fromtimestamp(used, timezone.utc):%Y-%m-%d %H:%M}"
    is_held = any(each.is_held for each in notes)
    sign = "[green]in use[/]" if is_held else "not in use"
    return [str(len(slots)), str(len(sizes)), f"{sum(sizes):,}", f"{shown} UTC", sign]


def _names(found: FoundNote) -> set[str]:
    return set() if found.note is None else {each.digest for each in found.note.contents}


def _remove(
    folder: StateFolder, arguments: argparse.Namespace, console: Console, now: float
) -> int:
    before = now - arguments.days * _DAY

    def is_doomed(found: FoundNote) -> bool:
        name = "" if found.note is None else found.note.job
        return found.seen <= before and arguments.job in ("", name)

    swept = sweep(folder, is_doomed, now)
    jobs = sorted({each.note.job for each in swept.notes if each.note is not None})
    of = f" of {', '.join(jobs)}" if jobs else ""
    left = sum(each.is_held for each in found_notes(folder.notes))
    console.print(
        f"{swept.files} files with {swept.bytes:,} bytes were removed{escape(of)}. "
        f"{left} {'slots of jobs run' if left != 1 else 'slot of a job runs'} on "
        f"{escape(os.uname().nodename)} with this folder.",
        soft_wrap=True,
    )
    return 0
