"""An expansion service: programs in other SDKs get the project's own transforms from it."""

from __future__ import annotations

import threading
from typing import Any, Final

from apache_beam.portability.api import beam_expansion_api_pb2, beam_expansion_api_pb2_grpc
from apache_beam.runners.portability.expansion_service import ExpansionServiceServicer
from apache_beam.transforms.fully_qualified_named_transform import (
    PYTHON_FULLY_QUALIFIED_NAMED_TRANSFORM_URN,
    FullyQualifiedNamedTransform,
)

_OURS: Final = "sparkdrain.io.kafka.*Kafka"


class Expansion(beam_expansion_api_pb2_grpc.ExpansionServiceServicer):
    """Expands ``sparkdrain.io.kafka.ReadFromKafka`` and ``WriteToKafka``, and nothing else.

    They are asked for by name, as Beam's expansion service for Python has it. What they are made
    of runs in the slots' own processes.
    """

    def __init__(self) -> None:
        self._beams = ExpansionServiceServicer()
        # Beam has one filter for all threads.
        self._lock = threading.Lock()

    def Expand(  # noqa: N802 (gRPC)
        self, request: beam_expansion_api_pb2.ExpansionRequest, context: Any
    ) -> beam_expansion_api_pb2.ExpansionResponse:
        """The transform, or an error that says which there are."""
        urn = request.transform.spec.urn
        if urn != PYTHON_FULLY_QUALIFIED_NAMED_TRANSFORM_URN:
            error = (
                f"{request.transform.unique_name!r} has the URN {urn!r}, which is not offered "
                f"here. Ask for a transform by its name, with the URN "
                f"{PYTHON_FULLY_QUALIFIED_NAMED_TRANSFORM_URN!r}: {_OURS!r}."
            )
            return beam_expansion_api_pb2.ExpansionResponse(error=error)
        with self._lock, FullyQualifiedNamedTransform.with_filter(_OURS):
            return self._beams.Expand(request, context)
