"""Who does not know the key is sent away in time, and a crowd of such costs little."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from sparkdrain.lines.door import Door
from sparkdrain.lines.line import Line, show_key
from tests.support.waiting import wait_until

KEY = b"the key of the job"


class Visit:
    """Somebody at the door."""

    def __init__(self, door) -> None:
        self.outside, inside = socket.socketpair()
        self.answer: list[bool] = []

        def meet() -> None:
            with Line(inside) as line:
                self.answer.append(door.admits(line))

        self.thread = threading.Thread(target=meet, daemon=True)
        self.thread.start()

    def is_let_in(self) -> bool:
        self.thread.join(15)
        return self.answer[0]

    def shows(self, key) -> None:
        with Line(self.outside) as line:
            show_key(line, key)


def test_who_knows_the_key_is_let_in() -> None:
    visit = Visit(Door(KEY))
    visit.shows(KEY)
    assert visit.is_let_in()


def test_who_has_another_key_is_not() -> None:
    visit = Visit(Door(KEY))
    with pytest.raises(Exception, match=r"digest|reset|pipe"):
        visit.shows(b"another key")
    assert not visit.is_let_in()


def test_who_is_silent_is_sent_away() -> None:
    assert not Visit(Door(KEY, 0.1)).is_let_in()


def test_who_sends_a_byte_now_and_then_is_sent_away_at_the_same_time() -> None:
    visit = Visit(Door(KEY, 0.5))
    began = time.monotonic()
    with pytest.raises(OSError, match=r"pipe|reset|Bad"):
        while time.monotonic() < began + 20:
            visit.outside.sendall(b"\0")
            time.sleep(0.05)
    assert not visit.is_let_in()


def watchers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "door"}


def test_one_thread_sends_all_of_them_away() -> None:
    of_other_doors = watchers()
    door = Door(KEY, 1.0)
    for _ in range(2):
        first = Visit(door)
        time.sleep(0.5)
        others = [Visit(door) for _ in range(3)]
        wait_until(lambda: watchers() - of_other_doors)
        assert len(watchers() - of_other_doors) == 1
        assert not any(visit.is_let_in() for visit in (first, *others))
        wait_until(lambda: not watchers() - of_other_doors)


def test_of_a_crowd_those_who_wait_longest_are_sent_away_and_who_knows_the_key_gets_in() -> None:
    door = Door(KEY, 60, most=5)
    crowd = [Visit(door) for _ in range(20)]
    wait_until(lambda: sum(visit.thread.is_alive() for visit in crowd) == 5)
    friend = Visit(door)
    friend.shows(KEY)
    assert friend.is_let_in()
    wait_until(lambda: sum(visit.thread.is_alive() for visit in crowd) == 4)
    for visit in crowd:
        visit.outside.shutdown(socket.SHUT_RDWR)
        assert not visit.is_let_in()
