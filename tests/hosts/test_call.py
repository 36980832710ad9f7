"""Calls: state stays between tasks, data flows both ways, and failures say what happened."""

from __future__ import annotations

import itertools
import os
import select
from dataclasses import replace

import hosted
import pytest

from sparkdrain.errors import BadSetup, HostMissing, WorkerLost
from tests.support.waiting import wait_until


def test_a_host_keeps_its_state_between_tasks_of_different_processes(bench) -> None:
    outcomes = [bench.ask("count") for _ in range(3)]
    assert outcomes == [[(0, b"1")], [(0, b"2")], [(0, b"3")]]


def test_every_slot_has_a_process_of_its_own(bench) -> None:
    bench.ask("pid", slot=0)
    bench.ask("pid", slot=1)
    assert len({record.pid for record in bench.leash.hosts()}) == 2


def test_of_tasks_that_race_to_start_a_host_one_wins_and_all_are_served(bench) -> None:
    tasks = [bench.start("count") for _ in range(4)]
    outcomes = sorted(bench.outcome(task) for task in tasks)
    assert outcomes == [[(0, b"1")], [(0, b"2")], [(0, b"3")], [(0, b"4")]]


def test_records_come_back_in_their_order_with_their_partitions(bench) -> None:
    records = [b"x" * size for size in [0, 1, 7, 5000, 40_000, 0, 3_000_000, 2]]
    assert bench.ask("echo", records=records) == [(len(record), record) for record in records]


def test_no_buffer_is_large_enough_to_hide_a_deadlock(bench) -> None:
    bench.ask("count")
    size = 64 << 10
    pairs = bench.here("echo", records=(bytes(size) for _ in range(1000)))
    assert len(pairs) == 1000


def test_small_records_by_the_hundred_thousand_arrive(bench) -> None:
    bench.ask("count")
    records = [str(number).encode() for number in range(200_000)]
    assert [record for _, record in bench.here("echo", records=records)] == records


def test_what_nobody_takes_is_not_produced(bench) -> None:
    bench.ask("count")
    taken = itertools.count()

    def endless():
        while True:
            next(taken)
            yield bytes(1 << 20)

    pairs = bench.orders("echo", fresh=False, records=endless()).run()
    for _ in range(3):
        next(pairs)
    pairs.close()
    # Some are in buffers, of the sockets and of both processes.
    assert next(taken) < 50


def test_a_service_need_not_take_its_records(bench) -> None:
    bench.ask("count")
    taken = itertools.count()
    records = (bytes(100_000) for _ in range(1000) if next(taken) >= 0)
    assert bench.here("ignore", records=records) == [(0, b"ignored")]
    assert bench.here("count") == [(0, b"3")]


def test_a_second_call_waits_for_the_first(bench) -> None:
    bench.ask("count")
    first = bench.start("ticket go")
    bench.wait_for("waiting")
    second = bench.start("count")
    bench.mark("go").touch()
    assert bench.outcome(first) == [(0, b"go")]
    assert bench.outcome(second) == [(0, b"3")]


def test_an_error_of_the_service_is_raised_in_the_task_as_it_was_described(bench) -> None:
    with pytest.raises(ValueError, match=r"^ValueError of the service: no such flight$"):
        bench.ask("fail no such flight")
    assert bench.ask("count") == [(0, b"2")]


def test_a_service_that_cannot_be_made_leaves_no_host(bench) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="no setup today"):
            bench.ask("count", service=hosted.Unmakeable)
    assert bench.ask("count") == [(0, b"1")]


def test_an_error_of_the_records_is_raised_and_ends_the_call(bench) -> None:
    bench.ask("count")

    def records():
        yield bytes(100_000)
        message = "fetch failed"
        raise OSError(message)

    with pytest.raises(OSError, match="fetch failed"):
        bench.here("take", records=records())
    bench.wait_for("abandoned")
    assert bench.here("count") == [(0, b"3")]


def test_an_early_error_of_the_records_is_raised_too(bench) -> None:
    bench.ask("count")
    with pytest.raises(ZeroDivisionError):
        bench.here("take", records=(b"" for _ in range(1 // 0)))
    with pytest.raises(ZeroDivisionError):
        bench.here("take", records=(bytes(1 // number) for number in (1, 0)))
    assert bench.here("count") == [(0, b"2")]


def test_a_missing_host_is_told_with_its_slot(bench) -> None:
    with pytest.raises(HostMissing, match=r"The state of slot 3 is gone: no process has held it"):
        bench.ask("count", slot=3, fresh=False)


def test_a_lost_host_is_told_with_how_it_ended_and_later_tasks_hear_of_it(bench) -> None:
    bench.ask("count", slot=2)
    (record,) = bench.leash.hosts()
    with pytest.raises(WorkerLost, match=rf"slot 2 .*process {record.pid} .*exited with status 7"):
        bench.ask("exit 7", slot=2)
    with pytest.raises(HostMissing, match=rf"slot 2 is gone: it was in process {record.pid} on"):
        bench.ask("count", slot=2, fresh=False)


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV"])
def test_a_killed_host_is_told_with_its_signal_and_leaves_no_files(bench, name) -> None:
    bench.ask("count")
    with pytest.raises(WorkerLost, match=name):
        bench.ask(f"kill {name}")
    assert bench.files() == []


def test_a_fresh_task_starts_a_host_in_place_of_a_killed_one(bench) -> None:
    with pytest.raises(WorkerLost):
        bench.ask("kill SIGKILL")
    assert bench.ask("count") == [(0, b"1")]


@pytest.mark.parametrize(
    ("request_", "mark"), [("drip", "dripping"), ("flood 1000000000", "flooding")]
)
def test_a_call_whose_task_was_killed_is_given_up_and_the_next_is_served(
    bench, request_, mark
) -> None:
    bench.ask("count")
    task = bench.start(request_)
    host = bench.wait_for(mark)
    bench.kill(task)
    assert bench.wait_for("abandoned") == host
    assert bench.ask("count", fresh=False) == [(0, b"3")]


def test_a_call_that_waits_for_records_is_given_up_when_its_task_is_gone(bench) -> None:
    task = bench.start("take", records=[bytes(100_000)], stuck=True)
    host = bench.wait_for("taking")
    bench.kill(task)
    assert bench.wait_for("abandoned") == host
    assert bench.ask("count", fresh=False) == [(0, b"2")]


def test_a_task_that_died_in_the_queue_is_not_served(bench) -> None:
    bench.ask("count")
    first = bench.start("ticket go")
    bench.wait_for("waiting")
    waiting = [bench.start("count") for _ in range(2)]
    for task in waiting:
        bench.kill(task)
    bench.mark("go").touch()
    bench.outcome(first)
    assert bench.ask("count") == [(0, b"3")]


def test_a_directory_of_any_length_will_do(bench) -> None:
    bench.directory = bench.directory / ("long" * 20) / ("longer" * 20)
    bench.directory.mkdir(parents=True)
    assert bench.ask("count") == [(0, b"1")]
    assert bench.ask("count", fresh=False) == [(0, b"2")]


def test_a_host_holds_nothing_that_was_its_workers(bench) -> None:
    reader, writer = os.pipe()
    task = bench.start("count", pass_fds=(writer,))
    os.close(writer)
    bench.outcome(task)
    ended, _, _ = select.select([reader], [], [], 20)
    os.close(reader)
    assert ended
    assert [record.ended for record in bench.leash.hosts()] == [""]


def test_no_host_is_forked_from_a_worker_in_which_rocksdb_has_threads(bench) -> None:
    with pytest.raises(BadSetup, match="RocksDB does not survive that"):
        bench.ask("count", before=hosted.use_rocksdb)
    wait_until(lambda: bench.files() == [])


def test_a_host_cannot_start_when_the_driver_is_out_of_reach(bench) -> None:
    nowhere = replace(bench.leash.endpoint, address=("127.0.0.1", 1))
    with pytest.raises(BadSetup, match=r"slot 0 did not start: .* driver at 127\.0\.0\.1:1"):
        bench.ask("count", leash=nowhere)
    wait_until(lambda: bench.files() == [])
