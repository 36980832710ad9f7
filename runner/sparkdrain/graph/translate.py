"""From a Beam pipeline to a plan."""

from __future__ import annotations

import copy
import itertools
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.graph import urns
from sparkdrain.graph.beam import (
    KNOWN_COMPOSITES,
    TransformContext,
    leaf_transform_stages,
    proto_utils,
)
from sparkdrain.graph.levels import Node, assign_levels
from sparkdrain.graph.passes import PASSES
from sparkdrain.graph.passes.separate_test_streams import STREAM
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
    from collections.abc import Iterable, Iterator

_SIDE_MULTIMAP = "beam:side_input:multimap:v1"


@dataclass(slots=True)
class Transform:
    """A leaf transform of the optimized pipeline."""

    id: TransformId
    proto: beam_runner_api_pb2.PTransform
    side_tags: frozenset[str] = frozenset()
    multimap_tags: frozenset[str] = frozenset()
    keyed: bool = False
    time_sorted: bool = False
    restrictions: bool = False
    """Streaming: takes restrictions, which the runner keeps between rounds."""
    gated: bool = False
    """Streaming: elements may have to wait for side inputs."""
    stable: bool = False
    """Streaming: elements wait for a checkpoint."""
    level: int = 0

    @property
    def cut(self) -> bool:
        """Whether its main input never comes from a transform of the same stage."""
        return self.keyed or self.restrictions or self.gated or self.stable

    @property
    def own_edge(self) -> str:
        """Set if no other transform may read the edge of its main input."""
        return self.id if self.restrictions or self.gated or self.stable else ""

    @property
    def inputs(self) -> list[tuple[str, PCollectionId]]:
        """By tag: the order of a map in a proto is another one in every process."""
        return [(tag, PCollectionId(name)) for tag, name in sorted(self.proto.inputs.items())]

    @property
    def main_inputs(self) -> list[PCollectionId]:
        """What is not a side input."""
        return [pcollection for tag, pcollection in self.inputs if tag not in self.side_tags]

    @property
    def outputs(self) -> list[PCollectionId]:
        """What it makes."""
        return [PCollectionId(pcollection) for pcollection in self.proto.outputs.values()]

    @property
    def is_runner(self) -> bool:
        """Whether the runner carries it out itself, between two levels."""
        return self.proto.spec.urn in urns.RUNNER


def translate(pipeline: beam_runner_api_pb2.Pipeline, *, streaming: bool = False) -> Plan:
    """The plan of ``pipeline``, which must have passed ``check``. Pure; keeps its argument.

    Args:
        pipeline: what to run.
        streaming: make a plan for rounds: whatever waits between two rounds (restrictions, main
            inputs of transforms with side inputs) stands at the beginning of a stage.
    """
    components, transforms = optimize(pipeline)
    if streaming:
        for transform in transforms:
            transform.restrictions = transform.proto.spec.urn == urns.PROCESS_RESTRICTIONS
            transform.gated = bool(transform.side_tags)
            transform.stable = requires_stable_input(transform.proto)
    ordered = _topological(transforms)
    _place(ordered)
    return _Planner(components, ordered).plan()


def requires_stable_input(proto: beam_runner_api_pb2.PTransform) -> bool:
    """Whether a transform must never see other elements when it is run again."""
    if proto.spec.urn not in urns.PAR_DO_LIKE:
        return False
    payload = proto_utils.parse_Bytes(proto.spec.payload, beam_runner_api_pb2.ParDoPayload)
    return bool(payload.requires_stable_input)


def optimize(
    pipeline: beam_runner_api_pb2.Pipeline,
) -> tuple[beam_runner_api_pb2.Components, list[Transform]]:
    """Run all passes; the leaves that are left, and the components they refer to."""
    pipeline = copy.deepcopy(pipeline)
    # Fusion and the passes ask whether two transforms share an environment by its id.
    context = TransformContext(pipeline.components, known_runner_urns=urns.RUNNER)
    stages = list(
        leaf_transform_stages(
            pipeline.root_transform_ids,
            pipeline.components,
            known_composites=KNOWN_COMPOSITES | urns.RUNNER,
        )
    )
    for rewrite in PASSES:
        stages = list(rewrite(stages, context))
    leaves = [transform for stage in stages for transform in stage.transforms]
    ids = _unique_ids(leaf.unique_name for leaf in leaves)
    return context.components, [_describe(id_, leaf) for id_, leaf in zip(ids, leaves, strict=True)]


def _unique_ids(names: Iterable[str]) -> Iterator[TransformId]:
    seen: set[str] = set()
    for name in names:
        id_ = next(
            candidate
            for candidate in itertools.chain([name], (f"{name}#{n}" for n in itertools.count(2)))
            if candidate not in seen
        )
        seen.add(id_)
        yield TransformId(id_)


def _describe(id_: TransformId, proto: beam_runner_api_pb2.PTransform) -> Transform:
    if proto.spec.urn not in urns.PAR_DO_LIKE:
        return Transform(id_, proto)
    payload = proto_utils.parse_Bytes(proto.spec.payload, beam_runner_api_pb2.ParDoPayload)
    keyed = bool(payload.state_specs or payload.timer_family_specs)
    return Transform(
        id_,
        proto,
        side_tags=frozenset(payload.side_inputs),
        multimap_tags=frozenset(
            tag
            for tag, side in payload.side_inputs.items()
            if side.access_pattern.urn == _SIDE_MULTIMAP
        ),
        keyed=keyed or payload.requires_time_sorted_input,
        time_sorted=payload.requires_time_sorted_input,
    )


def _topological(transforms: list[Transform]) -> list[Transform]:
    producer = {output: t for t in transforms for output in t.outputs}
    ordered: list[Transform] = []
    seen: set[str] = set()
    for root in transforms:
        stack = [(root, False)]
        while stack:
            transform, expanded = stack.pop()
            if expanded:
                ordered.append(transform)
            elif transform.id not in seen:
                seen.add(transform.id)
                stack.append((transform, True))
                stack.extend((producer[pcollection], False) for _, pcollection in transform.inputs)
    return ordered


def _place(ordered: list[Transform]) -> None:
    """Set every level. A runner transform has the level of the stage that writes to it."""
    producer = {output: t for t in ordered for output in t.outputs}
    nodes = []
    for transform in ordered:
        inputs: dict[str, int] = {}
        for tag, pcollection in transform.inputs:
            source = producer[pcollection]
            barrier = int(
                source.is_runner
                or tag in transform.side_tags
                # A key partitioning stands before a stateful DoFn, restrictions are dealt out.
                or transform.cut
            )
            inputs[source.id] = max(inputs.get(source.id, 0), barrier)
        nodes.append(Node(transform.id, inputs))
    levels = assign_levels(nodes)
    for transform in ordered:
        transform.level = levels[transform.id]


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


class _Planner:
    def __init__(
        self, components: beam_runner_api_pb2.Components, ordered: list[Transform]
    ) -> None:
        self._components = components
        self._ordered = ordered
        self._producer = {output: t for t in ordered for output in t.outputs}
        self._edges: list[Edge] = []
        # One edge serves all consumers of a PCollection that want it the same way.
        self._edge_ids: dict[tuple[EdgeKind, str, int, bool, bool, str], EdgeId] = {}

    def plan(self) -> Plan:
        parts = self._connect()
        by_level: dict[int, list[Stage]] = defaultdict(list)
        self._cut(parts)
        for part in parts:
            stage = self._stage(part)
            by_level[stage.level].append(stage)
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

    def _harness_transforms(self) -> list[Transform]:
        return [t for t in self._ordered if not t.is_runner]

    def _fused(self, producer: Transform, consumer: Transform) -> bool:
        return not producer.is_runner and not consumer.cut and producer.level == consumer.level

    def _connect(self) -> list[_Part]:
        """Transforms joined by fused edges make a part (union-find over the level graph)."""
        leader: dict[str, str] = {t.id: t.id for t in self._harness_transforms()}
        readers: dict[tuple[str, int, bool, bool, str], str] = {}

        def find(name: str) -> str:
            while leader[name] != name:
                leader[name] = leader[leader[name]]
                name = leader[name]
            return name

        for transform in self._harness_transforms():
            for pcollection in transform.main_inputs:
                source = self._producer[pcollection]
                if self._fused(source, transform):
                    leader[find(transform.id)] = find(source.id)
                else:
                    # Readers of one edge share its source.
                    reader = readers.setdefault(
                        (
                            pcollection,
                            transform.level,
                            transform.keyed,
                            transform.time_sorted,
                            transform.own_edge,
                        ),
                        transform.id,
                    )
                    leader[find(transform.id)] = find(reader)
        parts: dict[str, _Part] = {}
        for transform in self._harness_transforms():
            parts.setdefault(find(transform.id), _Part([])).transforms.append(transform)
        return list(parts.values())

    def _cut(self, parts: list[_Part]) -> None:
        part_of = {t.id: part for part in parts for t in part.transforms}
        for part in parts:
            for transform in part.transforms:
                if transform.proto.spec.urn in urns.ROOTS:
                    part.sources.append((transform.id, None))
                inputs = transform.inputs
                if transform.gated:
                    # Side inputs first, so that they can be told the main input's edge.
                    inputs.sort(key=lambda tagged: tagged[0] not in transform.side_tags)
                for tag, pcollection in inputs:
                    self._cut_input(part_of, part, transform, tag, pcollection)

    def _cut_input(
        self,
        part_of: dict[TransformId, _Part],
        part: _Part,
        transform: Transform,
        tag: str,
        pcollection: PCollectionId,
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
        edge = self._edge(part_of, kind, pcollection, transform, tag)
        if tag in transform.side_tags:
            part.side_inputs.append(SideInput(transform.id, tag, edge))
            return
        name = self._name_in(part, pcollection, edge)
        transform.proto.inputs[tag] = name
        self._add_source(part, edge, name)
        if transform.gated:
            part.side_inputs = [
                replace(side, main=edge) if side.transform == transform.id else side
                for side in part.side_inputs
            ]

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
        self,
        part_of: dict[TransformId, _Part],
        kind: EdgeKind,
        pcollection: PCollectionId,
        consumer: Transform,
        tag: str,
    ) -> EdgeId:
        """The edge on which ``consumer`` reads ``pcollection``, made at its first use."""
        multimap = tag in consumer.multimap_tags
        time_sorted = kind is EdgeKind.KEYED and consumer.time_sorted
        # A side input is published once, whoever reads it; in streaming, once for each level.
        level = -1 if kind is EdgeKind.SIDE else consumer.level
        own = "" if tag in consumer.side_tags else consumer.own_edge
        key = (kind, pcollection, level, multimap, time_sorted, own)
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
        self._add_sink(part_of[writer.id], edge)
        return edge.id

    def _add_sink(self, part: _Part, edge: Edge) -> None:
        id_ = TransformId(f"edge {edge.id}/Write")
        part.sinks.append((id_, edge.id))
        part.ends.append(
            beam_runner_api_pb2.PTransform(
                unique_name=id_,
                spec=beam_runner_api_pb2.FunctionSpec(urn=urns.SINK, payload=str(edge.id).encode()),
                inputs={"in": edge.pcollection},
            )
        )

    def _add_source(self, part: _Part, edge: EdgeId, pcollection: PCollectionId) -> None:
        id_ = TransformId(f"edge {edge}/Read")
        if any(source == id_ for source, _ in part.sources):
            return
        part.sources.append((id_, edge))
        part.ends.append(
            beam_runner_api_pb2.PTransform(
                unique_name=id_,
                spec=beam_runner_api_pb2.FunctionSpec(urn=urns.SOURCE, payload=str(edge).encode()),
                outputs={"out": pcollection},
            )
        )

    def _stage(self, part: _Part) -> Stage:
        first = part.transforms[0]
        protos = [(t.id, t.proto) for t in part.transforms if t.proto.spec.urn not in urns.ROOTS]
        roots = [
            (
                t.id,
                beam_runner_api_pb2.PTransform(
                    unique_name=t.proto.unique_name,
                    spec=beam_runner_api_pb2.FunctionSpec(urn=urns.SOURCE),
                    outputs=t.proto.outputs,
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
        )
