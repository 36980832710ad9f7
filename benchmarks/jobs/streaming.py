"""The streaming jobs. What a source hands out is in `turns`, for Beam and other programs alike."""

from __future__ import annotations

from benchmarks.jobs.job import Bar, Goal, Job

RATE = "elements/s"  # as in `rows`
_PEERS = ("beam-flink", "structured-streaming", "bytewax")
_SAVED = ("bytewax-saved", "sparkdrain-saved")
# bytewax has no bar: its state is in memory only, and it says how far we are.
_BARS = {
    "beam-flink": Bar(8, 8),
    "structured-streaming": Bar(30, 30),
    "bytewax": Bar(None, None),
}

STREAMING: tuple[Job, ...] = (
    Job(
        name="stream-state",
        module="stream_state",
        size=3_000_000,
        what="sessions of 10 elements, 100,000 at a time: a value state and a timer per element",
        bars=_BARS,
        peers=(*_PEERS, *_SAVED),
        per_key=30,
        # The first two pay for each key and bundle, the third for each state call.
        shares={"beam-flink": 0.02, "structured-streaming": 0.2},
        streaming=True,
        goals=(Goal(RATE, at_least=250_000),),
    ),
    Job(
        name="stream-count",
        module="stream_count",
        size=3_000_000,
        what="the same sessions without timers: their tenth element ends them",
        bars={"bytewax": Bar(None, None)},
        peers=("bytewax", *_SAVED),
        per_key=30,
        streaming=True,
    ),
    Job(
        name="stream-windows",
        module="stream_windows",
        size=5_000_000,
        what="count per key in fixed windows, 1,000 keys, 100 elements to a key and window",
        bars=_BARS,
        peers=_PEERS,
        per_key=5000,
        shares={"beam-flink": 0.2, "structured-streaming": 0.1},
        streaming=True,
        goals=(Goal(RATE, at_least=400_000),),
    ),
    Job(
        name="stream-latency",
        module="stream_latency",
        size=800_000,
        what="20,000 elements/s by the clock, count per key in windows of 250 ms; delay of results",
        peers=("beam-flink",),
        keys=100,
        streaming=True,
        by_clock=True,
        goals=(Goal("p50 (ms)", at_most=500), Goal("p99 (ms)", at_most=1500)),
        has_figures=True,
    ),
    Job(
        name="stream-keys",
        module="stream_keys",
        size=10_000_000,
        what="10 M keys of state in one slot, one in ten visited again",
        peers=(),
        per_key=1,
        streaming=True,
        goals=(Goal("DoFn process at peak (MB)", at_most=2000),),
        has_figures=True,
        flags=("--slots=1",),
    ),
    Job(
        name="stream-timers",
        module="stream_timers",
        size=1_000_000,
        what="1 M timers due at once, 10 of each key",
        peers=(),
        per_key=10,
        streaming=True,
        goals=(Goal("DoFn process at peak (MB)", at_most=1000),),
        has_figures=True,
    ),
)
