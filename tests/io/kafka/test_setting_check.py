"""A setting that the client library does not take ends the job at once, and is named."""

from __future__ import annotations

import threading

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from sparkdrain.errors import BadOption
from sparkdrain.io.kafka import ReadFromKafka, WriteToKafka, choose
from sparkdrain.io.kafka.asking import Asking
from sparkdrain.io.kafka.errors import KafkaRefused
from sparkdrain.io.kafka.settings import CONSUMER, PRODUCER, Settings
from tests.support.in_memory_rounds import run_in_rounds

PASSWORD = "hunter22hunter"
LIBRARIES = {"confluent-kafka": "confluent_kafka", "kafka-python": "kafka"}
TLS = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "me",
    "sasl.password": PASSWORD,
    "ssl.ca.location": "/only/there/ca.pem",
}


@pytest.fixture(params=LIBRARIES)
def library(request):
    pytest.importorskip(LIBRARIES[request.param], reason=f"{request.param} is not installed")
    return request.param


def read(config, library):
    return ReadFromKafka("b:1", "t", consumer_config=config, client=library)


def write(config, library):
    return WriteToKafka("b:1", "t", producer_config=config, client=library)


BOTH = pytest.mark.parametrize("transform", [read, write])


def refusal(transform, config, library):
    with pytest.raises(BadOption) as caught:
        transform(config, library)
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


@BOTH
@pytest.mark.parametrize("name", ["sasl.passwrd", "sasl_passwrd", "sasl_plain_pasword"])
def test_a_name_that_nobody_knows_is_named_with_the_nearest_one(transform, library, name):
    option = CONSUMER if transform is read else PRODUCER
    message = refusal(transform, {"sasl.username": "me", name: PASSWORD}, library)
    assert message.startswith(f"{option} has {name!r}, which {library} does not know; did you mean")
    assert "'sasl.password'" in message


@BOTH
def test_a_name_without_a_near_one_is_refused_too(transform, library):
    message = refusal(transform, {"xyzzy": 1}, library)
    assert f"'xyzzy', which {library} does not know. Correct the name" in message
    assert "client=" not in message


@BOTH
def test_a_name_may_be_one_of_the_other_library(transform):
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    assert "or name another client library with client=" in refusal(transform, {"xyzzy": 1}, "auto")


@BOTH
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("security.protocol", "SASLSSL"),
        ("request.timeout.ms", "soon"),
        ("metadata.max.age.ms", "often"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_its_setting(transform, library, name, value):
    assert name in refusal(transform, {name: value}, library)


def test_a_value_of_a_few_is_compared_with_these(library):
    assert "isolation.level" in refusal(read, {"isolation.level": "read_commited"}, library)
    assert "compression" in refusal(write, {"compression.type": "zap"}, library)
    assert "acks" in refusal(write, {"acks": "some"}, library)


@BOTH
def test_what_can_be_is_taken_whatever_this_machine_has(transform, library):
    threads = threading.active_count()
    transform(TLS, library)
    transform({"client.id": "me", "reconnect.backoff.ms": 10}, library)
    transform({}, library)
    assert threading.active_count() == threads


@pytest.mark.parametrize("server", ["here:abc", "a:1,b:", "a:0", "a:65536", "SSL://a:x", "[::1]:x"])
def test_a_port_that_is_no_number_is_refused(server):
    with pytest.raises(BadOption, match=r"is no port: name brokers as host:port"):
        ReadFromKafka(server, "t")


@pytest.mark.parametrize("server", ["here", "a:1,b:65535", "SSL://a:9092", "[::1]:9092", "[::1]"])
def test_brokers_have_ports_or_the_usual_one(server):
    ReadFromKafka(server, "t")


# --- where the pipeline runs, with a library that was not there when it was built ---------------


def test_settings_are_looked_at_before_a_client_is_made(library):
    for option in (CONSUMER, PRODUCER):
        wrong = Settings("b:1", (("sasl.passwrd", PASSWORD),), library, option)
        with pytest.raises(BadOption, match=f"{option} has 'sasl.passwrd'"):
            choose.open_client(wrong)


def test_a_setting_is_not_asked_about_again_and_again(library):
    wrong = Settings("b:1", (("sasl.passwrd", PASSWORD),), library)
    asking = Asking("partitions")
    with pytest.raises(BadOption, match=r"'sasl.passwrd'"):
        asking.ask(lambda: choose.open_client(wrong), 30.0)


def test_settings_that_do_not_go_together_are_refused():
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    config = (("sasl.mechanism", "PLAIN"), ("security.protocol", "SASL_SSL"))
    reading = choose.open_client(Settings("b:1", config, "confluent-kafka"))
    writing = choose.open_client(Settings("b:1", config, "confluent-kafka", PRODUCER))
    for made in (reading.catalog, lambda: reading.records(headers=False)):
        with pytest.raises(KafkaRefused, match=r"sasl\.username and sasl\.password must be set"):
            made()
    for made in (lambda: writing.sink(tell=False), lambda: writing.transactions("t", ("t", 0))):
        with pytest.raises(KafkaRefused, match=r"sasl\.username and sasl\.password must be set"):
            made()


@pytest.mark.parametrize("name", ["ssl.ca.location", "ssl.certificate.location"])
@pytest.mark.parametrize("content", [None, "no certificate\n"], ids=["no file", "other file"])
def test_certificates_that_cannot_be_loaded_are_refused_at_once(library, tmp_path, name, content):
    file = tmp_path / "file.pem"
    if content is not None:
        file.write_text(content)
    config = ((name, str(file)), ("security.protocol", "SSL"))
    client = choose.open_client(Settings("127.0.0.1:1", config, library))
    with pytest.raises(KafkaRefused, match=name.replace(".", r"\.")):
        client.catalog()


def test_a_job_ends_with_the_name_of_the_setting(library, monkeypatch):
    monkeypatch.setattr(choose, "check", lambda settings: None)
    transform = read({"sasl.passwrd": PASSWORD}, library)
    monkeypatch.undo()
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    _ = pipeline | transform
    with pytest.raises(Exception, match=r"consumer_config has 'sasl\.passwrd'") as caught:
        run_in_rounds(pipeline)
    assert PASSWORD not in str(caught.value)
