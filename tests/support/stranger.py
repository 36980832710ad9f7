"""Another user of this machine, who tries to reach what is not theirs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

UID = 65534

as_stranger = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
"""Marks a test, or a part of it, that needs to be run by root."""

_BECOME = f"""
import os, socket, sys
os.setgroups([])
os.setgid({UID})
os.setuid({UID})
"""


def stranger(code: str, *arguments: str) -> str:
    """What ``code`` prints, run by another user; it finds ``arguments`` in ``sys.argv[1:]``."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", _BECOME + code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def connects(path: str) -> bool:
    """Whether another user gets a connection to the Unix socket at ``path``."""
    answer = stranger(
        "s = socket.socket(socket.AF_UNIX)\n"
        "try:\n    s.connect(sys.argv[1])\n"
        "except OSError as error:\n    print(type(error).__name__)\n"
        "else:\n    print('connected')",
        path,
    )
    assert answer in {"connected", "PermissionError"}, answer
    return answer == "connected"
