"""What is told of a harness while a round is at work in it: the step, and where it stands."""

from __future__ import annotations

import contextlib
import json
import queue
import sys
import threading
import time
from collections import Counter
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor

import apache_beam as beam
import grpc
import pytest
from apache_beam.portability.api import (
    beam_fn_api_pb2,
    beam_fn_api_pb2_grpc,
    beam_provision_api_pb2,
)
from apache_beam.transforms import environments

from sparkdrain.fnapi import worker as fnapi_worker
from sparkdrain.fnapi.errors import HarnessLost
from sparkdrain.fnapi.harness import FnHarness, Outside
from sparkdrain.fnapi.harnesses import Harnesses, HarnessJob
from sparkdrain.fnapi.process import Life
from sparkdrain.fnapi.services import Admitted, SdkServices
from sparkdrain.fnapi.sight import busiest, stack_in
from sparkdrain.fnapi.worker import SdkWorker
from tests.support.in_memory import run_in_memory

OF_JAVA = """
========== THREAD DUMP ==========
---- Threads (1): [fn-status] State: RUNNABLE Stack: ----
  java.lang.Thread.dumpThreads(Thread.java:12)

---- Threads (1): [pool-1] State: TIMED_WAITING Stack: ----
  java.lang.Thread.sleep(Thread.java:344)
  Endless$Range.process(Endless.java:155)
  org.apache.beam.fn.harness.control.ProcessBundleHandler.processBundle(ProcessBundleHandler.java:9)

"""
OF_GO = """
============Goroutine Dump============
goroutine profile: total 2
1 @ 0x1 0x2
#	0x47d1a4	runtime/pprof.writeGoroutine+0x104	/go/src/runtime/pprof/pprof.go:195

1 @ 0x1 0x2
#	0x47d1a4	time.Sleep+0x104	/go/src/runtime/time.go:195
#	0x47d1a5	main.(*span).ProcessElement+0x1f	/work/main.go:171
#	0x47d1a6	github.com/apache/beam/exec.(*Plan).Execute+0x1	/beam/plan.go:99

"""


def test_the_stack_of_a_bundle_is_found_in_what_java_and_go_tell():
    assert stack_in(OF_JAVA)[:2] == (
        ("Thread.java", 344, "java.lang.Thread.sleep"),
        ("Endless.java", 155, "Endless$Range.process"),
    )
    assert stack_in(OF_GO)[:2] == (
        ("/go/src/runtime/time.go", 195, "time.Sleep"),
        ("/work/main.go", 171, "main.(*span).ProcessElement"),
    )
    assert stack_in("") == ()


WAITS_FOR_ELEMENTS = OF_JAVA.replace(
    "Endless$Range.process(Endless", "a.BeamFnDataInboundObserver.awaitCompletion(Endless"
)


@pytest.fixture
def looked_at(monkeypatch):
    """A harness to which elements are on the way, and the status that it tells."""
    monkeypatch.setattr(fnapi_worker, "_DATA_SECONDS", 0.0)
    worker, told = SdkWorker("one", Life()), [OF_JAVA]

    def tell() -> None:
        for _ in iter(worker.status_requests().get, None):
            status = beam_fn_api_pb2.WorkerStatusResponse(status_info=told[0])
            worker.statuses(iter([status]))

    teller = threading.Thread(target=tell)
    teller.start()
    worker.status(60.0)
    worker.send(beam_fn_api_pb2.Elements())
    yield worker, told
    worker.close()
    teller.join()


def test_a_harness_that_waits_for_elements_and_never_fetches_them_is_lost(looked_at):
    """Java's does so where its connection for elements was not made in time."""
    worker, told = looked_at
    for _ in range(5):
        worker.wait(0.0)  # user code sets up a DoFn
    told[0] = WAITS_FOR_ELEMENTS
    worker.wait(0.0)  # it may connect just now
    with pytest.raises(HarnessLost, match="waits for elements, and has no connection for them"):
        worker.wait(0.0)
    assert worker.is_lost


def test_a_harness_of_several_slots_is_lost_only_if_this_slots_bundle_waits(looked_at):
    """A status does not tell which bundle is whose."""
    worker, told = looked_at
    worker.life.is_shared = True
    told[0] = OF_JAVA + WAITS_FOR_ELEMENTS
    for _ in range(5):
        worker.wait(0.0)  # user code sets up a DoFn of this slot, or of the other one
    told[0] = WAITS_FOR_ELEMENTS + WAITS_FOR_ELEMENTS
    worker.wait(0.0)
    with pytest.raises(HarnessLost, match="waits for elements, and has no connection for them"):
        worker.wait(0.0)


def test_a_harness_that_fetches_elements_may_take_its_time(looked_at):
    worker, told = looked_at
    told[0] = WAITS_FOR_ELEMENTS
    fetched = worker.to_process()
    next(fetched)
    for _ in range(5):
        worker.wait(0.0)
    assert not worker.is_lost


def test_the_stack_is_of_a_thread_of_the_slots_own_harness():
    """Slots share a JVM, which tells the threads of all of them."""
    dump = OF_JAVA.replace("[pool-1]", "[Thread[pool-1,5,sparkdrain-a]]")
    other = dump.replace("sparkdrain-a", "sparkdrain-b").replace("Range", "Other")
    idle = "---- Threads (1): [Thread[main,5,sparkdrain-c]] State: WAITING Stack: ----\n"
    both = f"{other}\n{dump}\n{idle}"
    assert stack_in(both, "sparkdrain-a")[1][2] == "Endless$Range.process"
    assert stack_in(both, "sparkdrain-b")[1][2] == "Endless$Other.process"
    assert stack_in(both, "sparkdrain-c") == ()
    assert stack_in(OF_JAVA, "sparkdrain-a"), "a JVM of its own has no such group"


@pytest.fixture
def outside():
    harnesses = Harnesses()
    yield Outside(HarnessJob("job", {}), harnesses)
    harnesses.close()


def test_step_and_stack_of_a_process_are_those_of_the_dofn_that_sleeps(outside, monkeypatch):
    seen: list = []
    begin = FnHarness._begin

    def watched(harness):
        outbound = begin(harness)
        if "Sleeps" in str(harness._descriptor) and not seen:
            seen.append(None)

            def look():
                deadline = time.monotonic() + 30
                while not (step := harness.at_work()[0]) and time.monotonic() < deadline:
                    pass
                seen[0] = step, harness.stack()

            threads.append(threading.Thread(target=look))
            threads[0].start()
        return outbound

    threads: list = []
    monkeypatch.setattr(FnHarness, "_begin", watched)
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create([1]) | "Sleeps" >> beam.Map(lambda _: time.sleep(4))
    command = f"{sys.executable} -m sparkdrain.cli.main worker"
    environment = environments.ProcessEnvironment(
        command, capabilities=environments.python_sdk_capabilities()
    )
    run_in_memory(pipeline, 1, environment=environment, outside=outside)
    threads[0].join()
    ((step, stack),) = seen
    assert step == "Sleeps"
    assert "<lambda>" in [function for _, _, function in stack], json.dumps(stack)


def test_nobody_is_busiest_if_nothing_takes_time():
    assert busiest(Counter(a=5, b=1), Counter(a=5, b=1)) == ""
    assert busiest(Counter(a=5, b=1), Counter(a=6, b=3)) == "b"


def test_a_harness_that_connects_again_is_asked_there_and_leaves_no_thread_waiting(monkeypatch):
    pools: list = []

    def pool(*arguments, **named):
        pools.append(ThreadPoolExecutor(*arguments, **named))
        return pools[-1]

    monkeypatch.setattr(futures, "ThreadPoolExecutor", pool)
    services, worker = SdkServices(), SdkWorker("me", Life())
    services.admit(Admitted(worker, beam_provision_api_pb2.ProvisionInfo(), {}))
    with grpc.insecure_channel(services.socket) as channel:
        stub = beam_fn_api_pb2_grpc.BeamFnWorkerStatusStub(channel)
        for well in ("well", "well again"):
            answers: queue.SimpleQueue = queue.SimpleQueue()
            requests = stub.WorkerStatus(iter(answers.get, None), metadata=[("worker_id", "me")])
            thread = threading.Thread(target=_answer, args=(requests, answers, well))
            thread.start()
            deadline = time.monotonic() + 30
            while worker.status(1.0) != well:
                assert time.monotonic() < deadline
            requests.cancel()
            answers.put(None)
            thread.join()
        services.stop()
    ending = threading.Thread(target=pools[0].shutdown, daemon=True)
    ending.start()
    ending.join(20)
    assert not ending.is_alive()


def test_questions_end_when_a_harness_is_to_end():
    """Java's harness waits a minute for that before it ends itself."""
    worker = SdkWorker("me", Life())
    questions = worker.status_requests()
    worker.close()
    assert questions.get(timeout=0) is None


def _answer(requests, answers, told):
    with contextlib.suppress(grpc.RpcError):
        for request in requests:
            answers.put(beam_fn_api_pb2.WorkerStatusResponse(id=request.id, status_info=told))
