"""Starts the counting stream, kills it, resumes it and drains it, with one Python environment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from counting import exact

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HERE: Final = Path(__file__).parent
_SECONDS: Final = 180.0


def killed_resumed_drained(folder: Path) -> str:
    """Runs the stream as a user does, with programs of the environment that this Python is of.

    Args:
        folder: an empty folder; it gets the output, the checkpoints and the records of the job.

    Returns:
        what was seen, in one line.

    Raises:
        AssertionError: something else than an exact output came out.
    """
    output, checkpoints = folder / "output", folder / "checkpoints"
    output.mkdir()
    store = f"--metadata_store=file:{folder / 'drain'}"
    command = [
        *(sys.executable, str(HERE / "counting.py"), str(output)),
        *("--runner=SparkDrainRunner", "--job_name=counting", "--progress=off", "--streaming"),
        *("--spark_master_url=local[2]", "--slots=2", store),
        *(f"--checkpoint_dir={checkpoints}", "--checkpoint_ms=500"),
    ]
    with _Program(command, folder / "first.log") as first:
        first.wait_for(lambda: len(list(output.glob("window-a-*"))) > 1, "two windows")
        # The first of them may have been begun before.
        for what in ("a checkpoint", "one more checkpoint"):
            seen = _newest(checkpoints)
            first.wait_for(lambda seen=seen: _newest(checkpoints) > seen, what)
        before = {file.name for file in output.glob("began-*")}
        first.kill()
    with _Program([*command, "--resume"], folder / "second.log") as second:
        second.wait_for(
            lambda: len({file.name for file in output.glob("began-*")} - before) > 2,
            "each source goes on",
        )
        time.sleep(1)
        _drain(store, folder / "drain.log")
        assert second.wait() == 0, second.told()
        assert second.told().endswith("DRAINED"), second.told()
    after = [file for file in output.glob("began-*") if file.name not in before]
    starts = sorted(int(file.read_text()) for file in after)
    assert starts[0] > 0, f"the resumed job began anew: {starts}"
    totals = exact(output)
    numbers = sum(totals.values())
    return f"{numbers} numbers, each once; resumed at {starts[0]} of {min(totals.values())}"


def _newest(checkpoints: Path) -> str:
    """The name of the newest manifest; names are in the order of checkpoints."""
    # Not `rglob`: the job removes folders while they are looked into.
    found = [name for _, _, names in os.walk(checkpoints) for name in names]
    return max((name for name in found if name.endswith(".manifest")), default="")


def _drain(store: str, log: Path) -> None:
    command = [str(Path(sys.executable).with_name("sparkdrain")), "drain", "counting", store]
    with log.open("wb") as printed:
        code = subprocess.run(
            command, stdout=printed, stderr=subprocess.STDOUT, timeout=_SECONDS, check=False
        ).returncode
    assert code == 0, log.read_text()


class _Program:
    """A program in a session of its own, with all that it prints in a file."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as printed:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> _Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def wait_for(self, done: Callable[[], bool], what: str) -> None:
        """Waits until ``done``.

        Raises:
            AssertionError: it did not come, or the program ended before.
        """
        end = time.monotonic() + _SECONDS
        while not done():
            assert self._process.poll() is None, f"ended before {what}:\n{self.told()}"
            assert time.monotonic() < end, f"no {what} in {_SECONDS:.0f} s:\n{self.told()}"
            time.sleep(0.1)

    def kill(self) -> None:
        """Ends the driver at once; Spark's JVM and workers end because it is gone."""
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def wait(self) -> int:
        """Its exit code."""
        return self._process.wait(_SECONDS)

    def told(self) -> str:
        """All that it printed."""
        return self._log.read_text(errors="replace").strip()


if __name__ == "__main__":
    print(killed_resumed_drained(Path(sys.argv[1]).resolve()))
