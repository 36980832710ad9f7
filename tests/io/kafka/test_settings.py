"""Settings reach each client under its own names."""

from __future__ import annotations

import math
import sys
from datetime import datetime, timezone

import pytest
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.errors import BadOption, BadSetup
from sparkdrain.io.kafka import choose
from sparkdrain.io.kafka.client import Partition, matching
from sparkdrain.io.kafka.errors import KafkaRefused
from sparkdrain.io.kafka.positions import EARLIEST, Position, position, start_of, stop_of
from sparkdrain.io.kafka.settings import (
    Settings,
    for_kafka_python,
    for_rdkafka,
    settings,
)
from sparkdrain.io.kafka.watermarks import Watermarks

TLS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "$ConnectionString",
    "sasl.password": "Endpoint=sb://here/",
    "ssl.ca.location": "/ca.pem",
    "ssl.certificate.location": "/me.pem",
    "ssl.key.location": "/me.key",
}


def test_a_connection_to_event_hubs_is_written_once_for_both_clients():
    assert for_rdkafka(TLS) == TLS
    assert for_kafka_python(TLS) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "$ConnectionString",
        "sasl_plain_password": "Endpoint=sb://here/",
        "ssl_cafile": "/ca.pem",
        "ssl_certfile": "/me.pem",
        "ssl_keyfile": "/me.key",
    }


@given(st.dictionaries(st.sampled_from(sorted(TLS)), st.text()))
def test_names_of_kafka_python_mean_the_same_to_the_other_client(config):
    assert for_rdkafka(for_kafka_python(config)) == config


def test_what_is_not_known_is_passed_on():
    assert for_rdkafka({"fetch.error.backoff.ms": 7}) == {"fetch.error.backoff.ms": 7}
    assert for_rdkafka({"fetch_min_bytes": 7}) == {"fetch.min.bytes": 7}
    assert for_kafka_python({"retry.backoff.ms": 7}) == {"retry_backoff_ms": 7}


def test_what_only_one_client_can_do_says_so():
    with pytest.raises(BadOption, match="client='kafka-python'"):
        for_rdkafka({"sasl_oauth_token_provider": object()})


@pytest.mark.parametrize("name", ["auto.offset.reset", "auto_offset_reset", "enable.auto.commit"])
def test_settings_that_the_transforms_decide_are_refused_with_what_to_say_instead(name):
    with pytest.raises(BadOption, match=f"consumer_config must not set '{name}': .*="):
        settings("here:9092", {name: "x"}, "auto", "consumer_config")


def test_servers_may_be_a_list_and_must_not_be_nothing():
    assert settings(["a:1", "b:2"], None, "auto", "x").servers == "a:1,b:2"
    with pytest.raises(BadOption, match="bootstrap_servers"):
        settings(" ", None, "auto", "x")
    with pytest.raises(BadOption, match="client='librdkafka' is none of 'auto', 'kafka-python'"):
        settings("a:1", None, "librdkafka", "x")


def test_a_setting_that_cannot_be_compared_is_refused():
    with pytest.raises(BadOption, match=r"consumer_config has 'x': \['y'\]"):
        settings("a:1", {"x": ["y"]}, "auto", "consumer_config")


def test_the_group_is_found_under_both_names():
    assert settings("a", {"group.id": "g"}, "auto", "x").group == "g"
    assert settings("a", {"group_id": "g"}, "auto", "x").group == "g"
    assert settings("a", {}, "auto", "x").group is None


def test_a_client_that_is_not_installed_is_named_with_its_extra(monkeypatch):
    monkeypatch.setattr(choose, "find_spec", lambda name: None)
    with pytest.raises(BadSetup, match=r"kafka-python is not .*spark-drain-runner\[kafka\]"):
        choose.open_client(Settings("a"))
    with pytest.raises(BadSetup, match=r"confluent-kafka is not .*spark-drain-runner\[kafka-fast"):
        choose.open_client(Settings("a", library="confluent-kafka"))


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka"])
def test_both_clients_are_found(client):
    pytest.importorskip("kafka" if client == "kafka-python" else "confluent_kafka")
    opened = choose.open_client(Settings("a:1", library=client))
    assert client.split("-")[0] in type(opened).__module__
    assert type(opened).__module__ in sys.modules


def test_positions_are_words_times_or_offsets():
    assert position("latest", "start") == Position("latest")
    noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    assert position(noon, "start") == Position("time", millis=1767268800000)
    assert position(Timestamp(12.5), "start") == Position("time", millis=12500)
    given_offsets = position({("b", 1): 4, ("a", 0): 3}, "start")
    assert given_offsets.offset_of(Partition("a", 0)) == 3
    assert given_offsets.offset_of(Partition("a", 1)) is None
    with pytest.raises(BadOption, match="start='begin' is no position: use 'earliest'"):
        position("begin", "start")
    with pytest.raises(BadOption, match="no time zone"):
        position(datetime(2026, 1, 1), "stop")  # noqa: DTZ001 - that is what is refused


def test_a_position_is_found_in_a_partition(kafka):
    kafka.topic("t")
    for time in (10, 20, 30, 40):
        kafka.put("t", 0, b"x", time=time)
    kafka.delete_before("t", 0, 1)
    at = Partition("t", 0)
    catalog = kafka.open_client(Settings("a")).catalog()
    found = {
        "earliest": start_of(catalog, at, EARLIEST),
        "latest": start_of(catalog, at, Position("latest")),
        "a time": start_of(catalog, at, Position("time", millis=25)),
        "a time to come": start_of(catalog, at, Position("time", millis=99)),
        "nothing committed": start_of(catalog, at, Position("committed")),
        "an offset": start_of(catalog, at, Position("offsets", offsets=((at, 3),))),
        "another's offset": start_of(catalog, at, Position("offsets")),
    }
    assert list(found.values()) == [1, 4, 2, 4, 1, 3, 1]
    kafka.groups[at] = 2
    assert start_of(catalog, at, Position("committed")) == 2
    assert stop_of(catalog, at, Position("latest")) == 4
    assert stop_of(catalog, at, Position("time", millis=30)) == 2
    assert stop_of(catalog, at, Position("time", millis=99)) == 4
    assert stop_of(catalog, at, Position("offsets", offsets=((at, 9),))) == 9


def test_topics_are_found_by_name_or_by_their_whole_name():
    there = ["orders", "orders-eu", "clicks", "__consumer_offsets"]
    assert matching(there, ["clicks"], None, "here") == ["clicks"]
    assert matching(there, (), "orders.*", "here") == ["orders", "orders-eu"]
    assert matching(there, (), "order", "here") == []
    assert matching(there, (), ".*", "here") == ["clicks", "orders", "orders-eu"]
    with pytest.raises(KafkaRefused, match="here has no topic 'order'"):
        matching(there, ["order", "clicks"], None, "here")


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 4e9))
def test_an_idle_partition_is_never_ahead_of_records_that_may_come(order, idle, now):
    watermarks = Watermarks(order, idle)
    when_idle = watermarks.when_idle(now)
    assert when_idle <= watermarks.after(int(now * 1e6)) + 1
    assert when_idle <= (now - idle) * 1e6 + 1


@pytest.mark.parametrize("given", [(-1.0,), (1.0, -1.0), (1.0, None, -1.0)])
def test_seconds_are_not_negative(given):
    with pytest.raises(BadOption, match="cannot be negative"):
        Watermarks(*given)


def test_a_clock_that_is_not_trusted_at_all_takes_an_idle_partition_nowhere():
    assert Watermarks().when_idle(-math.inf) == MIN_TIMESTAMP.micros
