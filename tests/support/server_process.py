"""``sparkdrain server`` as its users start it: a process of its own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from contextlib import contextmanager


@contextmanager
def server_process(*arguments: str):
    process = subprocess.Popen(
        [sys.executable, "-m", "sparkdrain.cli.main", "server", "--job-port=0", *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        said = process.stdout.readline()
        yield process, re.search(r"listens at (\S+)\. Ctrl-C", said)[1]
        if process.poll() is None:  # the test has not killed it
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
