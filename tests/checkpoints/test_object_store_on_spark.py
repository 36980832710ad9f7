"""A streaming job whose checkpoints are in an object store that has moods; on a real Spark."""

from __future__ import annotations

import time

import pytest

from sparkdrain.errors import CheckpointFailed
from tests.support.counting_job import assert_counted_once, count, seen, wait_for
from tests.support.moody_proxy import Mood
from tests.support.object_store import ObjectStore, s3_server

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# More than will ever come.
IMPULSES = 10**6


@pytest.fixture
def store():
    with s3_server() as address:
        store = ObjectStore(address)
        yield store
        store.proxy.close()


def start(tmp_path, store, begin, *more):
    return count(
        tmp_path,
        IMPULSES,
        begin,
        f"--checkpoint_dir={store.root}",
        "--checkpoint_ms=1000",
        *store.flags,
        *more,
    )


def test_a_job_goes_on_while_the_store_refuses_and_its_drain_waits_for_its_manifest(
    tmp_path, store
):
    result = start(tmp_path, store, time.time())
    wait_for(store.manifests)
    # A short time of trouble of all kinds: boto3 and Beam try again.
    moods = iter([Mood.REFUSES, Mood.BREAKS, Mood.SLOW, Mood.MUTE] * 3)
    store.ask = lambda what: next(moods, Mood.WELL)
    before = len(store.manifests()), store.manifests()[-1]
    wait_for(lambda: store.manifests()[-1] > before[1])

    store.ask = lambda what: Mood.HANGS if "/manifests/" in what else Mood.WELL
    known, came = store.manifests(), seen(tmp_path)
    result.drain()
    wait_for(lambda: store.proxy.heard[Mood.HANGS])
    time.sleep(5)
    assert result.state not in ("DRAINED", "DONE")
    assert set(store.manifests()) <= set(known)
    store.ask = lambda what: Mood.WELL
    store.proxy.release()
    result.wait_until_finish()
    assert result.state in ("DRAINED", "DONE")
    assert store.manifests()[-1] > known[-1]
    assert seen(tmp_path) >= came
    assert_counted_once(result)


def test_a_job_whose_store_stays_away_ends_with_the_reason_and_goes_on_exactly(tmp_path, store):
    begin = time.time()
    result = start(tmp_path, store, begin)
    wait_for(store.manifests)
    store.ask = lambda what: Mood.BREAKS
    with pytest.raises(CheckpointFailed) as raised:
        result.wait_until_finish()
    said = str(raised.value)

    assert store.root in said
    assert "Connection was closed" in said
    assert "--resume" in said
    assert "planted-password" not in said

    store.ask = lambda what: Mood.WELL
    result = start(tmp_path, store, begin, "--resume")
    before = seen(tmp_path)
    wait_for(lambda: seen(tmp_path) > before + 20)
    result.drain()
    result.wait_until_finish()
    assert_counted_once(result)


@pytest.mark.timeout(1200)
def test_a_job_whose_store_takes_a_second_for_each_request_goes_on_and_checkpoints_come_later(
    tmp_path, store
):
    result = start(tmp_path, store, time.time())
    wait_for(store.manifests)
    store.proxy.seconds = 1.0
    store.ask = lambda what: Mood.SLOW
    for _ in range(2):
        longest = 0.0
        newest, began = store.manifests()[-1], time.monotonic()
        came, last = seen(tmp_path), began
        while store.manifests()[-1] == newest:
            now = time.monotonic()
            assert now - began < 300, "no checkpoint came"
            if seen(tmp_path) > came:
                longest = max(longest, now - last)
                came, last = seen(tmp_path), now
            time.sleep(0.2)
        took = time.monotonic() - began
        longest = max(longest, time.monotonic() - last)
        print(f"a checkpoint after {took:.0f} s; nothing was seen for {longest:.1f} s at most")
        assert longest < took / 2, "the job waited for its checkpoint"
    result.drain()
    result.wait_until_finish()
    assert result.state in ("DRAINED", "DONE")
    assert_counted_once(result)
