"""What a slot tells the driver when its task ends."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparkdrain.stages.telling.warned import Warned
from sparkdrain.v1 import levels_pb2
from sparkdrain.wire import ControlMessage, sent_as

sent_as(levels_pb2.Warned)(Warned)


@sent_as(levels_pb2.SlotReport)
@dataclass(frozen=True, slots=True)
class SlotReport(ControlMessage):
    """The account of one task; control data only, never elements."""

    level: int
    slot: int
    attempt: int
    inputs: dict[tuple[int, int], int]
    """The attempt of each producer (level, slot) whose output was read."""
    side_bytes: dict[int, int]
    """Bytes written per side-input partition."""
    metrics: list[bytes] = field(default_factory=list)
    """Serialized ``MonitoringInfo`` protos."""
    elements: int = 0
    sent_bytes: int = 0
    spilled: int = 0
    gifts: int = 0
    """How many times restrictions were given away to other slots."""
    handled: int = 0
    """Elements of each stage's busiest PCollection."""
    warned: tuple[Warned, ...] = ()
    """What the program is to hear."""
