from __future__ import annotations

from datetime import datetime, timezone

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.testing import test_stream
from apache_beam.transforms import environments, userstate
from apache_beam.transforms.periodicsequence import PeriodicImpulse

from sparkdrain.errors import Unsupported
from sparkdrain.graph.check import check
from sparkdrain.io.kafka import WriteToKafka

HERE = environments.EmbeddedPythonEnvironment()


class _Unknown(environments.EmbeddedPythonEnvironment):
    def to_runner_api_parameter(self, context):
        return "beam:env:unknown:v1", None


UNKNOWN = _Unknown()


def _proto(build, environment=HERE, flags=()):
    pipeline = beam.Pipeline(options=PipelineOptions([*flags]))
    build(pipeline)
    return pipeline.to_runner_api(default_environment=environment)


def _numbers(pipeline):
    return pipeline | beam.Create([1]) | beam.Map(lambda n: n)


def test_a_bounded_python_pipeline_passes_and_is_left_as_it_was():
    proto = _proto(_numbers)
    before = proto.SerializeToString(deterministic=True)
    check(proto)
    assert proto.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize("choices", [[HERE, UNKNOWN], [UNKNOWN, HERE]], ids=["first", "last"])
def test_one_of_several_environments_is_enough(choices):
    check(_proto(_numbers, environments.AnyOfEnvironment(choices)))


def test_an_environment_that_nobody_knows_is_refused_by_its_urn():
    with pytest.raises(Unsupported, match=r"beam:env:unknown:v1.*--environment_type"):
        check(_proto(_numbers, UNKNOWN))


@pytest.mark.parametrize(
    "environment",
    [
        environments.EmbeddedPythonGrpcEnvironment(state_cache_size=10),
        environments.PythonLoopbackEnvironment(),
        environments.SubprocessSDKEnvironment("python -m a_harness"),
    ],
    ids=["grpc", "loopback", "subprocess"],
)
def test_an_environment_that_only_beams_own_runner_has_is_refused(environment):
    """A slot's own process would ignore the cache, the pool or the command that it asks for."""
    urn = environment.to_runner_api(None).urn
    with pytest.raises(Unsupported, match=rf"{urn}, .*--environment_type=PROCESS"):
        check(_proto(_numbers, environment))
    check(_proto(_numbers, environments.AnyOfEnvironment([environment, HERE])))


def test_a_test_stream_is_refused_for_what_it_is_wherever_it_stands():
    def build(pipeline):
        stream = (
            pipeline | test_stream.TestStream().add_elements([1]).advance_watermark_to_infinity()
        )
        return stream | beam.Map(lambda n: n) | beam.WindowInto(beam.window.FixedWindows(5))

    with pytest.raises(Unsupported, match=r"TestStream.*beam\.Create"):
        check(_proto(build))


def test_of_an_unbounded_chain_the_first_transform_is_to_blame():
    def build(pipeline):
        times = pipeline | "Ticks" >> PeriodicImpulse()
        return times | beam.WindowInto(beam.window.FixedWindows(5)) | beam.Map(lambda n: n)

    with pytest.raises(Unsupported, match=r"^'Ticks/GenSequence'.*unbounded"):
        check(_proto(build))


def test_a_transform_that_nobody_knows_is_refused_by_its_urn():
    proto = _proto(_numbers)
    for transform in proto.components.transforms.values():
        if transform.unique_name.startswith("Map("):
            transform.spec.urn = "example:transform:unknown"
    with pytest.raises(Unsupported, match="example:transform:unknown"):
        check(proto)


def test_a_step_of_another_process_cannot_be_made_asynchronous():
    def build(pipeline):
        return pipeline | beam.Create([1]) | "Ask" >> beam.Map(lambda n: n)

    check(_proto(build), async_steps=["Ask"])
    elsewhere = _proto(build, environments.DockerEnvironment("example/sdk"))
    with pytest.raises(Unsupported, match="'Ask', which runs in a process of its own SDK"):
        check(elsewhere, async_steps=["Ask"])


def test_a_requirement_that_nobody_offers_is_refused():
    proto = _proto(_numbers)
    proto.requirements.append("example:requirement:unknown")
    with pytest.raises(Unsupported, match="example:requirement:unknown"):
        check(proto)


def test_only_an_sdk_harness_tells_a_dofn_of_the_end_of_windows():
    def telling(environment=None):
        proto = _proto(_numbers, environment)
        for transform in proto.components.transforms.values():
            if transform.unique_name.startswith("Map("):
                payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
                payload.on_window_expiration_timer_family_spec = "over"
                transform.spec.payload = payload.SerializeToString()
        proto.requirements.append("beam:requirement:pardo:on_window_expiration:v1")
        return proto

    check(telling(POOL))
    with pytest.raises(Unsupported, match=r"^'Map\(.*on_window_expiration:v1.*environment_type"):
        check(telling())


def _stable(proto):
    for transform in proto.components.transforms.values():
        if transform.unique_name.startswith("Map("):
            payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
            payload.requires_stable_input = True
            transform.spec.payload = payload.SerializeToString()
    proto.requirements.append("beam:requirement:pardo:stable_input:v1")
    return proto


def test_stable_input_is_offered_in_batch_and_with_checkpoints():
    proto = _stable(_proto(_numbers))
    check(proto)
    names = r"^'Map\(.*beam:transform:pardo:v1.*beam:requirement:pardo:stable_input:v1.*batch"
    with pytest.raises(Unsupported, match=names):
        check(proto, streaming=True)
    check(proto, streaming=True, durable=True)


def _sinks(*names, flags=()):
    def build(pipeline):
        records = pipeline | beam.Create([(b"", b"")])
        for number, name in enumerate(names):
            _ = records | f"Sink {number}" >> WriteToKafka("fake", "out", exactly_once=name)

    return _proto(build, flags=flags)


def test_two_exactly_once_sinks_of_one_name_are_refused():
    check(_sinks("a", "b"))
    names = r"'Sink 0/Once' and 'Sink 2/Once' have one name, 'a'"
    with pytest.raises(Unsupported, match=names):
        check(_sinks("a", "b", "a"))


def test_a_name_to_overrule_that_no_sink_has_is_refused():
    today = datetime.now(timezone.utc).date()
    check(_sinks("a", "b", flags=[f"--kafka_publish_anyway=a={today}"]))
    with pytest.raises(Unsupported, match=r"names 'c', .* sinks are 'a', 'b'"):
        check(_sinks("a", "b", flags=[f"--kafka_publish_anyway=c={today}"]))


POOL = environments.ExternalEnvironment("localhost:1")
SAMPLING = environments.ExternalEnvironment(
    "localhost:1", capabilities=environments.python_sdk_capabilities()
)


def test_samples_of_elements_need_an_sdk_harness_that_keeps_them():
    check(_proto(_numbers, SAMPLING), samples=True)
    for environment in (None, POOL):
        check(_proto(_numbers, environment))
        with pytest.raises(Unsupported, match=r"enable_data_sampling .*--environment_type=PROCESS"):
            check(_proto(_numbers, environment), samples=True)


class _Sorted(beam.DoFn):
    LIST = userstate.OrderedListStateSpec("list", beam.coders.VarIntCoder())

    def process(self, pair, found=beam.DoFn.StateParam(LIST)):
        yield pair


def test_ordered_lists_outside_of_slots_are_for_sdks_that_say_that_they_have_them():
    def sorted_pairs(pipeline):
        return pipeline | beam.Create([("a", 1)]) | "Sort" >> beam.ParDo(_Sorted())

    with pytest.raises(Unsupported, match=r"'Sort.* ordered list .*beam:env:external:v1"):
        check(_proto(sorted_pairs, POOL))
    for able in (environments.python_sdk_capabilities(), ["beam:version:sdk_base:go:2.77.0"]):
        pool = environments.ExternalEnvironment("localhost:1", capabilities=able)
        check(_proto(sorted_pairs, pool))
