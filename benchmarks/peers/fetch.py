"""Fetch the peers from package registries into a cache directory, once.

Each function returns where the thing is, fetching it first where needed, and raises `PeerMissing`
with the reason where this machine cannot have it. A fetch that was interrupted leaves no finished
mark and starts anew.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

BEAM_OF_JOB_SERVER = "2.70.0"
BYTEWAX = "0.21.1"
FETCH_SECONDS = 1800


class PeerMissing(Exception):
    """This machine lacks what a peer needs; the text says what."""


def python_sdk(cache: Path) -> Path:
    """Python interpreter with the Beam SDK that the job servers' version speaks."""
    requirements = (f"apache-beam=={BEAM_OF_JOB_SERVER}", "setuptools<81")
    return _python_with(requirements, cache / "python-sdk")


def own_python(root: Path, cache: Path) -> Path:
    """Python interpreter with this package and what it needs, as a user has it.

    What developers have beside it makes each start of Beam a second longer.

    Args:
        root: the checkout; its code is used as it is at any time.
        cache: where fetched things are.
    """
    project = (root / "pyproject.toml").read_bytes()
    recipe = hashlib.sha256(project).hexdigest()
    return _python_with(("--editable", str(root)), cache / "own-python", recipe)


def bytewax_python(cache: Path) -> Path:
    """Python interpreter with bytewax."""
    return _python_with((f"bytewax=={BYTEWAX}",), cache / "bytewax")


def job_server_jars(name: str, cache: Path) -> Path:
    """Directory of jars with one of Beam's job servers and all that it needs at run time.

    Args:
        name: `spark-job-server` or `flink-job-server`; `<name>.pom.xml` says what it is made of.
        cache: where fetched things are.
    """
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            reason = f"`{tool}` is not on PATH; Beam's job servers come by Maven"
            raise PeerMissing(reason)
    home = cache / name
    pom = Path(__file__).with_name(f"{name}.pom.xml")

    def fetch() -> None:
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
        options = [f"-DoutputDirectory={home / 'jars'}", "-DincludeScope=runtime"]
        _call(["mvn", "--batch-mode", "--quiet", "--file", str(pom), goal, *options])

    _once(home, pom.read_text(encoding="utf-8"), fetch)
    return home / "jars"


def _python_with(requirements: tuple[str, ...], home: Path, recipe: str = "") -> Path:
    python = home / "bin" / "python"

    def fetch() -> None:
        _call([sys.executable, "-m", "venv", str(home)])
        _call([str(python), "-m", "pip", "install", "--quiet", *requirements])

    _once(home, ",".join([sys.version, *requirements, recipe]), fetch)
    return python


def _once(home: Path, recipe: str, fetch: Callable[[], None]) -> None:
    digest = hashlib.sha256(recipe.encode()).hexdigest()
    mark = home / "complete"
    if mark.exists() and mark.read_text(encoding="utf-8") == digest:
        return
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    print(f"fetching {home.name} into {home} (once)", file=sys.stderr, flush=True)
    fetch()
    mark.write_text(digest, encoding="utf-8")


def _call(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=FETCH_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        msg = f"`{' '.join(command[:4])} ...`: {e}"
        raise PeerMissing(msg) from e
    if done.returncode:
        tail = " ".join(done.stdout.split())[-600:]
        msg = f"`{' '.join(command[:4])} ...` failed: {tail}"
        raise PeerMissing(msg)
