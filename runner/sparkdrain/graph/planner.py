"""Cuts transforms whose levels are known into stages, and joins these by edges."""

from __future__ import annotations

import copy
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.graph import urns
from sparkdrain.graph.optimize import STREAM
from sparkdrain.graph.plan import (
    Edge,
    EdgeId,
    EdgeKind,
    LevelIndex,
    PCollectionId,
    Plan,
    PlayedSource,
    SideInput,
    Stage,
    TransformId,
)

if TYPE_CHECKING:
    from sparkdrain.graph.transform import Transform


@dataclass(slots=True)
class _Part:
    """What one stage will consist of, while its edges are being found."""

    transforms: list[Transform]
    sources: list[tuple[TransformId, EdgeId | None]] = field(default_factory=list)
    sinks: list[tuple[TransformId, EdgeId]] = field(default_factory=list)
    side_inputs: list[SideInput] = field(default_factory=list)
    ends: list[beam_runner_api_pb2.PTransform] = field(default_factory=list)
    read_by: dict[PCollectionId, EdgeId] = field(default_factory=dict)
    """The edge through which a PCollection comes in under its own name."""
    counted_elsewhere: list[PCollectionId] = field(default_factory=list)


class Planner:
    """Makes one plan; ``ordered`` are its transforms, producers before consumers."""

    def __init__(
        self, components: beam_runner_api_pb2.Components, ordered: list[Transform]
    ) -> None:
        self._components = components
        self._ordered = ordered
        self._in_harness = [t for t in ordered if not t.is_runner]
        self._producer = {output: t for t in ordered for output in t.outputs}
        # The part that a transform is in.
        self._part_of: dict[TransformId, _Part] = {}
        self._edges: list[Edge] = []
        # One edge serves all consumers of a PCollection that want it the same way.
        self._edge_ids: dict[tuple[EdgeKind, str, int, bool, bool, str, str], EdgeId] = {}
        # What no stage makes is counted by the first that reads it.
        self._counted: set[PCollectionId] = set()

    def plan(self) -> Plan:
        """The plan; to be called once."""
        parts = self._connect()
        by_level: dict[int, list[Stage]] = defaultdict(list)
        self._cut(parts)
        for part in parts:
            by_level[part.transforms[0].level].append(self._stage(part))
        levels = tuple(tuple(by_level[i]) for i in range(max(by_level, default=-1) + 1))
        components = copy.deepcopy(self._components)
        components.transforms.clear()
        return Plan(components.SerializeToString(), levels, tuple(self._edges), self._played())

    def _played(self) -> tuple[PlayedSource, ...]:
        played = []
        for transform in self._ordered:
            if transform.proto.spec.urn == urns.TEST_STREAM:
                payload = transform.proto.spec.payload
                script = beam_runner_api_pb2.TestStreamPayload.FromString(payload)
                (tag,) = transform.proto.outputs
                stream = transform.proto.annotations[STREAM].decode()
                played.append(PlayedSource(transform.id, stream, tag, script.coder_id, payload))
        return tuple(played)

    def _fused(self, producer: Transform, consumer: Transform) -> bool:
        return not producer.is_runner and not consumer.cut and producer.level == consumer.level

    def _connect(self) -> list[_Part]:
        """Transforms joined by fused edges make a part (union-find over the level graph)."""
        leader: dict[str, str] = {t.id: t.id for t in self._in_harness}
        readers: dict[tuple[str, int, bool, bool, str, str], str] = {}

        def find(name: str) -> str:
            while leader[name] != name:
                leader[name] = leader[leader[name]]
                name = leader[name]
            return name

        for t in self._in_harness:
            for pcollection in t.main_inputs:
                source = self._producer[pcollection]
                if self._fused(source, t):
                    leader[find(t.id)] = find(source.id)
                else:
                    # Readers of one edge share its source.
                    key = (pcollection, t.level, t.keyed, t.time_sorted, t.own_edge, t.place)
                    leader[find(t.id)] = find(readers.setdefault(key, t.id))
        parts: dict[str, _Part] = {}
        for transform in self._in_harness:
            parts.setdefault(find(transform.id), _Part([])).transforms.append(transform)
        return list(parts.values())

    def _cut(self, parts: list[_Part]) -> None:
        self._part_of = {t.id: part for part in parts for t in part.transforms}
        for part in parts:
            for transform in part.transforms:
                if transform.proto.spec.urn in urns.ROOTS:
                    part.sources.append((transform.id, None))
                inputs = transform.inputs
                if transform.gated:
                    # Side inputs first, so that they can be told the main input's edge.
                    inputs.sort(key=lambda tagged: tagged[0] not in transform.side_tags)
                for tag, pcollection in inputs:
                    self._cut_input(part, transform, tag, pcollection)

    def _cut_input(
        self, part: _Part, transform: Transform, tag: str, pcollection: PCollectionId
    ) -> None:
        source = self._producer[pcollection]
        if tag in transform.side_tags:
            kind = EdgeKind.BROADCAST if transform.gated else EdgeKind.SIDE
        elif self._fused(source, transform):
            return
        elif transform.keyed:
            kind = EdgeKind.KEYED
        elif transform.restrictions and not source.is_runner:
            kind = EdgeKind.SPREAD
        elif not source.is_runner:
            kind = EdgeKind.FORWARD
        elif source.proto.spec.urn in urns.EXCHANGES:
            kind = EdgeKind.SPREAD
        else:
            kind = EdgeKind.GROUP
        edge = self._edge(kind, pcollection, transform, tag)
        if tag in transform.side_tags:
            part.side_inputs.append(SideInput(transform.id, tag, edge))
            return
        name = self._name_in(part, pcollection, edge)
        transform.proto.inputs[tag] = name
        if self._add_source(part, edge, name):
            self._settle_who_counts(part, pcollection, name)
        if transform.gated:
            part.side_inputs = [
                replace(side, main=edge) if side.transform == transform.id else side
                for side in part.side_inputs
            ]

    def _settle_who_counts(
        self, part: _Part, pcollection: PCollectionId, name: PCollectionId
    ) -> None:
        """A stage counts its own output, and the first reader that of a runner's transform."""
        if pcollection in self._counted or not self._producer[pcollection].is_runner:
            part.counted_elsewhere.append(name)
        self._counted.add(pcollection)

    def _name_in(self, part: _Part, pcollection: PCollectionId, edge: EdgeId) -> PCollectionId:
        """What a PCollection is called in a part that reads it through ``edge``.

        One that is read through several edges has several names: what comes in through one of
        them is for that one's readers only.
        """
        if part.read_by.setdefault(pcollection, edge) == edge:
            return pcollection
        name = PCollectionId(f"{pcollection} of edge {edge}")
        self._components.pcollections[name].CopyFrom(self._components.pcollections[pcollection])
        return name

    def _edge(
        self, kind: EdgeKind, pcollection: PCollectionId, consumer: Transform, tag: str
    ) -> EdgeId:
        """The edge on which ``consumer`` reads ``pcollection``, made at its first use."""
        multimap = tag in consumer.multimap_tags
        time_sorted = kind is EdgeKind.KEYED and consumer.time_sorted
        # A side input is published once for all its readers; in streaming, once for each level.
        level = -1 if kind is EdgeKind.SIDE else consumer.level
        own = "" if tag in consumer.side_tags else consumer.own_edge
        # What readers in several places share is written for all of them.
        place = "" if tag in consumer.side_tags else consumer.place
        key = (kind, pcollection, level, multimap, time_sorted, own, place)
        if key in self._edge_ids:
            return self._edge_ids[key]
        source = self._producer[pcollection]
        written = source.main_inputs[0] if source.is_runner else pcollection
        writer = self._producer[written]
        edge = Edge(
            EdgeId(len(self._edges)),
            kind,
            written,
            LevelIndex(writer.level),
            LevelIndex(consumer.level),
            multimap,
            time_sorted,
            consumer.stable and tag not in consumer.side_tags,
            source.id if kind is EdgeKind.GROUP else consumer.id,
        )
        self._edge_ids[key] = edge.id
        self._edges.append(edge)
        part, id_ = self._part_of[writer.id], TransformId(f"edge {edge.id}/Write")
        part.sinks.append((id_, edge.id))
        part.ends.append(_end(id_, urns.SINK, edge.id, inputs={"in": written}))
        return edge.id

    def _add_source(self, part: _Part, edge: EdgeId, pcollection: PCollectionId) -> bool:
        """Have a part read an edge; whether it did not yet."""
        id_ = TransformId(f"edge {edge}/Read")
        if any(source == id_ for source, _ in part.sources):
            return False
        part.sources.append((id_, edge))
        part.ends.append(_end(id_, urns.SOURCE, edge, outputs={"out": pcollection}))
        return True

    def _stage(self, part: _Part) -> Stage:
        first = part.transforms[0]
        protos = [(t.id, t.proto) for t in part.transforms if t.proto.spec.urn not in urns.ROOTS]
        source = beam_runner_api_pb2.FunctionSpec(urn=urns.SOURCE)
        roots = [
            (
                t.id,
                beam_runner_api_pb2.PTransform(
                    unique_name=t.proto.unique_name, spec=source, outputs=t.proto.outputs
                ),
            )
            for t in part.transforms
            if t.proto.spec.urn in urns.ROOTS
        ]
        ends = [(TransformId(end.unique_name), end) for end in part.ends]
        environments = {t.proto.environment_id for t in part.transforms} - {""}
        return Stage(
            name=first.proto.unique_name,
            level=LevelIndex(first.level),
            transforms=tuple(
                (id_, proto.SerializeToString()) for id_, proto in roots + protos + ends
            ),
            sources=tuple(part.sources),
            sinks=tuple(part.sinks),
            side_inputs=tuple(part.side_inputs),
            environment=next(iter(environments), ""),
            counted_elsewhere=tuple(part.counted_elsewhere),
        )


def _end(
    id_: TransformId, urn: str, edge: EdgeId, **ports: dict[str, str]
) -> beam_runner_api_pb2.PTransform:
    spec = beam_runner_api_pb2.FunctionSpec(urn=urn, payload=str(edge).encode())
    return beam_runner_api_pb2.PTransform(unique_name=id_, spec=spec, **ports)
