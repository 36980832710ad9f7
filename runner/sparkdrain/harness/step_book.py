"""Notes down which lines of code belong to which step, for a look at a stack from outside.

A process whose interpreter lock is kept can say nothing. Its stack can be had: names of files and
numbers of lines. The book has been written before, and says which step they are of.
"""

from __future__ import annotations

import inspect
import json
from contextlib import suppress
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final

from apache_beam.transforms.core import CallableWrapperDoFn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

Frame = tuple[str, int, str]
"""File, line and function of a call on a stack."""
# faulthandler cuts names of files after so many characters.
_LONGEST_NAME: Final = 500
# They call what users write, for all steps alike.
_SHARED: Final = frozenset(CallableWrapperDoFn.__mro__)


class StepBook:
    """A file with a line for each run of lines of code: file, first, last, step.

    Args:
        path: where the file is; what the file has stays.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: set[str] = set()
        self._begin = ""

    def chain(self, code: CodeType, steps: Iterable[tuple[int, str]]) -> None:
        """Lines of generated code, each with its step."""
        self._add((code.co_filename, line, line, step) for line, step in steps)

    def dofn(self, dofn: Any, step: str) -> None:
        """The methods of a DoFn, or the function that it is made of."""
        self._add((code.co_filename, *_lines(code), step) for code in _codes(dofn))

    def _add(self, entries: Iterable[tuple[str, int, int, str]]) -> None:
        lines = {json.dumps([_as_shown(name), *rest]) for name, *rest in entries} - self._known
        if lines:
            try:
                with self._path.open("a") as book:
                    book.write(self._begin)
                    book.writelines(f"{line}\n" for line in sorted(lines))
            except OSError:
                # The disk is full, perhaps. The step runs all the same, and is noted later.
                self._begin = "\n"
            else:
                self._begin = ""
                self._known |= lines


def step_in(book: str, frames: Sequence[Frame]) -> str:
    """The step that a stack stands in, or steps if one function is used by several; may be "".

    Args:
        book: what a ``StepBook`` has written.
        frames: the stack, the innermost call first.
    """
    by_file: dict[str, list[tuple[int, int, str]]] = {}
    for line in book.splitlines():
        with suppress(ValueError):  # noted in part
            name, first, last, step = json.loads(line)
            by_file.setdefault(name, []).append((first, last, step))
    found: set[str] = set()
    for name, at, _ in frames:
        here = {
            step for first, last, step in by_file.get(_as_shown(name), ()) if first <= at <= last
        }
        # A function may be of several steps; what calls it tells them apart.
        found = (found & here) or found or here
        if len(found) == 1:
            break
    return " or ".join(sorted(found))


def _as_shown(name: str) -> str:
    return name.encode("ascii", "backslashreplace").decode()[:_LONGEST_NAME]


def _codes(dofn: Any) -> Iterator[CodeType]:
    for kind in type(dofn).__mro__:
        if kind not in _SHARED:
            for method in vars(kind).values():
                yield from _code_of(method)
    function = getattr(dofn, "_fn", None)
    if isinstance(dofn, CallableWrapperDoFn) and isinstance(function, FunctionType):
        closed = inspect.getclosurevars(function).nonlocals.get("fn")
        yield from _code_of(function if closed is None else closed)


def _code_of(method: Any) -> Iterator[CodeType]:
    if isinstance(method, FunctionType):
        yield method.__code__
        yield from _code_of(getattr(method, "__wrapped__", None))


def _lines(code: CodeType) -> tuple[int, int]:
    lines = [line for _, _, line in code.co_lines() if line is not None]
    return min(lines, default=0), max(lines, default=0)
