"""Makes the environment of a pair: the wheel of this checkout, installed as a user does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.versions.pairs import Pair

ROOT: Final = Path(__file__).parents[2]
CACHE: Final = ROOT / ".cache" / "versions"
# What Beam's suites and our own conftest need.
_TOOLS: Final = (
    "pytest>=9,<10",
    "pytest-timeout>=2.4,<3",
    "hypothesis>=6.150,<7",
    "parameterized>=0.9,<1",
    "pyhamcrest>=2,<3",
    "tenacity>=9,<10",
    "mock>=5,<6",
    "psutil>=6,<8",
)
_INSTALLED: Final = (
    "import importlib.metadata as m, json, platform;"
    "print(json.dumps([platform.python_version(), m.version('apache-beam'), m.version('pyspark')]))"
)


class NoPython(Exception):
    """This machine has no Python of a version."""


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment that is ready.

    Attributes:
        python: its Python.
        versions: of Python, Beam and Spark, in full.
    """

    python: Path
    versions: tuple[str, str, str]


def uv() -> str:
    """The program that installs packages: the system's, else the one that the Makefile fetched."""
    fetched = ROOT / ".cache" / "uv" / "bin" / "uv"
    found = str(fetched) if fetched.exists() else shutil.which("uv")
    if found is None:
        message = "There is no uv. Run: make .venv/ready"
        raise FileNotFoundError(message)
    return found


def python_of(version: str) -> Path:
    """A Python of this version on this machine: on the PATH, or one of pyenv's.

    Raises:
        NoPython: there is none that starts.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = shutil.which(f"python{version}")
    candidates = [
        *([on_path] if on_path else []),
        *(str(home / "bin" / "python") for home in sorted(pyenv.glob(f"{version}.*"))),
    ]
    asked = "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"
    for candidate in candidates:
        # pyenv puts programs on the PATH that start nothing.
        told = subprocess.run([candidate, "-c", asked], capture_output=True, text=True, check=False)
        if told.returncode == 0 and told.stdout.split()[0] == version:
            return Path(told.stdout.split()[1])
    message = f"no Python {version} on this machine"
    raise NoPython(message)


def build(folder: Path) -> tuple[Path, Path]:
    """The wheel and the source distribution of this checkout, made in ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    run([uv(), "build", "--quiet", "--out-dir", str(folder), str(ROOT)])
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def environment_of(
    pair: Pair, wheel: Path, *, extras: str = "flights", tools: bool = True, fresh: bool = True
) -> Environment:
    """Makes the environment of a pair.

    Args:
        pair: the versions.
        wheel: what is tried.
        extras: of the wheel, as in ``pip install 'wheel[extras]'``.
        tools: whether Beam's suites shall run.
        fresh: whether it is made anew. Else an earlier one is brought up to date, which takes
            seconds: PySpark is a large package.

    Raises:
        NoPython: see ``python_of``.
    """
    home = CACHE / pair.name
    python = home / "bin" / "python"
    base = str(python_of(pair.python))
    if fresh or not python.exists():
        run([uv(), "venv", "--quiet", "--clear", "--python", base, str(home)])
    run([
        *(uv(), "pip", "install", "--quiet", "--python", str(python)),
        *("--reinstall-package", "spark-drain-runner"),
        *(("--resolution", "lowest-direct") if pair.lowest else ()),
        _named(wheel, extras),
        *(("--requirement", "pyproject.toml") if pair.lowest else ()),
        *(f"apache-beam=={pair.beam}.*", f"pyspark{_newest_of(pair.spark)}"),
        *(_TOOLS if tools else ()),
    ])  # fmt: skip
    found = run([str(python), "-c", _INSTALLED])
    version, beam, spark = json.loads(found)
    return Environment(python, (version, beam, spark))


def _named(wheel: Path, extras: str) -> str:
    return f"spark-drain-runner{f'[{extras}]' if extras else ''} @ {wheel.as_uri()}"


def _newest_of(spark: str) -> str:
    # The lowest patch of 3.5 is three years older than the newest, and nobody should run it.
    return "==3.5.9" if spark == "3.5" else f"=={spark}.*"


def run(command: Sequence[str], seconds: float = 1200.0) -> str:
    """Runs a program to its end; gives what it printed.

    Raises:
        RuntimeError: it failed; tells what it printed.
    """
    environ = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    # Packages come from the environment alone.
    environ.pop("PYTHONPATH", None)
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    if ended.returncode:
        message = f"{' '.join(command)}\nended with {ended.returncode}:\n{ended.stdout[-4000:]}"
        raise RuntimeError(message)
    return ended.stdout
