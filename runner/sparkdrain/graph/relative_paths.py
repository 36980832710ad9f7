"""The relative paths that the files of a pipeline have. Pure."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from apache_beam.io.filesystems import FileSystems
from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.graph.beam import common_urns

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILE_PATTERN: Final = "file_pattern"
"""Under this key Beam's file sources and sinks display where they read and write."""
_LABELLED: Final[str] = common_urns.displayData.LABELLED.urn


def relative_paths(pipeline: beam_runner_api_pb2.Pipeline) -> dict[str, str]:
    """Step by relative path, for each file source and sink that displays one.

    Patterns that are elements (``ReadAllFromText``) are known to the workers only.
    """
    found: dict[str, str] = {}
    for transform in pipeline.components.transforms.values():
        for path in _displayed(transform):
            step = min(transform.unique_name, found.get(path, transform.unique_name), key=len)
            if FileSystems.get_scheme(path) is None and not os.path.isabs(path):
                found[path] = step
    return found


def _displayed(transform: beam_runner_api_pb2.PTransform) -> Iterator[str]:
    for data in transform.display_data:
        if data.urn != _LABELLED:
            continue
        payload = beam_runner_api_pb2.LabelledPayload.FromString(data.payload)
        if payload.key == _FILE_PATTERN and payload.string_value:
            yield payload.string_value
