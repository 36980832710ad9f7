"""What follows from what is in storage."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.checkpoints.manifest import FileEntry, Manifest, ShardState, differences, missing
from sparkdrain.checkpoints.paths import Place, Stamp, file_name, place_of_manifest, places
from sparkdrain.checkpoints.publisher import garbage_files, garbage_manifests

STAMPS = st.builds(Stamp, st.integers(1, 3), st.integers(1, 4))
PLACES = st.builds(Place, st.integers(0, 2), STAMPS)
FOREIGN = st.sampled_from(["README", ".DS_Store", "manifest", "1-2.manifest", "tmp-000001"])


def test_the_newest_checkpoint_is_the_last_of_the_line_and_of_the_newest_driver():
    names = ["000001-000000009.manifest", "000002-000000003.manifest", "notes.txt"]
    before = [Place(0, Stamp(2, 3)), Place(0, Stamp(1, 9))]
    assert places(names) == before
    names += ["000000001/000003-000000004.manifest", "000000002/000001-000000010.manifest"]
    names += ["000000001/000002-000000004.manifest"]
    assert places(names) == [
        Place(2, Stamp(1, 10)),
        Place(1, Stamp(3, 4)),
        Place(1, Stamp(2, 4)),
        *before,
    ]


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


@given(st.sets(PLACES, min_size=1), PLACES, st.integers(1, 3), st.sets(FOREIGN))
def test_old_manifests_go_the_newest_stay_and_what_is_not_ours_stays(listed, newest, kept, more):
    names = {f"{place}.manifest" for place in listed | {newest}}
    parts = {part_of(place) for place in listed}
    keep = [place for place in places(names) if place <= newest][:kept]
    removed = garbage_manifests(names | parts | more, keep, newest)
    gone = set(removed)
    stay = places(names - gone)
    assert [place for place in stay if place <= newest] == keep
    assert [place for place in stay if place > newest] == [
        place for place in places(names) if place > newest
    ]
    assert gone & parts == {part_of(place) for place in listed if place <= newest}
    assert not gone & more
    assert places(removed)[::-1] == [place_of_manifest(n) for n in removed if n not in parts]


def part_of(place):
    """What a writer leaves that dies while it publishes; older releases made no folders."""
    if not place.position:
        return f"{place}.manifest.0123.part"
    return f"{place.position:09d}.0123.part/{place.stamp}.manifest"


@given(st.sets(STAMPS), STAMPS, st.data(), st.sets(FOREIGN))
def test_files_that_are_needed_stay_and_so_do_those_that_came_for_later_ones(
    listed, newest, data, more
):
    names = {file_name(stamp, 0, 0, "digest") for stamp in listed}
    needed = data.draw(st.sets(st.sampled_from(sorted(names))) if names else st.just(set()))
    gone = set(garbage_files(names | more, needed, newest))
    later = {file_name(stamp, 0, 0, "digest") for stamp in listed if stamp > newest}
    assert gone == names - needed - later
