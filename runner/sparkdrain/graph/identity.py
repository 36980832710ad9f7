"""What of a plan must stay the same, so that state which was kept for it still means the same.

The code of user functions may change between two lives of a job. Where state is, whose it is and
how its bytes are written may not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_runner_api_pb2, schema_pb2
from google.protobuf.wrappers_pb2 import BytesValue

from sparkdrain.graph import urns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkdrain.graph.plan import Plan, Stage

_PICKLED = "pickled_python"
_CLASS = re.compile(rf"{_PICKLED}\[[^\]]*\]")


def identity(plan: Plan) -> dict[str, str]:
    """What must be equal, by the name under which a difference is told to the user."""
    components = beam_runner_api_pb2.Components.FromString(plan.components)
    parts: dict[str, str] = {}
    for level, stages in enumerate(plan.levels):
        for number, stage in enumerate(stages):
            names = ", ".join(id_ for id_, _ in stage.transforms)
            parts[f"stage {level}.{number}"] = names
            parts.update(_state_of(stage, components))
    for edge in plan.edges:
        collection = components.pcollections[edge.pcollection]
        parts[f"what comes to level {edge.consumer} as edge {edge.id}"] = (
            f"{edge.kind.value} of {edge.pcollection} from level {edge.producer}, "
            f"coded as {coder_text(components, collection.coder_id)}, "
            f"in {_windowing_text(components, collection.windowing_strategy_id)}"
        )
    return parts


def _state_of(
    stage: Stage, components: beam_runner_api_pb2.Components
) -> Iterator[tuple[str, str]]:
    for id_, data in stage.transforms:
        proto = beam_runner_api_pb2.PTransform.FromString(data)
        if proto.spec.urn not in urns.PAR_DO_LIKE:
            continue
        payload = beam_runner_api_pb2.ParDoPayload.FromString(proto.spec.payload)
        for tag, spec in payload.state_specs.items():
            kind = spec.WhichOneof("spec")
            fields = getattr(spec, kind)
            coders = [
                coder_text(components, value)
                for field, value in fields.ListFields()
                if field.name.endswith("coder_id")
            ]
            yield f"state {tag!r} of {id_}", f"{kind} of {', '.join(coders)}"
        for family, timer in payload.timer_family_specs.items():
            domain = beam_runner_api_pb2.TimeDomain.Enum.Name(timer.time_domain)
            yield f"timer {family!r} of {id_}", domain.lower()


def without_classes(text: str) -> str:
    """A part as checkpoints have it that were made before classes of pickled coders were told."""
    return _CLASS.sub(_PICKLED, text)


def coder_text(components: beam_runner_api_pb2.Components, id_: str) -> str:
    """A coder in words: equal for equal formats.

    Of a coder that was pickled the class is told. Its attributes are not looked into.
    """
    coder = components.coders[id_]
    urn = coder.spec.urn
    name = urn.removeprefix("beam:coder:").removesuffix(":v1")
    if urn == "beam:coder:row:v1":
        schema = schema_pb2.Schema.FromString(coder.spec.payload)
        return f"row({', '.join(_field_text(field) for field in schema.fields)})"
    if urn == python_urns.PICKLED_CODER:
        pickled = BytesValue.FromString(coder.spec.payload).value
        name = f"{_PICKLED}[{pickled.partition(b'$')[0].decode('utf-8', 'replace')}]"
    parts = [coder_text(components, part) for part in coder.component_coder_ids]
    return f"{name}({', '.join(parts)})" if parts else name


def _field_text(field: schema_pb2.Field) -> str:
    return f"{field.name}: {_type_text(field.type)}"


def _type_text(type_: schema_pb2.FieldType) -> str:
    match type_.WhichOneof("type_info"):
        case "atomic_type":
            text = schema_pb2.AtomicType.Name(type_.atomic_type).lower()
        case "array_type":
            text = f"[{_type_text(type_.array_type.element_type)}]"
        case "iterable_type":
            text = f"[{_type_text(type_.iterable_type.element_type)}]"
        case "map_type":
            of = type_.map_type
            text = f"{{{_type_text(of.key_type)}: {_type_text(of.value_type)}}}"
        case "row_type":
            text = f"({', '.join(_field_text(field) for field in type_.row_type.schema.fields)})"
        case _:
            text = type_.logical_type.urn
    return f"{text}?" if type_.nullable else text


def _windowing_text(components: beam_runner_api_pb2.Components, id_: str) -> str:
    strategy = components.windowing_strategies[id_]
    window = strategy.window_fn.urn.removeprefix("beam:window_fn:").removesuffix(":v1")
    trigger = strategy.trigger.WhichOneof("trigger")
    mode = beam_runner_api_pb2.AccumulationMode.Enum.Name(strategy.accumulation_mode).lower()
    parts = [window, str(strategy.window_fn.payload.hex()), trigger or "default", mode]
    if window.startswith("beam:window_fn:pickled") or "pickled" in window:
        del parts[1]
    return " ".join(parts)
