"""State belongs to one thread at a time: the slot's, or gRPC's while the slot's waits."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import Future

import pytest
from apache_beam.portability.api import beam_fn_api_pb2 as api

from sparkdrain.fnapi.process import Life
from sparkdrain.fnapi.worker import SdkWorker

REQUESTS = 300


class Bundle:
    """A bundle whose state must not be asked for while the slot is at work."""

    def __init__(self) -> None:
        self.slot_works = True
        self.beside = 0

    def state(self, request: api.StateRequest) -> api.StateResponse:
        time.sleep(0.0005)
        self.beside += self.slot_works
        return api.StateResponse(get=api.StateGetResponse(data=request.id.encode()))


class Broken(Bundle):
    def state(self, request: api.StateRequest) -> api.StateResponse:
        message = "the disk is full"
        raise OSError(message)


class Slow(Bundle):
    def __init__(self) -> None:
        super().__init__()
        self.began = threading.Event()

    def state(self, request: api.StateRequest) -> api.StateResponse:
        self.began.set()
        time.sleep(0.5)
        return super().state(request)


@pytest.fixture
def worker():
    worker = SdkWorker("id", Life())
    yield worker
    worker.close()


def requests(instruction: str, count: int):
    for number in range(count):
        yield api.StateRequest(id=str(number), instruction_id=instruction, get={})


def ask(worker: SdkWorker, bundle: Bundle, count: int = 1) -> Future[list[api.StateResponse]]:
    answers: Future[list[api.StateResponse]] = Future()
    asked = worker.state_answers(requests(worker.expect(bundle), count))
    threading.Thread(target=lambda: answers.set_result(list(asked)), daemon=True).start()
    return answers


def wait_for(worker: SdkWorker, asked: Future[list[api.StateResponse]]) -> None:
    """Let the slot wait until its harness has its answers."""
    until = time.monotonic() + 60
    while not asked.done() and time.monotonic() < until:
        worker.wait(0.05)


def test_state_is_asked_for_only_while_the_slot_waits(worker):
    bundle = Bundle()
    asked = ask(worker, bundle, REQUESTS)
    while not asked.done():
        time.sleep(0.0005)  # the slot is at work
        bundle.slot_works = False
        worker.wait(0.002)
        bundle.slot_works = True
    assert [each.id for each in asked.result()] == [str(number) for number in range(REQUESTS)]
    assert bundle.beside == 0


def test_a_harness_whose_slot_works_on_waits_for_its_state(worker):
    asked = ask(worker, Bundle())
    time.sleep(0.1)
    assert not asked.done()
    wait_for(worker, asked)
    assert len(asked.result(30)) == 1


def test_what_breaks_state_breaks_the_slot(worker):
    asked = ask(worker, Broken())
    with pytest.raises(OSError, match="the disk is full"):
        worker.wait(30)
    assert asked.result(30) == []


def test_a_harness_that_asks_for_state_leaves_when_its_slot_has_closed_it(worker):
    asked = ask(worker, Bundle())
    worker.close()
    assert asked.result(30) == []


def test_a_slot_that_is_interrupted_while_state_is_asked_for_can_go_on(worker):
    def interrupt(*_) -> None:
        raise KeyboardInterrupt

    slow, fast = Slow(), Bundle()
    asked = ask(worker, slow)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        threading.Thread(
            target=lambda: slow.began.wait() and signal.setitimer(signal.ITIMER_REAL, 0.2)
        ).start()
        slow.slot_works = False
        with pytest.raises(KeyboardInterrupt):
            wait_for(worker, asked)
        assert len(asked.result(30)) == 1  # it had its turn to the end
    finally:
        signal.signal(signal.SIGALRM, before)
    asked = ask(worker, fast)
    time.sleep(0.1)
    assert not asked.done()
    fast.slot_works = False
    wait_for(worker, asked)
    assert len(asked.result(30)) == 1
    assert slow.beside == fast.beside == 0
