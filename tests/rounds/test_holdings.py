"""What lies where is what hosts answer, and slots are placed by it."""

from __future__ import annotations

from sparkdrain.checkpoints.manifest import FileEntry, Manifest, ShardState
from sparkdrain.hosts.executor import Executor
from sparkdrain.local_state.files import FileContent
from sparkdrain.local_state.notes import SlotNote
from sparkdrain.local_state.slot_files import SlotFiles, held_bytes
from sparkdrain.rounds.driver.inheritances import kept_form
from sparkdrain.rounds.driver.placement import Placement, holdings
from sparkdrain.rounds.messages import RoundReport

A, B = Executor("a", "1"), Executor("b", "2")


def shard(level: int, slot: int, *digests: str) -> ShardState:
    files = tuple(FileEntry(f"{digest}.sst", 10, digest * 64, digest) for digest in digests)
    report = RoundReport(level, slot, 1, 1, {}, (), frozenset(), None)
    return ShardState(level, slot, files, kept_form(report))


def taken(*shards: ShardState, slots: int = 2) -> Manifest:
    return Manifest("job", "run", 1, 1, 1, 0, {}, slots, shards)


def kept(folder, tmp_path, *digests: str) -> None:
    files = SlotFiles(str(folder), SlotNote("job", "/home", 0, 0))
    for digest in digests:
        path = tmp_path / f"{digest}.sst"
        path.write_bytes(b"x" * 10)
        files.keep(1, {FileContent(digest * 64, 10): path}, lambda: None)
    files.close()


def test_a_host_says_how_much_of_each_slot_it_has(tmp_path):
    kept(tmp_path / "state", tmp_path, "a", "b")
    needed = {0: [FileContent("a" * 64, 10), FileContent("c" * 64, 10)], 1: [], 2: []}
    needed[2] = [FileContent("a" * 64, 10), FileContent("b" * 64, 10), FileContent("b" * 64, 11)]
    assert held_bytes(str(tmp_path / "state"), needed) == {0: 10, 2: 20}
    assert held_bytes(str(tmp_path / "nothing"), needed) == {}
    assert held_bytes("$NOWHERE_AT_ALL/x", needed) == {}


def test_slots_go_where_their_state_lies(tmp_path):
    checkpoint = taken(shard(0, 0, "a"), shard(0, 1, "b"), shard(1, 0, "c"), shard(1, 1, "d", "e"))
    on = {A: tmp_path / "of-a", B: tmp_path / "of-b"}
    kept(on[A], tmp_path, "b", "d", "e")
    kept(on[B], tmp_path, "a", "c")

    def ask(question):
        for folder in on.values():
            assert folder.is_dir()
        return {one: held_bytes(str(on[one]), question.needed) for one in on}

    held = holdings(checkpoint, 2, "/state", ask)
    assert held == {0: {"b": 20}, 1: {"a": 30}}
    placement = Placement(2)
    placement.held = held
    placement.begin([A, B])
    assert placement.places([]) == (B.place, A.place)


def test_a_host_that_does_not_answer_has_nothing():
    assert holdings(taken(shard(0, 0, "a"), shard(0, 1, "b")), 2, "/state", lambda _: {}) == {}


def test_with_another_number_of_slots_a_slot_needs_the_files_of_all_that_it_inherits_from():
    asked = []
    holdings(
        taken(shard(0, 0, "a"), shard(0, 1, "b")), 1, "/state", lambda it: asked.append(it) or {}
    )
    assert {each.digest[0] for each in asked[0].needed[0]} == {"a", "b"}
