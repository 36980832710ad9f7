"""At a warm server a relay waits for the next program whose slots share a harness."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from test_go import built, ran
from test_shared_go import workers

from tests.support.server_process import server_process
from tests.support.waiting import wait_until


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_the_second_program_has_the_relay_that_waited_and_finds_what_it_expects(tmp_path, room):
    if shutil.which("go") is None:
        pytest.skip("there is no Go compiler here")
    exact = built(tmp_path)
    warm = f"--server-dir={tmp_path / 'server'}", "--spark-master-url=local[2]"
    with server_process(*warm) as (_, endpoint):
        first = ran(exact, exact, endpoint)
        assert first.returncode == 0, first.stdout + first.stderr
        assert not list(room.glob("*/spare-relay/taken"))
        wait_until(lambda: list(room.glob("*/spare-relay/waiting")), 300.0)
        wait_until(lambda: not workers(), 60.0)
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(ran, exact, exact, endpoint)
            wait_until(lambda: list(room.glob("*/spare-relay/taken")), 300.0)
            second = running.result()
        assert second.returncode == 0, second.stdout + second.stderr
        assert second.stdout == "read 1000\n"
        wait_until(lambda: not workers(), 60.0)
    assert not list(room.glob("*/spare-relay"))
