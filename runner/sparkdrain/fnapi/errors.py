"""What goes wrong with SDK harnesses."""

from __future__ import annotations

from typing import Final

from sparkdrain.errors import BadSetup, TruncatedInput
from sparkdrain.notes import add_note

DISCONNECTED: Final = (
    "it has ended its connection, or sent what is no message of the Fn API. Look at what the "
    "harness itself wrote, and at the log of the executor. "
)
_PYTHONS = "Traceback (most recent call last)"


class HarnessLost(TruncatedInput):
    """A harness has ended in the middle of its work. The round, or the job, is run again."""


class HarnessGarbled(BadSetup):
    """A harness has sent what cannot be read, or names what its stage has not."""


class UnknownState(LookupError):
    """A harness asks for a state that its stage has not."""


class HarnessNotStarted(BadSetup):
    """A harness could not be started, or has never connected."""


class HarnessFailed(RuntimeError):
    """An instruction has failed in a harness; mostly, user code has raised."""

    # The harness itself names the step.
    _tagged_with_step = True


def lost(why: str) -> HarnessLost:
    """The error of a harness that has ended, for the reason that is given."""
    return HarnessLost(f"The SDK harness of a stage was lost: {why}")


def garbled(why: str, what: str = "elements") -> HarnessGarbled:
    """The error of a harness that has sent what cannot be read, and what to do about it."""
    return HarnessGarbled(
        f"The SDK harness has sent {what} that cannot be read: {why}. Look at what the "
        "environment of the pipeline starts: it must be a harness of the SDK, and of the "
        "version, that has made the pipeline."
    )


def failed(error: str) -> HarnessFailed:
    """What a harness tells of an error, as an exception that is called what the error is called."""
    lines = error.strip().splitlines()
    said = _words_of_python(lines) if _PYTHONS in error else lines[0] if lines else "no words"
    name, colon, text = said.partition(": ")
    if not colon or " " in name:
        name, text = "RuntimeError", said
    # So it is printed as it would be where it was raised.
    kind = type(name, (HarnessFailed,), {"__module__": "builtins"})
    exception: HarnessFailed = kind(text)
    add_note(exception, f"The SDK harness says:\n{error.strip()}")
    return exception


def _words_of_python(lines: list[str]) -> str:
    """What stands behind the last frame of a traceback."""
    last = max((n for n, line in enumerate(lines) if line.startswith("  ")), default=-1)
    return "\n".join(line for line in lines[last + 1 :] if line).strip() or lines[-1]
