"""How far a drain has come, as messages and as metrics of a job."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

from apache_beam.metrics import monitoring_infos

from sparkdrain.drain.phases import DrainPhase
from sparkdrain.drain.progress import METRICS
from sparkdrain.english import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apache_beam.portability.api import metrics_pb2

    from sparkdrain.drain.progress import DrainProgress, Left

_SHOWN: Final = 12
_NAMES: Final = {
    "windows_left": "window",
    "timers_left": "timer",
    "parked_left": "parked element",
    "residuals_left": "restriction",
}
_PHASE: Final = "phase"
_EVERY_MICROSECONDS: Final = 10_000_000


def told(before: DrainProgress | None, now: DrainProgress) -> str | None:
    """What to tell, if there is anything new: a stage more is drained, or time has passed."""
    if before is not None and _news(before) == _news(now):
        return None
    return "\n".join([line(now), *stage_lines(now)])


def line(progress: DrainProgress) -> str:
    """One line: the phase, how many stages are drained, what is left and waited for, the end."""
    parts = [] if progress.phase is DrainPhase.READING else [progress.phase.name]
    if not progress.stages:
        return f"Drain: {'; '.join(parts)}."
    parts.append(f"{progress.stages_drained} of {len(progress.stages)} stages are drained")
    inside = _said(_counts(progress.stages))
    parts.append(f"{inside} left" if inside else "nothing left inside")
    if progress.expected_end == progress.now:
        parts.append(f"after {(progress.now - progress.began) / 1e6:.1f} s")
    if progress.hold is not None:
        seconds = (progress.now - progress.held_since) / 1e6
        parts.append(
            f"held by {progress.hold.reason} of {progress.hold.stage!r} for {seconds:.0f} s"
        )
    if progress.things and progress.expected_end is not None:
        seconds = (progress.expected_end - progress.now) / 1e6
        at = dt.datetime.fromtimestamp(progress.expected_end / 1e6, dt.timezone.utc)
        parts.append(f"{progress.rate:,.0f}/s, so {seconds:.0f} s more, until {at:%H:%M:%S} UTC")
    return f"Drain: {'; '.join(parts)}."


def stage_lines(progress: DrainProgress) -> list[str]:
    """A line for each stage that is not drained, for the first ones if there are many."""
    open_ = [left for left in progress.stages if not left.is_drained]
    found = [
        f"  {left.stage}: {left.drained} of {left.inputs} inputs drained, "
        f"{_said(_counts([left])) or 'nothing'} left"
        for left in open_[:_SHOWN]
    ]
    if len(open_) > _SHOWN:
        found.append(f"  and {len(open_) - _SHOWN} more")
    return found


def lines(infos: Iterable[metrics_pb2.MonitoringInfo]) -> list[str]:
    """What ``infos`` says of each stage, for people."""
    stages: dict[str, dict[str, int]] = {}
    for info in infos:
        _, name = monitoring_infos.parse_namespace_and_name(info)
        stage = info.labels[monitoring_infos.PTRANSFORM_LABEL]
        stages.setdefault(stage, {})[name] = monitoring_infos.extract_counter_value(info)
    return [f"  {stage}: {_said(found) or 'nothing'}" for stage, found in stages.items()]


def answer(found: DrainProgress | str | None) -> str:
    """The answer to a dry run, in one line of ASCII, as gRPC's metadata must be."""
    match found:
        case None:
            text = "The job has not answered; it is busy with a long round. Ask again."
        case str():
            text = found
        case _:
            text = f"A drain would find {_said(_counts(found.stages)) or 'nothing'} inside."
    return text.encode("ascii", "replace").decode()


def infos(progress: DrainProgress | None, unreadable: int) -> list[metrics_pb2.MonitoringInfo]:
    """Counters in ``METRICS``: of each stage, and of the job."""
    counters = []
    if unreadable:
        counters.append(_counter("unreadable_notifications", unreadable, ""))
    if progress is not None and progress.phase is not DrainPhase.READING:
        counters.append(_counter(_PHASE, list(DrainPhase).index(progress.phase), ""))
    for left in () if progress is None else progress.stages:
        values = {"inputs": left.inputs, "inputs_drained": left.drained, **_counts([left])}
        counters += [_counter(name, value, left.stage) for name, value in values.items()]
    return counters


def phase_in(infos: Iterable[metrics_pb2.MonitoringInfo]) -> DrainPhase | None:
    """The phase that ``infos`` of a job tell, if its drain has begun."""
    for info in infos:
        if monitoring_infos.parse_namespace_and_name(info) == (METRICS, _PHASE):
            return list(DrainPhase)[monitoring_infos.extract_counter_value(info)]
    return None


def _counter(name: str, value: int, stage: str) -> metrics_pb2.MonitoringInfo:
    return monitoring_infos.int64_user_counter(METRICS, name, value, ptransform=stage)


def _news(progress: DrainProgress) -> tuple[DrainPhase, int, int, int]:
    """What is told again when it changes."""
    tens = progress.now // _EVERY_MICROSECONDS
    return progress.phase, progress.stages_drained, len(progress.stages), tens


def _counts(stages: Sequence[Left]) -> dict[str, int]:
    """What is left inside of stages, by the names of counters."""
    return {
        "windows_left": sum(left.windows for left in stages),
        "timers_left": sum(left.timers for left in stages),
        "parked_left": sum(left.parked for left in stages),
        "residuals_left": sum(left.residuals for left in stages),
    }


def _said(counts: Mapping[str, int]) -> str:
    said = (
        counted(count, _NAMES[name]) for name, count in counts.items() if name in _NAMES and count
    )
    return ", ".join(said)
