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
    _sized("stream-state", 1_500_000, beam_flink=0.02, structured_streaming=0.2),
    _sized("stream-count", 1_500_000),
    _sized("stream-windows", 5_000_000, beam_flink=0.08, structured_streaming=0.06, bytewax=0.4),
)
BATCH: Final = (
    _sized("wordcount", 200, beam_spark=0.3, fnapi=0.3),
    _sized("gbk-few-keys", 5_000_000, beam_spark=0.3, fnapi=0.1),
    _sized("gbk-many-keys", 5_000_000, beam_spark=0.2, fnapi=0.1),
    _sized("chain", 6_000_000, beam_spark=0.15, fnapi=0.08),
    _sized("windows", 2_000_000, beam_spark=0.25, fnapi=0.2),
    _sized("stateful", 1_000_000, beam_spark=0.003, fnapi=0.03),
)
CLOCK: Final = (_sized("stream-latency", 400_000), _sized("stream-timers", 500_000))
