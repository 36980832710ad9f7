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
        ("", "it takes memory:, memory:NAME, file:/absolute/path or rocksdb:/absolute/path"),
        ("memory", "it takes memory:"),
        ("/var/drain", "it takes memory:"),
        ("files:/var", "Did you mean file:/var?"),
        ("rocks:/var", "Did you mean rocksdb:/var?"),
        ("kafka:localhost:9092", "it takes memory:"),
        ("file:", "the path must be absolute"),
        ("file:here", "For instance /"),
        ("rocksdb:./here", "For instance /"),
    ],
)
def test_anything_else_is_refused_with_what_is_meant(text, told):
    with pytest.raises(BadOption) as caught:
        parse(text)
    assert "--metadata_store cannot be" in str(caught.value)
    assert told in str(caught.value)
