"""What driver and slots tell each other in a round. Control data only, never elements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sparkdrain.checkpoints.manifest import FileEntry, ShardState
from sparkdrain.checkpoints.upload import Uploaded
from sparkdrain.drain.limits import Limits
from sparkdrain.drain.progress import Hold, Left
from sparkdrain.stages.shards.turn import Feed
from sparkdrain.v1 import checkpoint_pb2, drain_pb2, rounds_pb2
from sparkdrain.wire import ControlMessage, sent_as

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sparkdrain.shuffle.complete import Producer

sent_as(checkpoint_pb2.FileEntry)(FileEntry)
sent_as(checkpoint_pb2.ShardState)(ShardState)
sent_as(checkpoint_pb2.Uploaded)(Uploaded)
sent_as(drain_pb2.Left)(Left)
sent_as(rounds_pb2.Hold)(Hold)
sent_as(rounds_pb2.Feed)(Feed)
sent_as(drain_pb2.Limits)(Limits)


@sent_as(drain_pb2.DrainOrder)
@dataclass(frozen=True, slots=True)
class DrainOrder:
    """The job is drained.

    Attributes:
        repeats: how many generations of timers may be set by timers once nothing more can come,
            see ``harness.drain_timers``.
        limits: how long a slot may be at something.
    """

    run_id: str
    repeats: int
    limits: Limits = field(default_factory=Limits)


@sent_as(rounds_pb2.Orders)
@dataclass(frozen=True, slots=True)
class Orders:
    """What all slots are told in a round beside their work.

    Attributes:
        checkpoint: the checkpoint to begin with the version before the round, if one is to be.
        published: the newest checkpoint that is durable; 0 if none is.
        levels: those that are to run even if they have nothing to do.
        held: sources give nothing in this round: where they are is about to be made durable.
        drain: from now on, the job is drained.
        survey: tell how much is left inside.
        last: no round with elements follows, so the slot waits for its finalizers.
        still: the slot does nothing in this round but what these orders say: state, sources and
            time stay as they are.
        awaited: the job waits for the checkpoint: give its upload a moment before the report.
    """

    checkpoint: int | None = None
    published: int = 0
    levels: frozenset[int] = frozenset()
    held: bool = False
    drain: DrainOrder | None = None
    survey: bool = False
    last: bool = False
    still: bool = False
    awaited: bool = False


@sent_as(rounds_pb2.RoundHeader)
@dataclass(frozen=True, slots=True)
class RoundHeader(ControlMessage):
    """What a slot must know of the round that it is to run.

    Attributes:
        number: counts rounds.
        now: the round's processing time, microseconds since 1970.
        committed: the attempt that this slot prepared last and that counts; None if none does.
        expected: the producers that run in this round before the slot.
        inputs: the frontier of each input edge before this round.
        outputs: the slot's own frontier of each stage before this round, by number of the stage.
        begin: impulses are to be sent; so it is until a round of this level was committed.
        seconds: how long sources may go on.
        elements: how many elements sources and timers may make.
        feeds: by transform id, for sources that the driver plays.
        restore: what the slot makes the state from that ``committed`` names, if that may not be
            here.
        copies: slots of other hosts whose published files this slot's host is to have, too.
    """

    number: int
    level: int
    slot: int
    now: int
    committed: int | None
    expected: frozenset[Producer]
    inputs: dict[int, int]
    outputs: tuple[int, ...]
    begin: bool
    seconds: float
    elements: int
    feeds: dict[str, Feed] = field(default_factory=dict)
    orders: Orders = field(default_factory=Orders)
    restore: Inheritance | None = None
    copies: tuple[int, ...] = ()


@sent_as(drain_pb2.Missing)
@dataclass(frozen=True, slots=True)
class Missing:
    """Drain messages that a stage waits for in one slot.

    Attributes:
        stage: name of the stage.
        edge: on which they are to come.
        producers: how many producers of the edge have not sent theirs.
    """

    stage: str
    edge: int
    producers: int


@sent_as(rounds_pb2.Opened)
@dataclass(frozen=True, slots=True)
class Opened:
    """How a slot was opened with the state of a checkpoint.

    Attributes:
        seconds: that it took.
        local_bytes: the slot's host had them.
        fetched_bytes: read from the storage of checkpoints.
        told: what the user should know; empty if there is nothing.
    """

    seconds: float
    local_bytes: int
    fetched_bytes: int
    told: str = ""


@sent_as(rounds_pb2.RoundReport)
@dataclass(frozen=True, slots=True)
class RoundReport(ControlMessage):
    """A slot's account of a round.

    Attributes:
        attempt: names the version of its state that the slot has prepared.
        inputs: the attempt of each producer whose output was read.
        outputs: the output frontier of each stage, by number of the stage.
        sent: the edges on which something was sent.
        wake: the processing time at which the slot has something to do, even without input; None
            if never.
        metrics: serialized ``MonitoringInfo`` protos, over the whole life of the slot.
        sent_bytes: size of what was sent.
        dropped: elements dropped as late, over the slot's life.
        holds: what keeps the output frontier back.
        prepared_bytes: size of the prepared version.
        busy: seconds that the slot was at work.
        made: how many elements sources and timers have made, as the budget counts them.
        spent: whether the budget did not let them make more.
        waits: something waits for a checkpoint that is still to be begun.
        uploaded: how the last upload of the slot's state has ended, if it has.
        drained: for each stage, by number, whether it is drained; empty in a job that is not.
        untruncated: while the job is drained: whether restrictions still wait for truncation.
        left: what was left inside of each stage when the round began, if that was asked for.
        refused: timers that a drain has refused in the round: (transform, family, how many).
        missing: while the job is drained: the drain messages that stages still wait for.
        strangers: drain messages of other runs that came in the round, and were dropped.
        unsettled: how many acknowledgements of finalizers have not arrived yet.
        complaints: why some of them have not, in the last round.
        passed: by edge of a side input, the time up to which the slot has dropped its windows.
        opened: how the slot was opened with the state of a checkpoint, if it was; until a round
            of the slot is committed.
    """

    level: int
    slot: int
    number: int
    attempt: int
    inputs: dict[Producer, int]
    outputs: tuple[int, ...]
    sent: frozenset[int]
    wake: int | None
    metrics: list[bytes] = field(default_factory=list)
    sent_bytes: int = 0
    dropped: int = 0
    holds: tuple[Hold, ...] = ()
    prepared_bytes: int = 0
    busy: float = 0.0
    waits: bool = False
    uploaded: Uploaded | None = None
    drained: tuple[bool, ...] = ()
    left: tuple[Left, ...] = ()
    refused: tuple[tuple[str, str, int], ...] = ()
    missing: tuple[Missing, ...] = ()
    strangers: int = 0
    made: int = 0
    spent: bool = False
    unsettled: int = 0
    complaints: tuple[str, ...] = ()
    passed: dict[int, int] = field(default_factory=dict)
    untruncated: bool = False
    opened: Opened | None = None


@sent_as(rounds_pb2.Inheritance)
@dataclass(frozen=True, slots=True)
class Inheritance:
    """The state that a slot begins with, from the slots that had it before.

    Attributes:
        report: what the slot reported last, or would have.
        shards: the state of the old slots that it needs.
        before: how many slots there were.
        givers: by edge, the old slot from which all slots have the content of a side input.
    """

    report: RoundReport
    shards: tuple[ShardState, ...]
    before: int
    givers: Mapping[int, int] = field(default_factory=dict)

    def files(self, slots: int) -> tuple[FileEntry, ...]:
        """What is in storage already of the state that one of ``slots`` begins with."""
        return self.shards[0].files if self.before == slots else ()


@sent_as(rounds_pb2.AtWork)
@dataclass(frozen=True, slots=True)
class AtWork(ControlMessage):
    """What a slot is doing in a round, as far as it knows.

    Attributes:
        step: the step whose code runs; empty if none does, or if it is not known.
        key: the hash of the encoded key that the step has (CRC-32 in hex); empty if not known.
        frames: the stack, the innermost call first: file, line, function.
    """

    step: str
    key: str
    frames: tuple[tuple[str, int, str], ...]
