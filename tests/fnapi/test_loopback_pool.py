"""The pool in the program runs whatever it is sent, so only the program's user reaches it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import apache_beam as beam
import psutil

from sparkdrain.loopback import UNIX, loopback_pool
from tests.support.seen import see
from tests.support.stranger import as_stranger, connects


def ports() -> set[str]:
    found = psutil.Process().net_connections("inet")
    return {f"port {one.laddr.port}" for one in found if one.status == psutil.CONN_LISTEN}


def test_a_job_in_the_program_opens_no_port(run):
    before = ports()
    # User code runs in a thread of this process, while all listeners are open.
    _, seen = run(lambda p: p | beam.Create([1]) | beam.Map(lambda _: see(frozenset(ports()))))
    assert len(seen) == 1
    assert seen[0] <= before


def test_the_folder_of_the_pool_is_for_its_user_only():
    address = loopback_pool()
    assert address.startswith(UNIX)
    folder = Path(address.removeprefix(UNIX)).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert folder.stat().st_uid == os.geteuid()


@as_stranger
def test_another_user_gets_no_connection():
    assert not connects(loopback_pool().removeprefix(UNIX))
