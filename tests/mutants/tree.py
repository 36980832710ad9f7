"""Copies of the working tree: a mutant changes its copy, never the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

_PACKAGES = ("sparkdrain", "timers_state", "sparkdrain_hook")


def copy_of_checkout(root: Path, target: Path) -> Path:
    """Copy all files that git has or would take, compiled.

    Bytecode is checked by the content of its source, so that a copy of the copy never runs bytecode
    of what a mutant has changed.
    """
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (root / name).is_file():  # git lists files that were deleted since, too
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name)
    compiling = [sys.executable, "-m", "compileall", "-qq", "--invalidation-mode", "checked-hash"]
    subprocess.run([*compiling, "runner", "timers_state"], cwd=target, check=False)
    verify_imports(target)
    return target


def environment(tree: Path) -> dict[str, str]:
    """The environment in which Python, and the workers that Spark starts, import from a tree."""
    path = os.pathsep.join([str(tree / "runner"), str(tree)])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {**kept, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def verify_imports(tree: Path) -> None:
    """Raise ``RuntimeError`` if Python does not import the packages from a tree.

    The environment has the checkout installed; ``PYTHONPATH`` must come before that.
    """
    asked = [f"import {name}; print({name}.__file__)" for name in _PACKAGES]
    command = [sys.executable, "-c", "\n".join(asked)]
    done = subprocess.run(
        command, cwd=tree, env=environment(tree), check=True, capture_output=True, text=True
    )
    for file in done.stdout.split():
        if not Path(file).is_relative_to(tree):
            message = f"{file} was imported instead of the copy in {tree}: unset PYTHONPATH"
            raise RuntimeError(message)
