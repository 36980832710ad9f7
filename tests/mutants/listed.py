"""The lists of mutants: changes to the product that a test must notice."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest brings it

ROOT = Path(__file__).parents[2]
LISTS = Path(__file__).parent

AREAS = (
    "runner/sparkdrain/concurrency/",
    "runner/sparkdrain/drain/",
    "runner/sparkdrain/harness/concurrent/",
    "runner/sparkdrain/rounds/driver/",
    "runner/sparkdrain/rounds/slots/",
    "runner/sparkdrain/rounds/stable.py",
    "runner/sparkdrain/checkpoints/",
    "runner/sparkdrain/coordination/",
    "runner/sparkdrain/local_state/",
    "runner/sparkdrain/io/eventhubs/",
    "runner/sparkdrain/io/kafka/",
    "runner/sparkdrain/shuffle/complete.py",
    "timers_state/",
)
"""Where the promise that nothing is lost is kept: files and folders, from the project's root."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change to one file of the product.

    Attributes:
        name: unique over all lists.
        area: the list that holds the mutant, as its file is called.
        file: the file that is changed, from the project's root.
        before: text that occurs once in the file.
        after: what stands there in the mutant.
        tests: ids of tests and test files, one of which fails with the mutant.
        points: points of docs/drain_contract.md that the mutant breaks.
        equivalent: why no test can tell the mutant from the product; then there are no tests.
    """

    name: str
    area: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...] = ()
    points: tuple[int, ...] = ()
    equivalent: str = ""

    def found(self, root: Path = ROOT) -> int:
        """How often the text to be changed occurs in the file; the mutant needs 1."""
        path = root / self.file
        return path.read_text(encoding="utf-8").count(self.before) if path.is_file() else 0

    def text(self, root: Path = ROOT) -> str:
        """The changed file."""
        return (root / self.file).read_text(encoding="utf-8").replace(self.before, self.after)


@functools.cache
def mutants(folder: Path = LISTS) -> tuple[Mutant, ...]:
    """All mutants of all lists, in the order in which they stand there."""
    return tuple(
        Mutant(
            **{name: tuple(v) if isinstance(v, list) else v for name, v in entry.items()},
            area=path.stem,
        )
        for path in sorted(folder.glob("*.toml"))
        for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", ())
    )


def open_points(folder: Path = LISTS) -> dict[int, str]:
    """Points of the drain contract that no mutant can show in full, and why."""
    listed = tomllib.loads((folder / "points.toml").read_text(encoding="utf-8"))["open"]
    return {int(point): why for point, why in listed.items()}
