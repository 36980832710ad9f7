"""What driver and slots begin with when a job goes on from a checkpoint. Pure.

There may be another number of slots. The driver makes up what each slot would have reported, had it
been there: together, the slots promise no more than the old ones did, and nothing counts twice.
What driver and slots knew is in the checkpoint, readable by later releases, and by people.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import metrics_pb2

from sparkdrain.checkpoints.manifest import ShardState
from sparkdrain.checkpoints.rescale import heir, sources_of
from sparkdrain.drain.notification import DrainNotification, UnreadableNotification
from sparkdrain.drain.phases import DrainPhase
from sparkdrain.errors import CheckpointFailed, CheckpointRefused
from sparkdrain.metrics.merge import merge
from sparkdrain.rounds.messages import Inheritance, RoundReport
from sparkdrain.watermarks.frontier import BEGIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sparkdrain.checkpoints.manifest import Manifest
    from sparkdrain.rounds.driver.checkpoint_flight import Cut
    from sparkdrain.rounds.driver.schedule import LevelSlot

# Older releases wrote one of three words. The second phase is that of a job whose sources are cut.
_OLD: Final = {
    "going on": (DrainPhase.READING, DrainPhase.CUT),
    "publishing": (DrainPhase.ENDING, DrainPhase.PUBLISHING),
    "over": (DrainPhase.DONE, DrainPhase.DRAINED),
}


@dataclass(frozen=True, slots=True)
class DriverState:
    """What a driver goes on with.

    Attributes:
        play: see ``loop.Play.position``.
        drain: the request to drain it, if its sources were cut.
    """

    play: int
    phase: DrainPhase
    drain: DrainNotification | None

    def encode(self) -> bytes:
        """As JSON, which people can read in a manifest."""
        drain = None if self.drain is None else self.drain.encode().decode()
        fields = {"play": self.play, "phase": self.phase.name, "drain": drain}
        return json.dumps(fields).encode()

    @classmethod
    def of(cls, manifest: Manifest) -> DriverState:
        """What the driver knew that made a checkpoint.

        Raises:
            CheckpointRefused: it was of a release that wrote this down in another way.
        """
        try:
            fields = json.loads(manifest.driver)
            text, phase = fields["drain"], fields["phase"]
            drain = None if text is None else DrainNotification.decode(text.encode())
            found = _OLD[phase][drain is not None] if phase in _OLD else _phase(phase)
            return cls(int(fields["play"]), found, drain)
        except (KeyError, ValueError, TypeError, AttributeError, UnreadableNotification) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            message = (
                f"Manifest {manifest.stamp} of job {manifest.job_name!r} is whole, but this "
                f"release cannot read what the driver wrote there ({what}): another release wrote "
                "it. Resume the job with that one, or begin anew with another --job_name or "
                "--checkpoint_dir."
            )
            raise CheckpointRefused(message) from error


def _phase(name: str) -> DrainPhase:
    if name not in DrainPhase.__members__:
        message = f"the phase {name!r} is unknown"
        raise ValueError(message)
    return DrainPhase[name]


def shards_of(cut: Cut) -> tuple[ShardState, ...]:
    """What a manifest says of each slot of each level, in order."""
    return tuple(
        ShardState(level, slot, cut.files[level, slot].files, kept_form(report))
        for (level, slot), report in sorted(cut.reports.items())
    )


def inheritances(
    shards: Iterable[ShardState], before: int, slots: int
) -> dict[LevelSlot, Inheritance]:
    """What each of ``slots`` of each level begins with.

    Args:
        shards: a checkpoint, of all levels.
        before: how many slots there were.

    Raises:
        CheckpointFailed: the checkpoint cannot be understood.
    """
    levels: dict[int, dict[int, ShardState]] = {}
    for shard in shards:
        levels.setdefault(shard.level, {})[shard.slot] = shard
    return {
        (level, slot): inheritance
        for level, had in levels.items()
        for slot, inheritance in enumerate(_of_level(had, before, slots))
    }


def _of_level(had: Mapping[int, ShardState], before: int, slots: int) -> list[Inheritance]:
    reports = [report_of(had[old].report) for old in range(before)]
    if before == slots:
        return [Inheritance(report, (had[report.slot],), before) for report in reports]
    givers = _givers(reports)
    # What holds for all slots of the level, wherever any of their state goes.
    outputs = tuple(map(min, zip(*(report.outputs for report in reports), strict=True)))
    wakes = [report.wake for report in reports if report.wake is not None]
    made = []
    for slot in range(slots):
        sources = sources_of(slot, before, slots)
        needed = sorted({*sources, *givers.values()})
        own = [report for report in reports if heir(report.slot, before, slots) == slot]
        report = replace(
            reports[0],
            slot=slot,
            outputs=outputs,
            wake=min(wakes, default=None),
            metrics=[info for heirloom in own for info in heirloom.metrics],
            dropped=sum(heirloom.dropped for heirloom in own),
            drained=_drained([reports[old] for old in sources]),
            passed={edge: reports[giver].passed[edge] for edge, giver in givers.items()},
        )
        shards = tuple(had[old] for old in needed)
        made.append(Inheritance(report, shards, before, givers))
    return made


def _drained(reports: Sequence[RoundReport]) -> tuple[bool, ...]:
    """Whether each stage is drained in a slot that inherits from the slots of these reports."""
    return tuple(map(all, zip(*(report.drained for report in reports), strict=True)))


def _givers(reports: Sequence[RoundReport]) -> dict[int, int]:
    """The slot that has all of a side input that any slot may still read, by edge.

    Slots drop windows as they pass them, so the slot that is behind all others has everything.
    """
    return {
        edge: min(reports, key=lambda report: report.passed[edge]).slot
        for edge in reports[0].passed
    }


def kept_form(report: RoundReport) -> bytes:
    """What must be known of a report to go on from there."""
    fields = {
        "level": report.level,
        "slot": report.slot,
        "round": report.number,
        "attempt": report.attempt,
        "outputs": report.outputs,
        # The report is read from a checkpoint: what waited for that checkpoint need not wait then.
        "wake": BEGIN if report.waits else report.wake,
        "dropped": report.dropped,
        "drained": report.drained,
        "passed": list(report.passed.items()),
        "metrics": [base64.b64encode(info).decode() for info in report.metrics],
    }
    return json.dumps(fields).encode()


def report_of(kept: bytes) -> RoundReport:
    """The inverse of ``kept_form``.

    Raises:
        CheckpointFailed: the bytes are no report.
    """
    try:
        fields = json.loads(kept)
        metrics = merge(
            metrics_pb2.MonitoringInfo.FromString(base64.b64decode(info))
            for info in fields["metrics"]
        )
        return RoundReport(
            level=fields["level"],
            slot=fields["slot"],
            number=fields["round"],
            attempt=fields["attempt"],
            inputs={},
            outputs=tuple(fields["outputs"]),
            sent=frozenset(),
            wake=fields["wake"],
            # Each life adds its own to those of the lives before.
            metrics=[info.SerializeToString() for info in metrics],
            dropped=fields["dropped"],
            drained=tuple(fields.get("drained", ())),
            passed=dict(fields.get("passed", ())),
        )
    except (ValueError, KeyError, TypeError) as error:
        message = f"the checkpoint's report of a slot cannot be read: {error!r}"
        raise CheckpointFailed(message) from error
