"""How much memory the processes that run a DoFn take, as they see it themselves (Linux)."""

from __future__ import annotations

import json
import os
from pathlib import Path


class Witness:
    """Writes what this process takes into `out`, now and whenever it is asked.

    The figures are resident bytes with pages that forked processes share: what it had when the
    witness was made, and the most that it had up to now.
    """

    def __init__(self, out: str) -> None:
        self._path = Path(out) / f"memory-{os.getpid()}.json"
        self._start = _kib("VmRSS")
        self.look()

    def look(self) -> None:
        """Notes the peak so far. A few dozen microseconds: once a bundle, not once an element."""
        figures = {"start": self._start, "peak": _kib("VmHWM")}
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(figures), encoding="utf-8")
        os.replace(part, self._path)


def read_memory(out: Path) -> dict[str, float]:
    """MB of the largest process that had a witness: at its start and at its peak."""
    seen = [json.loads(p.read_text(encoding="utf-8")) for p in out.glob("memory-*.json")]
    if not seen:
        return {}
    largest = max(seen, key=lambda figures: figures["peak"])
    return {
        "DoFn process at start (MB)": largest["start"] * 1024 / 1e6,
        "DoFn process at peak (MB)": largest["peak"] * 1024 / 1e6,
    }


def _kib(field: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    return 0
