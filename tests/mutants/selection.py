"""Chooses mutants by what the command line says."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch
from typing import TYPE_CHECKING

from tests.mutants.ledger import digest
from tests.mutants.mutation_run import GOOD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.mutants.ledger import End
    from tests.mutants.listed import Mutant


@dataclass(frozen=True, slots=True)
class Selection:
    """What a mutant must have; each of these is of no concern if it is empty.

    Attributes:
        names: patterns of names.
        files: patterns of the changed files, or parts of their paths.
        areas: names of lists.
        points: of docs/drain_contract.md.
    """

    names: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    areas: tuple[str, ...] = ()
    points: tuple[int, ...] = ()

    def of(self, mutants: Iterable[Mutant]) -> list[Mutant]:
        """The mutants that are selected."""
        return [
            mutant
            for mutant in mutants
            if (not self.names or any(fnmatch(mutant.name, name) for name in self.names))
            and (
                not self.files
                or any(fnmatch(mutant.file, file) or file in mutant.file for file in self.files)
            )
            and (not self.areas or mutant.area in self.areas)
            and (not self.points or set(mutant.points) & set(self.points))
        ]


def never_run(mutants: Iterable[Mutant], ends: Mapping[str, End]) -> list[Mutant]:
    """The mutants without a good end."""
    return [
        each for each in mutants if each.name not in ends or ends[each.name].verdict not in GOOD
    ]


def changed(mutants: Iterable[Mutant], ends: Mapping[str, End]) -> list[Mutant]:
    """The mutants without a good end, and those of which something has changed since."""
    return [
        each for each in mutants if never_run([each], ends) or ends[each.name].read != digest(each)
    ]
