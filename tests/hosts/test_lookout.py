"""The driver can see what a host is doing, whatever user code does there."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests.support.waiting import wait_until


def only_one(bench):
    (seen,) = bench.leash.look()
    return seen


def test_between_two_calls_a_host_does_nothing(bench) -> None:
    bench.ask("count")
    seen = only_one(bench)
    assert seen.host.id.slot == 0
    assert seen.sight.seconds is None
    assert bench.ask("count") == [(0, b"2")]


def test_while_python_code_runs_the_service_tells_what_it_does(bench) -> None:
    task = bench.start("sleep")
    pid = bench.wait_for("asleep")
    time.sleep(0.3)
    seen = only_one(bench)
    assert seen.host.pid == pid
    assert 0.2 < seen.sight.seconds < 60
    assert seen.sight.told == b"the service says"
    assert not seen.sight.dump
    bench.kill(task)


def test_code_that_keeps_the_interpreters_lock_is_seen_from_outside(bench) -> None:
    task = bench.start("keep_lock")
    pid = bench.wait_for("keeping")
    # Nothing in the host can write it now, so the service has done it before.
    (scratch,) = {path.parent for path in bench.files() if path.name == "store"}
    (scratch / "notes").write_text("noted before")
    time.sleep(0.2)
    seen = only_one(bench)
    assert seen.host.pid == pid
    assert seen.sight.told is None
    assert "in _keep_lock" in seen.sight.dump
    assert seen.sight.notes == "noted before"
    again = only_one(bench)
    assert again.sight.dump.count("in _keep_lock") == 1
    bench.kill(task)
    # No code of the host's own runs any more, so it cannot end itself.
    os.kill(pid, signal.SIGKILL)


def test_a_host_that_is_stopped_is_told_of_without_a_stack(bench) -> None:
    task = bench.start("sleep")
    pid = bench.wait_for("asleep")
    os.kill(pid, signal.SIGSTOP)
    # Each thread stops when it has its next turn.
    threads = Path(f"/proc/{pid}/task")
    wait_until(lambda: all(") T " in path.read_text() for path in threads.glob("*/stat")))
    seen = only_one(bench)
    os.kill(pid, signal.SIGCONT)
    assert seen.sight.told is None
    assert not seen.sight.dump
    assert seen.sight.seconds > 0
    bench.kill(task)


def test_many_hosts_are_looked_at_at_once_and_those_that_ended_are_left_out(bench) -> None:
    for slot in range(3):
        bench.ask("count", slot=slot)
    os.kill(int(bench.ask("pid", slot=1)[0][1]), signal.SIGKILL)
    wait_until(lambda: any(record.ended for record in bench.leash.hosts()))
    assert sorted(seen.host.id.slot for seen in bench.leash.look()) == [0, 2]


def test_a_host_has_answered_many_questions_and_answers_calls_still(bench) -> None:
    bench.ask("count")
    task = bench.start("sleep")
    bench.wait_for("asleep")
    assert {only_one(bench).sight.told for _ in range(20)} == {b"the service says"}
    bench.kill(task)
