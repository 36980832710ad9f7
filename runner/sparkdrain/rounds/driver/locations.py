"""Where executors are: what they have in common that can use each other's files."""

from __future__ import annotations

import importlib
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sparkdrain.stages.workers.worker import worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sparkdrain.hosts.executor import Executor
    from sparkdrain.stages.workers.preparation import Preparation

_FUNCTION: Final = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)")


@dataclass(frozen=True, order=True, slots=True)
class Located:
    """An executor as a home of slots, see ``SlotHome``."""

    executor: Executor
    location: str


class _Said(NamedTuple):
    """An executor's answer, which becomes a list in JSON: its location, or what is wrong."""

    location: str
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class _Where:
    """A question that an executor answers: what a function, or a text with ``$NAME``, is there."""

    text: str
    preparation: Preparation

    def __call__(self) -> _Said:
        function = _FUNCTION.fullmatch(self.text)
        if function is None:
            said = os.path.expandvars(self.text)
            remedy = (
                "Set the variable in the environment of executors, as with "
                "--spark_conf=spark.executorEnv.NAME=VALUE."
            )
            return _Said(said) if said and "$" not in said else _Said("", f"is {said!r}. {remedy}")
        try:
            worker().prepare(self.preparation)  # its module may be in a package that was sent
            said = getattr(importlib.import_module(function[1]), function[2])()
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            cause = f"raised {type(error).__name__}: {error}"
            return _Said("", f"{cause}. Install its module on executors, or send it.")
        if isinstance(said, str) and said:
            return _Said(said)
        return _Said("", f"has returned {said!r}. It takes nothing, and returns a text.")


@dataclass(slots=True)
class Locations:
    """The locations of executors, each of which is asked once.

    Attributes:
        text: what ``--location`` says; empty: the name that Spark has for the machine.
        preparation: what a worker must know to load a function.
        ask: has each of some executors answer a question; one that is busy may not.
    """

    text: str
    preparation: Preparation
    ask: Callable[[Sequence[Executor], Callable[[], Any]], Mapping[Executor, Any]]
    warn: Callable[[str], object]
    _known: dict[Executor, str] = field(default_factory=dict)

    def learn(self, executors: Sequence[Executor]) -> None:
        """Ask those of which nothing is known."""
        new = [one for one in executors if one not in self._known]
        if not self.text or not new:
            return
        for one, answer in self.ask(new, _Where(self.text, self.preparation)).items():
            said = _Said(*answer)
            self._known[one] = said.location or one.host
            if said.wrong:
                self.warn(
                    f"The name of its machine is taken for the location of executor {one.id} on "
                    f"{one.host}, because --location={self.text} {said.wrong}"
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
