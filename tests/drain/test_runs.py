from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.coordination.backends.memory import MemoryStore
from sparkdrain.drain import records, runs
from sparkdrain.drain.runs import DrainDisabled, NoSuchRun, Run, RunTaken
from sparkdrain.errors import BadOption

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
)


@pytest.fixture
def store():
    return MemoryStore()


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
    "change", [{"version": 2}, {"state": "ASLEEP"}, {"drain": 1}, {"began": "5"}, {"more": 1}]
)
def test_anything_else_is_refused(change):
    with pytest.raises(ValueError, match=r"version 1|has the fields|unknown"):
        Run.decode(json.dumps(json.loads(RUN.encode()) | change).encode())


def test_a_run_is_found_by_its_id_its_jobs_id_and_its_jobs_name(store):
    runs.begin(store, RUN)
    assert [runs.find(store, name) for name in ("mine", "job-1", "wordcount")] == [RUN] * 3


def test_by_the_jobs_name_the_run_is_found_that_goes_on(store):
    runs.begin(store, run("first", state="FAILED", began=1))
    runs.begin(store, run("second", began=2))
    runs.begin(store, run("third", state="CANCELLED", began=3))
    assert runs.find(store, "wordcount").run_id == "second"
    runs.tell(store, "second", "DRAINED")
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
    runs.tell(store, "mine", "DONE")
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
    runs.tell(store, "mine", state)
    with pytest.raises(RunTaken, match=rf"has ended as {state}. Choose another --run_id"):
        runs.begin(store, RUN)


@pytest.mark.parametrize("state", ["RUNNING", "DRAINING", "FAILED", "CANCELLED"])
def test_a_run_that_did_not_end_well_may_go_on(store, state):
    runs.begin(store, RUN)
    runs.tell(store, "mine", state)
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
            runs.tell(store, f"r{number}", "FAILED")
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


@pytest.mark.parametrize("state", ["DRAINED", "DONE"])
def test_a_run_that_ended_well_is_not_taken_up(store, state):
    runs.begin(store, durable("old", 1))
    runs.begin(store, durable("newest", 2))
    runs.tell(store, "newest", state)
    assert runs.resumed(store, durable("mine", 3)) == durable("mine", 3)


def test_a_run_without_checkpoints_takes_up_none(store):
    runs.begin(store, run("old"))
    assert runs.resumed(store, run("mine")).run_id == "mine"


def test_a_new_run_with_the_checkpoints_of_one_that_did_not_end_is_the_only_one_that_goes_on(store):
    runs.begin(store, durable("lost", 1))
    runs.begin(store, durable("elsewhere", 2, checkpoints="/other", job_name="other"))
    runs.begin(store, durable("new", 3))
    assert {each.run_id: each.state for each in runs.known(store)} == {
        "lost": "FAILED",
        "elsewhere": "RUNNING",
        "new": "RUNNING",
    }
    assert runs.find(store, "wordcount").run_id == "new"
