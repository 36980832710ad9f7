"""Installs the packages that a job brings into a private directory, once on each executor.

Imports neither Beam nor Spark: it runs before them, so that the job's versions win.
"""

from __future__ import annotations

import importlib
import os
import shutil
import site
import subprocess
import sys
import sysconfig
import time
import zipfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sparkdrain import file_lock
from sparkdrain.errors import BadSetup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Run = Callable[[Sequence[str]], tuple[int, str]]

ARCHIVE_VARIABLE: Final = "SPARKDRAIN_PACKAGES"
"""Where the archive of packages is; relative to the executor's directory on a cluster."""

# The names under which Beam's client stages what these options say.
REQUIREMENTS: Final = "requirements.txt"
EXTRA_PACKAGES: Final = "extra_packages.txt"
SETUP_PACKAGE: Final = "workflow.tar.gz"
PIP_ROLE_PREFIX: Final = "pip-requirements-"

_OFFLINE: Final = ("--no-index", "--no-build-isolation")
_ONLINE: Final = ("--retries", "2", "--timeout", "20")
_QUOTED_LINES: Final = 15
_INSTALL_SECONDS: Final = 1800.0
"""How long an installation may take."""
_LONGER_SECONDS: Final = 30.0
"""How much longer others wait for it, so that who installs is the first to fail."""


_FAILED: Final = (
    "The pipeline's packages (--requirements_file, --setup_file, --extra_package) could not be "
    "installed on an executor"
)


def use_packages(
    archive: Path, home: Path, run: Run | None = None, seconds: float = _INSTALL_SECONDS
) -> None:
    """Make the packages in ``archive`` importable in this process, before all others.

    The first process that asks installs them below ``home``; the others wait for it. What the
    workers have already and what fits is not installed again. Packages that were staged win; an
    index is asked only if something is missing.

    Args:
        archive: the staged files, as ``pack`` wrote them.
        home: a directory that lives as long as the executor.
        run: runs a command; answers its exit code and all that it printed.
        seconds: how long an installation may take.

    Raises:
        BadSetup: pip could not install them; with its last words. Or another process does not come
            to an end with it; names that process.
    """
    place = home / archive.stem
    try:
        lock = file_lock.open_locked(place.with_suffix(".lock"), seconds + _LONGER_SECONDS)
    except file_lock.LockKept as error:
        message = f"{_FAILED}: another worker does not come to an end with it. {error}"
        raise BadSetup(message) from error
    try:
        if not (place / "complete").exists():
            shutil.rmtree(place, ignore_errors=True)
            _install(archive, place, run or partial(_run, time.monotonic() + seconds))
            (place / "complete").touch()
    finally:
        os.close(lock)
    staged = str(place / "staged")
    for path in (_site_packages(place), staged):
        if path not in sys.path:
            sys.path.insert(0 if path != staged else len(sys.path), path)
    site.addsitedir(_site_packages(place))
    importlib.invalidate_caches()


def _install(archive: Path, place: Path, run: Run) -> None:
    staged = place / "staged"
    with zipfile.ZipFile(archive) as files:
        files.extractall(staged)
    wanted = list(_wanted(staged))
    # Not pip's --target: that would install again whatever the workers have.
    _succeed(run([sys.executable, "-m", "venv", "--without-pip", str(place / "venv")]), "venv")
    _see_installed(Path(_site_packages(place)))
    if not wanted:
        return
    python = str(place / "venv" / "bin" / "python")
    if run([python, "-m", "pip", "--version"])[0] != 0:
        _succeed(run([python, "-m", "ensurepip"]), "ensurepip")
    pip = [python, "-m", "pip", "install", "--no-cache-dir", "--disable-pip-version-check"]
    pip += ["--quiet", "--no-input", "--find-links", str(staged)]
    offline = run([*pip, *_OFFLINE, *wanted])
    if offline[0] != 0:
        online = run([*pip, *_ONLINE, *wanted])
        if online[0] != 0:
            _succeed((1, f"{_last(offline[1])}\n\nAnd with an index:\n{online[1]}"), "pip")


def _wanted(staged: Path) -> Iterator[str]:
    """What pip is to install, in the order of Beam's own containers."""
    lists = sorted(staged.glob(f"{PIP_ROLE_PREFIX}*"))
    for file in (staged / REQUIREMENTS, *lists):
        if file.exists():
            yield from ("-r", str(file))
    extra = staged / EXTRA_PACKAGES
    if extra.exists():
        for name in extra.read_text("utf-8").split():
            yield str(staged / name)
    if (staged / SETUP_PACKAGE).exists():
        yield str(staged / SETUP_PACKAGE)


def _site_packages(place: Path) -> str:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return str(place / "venv" / "lib" / version / "site-packages")


def _see_installed(directory: Path) -> None:
    """Let pip in the new environment see what this Python has."""
    # But not the standard library: pip hides what stands here when it builds a package.
    library = sysconfig.get_path("stdlib")
    own = {library, os.path.join(library, "lib-dynload")}
    lines = [path for path in sys.path if os.path.isdir(path) and path not in own]
    (directory / "workers.pth").write_text("\n".join(lines) + "\n", "utf-8")


def _run(deadline: float, command: Sequence[str]) -> tuple[int, str]:
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    try:
        done = subprocess.run(  # noqa: S603 - this Python and its pip
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environ,
            check=False,
            timeout=max(0.0, deadline - time.monotonic()),
        )
    except subprocess.TimeoutExpired:
        return 1, "nothing; it did not come to an end in time, and was killed."
    return done.returncode, done.stdout


def _succeed(result: tuple[int, str], what: str) -> None:
    code, printed = result
    if code != 0:
        message = f"{_FAILED}; {what} said:\n{_last(printed)}"
        raise BadSetup(message)


def _last(printed: str) -> str:
    return "\n".join(printed.strip().splitlines()[-_QUOTED_LINES:])
