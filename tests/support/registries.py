"""Beam's registries of types, which are global: what one file registers, no other one has."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from apache_beam.coders.typecoders import registry
from apache_beam.typehints.schema_registry import SCHEMA_REGISTRY

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def registries_restored() -> Iterator[None]:
    """Forget types that are registered meanwhile.

    Beam pickles all registered types with a main session. A type of a function may not be picklable
    when its test is over.
    """
    tables = (registry._coders, SCHEMA_REGISTRY.by_id, SCHEMA_REGISTRY.by_typing)
    before, custom = [dict(table) for table in tables], list(registry.custom_types)
    yield
    for table, content in zip(tables, before, strict=True):
        table.clear()
        table.update(content)
    registry.custom_types[:] = custom
