"""Which exchanges run as Beam wrote them, step by step, and not as the runner's own."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from apache_beam.options.pipeline_options import PipelineOptions

from sparkdrain.graph import urns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apache_beam.portability.api import beam_runner_api_pb2

_ENCRYPTS: Final = "gbek"
_VERSION: Final = "update_compatibility_version"
_KEEPS_PANES: Final = "2.65.0"
"""From this release on, Beam's Reshuffle keeps the panes of its elements, as the runner's does."""


def as_written(
    pipeline: beam_runner_api_pb2.Pipeline, options: Mapping[str, Any]
) -> beam_runner_api_pb2.Pipeline:
    """The pipeline, with exchanges taken apart if its options ask for what is inside of them.

    An exchange of the runner hands elements on as they are. Beam's own steps do something else
    with ``--update_compatibility_version`` before 2.65.0 (they drop panes), and with ``--gbek``
    (they encrypt). Keeps its argument.

    Args:
        pipeline: as submitted.
        options: the pipeline's options, by plain name.
    """
    if not _changes_exchanges(options):
        return pipeline
    written = copy.deepcopy(pipeline)
    for transform in written.components.transforms.values():
        if transform.spec.urn in urns.EXCHANGES and transform.subtransforms:
            transform.spec.Clear()
    return written


def _changes_exchanges(options: Mapping[str, Any]) -> bool:
    if options.get(_ENCRYPTS):
        return True
    version = options.get(_VERSION)
    if not version:
        return False
    asked = PipelineOptions.from_dictionary({_VERSION: version})
    return bool(asked.is_compat_version_prior_to(_KEEPS_PANES))
