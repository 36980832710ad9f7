"""Spark's executors, as far as it matters on which one something is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from sparkdrain.hosts.process import command_of, parent_of

if TYPE_CHECKING:
    from collections.abc import Sequence

# What every cluster manager starts executors with.
_ID: Final = "--executor-id"
_HOST: Final = "--hostname"


@dataclass(frozen=True, order=True, slots=True)
class Executor:
    """One of a Spark application, by Spark's names.

    Attributes:
        host: the machine's address.
    """

    host: str
    id: str

    @property
    def place(self) -> str:
        """What Spark takes for a task's preferred location."""
        if "_" in self.host:
            # It would be cut in two there.
            return self.host
        return f"executor_{self.host}_{self.id}"


def executor_process() -> int:
    """The process that runs this worker's executor: its daemon's parent."""
    return parent_of(os.getppid())


def executor_of(pid: int) -> Executor | None:
    """The executor that a process is; nothing for the one of a local master, and for strangers."""
    return named_in(command_of(pid)) if pid > 1 else None


def named_in(command: Sequence[str]) -> Executor | None:
    """The executor that is started by ``command``."""
    given = dict(pairwise(command))
    if _ID not in given or _HOST not in given:
        return None
    return Executor(given[_HOST], given[_ID])
