"""Payloads that cannot be read: Prepare names them, and what it accepts can be planned."""

from __future__ import annotations

import typing

import apache_beam as beam
import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_job_api_pb2 as api
from apache_beam.portability.api import beam_runner_api_pb2 as proto
from apache_beam.testing import test_stream
from apache_beam.transforms import environments, userstate, window
from fake_engine import FakeEngine

from sparkdrain.errors import Malformed
from sparkdrain.graph.environments import staged_outside
from sparkdrain.graph.identity import identity
from sparkdrain.graph.notices import chosen_environments, open_pools, relative_paths, unkept_hints
from sparkdrain.graph.translate import translate
from sparkdrain.graph.wellformed import check_payloads
from sparkdrain.io.stable import OVERRULED, SINK
from sparkdrain.jobs.calls import ERROR_KIND_KEY
from sparkdrain.jobs.engine import SparkEngine

# Bytes that no message begins with, and a field that ends too soon.
GARBAGE = (b"\xff\xff\xff", b"\x0a\xff")
FILE = common_urns.artifact_types.FILE.urn
URL = common_urns.artifact_types.URL.urn
STAGING_TO = common_urns.artifact_roles.STAGING_TO.urn
DOCKER = common_urns.environments.DOCKER.urn
ANYOF = common_urns.environments.ANYOF.urn
PAR_DO = common_urns.primitives.PAR_DO.urn


class Checking(FakeEngine):
    """Checks as the real engine does, and runs nothing."""

    def check(self, pipeline, settings) -> None:
        SparkEngine().check(pipeline, settings)


class Named(typing.NamedTuple):
    name: str
    count: int


class Remembering(beam.DoFn):
    SEEN = userstate.BagStateSpec("seen", beam.coders.VarIntCoder())

    def process(self, element, seen=beam.DoFn.StateParam(SEEN)):
        seen.add(element[1])
        yield element


def batch() -> proto.Pipeline:
    """A pipeline with a payload of each kind, but for a TestStream's."""
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    numbers = pipeline | beam.Create([1, 2])
    pairs = numbers | beam.Map(lambda n: ("k", n)).with_output_types(tuple[str, int])
    fixed = pairs | "Fixed" >> beam.WindowInto(window.FixedWindows(5))
    sliding = pairs | "Sliding" >> beam.WindowInto(window.SlidingWindows(5, 1))
    sessions = pairs | "Sessions" >> beam.WindowInto(window.Sessions(5))
    _ = fixed | "Sum" >> beam.CombinePerKey(sum)
    _ = sliding | beam.GroupByKey()
    _ = sessions | "Group" >> beam.GroupByKey()
    _ = pairs | beam.ParDo(Remembering())
    _ = numbers | "Side" >> beam.Map(lambda n, side: n, side=beam.pvalue.AsList(numbers))
    named = numbers | "Name" >> beam.Map(lambda n: Named("a", n)).with_output_types(Named)
    _ = named | beam.Reshuffle()
    _ = pipeline | beam.io.ReadFromText(__file__) | beam.io.WriteToText("written")
    made = pipeline.to_runner_api(
        default_environment=environments.EmbeddedPythonEnvironment.default()
    )
    add_read(made)
    add_environments(made.components.environments)
    return made


def add_read(made: proto.Pipeline) -> None:
    """Adds a primitive Read, which Python's SDK makes no more."""
    parts = made.components
    like = next(t for t in parts.transforms.values() if t.unique_name == "Create/Impulse")
    read = parts.transforms["read"]
    read.unique_name = "Old"
    read.spec.urn = common_urns.deprecated_primitives.READ.urn
    read.spec.payload = proto.ReadPayload(source=proto.FunctionSpec(urn="m")).SerializeToString()
    read.outputs["out"] = "old"
    parts.pcollections["old"].CopyFrom(parts.pcollections[next(iter(like.outputs.values()))])
    made.root_transform_ids.append("read")


def add_environments(there) -> None:
    """Adds an environment of each kind, and files of each kind."""
    docker = proto.DockerPayload(container_image="mine/image")
    there["docker"].urn = DOCKER
    there["docker"].payload = docker.SerializeToString()
    there["process"].urn = common_urns.environments.PROCESS.urn
    there["process"].payload = proto.ProcessPayload(command="run").SerializeToString()
    there["external"].urn = common_urns.environments.EXTERNAL.urn
    there["external"].payload = proto.ExternalPayload().SerializeToString()
    choices = proto.AnyOfEnvironmentPayload(environments=[there["docker"], there["external"]])
    there["choice"].urn = ANYOF
    there["choice"].payload = choices.SerializeToString()
    role = proto.ArtifactStagingToRolePayload(staged_name="lib.jar")
    for urn, payload in (
        (FILE, proto.ArtifactFilePayload(path="/a")),
        (URL, proto.ArtifactUrlPayload(url="http://a")),
    ):
        there["docker"].dependencies.add(
            type_urn=urn,
            type_payload=payload.SerializeToString(),
            role_urn=STAGING_TO,
            role_payload=role.SerializeToString(),
        )


def streaming() -> proto.Pipeline:
    pipeline = beam.Pipeline(options=PipelineOptions(["--streaming"]))
    stream = pipeline | test_stream.TestStream().add_elements([1]).advance_watermark_to_infinity()
    _ = stream | beam.Map(lambda n: n)
    return pipeline.to_runner_api()


def payloads(message, path=()):
    """Where a message has bytes: for each place a name, and a function that changes them."""
    for field, value in message.ListFields():
        here = (*path, field.name)
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        if is_map:
            kind = field.message_type.fields_by_name["value"]
            for key in list(value):
                if kind.message_type is not None:
                    yield from payloads(value[key], (*here, key))
                elif kind.type == kind.TYPE_BYTES:
                    yield (*here, key), (lambda new, m=value, k=key: m.__setitem__(k, new))
        elif field.type == field.TYPE_MESSAGE and hasattr(value, "ListFields"):
            yield from payloads(value, here)
        elif field.type == field.TYPE_MESSAGE:
            for number, part in enumerate(value):
                yield from payloads(part, (*here, str(number)))
        elif field.type == field.TYPE_BYTES and isinstance(value, bytes):
            yield here, (lambda new, m=message, n=field.name: setattr(m, n, new))


def plan(pipeline: proto.Pipeline, *, is_streaming: bool) -> None:
    """All that a driver reads of a pipeline before anything runs."""
    for texts in (chosen_environments, open_pools, unkept_hints, relative_paths, staged_outside):
        list(texts(pipeline))
    identity(translate(pipeline, streaming=is_streaming))


def damaged(build):
    """Copies of a pipeline, each with one payload that cannot be read."""
    whole = build()
    for number, (path, _) in enumerate(list(payloads(whole))):
        copy = proto.Pipeline()
        copy.CopyFrom(whole)
        _, change = list(payloads(copy))[number]
        change(GARBAGE[number % 2])
        yield path, copy


def answer(client, pipeline: proto.Pipeline) -> tuple[grpc.StatusCode, str]:
    """The code of Prepare, and the kind of the error."""
    try:
        client.Prepare(api.PrepareJobRequest(job_name="wc", pipeline=pipeline))
    except grpc.RpcError as error:
        return error.code(), dict(error.trailing_metadata()).get(ERROR_KIND_KEY, "")
    return grpc.StatusCode.OK, ""


@pytest.mark.parametrize("build", [batch, streaming])
def test_a_payload_that_cannot_be_read_is_refused_or_read_by_nothing(connect, build):
    client = connect(Checking())
    client.Prepare(api.PrepareJobRequest(job_name="wc", pipeline=build()))
    refused = set()
    for path, pipeline in damaged(build):
        code, kind = answer(client, pipeline)
        if code is grpc.StatusCode.OK:
            plan(pipeline, is_streaming=build is streaming)
        else:
            assert (code, kind) == (grpc.StatusCode.INVALID_ARGUMENT, "Malformed"), path
            refused.add(path[1])
    expected = {"transforms", "coders", "windowing_strategies", "environments"}
    assert refused == (expected if build is batch else {"transforms", "coders"})


def spoiled(change) -> str:
    pipeline = batch()
    change(pipeline.components)
    with pytest.raises(Malformed) as caught:
        check_payloads(pipeline)
    return str(caught.value)


def test_the_error_names_what_has_the_payload_its_urn_and_what_to_do():
    def a_transform(parts):
        found = next(
            t
            for t in parts.transforms.values()
            if t.spec.urn == PAR_DO and "Remembering" in t.unique_name
        )
        found.spec.payload = GARBAGE[0]

    text = spoiled(a_transform)
    assert text.startswith(f"The transform 'ParDo(Remembering)' ({PAR_DO}) has a payload that ")
    assert "cannot be read as ParDoPayload" in text
    assert "Make the pipeline anew with its SDK" in text

    def a_choice(parts):
        docker = proto.Environment(urn=DOCKER, payload=GARBAGE[0])
        choices = proto.AnyOfEnvironmentPayload(environments=[docker])
        parts.environments["choice"].payload = choices.SerializeToString()

    assert spoiled(a_choice).startswith(f"The environment 'choice' ({DOCKER}) has a payload")

    def a_file(parts):
        parts.environments["docker"].dependencies[0].role_payload = GARBAGE[0]

    found = f"A file that the environment 'docker' depends on ({STAGING_TO}) has a payload"
    assert spoiled(a_file).startswith(found)


@pytest.mark.parametrize(
    ("name", "names"), [(b"\xff", b"[]"), (b"mine", b""), (b"mine", b"5"), (b"mine", b"[5]")]
)
def test_annotations_of_a_sink_that_cannot_be_read_are_named(name, names):
    def a_sink(parts):
        transform = next(t for t in parts.transforms.values() if t.unique_name == "Sum")
        transform.annotations[SINK], transform.annotations[OVERRULED] = name, names

    assert spoiled(a_sink).startswith("The transform 'Sum' has annotations")
