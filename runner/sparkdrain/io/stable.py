"""A ParDo whose DoFn has effects outside of the job, and must never see other elements again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import apache_beam as beam
from apache_beam.portability import common_urns
from typing_extensions import override

if TYPE_CHECKING:
    from apache_beam.runners.pipeline_context import PipelineContext

SINK: Final = "sparkdrain:exactly_once_sink"
"""Annotation of a transform that writes exactly once: a name that no other one may have."""
OVERRULED: Final = "sparkdrain:overruled_sinks"
"""Annotation beside ``SINK``: the names that an option has, of sinks in the pipeline; JSON."""
_REQUIREMENT = common_urns.requirements.REQUIRES_STABLE_INPUT.urn


class StableParDo(beam.ParDo):
    """``beam.ParDo``, with stable input (``beam:requirement:pardo:stable_input:v1``).

    In a streaming job of SparkDrainRunner an element waits until a checkpoint has it. It may still
    come more than once: after a loss, the same elements come again, in the same order for each
    key. The Python SDK has no way of its own to ask for this.

    A DoFn that has a method ``more_is_safe`` is told by it, before ``finish_bundle``, whether
    further elements are to come that the newest checkpoint has: they may be too many for a bundle.
    Until it is told it has to assume so.
    """

    @override
    def to_runner_api_parameter(self, context: PipelineContext, **extra: Any) -> tuple[str, Any]:
        urn, payload = super().to_runner_api_parameter(context, **extra)
        payload.requires_stable_input = True
        context.add_requirement(_REQUIREMENT)
        return urn, payload
