"""Transforms that an expansion service expands; here it is one for Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
import pytest
from apache_beam.portability.api import (
    beam_artifact_api_pb2_grpc,
    beam_expansion_api_pb2_grpc,
)
from apache_beam.runners.portability import (
    artifact_service,
    expansion_service,
    expansion_service_test,  # noqa: F401 - has the transforms
)
from apache_beam.testing import test_pipeline
from apache_beam.transforms import validate_runner_xlang_test as suites
from apache_beam.utils import thread_pool_executor
from pipelines import flags

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def expansion_port() -> Iterator[int]:
    """Where an expansion service listens."""
    server = grpc.server(thread_pool_executor.shared_unbounded_instance())
    beam_expansion_api_pb2_grpc.add_ExpansionServiceServicer_to_server(
        expansion_service.ExpansionServiceServicer(), server
    )
    beam_artifact_api_pb2_grpc.add_ArtifactRetrievalServiceServicer_to_server(
        artifact_service.ArtifactRetrievalService(
            artifact_service.BeamFilesystemHandler(None).file_reader
        ),
        server,
    )
    port = server.add_insecure_port("localhost:0")
    server.start()
    yield port
    server.stop(None)


@pytest.fixture(autouse=True)
def _pipelines_run_here(monkeypatch: pytest.MonkeyPatch, expansion_port: int) -> None:
    monkeypatch.setattr(
        test_pipeline.TestPipeline, "pytest_test_pipeline_options", " ".join(flags("on"))
    )
    monkeypatch.setenv("EXPANSION_PORT", str(expansion_port))


class ExpandedInPythonSuite(suites.ValidateRunnerXlangTest):
    """As it is."""

    __unittest_skip__ = False
