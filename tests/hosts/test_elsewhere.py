"""A slot's tasks find its host from every executor: each has a directory of its own here."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import psutil
import pytest

from sparkdrain.errors import HostMissing, WorkerLost
from sparkdrain.hosts.leash import Leash
from sparkdrain.lines.door import MOST_STRANGERS
from sparkdrain.lines.server import UnixBind
from sparkdrain.own_folder import own_folder
from tests.support.waiting import wait_until


@pytest.fixture(params=[False, True], ids=["clear", "encrypted"])
def encrypted(request) -> bool:
    return request.param


@pytest.fixture
def executors(tmp_path) -> list:
    directories = [tmp_path / f"executor{number}" for number in range(4)]
    for directory in directories:
        directory.mkdir()
    return directories


def test_a_task_on_another_executor_finds_the_host(bench, executors) -> None:
    outcomes = [bench.ask("count", directory=executor) for executor in executors]
    assert outcomes == [[(0, str(calls).encode())] for calls in (1, 2, 3, 4)]
    assert bench.ask("count", directory=executors[3], fresh=False) == [(0, b"5")]
    assert bench.leash.visits() == 4


def test_calls_from_the_executor_of_a_host_are_no_visits(bench, executors) -> None:
    assert bench.ask("count", directory=executors[0]) == [(0, b"1")]
    assert bench.ask("count", directory=executors[0]) == [(0, b"2")]
    assert bench.leash.visits() == 0


def test_of_tasks_that_race_on_different_executors_one_starts_the_host(bench, executors) -> None:
    tasks = [bench.start("count", directory=executor) for executor in executors]
    outcomes = sorted(bench.outcome(task) for task in tasks)
    assert outcomes == [[(0, b"1")], [(0, b"2")], [(0, b"3")], [(0, b"4")]]
    # What a host that was not wanted has made is gone again.
    wait_until(lambda: len([path for path in bench.files() if path.name == "store"]) == 1)


def test_large_and_many_records_cross_the_network(bench, executors) -> None:
    bench.ask("count")
    records = [b"x" * size for size in [5_000_000, 0, *range(0, 60_000, 7)]]
    pairs = bench.here("echo", directory=executors[1], records=records)
    assert [record for _, record in pairs] == records


def test_a_call_from_another_executor_is_given_up_when_its_task_is_killed(bench, executors) -> None:
    bench.ask("count", directory=executors[0])
    task = bench.start("drip", directory=executors[1])
    wait_until((executors[0] / "dripping").exists)
    bench.kill(task)
    wait_until((executors[0] / "abandoned").exists)
    assert bench.ask("count", directory=executors[1]) == [(0, b"3")]


def test_a_stranger_at_a_host_is_turned_away(bench, executors) -> None:
    bench.ask("count")
    (record,) = bench.leash.hosts()
    with socket.create_connection(record.address) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert bench.here("count", directory=executors[1]) == [(0, b"2")]


def test_strangers_at_a_host_keep_no_call_waiting(bench, executors) -> None:
    """Neither those who are silent, nor one who sends a byte now and then."""
    bench.ask("count", directory=executors[0])
    (record,) = bench.leash.hosts()
    over = threading.Event()

    def drip() -> None:
        with contextlib.suppress(OSError), socket.create_connection(record.address) as slow:
            while not over.wait(0.2):
                slow.sendall(b"\0")

    thread = threading.Thread(target=drip)
    thread.start()
    with contextlib.ExitStack() as strangers:
        for _ in range(100):
            strangers.enter_context(socket.create_connection(record.address))
        began = time.monotonic()
        for number in range(2, 5):
            assert bench.here("count", directory=executors[0]) == [(0, b"%d" % number)]
        assert time.monotonic() - began < 4, "a stranger may stay for five seconds"
        threads = psutil.Process(record.pid).num_threads()
        assert threads < 2 * MOST_STRANGERS + 40
    over.set()
    thread.join()


def test_where_the_driver_listens_at_a_unix_socket_hosts_open_no_port(bench) -> None:
    """There is one executor then, and no task comes from elsewhere."""
    leash = Leash(UnixBind(own_folder()))
    try:
        assert bench.ask("count", leash=leash.endpoint) == [(0, b"1")]
        assert bench.ask("count", leash=leash.endpoint, fresh=False) == [(0, b"2")]
        (record,) = leash.hosts()
        assert record.address is None
        warden = psutil.Process(record.pid).parent()
        for process in (psutil.Process(record.pid), warden):
            assert process.net_connections("inet") == []
        task = bench.start("exit 9", leash=leash.endpoint)
        with pytest.raises(WorkerLost, match="status 9"):
            bench.outcome(task)
        with pytest.raises(HostMissing, match="status 9"):
            bench.ask("count", leash=leash.endpoint, fresh=False)
    finally:
        leash.close()


def test_a_host_that_died_elsewhere_is_missing_with_its_history(bench, executors) -> None:
    bench.ask("count", directory=executors[0])
    (record,) = bench.leash.hosts()
    with pytest.raises(Exception, match="status 9"):
        bench.ask("exit 9", directory=executors[1])
    with pytest.raises(HostMissing, match=rf"it was in process {record.pid} .*status 9"):
        bench.ask("count", directory=executors[2], fresh=False)
