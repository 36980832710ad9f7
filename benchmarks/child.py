"""The driver's end of a session: starts it, gives orders under a time limit, measures, ends it."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from benchmarks.process_tree import VARIABLE, Tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.jobs.work import Work

_SAMPLE_SECONDS = 0.25
_GRACE_SECONDS = 15.0
_LOG_TAIL = 400


class SessionFailed(Exception):
    """The session reported an error, ended, or ran out of time; it is dead now."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One run.

    Attributes:
        seconds: wall time as the session measured it.
        cpu: CPU seconds of all its processes during the order.
        peak_rss: highest sum of resident bytes over its processes, by sampling.
        load: the machine's load average over one minute, at the end.
        result: what the job's `result` returned.
        figures: what the job found out beside, by name with unit.
    """

    seconds: float
    cpu: float
    peak_rss: int
    load: float
    result: list[int]
    figures: dict[str, float] = field(default_factory=dict)


class Session:
    """One runner process with all that it starts, in a directory of its own."""

    def __init__(
        self, command: list[str], environment: Mapping[str, str], folder: Path | None = None
    ) -> None:
        """Starts the process; `wait_ready` tells when it can take orders.

        Args:
            command: of the session; gets `--directory` and `--reply` added.
            environment: on top of the driver's.
            folder: where Python, in a session, looks for modules first; None: the driver's.
        """
        self.directory = Path(tempfile.mkdtemp(prefix="bench-"))
        self._log = self.directory / "session.log"
        reader, writer = os.pipe()
        own = {
            "TMPDIR": str(self.directory),
            "SPARK_LOCAL_DIRS": str(self.directory),
            "PYTHONUNBUFFERED": "1",
            VARIABLE: self.directory.name,
        }
        self._tree = Tree(self.directory.name)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, f"--directory={self.directory}", f"--reply={writer}"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[writer],
                env={**os.environ, **environment, **own},
                cwd=folder,
                start_new_session=True,
            )
        os.close(writer)
        self._reply: IO[bytes] = os.fdopen(reader, "rb", buffering=0)
        self._pending = b""
        self._peak = 0

    def wait_ready(self, limit: float) -> None:
        """Waits until the runner is open; raises SessionFailed."""
        self._await_reply(limit)

    def run(self, work: Work, limit: float, job: str = "") -> Measured:
        """Orders one run and waits for its end; raises SessionFailed.

        Args:
            work: how much.
            limit: seconds.
            job: its name, for sessions that run several.
        """
        self._tree.look()
        before = self._tree.cpu
        self._peak = 0
        order = {"n": work.n, "keys": work.keys, "text": str(work.text), "out": str(work.out)}
        order |= {"job": job} if job else {}
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            msg = "the process has ended"
            raise self._failed(msg) from None
        reply = self._await_reply(limit)
        self._tree.look()
        cpu = self._tree.cpu - before
        load = os.getloadavg()[0]
        figures = reply.get("figures", {})
        return Measured(reply["seconds"], cpu, self._peak, load, reply["result"], figures)

    def close(self, grace: float = _GRACE_SECONDS) -> None:
        """Ends all processes of the session and removes its directory. May be called twice.

        Args:
            grace: seconds that the session gets to end by itself.
        """
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(grace)
        self._tree.kill()
        self._process.wait()
        self._reply.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _await_reply(self, limit: float) -> dict[str, Any]:
        deadline = time.monotonic() + limit
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            if left <= 0:
                msg = f"no end after {limit:.0f} s"
                raise self._failed(msg)
            ready, _, _ = select.select([self._reply], [], [], min(left, _SAMPLE_SECONDS))
            if ready:
                data = self._reply.read(1 << 16)
                if not data:
                    msg = "the process has ended"
                    raise self._failed(msg)
                self._pending += data
            elif self._process.poll() is not None:
                msg = "the process has ended"
                raise self._failed(msg)
            else:
                self._look()
        line, self._pending = self._pending.split(b"\n", 1)
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise self._failed(reply["error"], with_log=False)
        self._look()
        return reply

    def _look(self) -> None:
        self._tree.look()
        self._peak = max(self._peak, self._tree.rss)

    def _failed(self, reason: str, *, with_log: bool = True) -> SessionFailed:
        if with_log:
            tail = self._log.read_text(errors="replace").strip()[-_LOG_TAIL:]
            reason = f"{reason}; log: {tail}" if tail else reason
        self.close(grace=0)
        return SessionFailed(" ".join(reason.split()))
