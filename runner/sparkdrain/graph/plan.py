"""The plan: what a driver sends to every slot. Plain values; protos travel as bytes."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NewType

from sparkdrain.v1 import plan_pb2
from sparkdrain.wire import ControlMessage, sent_as

EdgeId = NewType("EdgeId", int)
LevelIndex = NewType("LevelIndex", int)
PCollectionId = NewType("PCollectionId", str)
TransformId = NewType("TransformId", str)


class EdgeKind(enum.Enum):
    """How elements of an edge are routed, encoded and handed out again."""

    FORWARD = "forward"
    """Same slot, a later level: elements as they are."""
    SPREAD = "spread"
    """Reshuffle and Redistribute: blocks dealt out over the slots, elements as they are."""
    GROUP = "group"
    """GroupByKey: routed by key, handed out as one ``(key, values)`` per key and pane."""
    KEYED = "keyed"
    """Input of a stateful DoFn: routed by key, handed out key after key."""
    SIDE = "side"
    """Side input: collected by the driver and published to every executor."""
    BROADCAST = "broadcast"
    """Side input in streaming: every block to every slot of the consuming level."""


@sent_as(plan_pb2.Edge, kind=EdgeKind)
@dataclass(frozen=True, slots=True)
class Edge:
    """One PCollection's way from the level that produces it to one that consumes it."""

    id: EdgeId
    kind: EdgeKind
    pcollection: PCollectionId
    producer: LevelIndex
    consumer: LevelIndex
    multimap: bool = False
    """SIDE and BROADCAST only: the consumers look values up by key."""
    time_sorted: bool = False
    """KEYED only: the elements of a key are handed out in time order."""
    stable: bool = False
    """Streaming: elements wait until a checkpoint has them."""
    step: str = ""
    """Where what comes too late is dropped: the GroupByKey, or who reads the edge."""


@sent_as(plan_pb2.SideInput)
@dataclass(frozen=True, slots=True)
class SideInput:
    """One use of a SIDE or BROADCAST edge: ``transform`` reads it under ``tag``."""

    transform: TransformId
    tag: str
    edge: EdgeId
    main: EdgeId | None = None
    """Streaming: the edge whose elements wait for it."""


@sent_as(plan_pb2.Stage)
@dataclass(frozen=True, slots=True)
class Stage:
    """Transforms of one level that share a bundle: a connected part of the graph."""

    name: str
    level: LevelIndex
    transforms: tuple[tuple[TransformId, bytes], ...]
    """Serialized ``PTransform`` protos, sources and sinks included, in topological order."""
    sources: tuple[tuple[TransformId, EdgeId | None], ...]
    """Where data comes in; None stands for an impulse, or a source that the driver plays."""
    sinks: tuple[tuple[TransformId, EdgeId], ...]
    side_inputs: tuple[SideInput, ...]
    environment: str
    counted_elsewhere: tuple[PCollectionId, ...] = ()
    """What it reads and another stage counts, so that an element counts once in the metrics."""


@sent_as(plan_pb2.PlayedSource)
@dataclass(frozen=True, slots=True)
class PlayedSource:
    """One output of a TestStream: the driver feeds it, event by event."""

    transform: TransformId
    stream: str
    """Names the TestStream; its outputs share a script."""
    tag: str
    """Which events are for this output."""
    coder: str
    """Id of the coder of its elements."""
    payload: bytes
    """Serialized ``TestStreamPayload``: the script."""


@sent_as(plan_pb2.Plan)
@dataclass(frozen=True, slots=True)
class Plan(ControlMessage):
    """Everything a slot needs to know of a job, apart from which level it is to run."""

    components: bytes
    """Serialized ``beam_runner_api_pb2.Components`` without transforms."""
    levels: tuple[tuple[Stage, ...], ...]
    edges: tuple[Edge, ...]
    played: tuple[PlayedSource, ...] = ()

    def edges_into(self, level: int) -> list[Edge]:
        """The edges that stages of ``level`` read, side inputs included."""
        return [edge for edge in self.edges if edge.consumer == level]

    def edges_out_of(self, level: int) -> list[Edge]:
        """The edges that stages of ``level`` write."""
        return [edge for edge in self.edges if edge.producer == level]
