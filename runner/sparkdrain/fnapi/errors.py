"""What goes wrong with SDK harnesses."""

from __future__ import annotations

import re
from typing import Final

from sparkdrain.errors import BadSetup, TruncatedInput

DISCONNECTED: Final = (
    "it has ended its connection, or sent what is no message of the Fn API. Look at what the "
    "harness itself wrote, and at the log of the executor. "
)
_PYTHONS: Final = "Traceback (most recent call last)"
# The innermost of Go's errors comes last, and names the step if a DoFn has returned it.
_GOS_CAUSE: Final = "\n\tcaused by:\n"
_GOS_DOFN: Final = re.compile(r"DoFn\[UID:\d+, PID:(.+?), Name: .*?\] failed:\n(.+)", re.DOTALL)
_JAVAS_FRAME: Final = "\n\tat "
_JAVAS_WRAPPER: Final = "org.apache.beam.sdk.util.UserCodeException: "
_TOO_NEW: Final = re.compile(
    r"(\S+) has been compiled by a more recent version of the Java Runtime "
    r"\(class file version (\d+)\.\d+\), "
    r"this version of the Java Runtime only recognizes class file versions up to (\d+)"
)
# Of the class files of Java 1.
_BEFORE_JAVA_1: Final = 44


class HarnessLost(TruncatedInput):
    """A harness has ended in the middle of its work. The round, or the job, is run again."""


class HarnessGarbled(BadSetup):
    """A harness has sent what cannot be read, or names what its stage has not."""


class UnknownState(LookupError):
    """A harness asks for a state that its stage has not."""


class HarnessNotStarted(BadSetup):
    """A harness could not be started, or has never connected."""


class HarnessFailed(RuntimeError):
    """An instruction has failed in a harness; mostly, user code has raised.

    Attributes:
        told: all that the harness says of it, with its own stack.
    """

    # The harness itself names the step.
    _tagged_with_step = True
    told = ""


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
    said = _words_of_user(error.strip())
    name, colon, text = said.partition(": ")
    if not colon or " " in name:
        name, text = "RuntimeError", said
    # So it is printed as it would be where it was raised.
    kind = type(name, (HarnessFailed,), {"__module__": "builtins"})
    exception: HarnessFailed = kind(text)
    exception.told = error.strip()
    return exception


def newer_java(words: str) -> str:
    """What to do if Java was too old for a class, given what it wrote; "" if it was not."""
    found = _TOO_NEW.search(words)
    if found is None:
        return ""
    needed, there = (int(number) - _BEFORE_JAVA_1 for number in found.group(2, 3))
    return (
        f"The class {found[1].replace('/', '.')} needs Java {needed}, and the executor has Java "
        f"{there}. Compile the program with --release {there}, or set JAVA_HOME to a Java {needed} "
        "where executors run; with local[N], where the Job service runs."
    )


def _words_of_user(error: str) -> str:
    """What user code has raised, as its language prints it, without the SDK's own layers."""
    if _PYTHONS in error:
        return _words_of_python(error.splitlines())
    of_dofn = _GOS_DOFN.fullmatch(error.rpartition(_GOS_CAUSE)[2])
    if of_dofn is not None:
        return f"{of_dofn[2].strip()} [while running '{of_dofn[1]}']"
    message, at, _ = error.partition(_JAVAS_FRAME)
    said = message if at else error.partition("\n")[0]
    while said.startswith(_JAVAS_WRAPPER):
        said = said.removeprefix(_JAVAS_WRAPPER)
    return said or "no words"


def _words_of_python(lines: list[str]) -> str:
    """What stands behind the last frame of a traceback."""
    last = max((n for n, line in enumerate(lines) if line.startswith("  ")), default=-1)
    return "\n".join(line for line in lines[last + 1 :] if line).strip() or lines[-1]
