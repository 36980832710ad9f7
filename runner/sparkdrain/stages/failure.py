"""How a failure gets from a task to the user: the user's own exception first."""

from __future__ import annotations

import base64
import json
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from sparkdrain.errors import (
    SparkDrainError,
    TruncatedInput,
    Unsupported,
    UserCodeError,
    WorkerLost,
)

_MARK = "sparkdrain-failure:"
_PATTERN = re.compile(_MARK + r"([A-Za-z0-9+/=]+)")
_OURS = {kind.__name__: kind for kind in (TruncatedInput, Unsupported)}


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong in a task, in words that survive the way through the JVM."""

    kind: str
    message: str
    trace: str
    level: int
    slot: int


class TaskFailed(Exception):
    """Raised in a task; its text carries a ``Failure``."""


@contextmanager
def guarded(level: int, slot: int) -> Iterator[None]:
    """Turn any exception into one that carries a ``Failure``."""
    try:
        yield
    except GeneratorExit:
        raise
    except BaseException as error:
        failure = Failure(
            type(error).__name__,
            "".join(traceback.format_exception_only(error)).strip(),
            traceback.format_exc(),
            level,
            slot,
        )
        packed = base64.b64encode(json.dumps(asdict(failure)).encode()).decode()
        raise TaskFailed(_MARK + packed) from None


def failure_in(text: str) -> Failure | None:
    """The failure that Spark's account of a failed job carries, if it does."""
    found = _PATTERN.search(text)
    return None if found is None else Failure(**json.loads(base64.b64decode(found[1])))


def as_error(text: str) -> SparkDrainError:
    """The error to raise for a failed Spark job, given all that Spark says of it."""
    failure = failure_in(text)
    if failure is not None:
        kind = _OURS.get(failure.kind)
        if kind is not None:
            return kind(failure.message.split(": ", 1)[-1])
        return UserCodeError(
            f"{failure.message}\n\nRaised in slot {failure.slot} of level {failure.level}; "
            f"the worker's traceback:\n{failure.trace}"
        )
    if "FetchFailed" in text or "shuffle" in text.lower() and "lost" in text.lower():
        return TruncatedInput(f"a shuffle file was lost: {_first_lines(text)}")
    if "Python worker exited unexpectedly" in text or "ExecutorLost" in text:
        return WorkerLost(
            "a Python worker ended without an answer (os._exit, a crash, or out of memory): "
            + _first_lines(text)
        )
    return SparkDrainError(f"Spark failed the job: {_first_lines(text)}")


def _first_lines(text: str, lines: int = 12) -> str:
    return "\n".join(text.splitlines()[:lines])
