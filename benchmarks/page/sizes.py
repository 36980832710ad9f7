"""The sizes that the page's jobs run at: seconds for each run, of this runner and of its peers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from benchmarks.jobs import Job, job_named


def _sized(name: str, size: int, **shares: float) -> Job:
    """The job with another n, of which peers get a share; a peer is written with underscores."""
    named = {family.replace("_", "-"): share for family, share in shares.items()}
    return replace(job_named(name), size=size, shares=named)


STREAMS: Final = (
    _sized("stream-state", 1_500_000, beam_flink=0.05, structured_streaming=0.2),
    _sized("stream-count", 1_500_000),
    _sized("stream-windows", 5_000_000, beam_flink=0.08, structured_streaming=0.06, bytewax=0.1),
)
BATCH: Final = (
    _sized("wordcount", 150, beam_spark=0.3, fnapi=0.3),
    _sized("gbk-few-keys", 4_000_000, beam_spark=0.3, fnapi=0.1),
    _sized("gbk-many-keys", 3_000_000, beam_spark=0.25, fnapi=0.1),
    _sized("chain", 5_000_000, beam_spark=0.15, fnapi=0.08),
    _sized("windows", 2_000_000, beam_spark=0.25, fnapi=0.15),
    _sized("stateful", 600_000, beam_spark=0.005, fnapi=0.03),
)
CLOCK: Final = (_sized("stream-latency", 400_000), _sized("stream-timers", 500_000))
