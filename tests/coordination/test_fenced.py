"""Of all leaders, the newest one writes."""

from __future__ import annotations

import pytest

from sparkdrain.coordination.backends.memory import MemoryMetadataStore
from sparkdrain.coordination.fenced import FencedRecord, FencedValue
from sparkdrain.coordination.metadata import CorruptRecord
from sparkdrain.errors import Fenced


@pytest.fixture
def store():
    return MemoryMetadataStore()


@pytest.fixture
def record(store):
    return FencedRecord(store, "jobs", "model")


def test_a_leader_writes_what_all_read(record):
    assert (record.read().value, record.read().token) == (b"", 0)
    written = record.write(record.claim(3), 3, b"one\ntwo")
    assert record.read() == written
    assert record.claim(3) == written, "it is its own already"


def test_a_leader_that_was_paused_writes_nothing_after_the_next_one_has_claimed(record):
    mine = record.claim(3)
    next_one = record.claim(4)
    with pytest.raises(Fenced, match="written by another process since this one"):
        record.write(mine, 3, b"late")
    with pytest.raises(Fenced, match="token 3 was followed by another, with token 4"):
        record.write(next_one, 3, b"late")
    with pytest.raises(Fenced, match="token 3 was followed"):
        record.claim(3)
    assert record.write(next_one, 4, b"new").value == b"new"


def test_what_was_written_meanwhile_is_not_lost(record):
    before = record.read()
    record.write(before, 3, b"first")
    with pytest.raises(Fenced):
        record.write(before, 4, b"second")
    assert record.claim(4).value == b"first"


def test_a_record_without_a_token_is_named(store, record):
    store.put("jobs", "model", b"anything")
    with pytest.raises(CorruptRecord, match="'model' in 'jobs' carries no fencing token"):
        record.read()


def test_a_record_that_is_not_there_has_no_version(record):
    assert record.read() == FencedValue(b"", 0, "")
