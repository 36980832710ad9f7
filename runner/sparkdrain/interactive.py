"""Pipelines of Beam's ``InteractiveRunner``, which notebooks use."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from apache_beam.portability.api.beam_runner_api_pb2 import Pipeline

_REIFY: Final = "apache_beam.runners.interactive.caching.reify"


def is_read_at_once(pipeline: Pipeline) -> bool:
    """Whether what a pipeline writes is read as soon as ``run`` has returned.

    ``interactive_beam.collect`` reads the files of its cache then, and waits for no job.
    """
    reify = sys.modules.get(_REIFY)
    if reify is None:
        return False  # Interactive Beam is not in use, and is slow to import
    return any(
        part.startswith(reify.WRITE_CACHE)
        for transform in pipeline.components.transforms.values()
        for part in transform.unique_name.split("/")
    )
