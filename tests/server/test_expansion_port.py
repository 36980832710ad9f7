"""The expansion service of a server: it has the project's own transforms, and no other."""

from __future__ import annotations

import apache_beam as beam
import grpc
import pytest
from apache_beam.portability.api import beam_expansion_api_pb2, beam_expansion_api_pb2_grpc
from apache_beam.transforms.fully_qualified_named_transform import FullyQualifiedNamedTransform

READ = "sparkdrain.io.kafka.ReadFromKafka"


@pytest.fixture
def expanded(at_server):
    """Has a transform expanded at a server; the pipeline with it."""
    server = at_server(expansion_port=0).server

    def expand(name, **arguments):
        named = FullyQualifiedNamedTransform(name, (), arguments)
        urn, payload = named.to_runner_api_parameter(None)
        pipeline = beam.Pipeline()
        where = server.expansion_endpoint
        _ = pipeline | beam.ExternalTransform(urn, payload.SerializeToString(), where)
        return pipeline.to_runner_api()

    expand.endpoint = server.expansion_endpoint
    return expand


def test_a_program_gets_the_transform_that_reads_kafka(expanded):
    made = expanded(READ, bootstrap_servers="localhost:9", topics="orders", stop="latest")
    names = {transform.unique_name for transform in made.components.transforms.values()}
    assert any(name.endswith("ReadFromKafka/Fetch") for name in names)
    kinds = {environment.urn for environment in made.components.environments.values()}
    assert "beam:env:embedded_python:v1" in kinds


def test_arguments_that_mean_nothing_are_told(expanded):
    with pytest.raises(RuntimeError, match="on_lost='maybe' is neither"):
        expanded(READ, bootstrap_servers="localhost:9", topics="orders", on_lost="maybe")


def test_other_names_are_not_offered(expanded):
    with pytest.raises(RuntimeError, match=r"subprocess\.Popen.* not allowed"):
        expanded("subprocess.Popen", args="true")


def test_other_urns_are_not_offered_and_those_that_are_named(expanded):
    request = beam_expansion_api_pb2.ExpansionRequest()
    request.transform.spec.urn = "beam:transform:pickled_python:v1"
    with grpc.insecure_channel(expanded.endpoint) as channel:
        stub = beam_expansion_api_pb2_grpc.ExpansionServiceStub(channel)
        error = stub.Expand(request).error
    assert "'beam:transform:pickled_python:v1', which is not offered" in error
    assert "sparkdrain.io.kafka" in error
