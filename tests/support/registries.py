"""Beam's registries of types, which are global: what one file registers, no other one has."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from apache_beam.coders.typecoders import registry
from apache_beam.typehints.schema_registry import SCHEMA_REGISTRY
from apache_beam.typehints.schemas import LogicalType

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def registries_restored() -> Iterator[None]:
    """Forget types that are registered meanwhile.

    Beam pickles all registered types with a main session. A type of a function may not be picklable
    when its test is over.
    """
    found = (registry, SCHEMA_REGISTRY, LogicalType._known_logical_types)
    before = [(each, _copied(vars(each))) for each in found]
    yield
    for each, content in before:
        vars(each).update(content)


def _copied(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: type(value)(value)
        for name, value in fields.items()
        if isinstance(value, (dict, list, set))
    }
