"""The driver hears of the first failure of user code before Spark does."""

from __future__ import annotations

import queue
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sparkdrain.lines.server import TcpBind
from sparkdrain.stages.telling.failure import TaskFailed, guarded
from sparkdrain.stages.telling.failure_channel import FirstFailure, first_failure, tell

if TYPE_CHECKING:
    from sparkdrain.lines.line import Endpoint

PATIENCE = 20


@pytest.fixture
def ended():
    return queue.Queue()


@pytest.fixture
def first(ended):
    listening = FirstFailure(TcpBind("127.0.0.1", "127.0.0.1"), lambda: ended.put("ended"))
    yield listening
    listening.server.close()


def boom(text: str, driver: Endpoint | None, slot: int = 0) -> None:
    """Fails as user code does, in a task that tells ``driver``."""
    with guarded(1, slot, lambda told: tell(driver, told)):
        error = ValueError(text)
        error._tagged_with_step = True
        raise error


def test_the_job_is_ended_before_the_task_fails_and_the_failure_is_known(first, ended):
    with pytest.raises(TaskFailed):
        boom("not today", first.server.endpoint, slot=3)
    assert ended.get_nowait() == "ended"
    assert (first.failure.message, first.failure.slot) == ("ValueError: not today", 3)


def test_the_first_failure_counts(first, ended):
    for text in ("first", "second"):
        with pytest.raises(TaskFailed):
            boom(text, first.server.endpoint)
    assert first.failure.message == "ValueError: first"
    assert ended.qsize() == 1


def test_a_failure_that_is_not_the_users_is_left_to_spark(first, ended):
    ours = {"__name__": "sparkdrain.stages.batch.slot"}
    exec("def fail():\n    raise RuntimeError", ours)
    with pytest.raises(TaskFailed), guarded(0, 0, lambda told: tell(first.server.endpoint, told)):
        ours["fail"]()
    assert first.failure is None
    assert ended.empty()


def test_strangers_are_not_heard(first, ended):
    socket.create_connection(first.server.endpoint.address).close()
    other = replace(first.server.endpoint, key=b"not the key")
    with pytest.raises(TaskFailed):
        boom("stranger", other)
    with pytest.raises(TaskFailed):
        boom("friend", first.server.endpoint)
    assert first.failure.message == "ValueError: friend"
    assert ended.qsize() == 1


def test_a_driver_that_is_gone_changes_nothing_for_the_task(first):
    first.server.close()
    with pytest.raises(TaskFailed):
        boom("alone", first.server.endpoint)
    assert first.failure is None


class Context:
    def __init__(self, master: str, **conf: str) -> None:
        self.master = master
        self.conf = {name.replace("_", "."): value for name, value in conf.items()}

    def getConf(self):
        return self.conf


@pytest.mark.parametrize(
    ("context", "listens"),
    [
        (Context("local[2]"), False),
        (Context("local[2,4]"), True),
        (Context("spark://a:7077", spark_driver_host="127.0.0.1"), True),
        (Context("spark://a:7077", spark_task_maxFailures="1"), False),
    ],
)
def test_it_listens_where_spark_would_try_again(context, listens):
    listening = first_failure(context, lambda: None, local=context.master.startswith("local"))
    assert (listening is not None) == listens
    if listening is not None:
        listening.server.close()
