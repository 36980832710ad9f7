"""When the driver that waits has a JVM and a relay wait, too."""

from __future__ import annotations

import threading

import pytest

from sparkdrain.fnapi import spare_jvm
from sparkdrain.fnapi.class_paths import CLASS_PATHS, SPARE_JVM
from sparkdrain.fnapi.relayed import SPARE_RELAY
from sparkdrain.server import driver_main
from tests.support.waiting import wait_until


class Spare:
    is_ended = False

    def end_unless_taken(self) -> None:
        self.is_ended = True


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """What was asked for a JVM, each time; the third time there is one."""
    seen: list[Spare | None] = []

    def start(*_) -> Spare | None:
        seen.append(Spare() if len(seen) == 2 else None)
        return seen[-1]

    monkeypatch.setattr(spare_jvm, "start_spare_jvm", start)
    monkeypatch.setattr(driver_main, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(driver_main, "_JOB_SECONDS", 0.0)
    monkeypatch.setenv(CLASS_PATHS, str(tmp_path))
    monkeypatch.setenv(SPARE_JVM, str(tmp_path / "jvm"))
    monkeypatch.setenv(SPARE_RELAY, str(tmp_path / "relay"))
    return seen


def test_a_class_path_that_comes_late_has_its_jvm_which_ends_with_the_need_for_it(asked):
    has_job = threading.Event()
    waits = threading.Thread(target=driver_main._have_processes_wait, args=(has_job,))
    waits.start()
    wait_until(lambda: len(asked) == 3)
    assert not asked[-1].is_ended
    has_job.set()
    waits.join(30)
    assert asked[-1].is_ended
    assert len(asked) == 3


def test_a_driver_that_has_its_job_starts_no_jvm_for_another(asked):
    has_job = threading.Event()
    has_job.set()
    driver_main._have_processes_wait(has_job)
    assert not asked


def test_a_relay_waits_beside_the_jvm_and_does_not_wait_for_it(asked, monkeypatch):
    relay = Spare()
    monkeypatch.setattr(
        driver_main, "start_spare_relay", lambda *_: relay if asked == [None] else None
    )
    has_job = threading.Event()
    waits = threading.Thread(target=driver_main._have_processes_wait, args=(has_job,))
    waits.start()
    wait_until(lambda: len(asked) == 3)
    has_job.set()
    waits.join(30)
    assert relay.is_ended
    assert asked[-1].is_ended
