from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.coordination.backends.memory import MemoryMetadataStore
from sparkdrain.drain import records, runs
from sparkdrain.drain.runs import DrainDisabled, NoSuchRun, Run, RunTaken
from sparkdrain.errors import BadOption, Fenced

RUN = Run("mine", "job-1", "wordcount", "unix:/x", "RUNNING", drain=True, began=5)
RUNS = st.builds(
    Run,
    st.text(),
    st.text(),
    st.text(),
    st.text(),
    st.sampled_from(["RUNNING", "DRAINING", "DRAINED", "DONE", "FAILED", "CANCELLED"]),
    st.booleans(),
    st.integers(),
    st.text(),
    st.integers(),
    st.sampled_from(["", "FLUSHING"]),
    st.lists(st.text()).map(tuple),
)


@pytest.fixture
def store():
    return MemoryMetadataStore()


def run(run_id="mine", **changes) -> Run:
    fields = {"job_id": f"job of {run_id}", "job_name": "wordcount", "endpoint": ""}
    return Run(run_id, **{**fields, "state": "RUNNING", "drain": True, "began": 5, **changes})


def told(call) -> str:
    with pytest.raises(NoSuchRun) as caught:
        call()
    return str(caught.value)


@given(RUNS)
def test_what_is_written_is_read_back_unchanged(one):
    assert Run.decode(one.encode()) == one


@pytest.mark.parametrize(
    "change", [{"version": 2}, {"state": "ASLEEP"}, {"drain": 1}, {"began": "5"}]
)
def test_anything_else_is_refused(change):
    with pytest.raises(ValueError, match=r"version 1|has the fields|unknown"):
        Run.decode(json.dumps(json.loads(RUN.encode()) | change).encode())


def test_a_record_of_an_older_or_newer_release_is_read():
    written = json.loads(RUN.encode())
    assert Run.decode(json.dumps({**written, "more": 1}).encode()) == RUN
    for name in ("epoch", "phase"):
        del written[name]
    assert Run.decode(json.dumps(written).encode()) == replace(RUN, epoch=0, phase="")


def test_a_run_is_found_by_its_id_its_jobs_id_and_its_jobs_name(store):
    runs.begin(store, RUN)
    assert [runs.find(store, name) for name in ("mine", "job-1", "wordcount")] == [RUN] * 3


def test_by_the_jobs_name_the_run_is_found_that_goes_on(store):
    runs.begin(store, run("first", state="FAILED", began=1))
    runs.begin(store, run("second", began=2))
    runs.begin(store, run("third", state="CANCELLED", began=3))
    assert runs.find(store, "wordcount").run_id == "second"
    runs.tell(store, run("second"), "DRAINED")
    assert runs.find(store, "wordcount").run_id == "third"


def test_if_two_runs_of_a_job_go_on_both_are_named(store):
    runs.begin(store, run("first"))
    runs.begin(store, run("second"))
    text = told(lambda: runs.find(store, "wordcount"))
    assert "2 runs of the job 'wordcount' go on: first, second. Name one" in text


def test_a_run_that_is_not_there_is_refused_with_those_that_are_and_nothing_is_written(store):
    assert "It knows: none" in told(lambda: runs.request(store, "mine", 1))
    runs.begin(store, RUN)
    text = told(lambda: runs.request(store, "mina", 1))
    assert "Did you mean 'mine'? It knows: mine (RUNNING)." in text
    assert store.all(records.NAMESPACE) == {}


def test_a_request_writes_one_notification_and_a_second_one_finds_it(store):
    runs.begin(store, RUN)
    asked, first = runs.request(store, "wordcount", 7)
    assert asked == RUN
    assert first.run_id == "mine"
    assert runs.request(store, "mine", 8) == (RUN, first)
    assert list(store.all(records.NAMESPACE)) == [str(first.id)]


def test_a_run_that_is_over_is_not_asked_any_more(store):
    runs.begin(store, RUN)
    runs.tell(store, RUN, "DONE")
    asked, notification = runs.request(store, "mine", 7)
    assert (asked.state, notification) == ("DONE", None)
    assert store.all(records.NAMESPACE) == {}


def test_a_run_that_does_not_listen_is_not_asked(store):
    runs.begin(store, run(drain=False))
    with pytest.raises(DrainDisabled, match="started with --drain=off"):
        runs.request(store, "mine", 7)
    assert store.all(records.NAMESPACE) == {}


@pytest.mark.parametrize("state", ["DRAINED", "DONE"])
def test_the_id_of_a_run_that_has_ended_well_is_not_used_again(store, state):
    runs.begin(store, RUN)
    runs.tell(store, RUN, state)
    with pytest.raises(RunTaken, match=rf"has ended as {state}. Choose another --run_id"):
        runs.begin(store, RUN)


@pytest.mark.parametrize("state", ["RUNNING", "DRAINING", "FAILED", "CANCELLED"])
def test_a_run_that_did_not_end_well_may_go_on(store, state):
    runs.begin(store, RUN)
    runs.tell(store, RUN, state)
    runs.begin(store, RUN)
    assert runs.find(store, "mine") == RUN


def test_a_run_id_that_the_store_does_not_take_is_refused(store):
    with pytest.raises(BadOption, match="--run_id cannot be"):
        runs.begin(store, run("x" * 1000))


def test_records_that_nobody_can_read_are_passed_over(store):
    store.put(runs.NAMESPACE, "junk", b"\xff")
    runs.begin(store, RUN)
    assert runs.known(store) == [RUN]
    store.put(runs.NAMESPACE, "mine", b"junk")
    runs.begin(store, RUN)
    assert runs.known(store) == [RUN]


def test_of_runs_that_are_over_the_newest_are_kept(store):
    for number in range(120):
        runs.begin(store, run(f"r{number}", began=number))
        if number != 3:
            runs.tell(store, run(f"r{number}"), "FAILED")
    kept = {each.run_id for each in runs.known(store)}
    assert len(kept) == 102
    assert {"r3", "r119", "r20"} <= kept
    assert "r0" not in kept


def durable(run_id: str, began: int, **changes) -> Run:
    return run(run_id, began=began, **{"checkpoints": "/cp", **changes})


def test_who_goes_on_from_checkpoints_takes_up_the_newest_run_that_has_them(store):
    runs.begin(store, durable("old", 1, state="FAILED"))
    runs.begin(store, durable("newer", 2))
    runs.begin(store, durable("elsewhere", 3, checkpoints="/other"))
    runs.begin(store, durable("another job", 4, job_name="other"))
    runs.begin(store, run("without", began=5))
    mine = runs.resumed(store, durable("mine", 6))
    assert mine == durable("newer", 6, job_id="job of mine")


def test_the_store_knows_the_highest_epoch_under_which_checkpoints_were_held(store):
    mine = durable("mine", 9)
    assert runs.held(store, mine) == 0
    runs.begin(store, durable("old", 1, epoch=2))
    runs.begin(store, durable("newer", 2, epoch=3, state="FAILED"))
    runs.begin(store, durable("elsewhere", 3, epoch=8, checkpoints="/other"))
    runs.begin(store, durable("another job", 4, epoch=8, job_name="other"))
    assert runs.held(store, mine) == 3
    assert runs.held(store, run("without", began=5)) == 0


@pytest.mark.parametrize("state", ["DRAINED", "DONE"])
def test_a_run_that_ended_well_is_not_taken_up(store, state):
    runs.begin(store, durable("old", 1))
    runs.begin(store, durable("newest", 2))
    runs.tell(store, durable("newest", 2), state)
    assert runs.resumed(store, durable("mine", 3)) == durable("mine", 3)


def test_a_run_without_checkpoints_takes_up_none(store):
    runs.begin(store, run("old"))
    assert runs.resumed(store, run("mine")).run_id == "mine"


def states(store) -> dict[str, str]:
    return {each.run_id: each.state for each in runs.known(store)}


def test_a_run_that_holds_the_lease_now_is_the_only_one_that_goes_on(store):
    runs.begin(store, durable("lost", 1, epoch=1))
    runs.begin(store, durable("elsewhere", 2, checkpoints="/other", job_name="other", epoch=1))
    runs.begin(store, durable("new", 3, epoch=2))
    assert states(store) == {"lost": "FAILED", "elsewhere": "RUNNING", "new": "RUNNING"}
    assert runs.find(store, "wordcount").run_id == "new"


def test_a_look_at_the_store_writes_nothing(store):
    runs.begin(store, durable("living", 1, epoch=1))
    before = store.all(runs.NAMESPACE)
    second = runs.resumed(store, durable("second", 2))
    assert second.run_id == "living"
    runs.check(store, second)
    assert store.all(runs.NAMESPACE) == before


def test_a_run_without_checkpoints_declares_no_other_lost(store):
    runs.begin(store, run("first"))
    runs.begin(store, run("second"))
    assert states(store) == {"first": "RUNNING", "second": "RUNNING"}


@pytest.mark.parametrize("later", ["same id", "id of its own"])
def test_of_two_drivers_at_the_same_moment_the_one_with_the_lease_stays(store, later):
    """The first takes the lease, then the second does and tells of its run; then the first does."""
    first = durable("run", 1, job_id="first", epoch=1)
    second = durable("run" if later == "same id" else "new", 2, job_id="second", epoch=2)
    runs.begin(store, second)
    before = store.all(runs.NAMESPACE)
    with pytest.raises(Fenced, match=r"run '\w+' \(job second\) has taken over"):
        runs.begin(store, first)
    assert store.all(runs.NAMESPACE) == before


class Interleaved(MemoryMetadataStore):
    """Lets another driver act once, just before the first write."""

    def __init__(self, other) -> None:
        super().__init__()
        self.other = other

    def put(self, *arguments):
        if (other := self.other) is not None:
            self.other = None
            other(self)
        return super().put(*arguments)


@pytest.mark.parametrize("later", ["same id", "id of its own"])
def test_a_driver_that_writes_too_late_does_not_come_back_to_life(later):
    second = durable("run" if later == "same id" else "new", 2, job_id="second", epoch=2)
    store = Interleaved(lambda store: runs.begin(store, second))
    first = durable("run", 1, job_id="first", epoch=1)
    if later == "same id":
        with pytest.raises(Fenced):
            runs.begin(store, first)
    else:
        runs.begin(store, first)  # and the driver is killed before it looks at its lease again
    assert runs.find(store, "wordcount") == second
    assert runs.resumed(store, durable("third", 3)).run_id == second.run_id


def test_a_driver_that_lost_its_lease_tells_nothing_of_the_run_that_was_taken_up(store):
    first = durable("run", 1, job_id="first", epoch=1)
    second = durable("run", 2, job_id="second", epoch=2)
    runs.begin(store, first)
    runs.begin(store, second)
    for state in ("DRAINING", "FAILED"):
        runs.tell(store, first, state)
    assert runs.known(store) == [second]
    assert not runs.belongs_to(store, first)
    runs.tell(store, second, "DRAINING")
    assert states(store) == {"run": "DRAINING"}


def test_the_newest_moves_of_a_run_are_kept_also_by_the_driver_that_goes_on(store):
    first, second = durable("run", 1, epoch=1), durable("run", 2, job_id="second", epoch=2)
    runs.begin(store, first)
    for number in range(25):
        runs.moved(store, first, f"move {number}")
    runs.tell(store, first, "DRAINING")
    runs.begin(store, second)
    runs.moved(store, first, "a move of a driver that was followed")
    (known,) = runs.known(store)
    assert known.moves == tuple(f"move {number}" for number in range(5, 25))


def test_a_record_from_before_epochs_is_read(store):
    fields = json.loads(RUN.encode())
    del fields["epoch"], fields["moves"]
    store.put(runs.NAMESPACE, "mine", json.dumps(fields).encode())
    assert runs.known(store) == [RUN]


def test_an_old_run_that_is_taken_up_meanwhile_is_not_forgotten():
    again = run("r0", began=0, job_id="again")

    class TakenUp(MemoryMetadataStore):
        def remove(self, namespace, key, version):
            self.put(namespace, key, again.encode())
            return super().remove(namespace, key, version)

    store = TakenUp()
    for number in range(101):
        failed = run(f"r{number}", began=number, state="FAILED")
        store.put(runs.NAMESPACE, failed.run_id, failed.encode())
    runs.begin(store, run("newest", began=200))
    assert states(store)["r0"] == "RUNNING"
