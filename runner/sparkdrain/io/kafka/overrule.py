"""``--kafka_publish_anyway``: why a sink refuses to publish, and how operators overrule it."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final

from apache_beam.options.pipeline_options import PipelineOptions

from sparkdrain.errors import BadOption
from sparkdrain.io.kafka.outbox import Refusal

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from sparkdrain.io.kafka.note import Recorded

OPTION: Final = "kafka_publish_anyway"
# Clocks and time zones differ.
_TOLERANCE: Final = timedelta(days=1)

_WHY: Final = {
    Refusal.FORGOTTEN: "the brokers have forgotten how much was published (the offsets of a group "
    "expire after offsets.retention.minutes without use), so it cannot be told whether record "
    "{first} and what follows is there",
    Refusal.GAP: "the brokers lack records that were published before: their number is {number}, "
    "and {first} comes next. The group's offset was reset, or the topic comes from a backup",
    Refusal.FOREIGN: "another job, or another start of this job, has published under this name "
    "since{job}. Cancel one of them, and give each sink of each job a name of its own",
    Refusal.OLDER: "the brokers have more than the job goes on from: their number is {number}, and "
    "the checkpoint has records up to {next}. The checkpoint is not the newest one, or a copy of "
    "the job has gone on. Go on from the newest checkpoint, if there is one",
    Refusal.DIVERGED: "the brokers have other records under the numbers up to {number} than the "
    "job has. The job has gone on from a checkpoint that was not the newest one, or a copy of the "
    "job has gone on. Go on from the newest checkpoint, if there is one",
    Refusal.UNREADABLE: "the metadata of the group's offset is none that this release can read: "
    "another program, or a later release, has committed it",
    Refusal.OPEN: "another job, or an earlier start of this job, has published under this name{job}"
    ", and was not drained. Begun anew, this job may write its records again. Go on with --resume, "
    "or drain that job first, or give the sink another name",
}


class KafkaOptions(PipelineOptions):
    """Options of the sink."""

    @classmethod
    def _add_argparse_args(cls, parser: ArgumentParser) -> None:
        parser.add_argument(
            f"--{OPTION}",
            action="append",
            metavar="NAME=YYYY-MM-DD",
            help="The exactly-once sink with this name publishes what its job has, although the "
            "brokers' record speaks against it. Records may then be written twice. It holds for "
            "starts on that day (UTC).",
        )


def refusal(
    verdict: Refusal, sink: str, ident: str, recorded: Recorded | None, first: int, next_: int
) -> str:
    """Why a group of a sink, with a transactional id, publishes nothing, and what to do."""
    note = None if recorded is None else recorded.note()
    why = _WHY[verdict].format(
        number=None if recorded is None else recorded.number,
        first=first,
        next=next_,
        job=f" (job {note.job!r})" if note is not None and note.job else "",
    )
    today = _today().isoformat()
    return (
        f"{ident!r} publishes nothing: {why}. To publish all the same what this job has, "
        f"which may write records twice, start the job once with --{OPTION}={sink}={today}"
    )


def overruled(options: PipelineOptions) -> list[str]:
    """The names of all sinks that are to publish anyway.

    Raises:
        BadOption: a value has no date, or is of another day.
    """
    return [_name(value) for value in getattr(options.view_as(KafkaOptions), OPTION) or []]


def _name(value: str) -> str:
    name, _, day = value.rpartition("=")
    try:
        of = date.fromisoformat(day)
    except ValueError:
        of = None
    if not name or of is None:
        msg = (
            f"--{OPTION}={value} is not NAME=YYYY-MM-DD. Take the text from the error of the sink "
            "that refused to publish"
        )
        raise BadOption(msg)
    if abs(of - _today()) > _TOLERANCE:
        msg = (
            f"--{OPTION}={value} was for starts on {day}, and today is {_today()}. Leave it out; "
            "if the sink refuses to publish, its error has the text for today"
        )
        raise BadOption(msg)
    return name


def _today() -> date:
    return datetime.now(timezone.utc).date()
