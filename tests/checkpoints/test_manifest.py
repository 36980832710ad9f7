"""A manifest is read as it was written, or not at all."""

from __future__ import annotations

import dataclasses
import hashlib
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparkdrain.checkpoints.manifest import FileEntry, Manifest, ShardState, decode, encode
from sparkdrain.checkpoints.paths import (
    Paths,
    Place,
    Stamp,
    epoch_of_claim,
    file_name,
    job_of_manifest,
    place_of,
    place_of_manifest,
    stamp_of,
)
from sparkdrain.errors import CheckpointDamaged, CheckpointTooNew

NUMBERS = st.integers(0, 2**40)
FILES = st.builds(FileEntry, st.text(), NUMBERS, st.text(), st.text())
SHARDS = st.builds(
    ShardState, NUMBERS, NUMBERS, st.lists(FILES, max_size=3).map(tuple), st.binary()
)
MANIFESTS = st.builds(
    Manifest,
    job_name=st.text(),
    run_id=st.text(),
    epoch=NUMBERS,
    number=NUMBERS,
    round=NUMBERS,
    created=NUMBERS,
    fingerprint=st.dictionaries(st.text(), st.text(), max_size=3),
    slots=NUMBERS,
    shards=st.lists(SHARDS, max_size=3).map(tuple),
    driver=st.binary(),
)
ONE = Manifest("job", "run", 1, 2, 3, 4, {"a": "b"}, 1, (ShardState(0, 0, (), b"r"),), b"d")


@given(MANIFESTS)
def test_what_was_written_is_read(manifest):
    assert decode(encode(manifest), "path") == manifest


def test_a_manifest_that_lost_its_end_is_damaged():
    data = encode(ONE)
    for length in range(len(data)):
        with pytest.raises((CheckpointDamaged, CheckpointTooNew), match="the/path"):
            decode(data[:length], "the/path")


@given(st.integers(0, len(encode(ONE)) - 1), st.integers(1, 255))
def test_a_manifest_with_another_byte_is_damaged(at, flip):
    data = bytearray(encode(ONE))
    data[at] ^= flip
    with pytest.raises((CheckpointDamaged, CheckpointTooNew), match="the/path"):
        decode(bytes(data), "the/path")


@given(st.binary())
def test_what_is_no_manifest_says_so(data):
    with pytest.raises(CheckpointDamaged, match="the/path is no manifest"):
        decode(data, "the/path")


def test_a_newer_manifest_is_refused_whatever_it_holds():
    with pytest.raises(CheckpointTooNew, match=r"the/path has format 2; .* up to 1.*release"):
        decode(b"sparkdrain checkpoint, format 2\n\xff\x00", "the/path")


@pytest.mark.parametrize(
    "fields",
    [b'{"shards": []}', b'{"driver": "", "shards": [], "of another release": 1}', b"[]", b"7"],
)
def test_a_manifest_with_other_fields_is_refused_by_name(fields):
    title = encode(ONE).partition(b"\n")[0]
    data = b"\n".join((title, hashlib.sha256(fields).hexdigest().encode(), fields, b""))
    with pytest.raises(CheckpointDamaged, match="the/path is whole, but this release cannot read"):
        decode(data, "the/path")


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"slots": "two"}, "slots is 'two'"),
        ({"slots": -1}, "slots is -1"),
        ({"slots": True}, "slots is True"),
        ({"round": 1.5}, "round is 1.5"),
        ({"job_name": 7}, "job_name is 7"),
        ({"fingerprint": {"state": 7}}, "fingerprint of 'state' is 7"),
        ({"fingerprint": []}, "no attribute"),
        ({"shards": [{"level": "x", "slot": 0, "files": [], "report": ""}]}, "level is 'x'"),
    ],
    ids=str,
)
def test_a_field_that_is_not_what_it_should_be_is_named_with_a_remedy(more, named):
    title, _, body = encode(ONE).splitlines()
    fields = json.dumps({**json.loads(body), **more}).encode()
    data = b"\n".join((title, hashlib.sha256(fields).hexdigest().encode(), fields, b""))
    with pytest.raises(CheckpointDamaged) as refused:
        decode(data, "the/path")
    assert named in str(refused.value)
    assert "resume from the checkpoint before" in str(refused.value)


def test_a_manifest_of_a_newer_release_with_fields_more_is_read():
    shard = ShardState(0, 0, (FileEntry("a", 1, "b", "c"),), b"r")
    written = dataclasses.replace(ONE, shards=(shard,))
    title, _, body = encode(written).splitlines()
    found = json.loads(body)
    found["later"] = 1
    found["shards"][0]["files"][0]["later"] = 1
    found["shards"][0]["later"] = 1
    fields = json.dumps(found).encode()
    data = b"\n".join((title, hashlib.sha256(fields).hexdigest().encode(), fields, b""))
    assert decode(data, "the/path") == written


@pytest.mark.parametrize("digits", [10, 5000])
def test_a_format_that_is_no_number_of_ours_is_newer_and_is_shown_shortened(digits):
    with pytest.raises(CheckpointTooNew, match=r"the/path has format 9{9}\.\.\.; this release"):
        decode(b"sparkdrain checkpoint, format " + digits * b"9" + b"\n\xff\x00", "the/path")


def test_what_a_manifest_cannot_hold_is_not_written():
    with pytest.raises(TypeError, match="set cannot be kept"):
        encode(dataclasses.replace(ONE, fingerprint={"a": {1}}))


# --- names ------------------------------------------------------------------------------------

STAMPS = st.builds(Stamp, st.integers(0, 10**8), st.integers(0, 10**11))
PLACES = st.builds(Place, st.integers(0, 10**11), STAMPS)


@given(PLACES, st.text(min_size=1, max_size=20))
@example(Place(1, Stamp(1, 1)), "manifests")
@example(Place(0, Stamp(1, 1)), "manifests")
def test_names_tell_what_they_are_of(place, job):
    paths = Paths("root/", job)
    manifest, stamp = paths.manifest(place), place.stamp
    assert place_of_manifest(manifest.removeprefix(f"{paths.manifests}/")) == place
    assert job_of_manifest(manifest.removeprefix("root/")) == (job, place)
    assert job_of_manifest(manifest.removeprefix(f"{paths.folder}/")) == ("", place)
    assert place_of(f"{stamp}.manifest.1234.part") == Place(0, stamp)
    assert place_of(f"{1:09d}.12ab.part/{stamp}.manifest") == Place(1, stamp)
    assert stamp_of(file_name(stamp, 3, 4, "abc" * 20)) == stamp
    assert stamp_of(f"{stamp}.manifest.1234.part") == stamp
    assert epoch_of_claim(paths.claim(stamp.epoch, "token").rpartition("/")[2]) == stamp.epoch


@given(PLACES, st.text(min_size=1, max_size=300))
@example(Place(0, Stamp(0, 0)), "€" * 29)
@example(Place(0, Stamp(0, 0)), "n" * 256)
def test_long_names_of_jobs_lead_to_their_folder(place, job):
    paths = Paths("root/", job)
    assert len(paths.folder.removeprefix("root/")) <= 255
    found, _ = job_of_manifest(paths.manifest(place).removeprefix("root/"))
    assert Paths("root/", found).folder == paths.folder


@given(st.text())
def test_other_names_are_of_nothing(name):
    assert place_of_manifest(name) is None
    assert epoch_of_claim(name) is None
    assert job_of_manifest(name) is None


@given(STAMPS, STAMPS)
def test_jobs_do_not_share_a_folder_nor_checkpoints_a_name(one, other):
    assert (str(one) == str(other)) == (one == other)
    assert Paths("r", "a/b").folder != Paths("r", "a%2Fb").folder
    for job in ("a/b", "a/manifests", "/"):
        assert "/" not in Paths("r", job).folder.removeprefix("r/")
