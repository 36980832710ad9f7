"""How a failure gets out of a task: in words that survive the way through the JVM."""

from __future__ import annotations

import base64
import json
import re
import socket
import sys
import traceback
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from sparkdrain import errors
from sparkdrain.errors import DrainLimitExceeded, TooLarge, UnreadableState
from sparkdrain.fnapi.errors import HarnessFailed
from sparkdrain.harness.step_name import step_of
from sparkdrain.notes import maker_of, message_of, reader_of, trace_of
from sparkdrain.redaction import redact

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterator
    from types import FrameType

SAID: Final = "The SDK harness says:"
"""The account of what a harness has told begins so."""
_MARK = "sparkdrain-failure:"
_PATTERN = re.compile(_MARK + r"([A-Za-z0-9+/=]+)")
# Spark repeats the text several times, and it crosses the network as one exception message.
_LONGEST = 64 << 10
# Frames that are on the way to every user function; a user learns nothing from them. The
# user functions of Beam's own tests are among them.
_RUNNER_FRAMES = re.compile(
    r"(^|/)(apache_beam/(runners|coders|utils|metrics)/(?!.*_test\.py$)|sparkdrain/|pyspark/)"
    r"|^<compiled "
)


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong in a task.

    The message ``Failure`` of ``proto/`` is the schema of the JSON that it travels as.

    Attributes:
        kind: the name of the exception's type, or of the one of ``sparkdrain.errors`` above it.
        message: type and text as Python prints them, ``[while running 'step']`` included.
        trace: where it was raised; of user code only the frames that are the user's or a
            library's. What user code outside of the runner's process has raised, its harness
            accounts for.
        by_user: whether user code raised it, not the runner's own.
    """

    kind: str
    message: str
    trace: str
    by_user: bool
    level: int
    slot: int
    host: str

    def encode(self) -> bytes:
        """As JSON, which also takes texts with half of a character in them."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Failure:
        """The inverse of ``encode``; fields of other releases are ignored."""
        names = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in json.loads(data).items() if name in names})


class TaskFailed(Exception):
    """Raised in a task; its text carries a ``Failure``."""


@contextmanager
def guarded(
    level: int, slot: int, tell: Callable[[str], object] = lambda _: None
) -> Iterator[None]:
    """Turn any exception into one that carries a ``Failure``; ``tell`` gets its text first."""
    try:
        yield
    except (GeneratorExit, TaskFailed):
        raise
    except BaseException as error:  # noqa: BLE001 - told to the driver, whatever it is
        failed = task_failure(error, level, slot)
        tell(str(failed))
        raise failed from None


def task_failure(error: BaseException, level: int, slot: int) -> TaskFailed:
    """What a task raises for ``error``."""
    failure = failure_of(error, level, slot, socket.gethostname())
    return TaskFailed(_MARK + base64.b64encode(failure.encode()).decode())


def failure_of(error: BaseException, level: int, slot: int, host: str) -> Failure:
    """The account of ``error``; never fails, whatever the exception's own methods do."""
    message = message_of(error)
    tagged = getattr(error, "_tagged_with_step", False)
    step = None if tagged else maker_of(error) or step_of(_frames(error))
    by_user = _may_be_of_code(error) and bool(tagged or step or _raised_outside(error))
    if by_user and not tagged and step is None:
        step = reader_of(error)
    if step is not None:
        message += f" [while running '{step}']"
    return Failure(
        _kind_of(error),
        # Spark writes it into the executor's log.
        _shortened(redact(message)),
        _shortened(redact(_account(error))),
        by_user,
        level,
        slot,
        host,
    )


def _may_be_of_code(error: BaseException) -> bool:
    """Whether user code may be the cause: not of a size, a limit, a store, unreadable state."""
    # Brings RocksDB along. A Python that lacks everything is to be told of Beam first.
    from timers_state.errors import StoreFailed  # noqa: PLC0415

    return not isinstance(error, (TooLarge, UnreadableState, DrainLimitExceeded, StoreFailed))


def _kind_of(error: BaseException) -> str:
    """The name of its type, or of the one that a user can meet, if it is a kind of that."""
    for kind in type(error).__mro__:
        if kind.__module__ == errors.__name__ and kind is not errors.SparkDrainError:
            return kind.__name__
    return type(error).__name__


def failure_in(text: str) -> Failure | None:
    """The failure that Spark's account of a failed job carries, if it does."""
    found = _PATTERN.search(text)
    return None if found is None else Failure.decode(base64.b64decode(found[1]))


def silence_told_failures(logger: logging.Logger) -> None:
    """Keep Beam from logging an exception that the driver will raise anyway. Idempotent."""
    if _is_not_told not in logger.filters:
        logger.addFilter(_is_not_told)


def _is_not_told(record: logging.LogRecord) -> bool:
    return not getattr(record.msg, "_tagged_with_step", False)


def _account(error: BaseException) -> str:
    if isinstance(error, HarnessFailed):
        return f"{SAID}\n\n{error.told}"
    cause = _cause(error)
    whole = traceback.TracebackException.from_exception(cause)
    _leave_out_runner_frames(whole)
    return trace_of(cause, whole)


def _cause(error: BaseException) -> BaseException:
    """What the user raised: Beam raises a copy of it, with the step in the text, for each step."""
    while getattr(error, "_tagged_with_step", False) and error.__context__ is not None:
        error = error.__context__
    return error


def _frames(error: BaseException) -> Iterator[FrameType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def _raised_outside(error: BaseException) -> bool:
    """Whether the innermost frame that is not the standard library's is not ours.

    What Beam raises is about the pipeline: data that a coder cannot take, a file that is missing.
    """
    where = None
    for frame in _frames(error):
        module = frame.f_globals.get("__name__", "").partition(".")[0]
        if module not in sys.stdlib_module_names or module == "__main__":
            where = module
    return where not in {None, "sparkdrain", "pyspark", "timers_state"}


def _leave_out_runner_frames(error: Any) -> None:
    for cause in (error.__cause__, error.__context__):
        if cause is not None:
            _leave_out_runner_frames(cause)
    kept = [frame for frame in error.stack if not is_of_runner(frame.filename)]
    if kept:
        error.stack = traceback.StackSummary.from_list(kept)


def is_of_runner(file: str) -> bool:
    """Whether code in this file is between the runner and user code: users learn nothing of it."""
    return _RUNNER_FRAMES.search(file) is not None


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    half = _LONGEST // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
