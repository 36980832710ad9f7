"""What follows from what is in storage."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.checkpoints.decide import (
    differences,
    garbage_files,
    garbage_manifests,
    missing,
    stamps,
)
from sparkdrain.checkpoints.manifest import FileEntry, Manifest, ShardState
from sparkdrain.checkpoints.paths import Stamp, file_name

STAMPS = st.builds(Stamp, st.integers(1, 3), st.integers(1, 4))
FOREIGN = st.sampled_from(["README", ".DS_Store", "manifest", "1-2.manifest", "tmp-000001"])


def test_the_newest_checkpoint_is_that_of_the_newest_driver():
    names = ["000001-000000009.manifest", "000002-000000003.manifest", "notes.txt"]
    assert stamps(names) == [Stamp(2, 3), Stamp(1, 9)]


def test_state_that_is_gone_or_another_is_a_difference_and_state_that_is_new_is_none():
    assert differences({"a": "bag", "b": "map"}, {"a": "bag", "b": "map", "c": "set"}) == []
    assert differences({"a": "bag", "b": "map"}, {"b": "value"}) == [
        "a: was bag, and is not there any more",
        "b: was map, is value",
    ]


def test_what_a_checkpoint_needs_must_be_there_in_full():
    files = [FileEntry(f"{n}.sst", n, "digest", f"file-{n}" if n else "") for n in range(4)]
    manifest = Manifest("j", "r", 1, 1, 1, 0, {}, 1, (ShardState(0, 0, tuple(files)),))
    assert missing(manifest, {"file-1": 1, "file-2": 2, "file-3": 3, "more": 9}) == []
    assert missing(manifest, {"file-1": 1, "file-2": 0}) == [
        "file-2 has 0 bytes instead of 2",
        "file-3 is missing",
    ]


@given(st.sets(STAMPS, min_size=1), STAMPS, st.integers(1, 3), st.sets(FOREIGN))
def test_old_manifests_go_the_newest_stay_and_what_is_not_ours_stays(listed, newest, kept, more):
    names = {f"{stamp}.manifest" for stamp in listed | {newest}}
    parts = {f"{stamp}.manifest.0123.part" for stamp in listed}
    keep = [stamp for stamp in stamps(names) if stamp <= newest][:kept]
    gone = set(garbage_manifests(names | parts | more, keep, newest))
    stay = stamps(names - gone)
    assert [stamp for stamp in stay if stamp <= newest] == keep
    assert [stamp for stamp in stay if stamp > newest] == [
        stamp for stamp in stamps(names) if stamp > newest
    ]
    assert gone & parts == {f"{stamp}.manifest.0123.part" for stamp in listed if stamp <= newest}
    assert not gone & more


@given(st.sets(STAMPS), STAMPS, st.data(), st.sets(FOREIGN))
def test_files_that_are_needed_stay_and_so_do_those_that_came_for_later_ones(
    listed, newest, data, more
):
    names = {file_name(stamp, 0, 0, "digest") for stamp in listed}
    needed = data.draw(st.sets(st.sampled_from(sorted(names))) if names else st.just(set()))
    gone = set(garbage_files(names | more, needed, newest))
    later = {file_name(stamp, 0, 0, "digest") for stamp in listed if stamp > newest}
    assert gone == names - needed - later
