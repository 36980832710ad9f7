"""Plans and stages as text, for people and for golden files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.graph import urns
from sparkdrain.graph.plan import Edge, EdgeKind, Plan, Stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PTransform = beam_runner_api_pb2.PTransform


def plan_text(plan: Plan) -> str:
    """Every level with its stages, then every edge."""
    lines: list[str] = []
    for number, stages in enumerate(plan.levels):
        lines.append(f"level {number}")
        for stage in sorted(stages, key=lambda stage: stage.name):
            lines += [f"  stage {stage.name}", *(f"    {line}" for line in _stage(stage))]
    lines += [_edge(edge) for edge in plan.edges]
    return "\n".join(lines)


def _stage(stage: Stage) -> Iterator[str]:
    impulses = {id_ for id_, edge in stage.sources if edge is None}
    producers = {}
    protos = {}
    for id_, serialized in stage.transforms:
        protos[id_] = PTransform.FromString(serialized)
        producers.update(dict.fromkeys(protos[id_].outputs.values(), id_))
    sides = {(side.transform, side.tag): side.edge for side in stage.side_inputs}
    for id_, proto in protos.items():
        if proto.spec.urn == urns.SOURCE and id_ not in impulses:
            continue
        what = "impulse" if id_ in impulses else _urn(proto)
        main = [producers[p] for tag, p in proto.inputs.items() if (id_, tag) not in sides]
        reads = [f"{tag}: edge {sides[id_, tag]}" for tag in proto.inputs if (id_, tag) in sides]
        yield f"{_short(id_)} ({what})" + _from([*sorted(map(_short, main)), *sorted(reads)])


def _edge(edge: Edge) -> str:
    to = f"{edge.consumer}" if edge.kind is not EdgeKind.SIDE else "side file"
    notes = ", multimap" * edge.multimap + ", time sorted" * edge.time_sorted
    return f"edge {edge.id}: {edge.kind.value}, level {edge.producer} -> {to}{notes}"


def stages_text(stages: Iterable[Any]) -> str:
    """Beam's stages of one transform each, every input by what produces it."""
    transforms = [transform for stage in stages for transform in stage.transforms]
    producers = {p: t.unique_name for t in transforms for p in t.outputs.values()}
    return "\n".join(
        f"{t.unique_name} ({_urn(t)})" + _from(sorted(producers[p] for p in t.inputs.values()))
        for t in transforms
    )


def _urn(proto: PTransform) -> str:
    # "beam:transform:pardo:v1" is "pardo".
    return proto.spec.urn.rpartition(":")[0].rpartition(":")[2]


def _short(id_: str) -> str:
    return id_.removesuffix("/Read") if id_.startswith("edge ") else id_


def _from(inputs: Iterable[str]) -> str:
    listed = ", ".join(inputs)
    return f" <- {listed}" if listed else ""
