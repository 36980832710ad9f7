"""Where executors are: what they have in common that can use each other's files."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sparkdrain.hosts.executor import Executor


@dataclass(frozen=True, order=True, slots=True)
class Located:
    """An executor as a home of slots, see ``assignment.SlotHome``."""

    executor: Executor
    location: str


@dataclass(frozen=True, slots=True)
class _Where:
    """A question that an executor answers: what a text with ``$NAME`` is there."""

    text: str

    def __call__(self) -> str:
        return os.path.expandvars(self.text)


@dataclass(slots=True)
class Locations:
    """The locations of executors, each of which is asked once.

    Attributes:
        text: what ``--location`` says; empty: the name that Spark has for the machine.
        ask: has each of some executors answer a question; one that is busy may not.
        warn: takes a warning.
    """

    text: str
    ask: Callable[[Sequence[Executor], Callable[[], Any]], Mapping[Executor, Any]]
    warn: Callable[[str], object]
    _known: dict[Executor, str] = field(default_factory=dict)

    def learn(self, executors: Sequence[Executor]) -> None:
        """Ask those of which nothing is known."""
        new = [one for one in executors if one not in self._known]
        if not self.text or not new:
            return
        for one, said in self.ask(new, _Where(self.text)).items():
            is_known = said and "$" not in said
            self._known[one] = said if is_known else one.host
            if not is_known:
                self.warn(
                    f"--location={self.text} is {said!r} on executor {one.id} on {one.host}. Its "
                    "machine's name is taken for its location: set the variable in the environment "
                    "of executors, as with --spark_conf=spark.executorEnv.NAME=VALUE."
                )

    def of(self, executor: Executor) -> str:
        """Where it is: its machine, as long as nothing else is known."""
        return self._known.get(executor, executor.host)

    def located(self, executor: Executor) -> Located:
        """The executor, with where it is."""
        return Located(executor, self.of(executor))


def machine(executor: Executor) -> Located:
    """An executor whose location is its machine, by Spark's name."""
    return Located(executor, executor.host)
