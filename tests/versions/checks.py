"""What is run in the environment of each pair."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.versions.environment import run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Beam's own suites on Spark, those that reach furthest into Beam: state, timers, side inputs,
# splittable DoFns, combiners, metrics, windows.
CONFORMANCE: Final = (
    "tests/conformance/test_fn_api_runner.py::FnApiRunnerSuiteCompiled",
    "-m",
    "slow",
    "-k",
    "pardo or side_input or state or timer or sdf or combine or flatten or reshuffle or windowing",
)
# Harnesses outside of the slots, which compile chains within Beam's own harness.
OUTSIDE: Final = (
    "tests/harness/test_channel_bundles.py",
    "tests/fnapi/test_fn_state.py",
    "tests/fnapi/test_harness_processes.py",
)

_COUNTED: Final = re.compile(r"\d+ (?:passed|skipped|deselected|xfailed|xpassed)")


def demo(python: Path) -> str:
    """The example with files, joins, windows and a picture."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "flights"
        run([
            *(str(python), "examples/flights.py", "--runner=SparkDrainRunner", "--progress=off"),
            f"--output={output}",
        ])  # fmt: skip
        made = [file for file in output.parent.rglob("*") if file.is_file()]
    if not made:
        message = "the demo wrote nothing"
        raise RuntimeError(message)
    return f"{len(made)} files"


def conformance(python: Path) -> str:
    """A part of Beam's own suites, of the Beam that is installed."""
    return _tested(python, CONFORMANCE)


def outside(python: Path) -> str:
    """The tests of Python's harnesses outside of the slots."""
    return _tested(python, OUTSIDE)


def _tested(python: Path, tests: Sequence[str]) -> str:
    """What the tests that ``tests`` names come to, with the package that is installed."""
    pytest = (str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "pythonpath=.")
    return counted(run([*pytest, *tests]))


def counted(printed: str) -> str:
    """What pytest counted, such as "5 passed, 1 skipped".

    Processes that end meanwhile may print within its last line.
    """
    last = printed[printed.rfind("\n", 0, printed.rfind(" passed")) + 1 :]
    return ", ".join(_COUNTED.findall(last))


def stream(python: Path) -> str:
    """A stream with checkpoints that is killed, resumed and drained."""
    with tempfile.TemporaryDirectory() as folder:
        return run([str(python), "tests/versions/live.py", folder]).strip().splitlines()[-1]


CHECKS: Final[dict[str, Callable[[Path], str]]] = {
    "demo": demo,
    "conformance": conformance,
    "outside": outside,
    "stream": stream,
}
