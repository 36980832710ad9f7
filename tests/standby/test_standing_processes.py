"""Two drivers in processes of their own, without Spark: one leads, and is paused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from sparkdrain.coordination.backends.file import FileStore
from sparkdrain.standby.drivers import TERMS, Term

LEASE = "0.5"
DRIVER = """
import sys
from pathlib import Path
from sparkdrain.coordination.backends.file import FileStore
from sparkdrain.standby.standby import Standby
from sparkdrain.types import CancelToken

def show(text):
    print(text, flush=True)

class Ready:
    number = 0
    def check(self):
        pass
    def shares(self, epoch):
        return True
    def expect(self, *, is_next):
        pass

folder, owner, lease = sys.argv[1:]
standby = Standby(FileStore(Path(folder)), "job", owner, float(lease), 3, show, show)
standby.wait(Ready(), CancelToken())
for line in sys.stdin:
    standby.took(int(line))
    # One text: another thread prints, too, and would write between two.
    told = f"took {line.strip()}"
    print(told, flush=True)
"""


class Driver:
    """A driver of the job; use it as a context manager."""

    def __init__(self, folder, owner: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(folder), owner, LEASE],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *error: object) -> None:
        with self._process:
            self._process.kill()

    def says(self) -> str:
        """The next line that it prints."""
        return self._process.stdout.readline()

    def until(self, text: str) -> None:
        """Read what it prints, up to that."""
        while text not in (line := self.says()):
            assert line, f"it has ended before it said {text!r}"

    def claims(self, epoch: int) -> None:
        """Have it tell that it has claimed the checkpoints."""
        self._process.stdin.write(f"{epoch}\n")
        self._process.stdin.flush()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)


def test_a_driver_that_was_paused_is_followed_in_time_and_its_claim_is_not_told(tmp_path):
    store = FileStore(tmp_path)
    with Driver(tmp_path, "one") as one:
        one.until("one leads the job")
        one.claims(1)
        one.until("took 1")
        with Driver(tmp_path, "two") as two:
            assert two.says().startswith("two waits: one leads the job."), "only one leads"
            one.send(signal.SIGSTOP)
            one.claims(9)
            two.until("two leads the job from now on: one was not heard of for")
            two.claims(2)
            two.until("took 2")
            one.send(signal.SIGCONT)
            one.until("took 9")
            term = Term.decode(store.get(TERMS, "job").value.partition(b"\n")[2])
            assert (term.owner, term.epoch) == ("two", 2)
