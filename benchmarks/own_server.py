"""This runner's Job service as users start it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def served(*options: str) -> Iterator[str]:
    """A server process at a free port; its endpoint."""
    command = [sys.executable, "-m", "sparkdrain.cli.main", "server", "--job-port=0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"listens at (\S+)\. Ctrl-C", process.stdout.readline())
            assert found is not None, "the server has not started"
            yield found[1]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
