from __future__ import annotations

import pytest

from sparkdrain.coordination.address import StoreAddress, beside, parse
from sparkdrain.errors import BadOption


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("memory:", StoreAddress("memory", "")),
        ("memory:mine", StoreAddress("memory", "mine")),
        ("file:/var/drain", StoreAddress("file", "/var/drain")),
        ("file:///var/drain/", StoreAddress("file", "/var/drain")),
        ("rocksdb:/var/a:b", StoreAddress("rocksdb", "/var/a:b")),
        ("zookeeper:host:2181/jobs", StoreAddress("zookeeper", "host:2181/jobs")),
        ("zookeeper://a:1,b:2/x/y/", StoreAddress("zookeeper", "a:1,b:2/x/y")),
        ("kafka:a:9092,b:9092/jobs.v1", StoreAddress("kafka", "a:9092,b:9092/jobs.v1")),
        ("azure:jobs-of-mine", StoreAddress("azure", "jobs-of-mine")),
        ("zookeeper:[::1]:2181", StoreAddress("zookeeper", "[::1]:2181")),
    ],
)
def test_an_address_is_a_kind_and_a_place(text, address):
    assert parse(text) == address


@pytest.mark.parametrize(
    ("checkpoints", "address"),
    [
        ("", StoreAddress("memory", "")),
        ("gs://bucket/jobs", StoreAddress("memory", "")),
        ("/var/jobs", StoreAddress("file", "/var/jobs/@runs")),
        ("file:///var/jobs", StoreAddress("file", "/var/jobs/@runs")),
    ],
)
def test_a_job_that_names_none_has_a_store_beside_its_checkpoints(checkpoints, address):
    assert beside(checkpoints) == address


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "it takes memory:, memory:NAME, file:/absolute/path, rocksdb:/absolute/path, "),
        ("memory", "it takes memory:"),
        ("/var/drain", "it takes memory:"),
        ("files:/var", "Did you mean file:/var?"),
        ("rocks:/var", "Did you mean rocksdb:/var?"),
        ("kafka:localhost:9092", "Give HOST:PORT/TOPIC"),
        ("kafka:localhost:9092/a/b", "Give HOST:PORT/TOPIC"),
        ("kafka:me:word@localhost:9092/jobs", "a file that SPARKDRAIN_KAFKA_CONFIG names"),
        ("file:", "the path must be absolute"),
        ("file:here", "For instance /"),
        ("rocksdb:./here", "For instance /"),
        ("azure:a", "3 to 63 of a-z, 0-9 and '-'"),
        ("azure:Jobs", "3 to 63 of a-z, 0-9 and '-'"),
        ("azure:jobs--mine", "told by AZURE_STORAGE_CONNECTION_STRING"),
        ("zookeeper:host", "Give HOST:PORT/PATH"),
        ("zookeeper:host:2181//x", "Give HOST:PORT/PATH"),
        ("zookeeper:me:word@host:2181", "password belongs into SPARKDRAIN_ZOOKEEPER_AUTH"),
    ],
)
def test_anything_else_is_refused_with_what_is_meant(text, told):
    with pytest.raises(BadOption) as caught:
        parse(text)
    assert "--metadata_store cannot be" in str(caught.value)
    assert told in str(caught.value)


@pytest.mark.parametrize("kind", ["zookeeper", "kafka", "kafk", "nothing"])
def test_a_password_in_an_address_is_not_told(kind):
    with pytest.raises(BadOption, match=r"cannot be '.*\.\.\.@host:1") as caught:
        parse(f"{kind}:me:sesame@host:1")
    assert "sesame" not in str(caught.value)
