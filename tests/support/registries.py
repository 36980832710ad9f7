"""Beam's registries of types, which are global: what one file registers, no other one has."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from apache_beam.coders.typecoders import registry
from apache_beam.typehints.schema_registry import SCHEMA_REGISTRY

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def registries_restored() -> Iterator[None]:
    """Forget types that tests register meanwhile, and keep those of modules that are imported.

    Beam pickles all registered types with a main session. A type of a function may not be picklable
    when its test is over.
    """
    coders, ids = set(registry._coders), set(SCHEMA_REGISTRY.by_id)
    yield
    for type_ in set(registry._coders) - coders:
        if _is_of_tests(type_):
            del registry._coders[type_]
    registry.custom_types[:] = [
        type_ for type_ in registry.custom_types if type_ in coders or not _is_of_tests(type_)
    ]
    for id_ in set(SCHEMA_REGISTRY.by_id) - ids:
        if _is_of_tests(SCHEMA_REGISTRY.by_id[id_][0]):
            del SCHEMA_REGISTRY.by_id[id_]


def _is_of_tests(type_: Any) -> bool:
    """Whether a type is not one that a module of Beam or of the product has under its name."""
    if not isinstance(type_, type):
        return False
    module = type_.__module__
    found = getattr(sys.modules.get(module), type_.__qualname__, None)
    return found is not type_ or not module.startswith(("apache_beam.", "sparkdrain."))
