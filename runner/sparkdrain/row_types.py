"""Types of the program that Beam encodes as rows, so that workers decode rows as these types.

A row coder in a pipeline names its type by an id that only the registry of the program's process
knows. A process that does not know the id makes up a type with the same fields.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from apache_beam.coders import RowCoder, registry
from apache_beam.internal import cloudpickle_pickler
from apache_beam.portability import common_urns
from apache_beam.portability.api import schema_pb2
from apache_beam.typehints.schema_registry import SCHEMA_REGISTRY

from sparkdrain.v1 import row_types_pb2
from sparkdrain.wire import ControlMessage, sent_as

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from apache_beam.portability.api import beam_runner_api_pb2

_LOGGER = logging.getLogger(__name__)
_SCHEMA_ID: Final = "_beam_schema_id"
"""The attribute under which Beam keeps the id of a type's schema."""

FILE_NAME: Final = "sparkdrain_row_types"
"""Under which the file is staged."""


@sent_as(row_types_pb2.RowTypes)
@dataclass(frozen=True, slots=True)
class RowTypes(ControlMessage):
    """What the file has.

    Attributes:
        types: for each type its name, its schema as Beam serializes it, and the pickled type.
    """

    types: tuple[tuple[str, bytes, bytes], ...]


def pickled_row_types(pipeline: beam_runner_api_pb2.Pipeline) -> bytes:
    """The program's own types in the row coders of a pipeline, for ``install``; empty if none."""
    schemas = {
        schema.id: schema
        for coder in pipeline.components.coders.values()
        if coder.spec.urn == common_urns.coders.ROW.urn
        for schema in _with_nested(schema_pb2.Schema.FromString(coder.spec.payload))
    }
    rows = []
    for id_, schema in sorted(schemas.items()):
        type_ = SCHEMA_REGISTRY.get_typing_by_id(id_)
        if type_ is not None and not _is_generated(type_, id_):
            rows += _pickled(type_, schema)
    return RowTypes(tuple(rows)).encode()


def install(path: Path) -> None:
    """Make the types in a file known to Beam in this process."""
    for name, schema, data in RowTypes.decode(path.read_bytes()).types:
        try:
            type_ = cloudpickle_pickler.loads(data)
        except Exception as error:  # noqa: BLE001 - whatever its module does when it is imported
            _LOGGER.warning(
                "The row type %s is not known to this worker: %r. Its rows come as a generated "
                "type. Install its module on the workers, or send it with --setup_file or "
                "--extra_package.",
                name,
                error,
            )
            continue
        parsed = schema_pb2.Schema.FromString(schema)
        setattr(type_, _SCHEMA_ID, parsed.id)
        SCHEMA_REGISTRY.add(type_, parsed)
        registry.register_coder(type_, RowCoder)


def _pickled(type_: type, schema: schema_pb2.Schema) -> list[tuple[str, bytes, bytes]]:
    # One by one: a type that a worker cannot load must not hide the others.
    name = f"{type_.__module__}.{type_.__qualname__}"
    try:
        data: bytes = cloudpickle_pickler.dumps(type_)
    except Exception as error:  # noqa: BLE001 - it refers to whatever it likes
        _LOGGER.warning(
            "The row type %s cannot be sent to workers: %r. Its rows come as a generated type. "
            "Define it in a module that the workers have.",
            name,
            error,
        )
        return []
    return [(name, schema.SerializeToString(), data)]


def _is_generated(type_: type, id_: str) -> bool:
    return type_.__name__ == f"BeamSchema_{id_.replace('-', '_')}"


def _with_nested(schema: schema_pb2.Schema) -> Iterator[schema_pb2.Schema]:
    yield schema
    for field in schema.fields:
        yield from _in_type(field.type)


def _in_type(type_: schema_pb2.FieldType) -> Iterator[schema_pb2.Schema]:
    kind = type_.WhichOneof("type_info")
    parts: list[Any] = []
    if kind == "row_type":
        yield from _with_nested(type_.row_type.schema)
    elif kind in {"array_type", "iterable_type"}:
        parts = [getattr(type_, kind).element_type]
    elif kind == "map_type":
        parts = [type_.map_type.key_type, type_.map_type.value_type]
    elif kind == "logical_type":
        parts = [type_.logical_type.representation]
    for part in parts:
        yield from _in_type(part)
