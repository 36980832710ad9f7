"""Every piece of Beam's optimizer that we use; an upgrade of Beam is checked here."""

from __future__ import annotations

from apache_beam.portability import common_urns, python_urns
from apache_beam.runners.portability.fn_api_runner.translations import (
    KNOWN_COMPOSITES,
    Stage,
    TransformContext,
    expand_sdf,
    leaf_transform_stages,
    lift_combiners,
    pack_combiners,
)
from apache_beam.transforms.environments import expand_anyof_environments
from apache_beam.utils import proto_utils

__all__ = [
    "KNOWN_COMPOSITES",
    "Stage",
    "TransformContext",
    "common_urns",
    "expand_anyof_environments",
    "expand_sdf",
    "leaf_transform_stages",
    "lift_combiners",
    "pack_combiners",
    "proto_utils",
    "python_urns",
]
