"""How a failure is told: as text for any client, and as an exception for ours."""

from __future__ import annotations

import functools
import re
from typing import Final

from sparkdrain import errors
from sparkdrain.errors import SparkDrainError
from sparkdrain.notes import message_of, notes_of, trace_of
from sparkdrain.redaction import redact

# Where an exception ends in a longer text: after Beam's note on the step, else at an empty line.
_ENDS: Final = (re.compile(r" \[while running '[^\n]*"), re.compile(r"\n\n"))

_WHAT_HAPPENED: Final = {
    "UserCodeError": "the pipeline's own code raised this",
    "TooLarge": "an element is larger than what can be shuffled",
    "UnreadableState": "state that it had written could not be read",
    "HostMissing": "a process that held its state is gone",
    "WorkerLost": "a Python worker ended without an answer",
    "DriverLost": "the process that drove it is gone; the job service and its other jobs go on",
    "SparkLost": "Spark's own process is gone",
    "RoundLimitExceeded": "a round took longer than an option allows",
    "TruncatedInput": "data on its way between two stages was lost",
    "Unsupported": "it contains something that this runner cannot run",
    "Malformed": "a part of it is missing, or cannot be read",
    "NameTaken": "another job has its name",
    "BadOption": "an option cannot be used",
    "BadSetup": "the machine or the cluster lacks something",
    "CheckpointFailed": "its state could not be made durable, or not be fetched",
    "CheckpointDamaged": "what a checkpoint needs is missing or damaged",
    "CheckpointTooNew": "a newer release wrote its checkpoint",
    "CheckpointRefused": "it cannot go on from the checkpoint that there is",
    "NotAcknowledged": "it is done, but who waits for its end outside could not be told",
    "Fenced": "another driver has taken it over",
    "SteppedDown": "another driver leads it",
    "EndedElsewhere": "it failed under the driver that led it",
    "DrainStuck": "something is left that its drain cannot get out",
    "DrainLimitExceeded": "its drain took longer than an option allows",
    "Cancelled": "it was cancelled from outside, for instance in Spark's own interface",
}
_UNEXPECTED: Final = "this is an error inside the runner, not in the pipeline; please report it"


def describe(error: BaseException, job: str) -> str:
    """Why a job failed, with what a user needs most at the top.

    That is the exception itself. One line on what it did to ``job`` follows, then tracebacks.
    """
    what = _WHAT_HAPPENED.get(type(error).__name__, _UNEXPECTED)
    head, trace = _head_and_trace(error)
    parts = [head, f"Job {job} failed: {what}.", trace]
    return redact("\n\n".join(part for part in parts if part))


def _head_and_trace(error: BaseException) -> tuple[str, str]:
    if not isinstance(error, SparkDrainError):
        return message_of(error), trace_of(error).strip()
    text = str(error).strip() or type(error).__name__
    found = (pattern.search(text) for pattern in _ENDS)
    end = next((match.end() for match in found if match), len(text))
    rest = "\n\n".join([text[end:].strip(), *notes_of(error)])
    return text[:end].strip(), rest.strip()


def as_exception(kind: str, text: str) -> RuntimeError:
    """An exception for the client's side: of the type named, and always a ``RuntimeError``.

    Programs written for Beam's portable runners catch ``RuntimeError``.
    """
    cls = getattr(errors, kind, None)
    if not isinstance(cls, type) or not issubclass(cls, SparkDrainError):
        cls = SparkDrainError
    return _with_runtime_error(cls)(text)


@functools.cache
def _with_runtime_error(cls: type[SparkDrainError]) -> type[RuntimeError]:
    if issubclass(cls, RuntimeError):
        return cls
    members = {"__module__": cls.__module__, "__doc__": cls.__doc__, "__reduce__": _reduce}
    return type(cls.__name__, (cls, RuntimeError), members)


def _reduce(error: RuntimeError) -> tuple[object, ...]:
    return as_exception, (type(error).__name__, str(error))
