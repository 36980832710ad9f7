"""Looking at where another thread stands."""

from __future__ import annotations

import gc
import threading
from types import SimpleNamespace

import pytest

from sparkdrain.harness.compiled.frames import frame_of
from sparkdrain.harness.compiled.generate import Chain
from sparkdrain.harness.compiled.tracker import StepTimes, StepTracker

# The collector lets others go on, who start and end threads. Where it does so while it is being
# found out where threads stand, all stand still for ever.
_LOOKED_AT = """
import faulthandler, gc, threading, time
from sparkdrain.harness.compiled.frames import frame_of

def callback(phase, info):
    if threading.get_ident() == looker.ident:
        time.sleep(0.01)

def look():
    gc.set_threshold(1)
    for _ in range(10):
        with frame_of(main) as frame:
            while frame is not None:
                frame = frame.f_back
        time.sleep(0.001)

def work():
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()

faulthandler.dump_traceback_later(30, exit=True)
gc.callbacks.append(callback)
main, looker = threading.get_ident(), threading.Thread(target=look)
looker.start()
while looker.is_alive():
    work()
print("went on")
"""


def test_a_process_that_is_looked_at_goes_on(python):
    run = python("-c", _LOOKED_AT)
    assert run.stdout == "went on\n", run.stderr


def test_no_garbage_is_collected_while_somebody_looks():
    collected = []
    thresholds = gc.get_threshold()
    try:
        with frame_of(threading.get_ident()):
            gc.callbacks.append(lambda *_: collected.append(threading.get_ident()))
            gc.set_threshold(1)
            _ = [[] for _ in range(100)]
            assert not collected
        _ = [[] for _ in range(100)]
        assert collected
    finally:
        gc.callbacks.pop()
        gc.set_threshold(*thresholds)


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_is_collected_afterwards_only_if_it_was_before(collects):
    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        with frame_of(threading.get_ident()), frame_of(threading.get_ident()):
            assert not gc.isenabled()
        assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()


_FORKING = """
import gc, os, threading
from sparkdrain.harness.compiled.frames import frame_of

def look():
    with frame_of(None):
        looking.set()
        forking.wait(0.2)

looking, forking = threading.Event(), threading.Event()
thread = threading.Thread(target=look)
thread.start()
looking.wait()
child = os.fork()
if child == 0:
    with frame_of(None):
        pass
    os._exit(0 if gc.isenabled() else 1)
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_that_is_forked_meanwhile_collects_garbage_and_can_look(python):
    run = python("-c", _FORKING)
    assert run.stdout == "0\n", run.stderr


def test_a_thread_that_has_ended_stands_nowhere():
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    for ident in (thread.ident, None):
        with frame_of(ident) as frame:
            assert frame is None


def chain(name, function):
    """A chain of one step; all are of the same form."""
    names = {"f": function}
    exec(compile("def run(values, c):\n    f(values)\n", f"<{name}>", "exec"), names)
    run = names["run"]
    step = SimpleNamespace(transform=name, operation=SimpleNamespace(scoped_process_state=name))
    return Chain(run, run.__code__, {2: step}, {}, name)


def sampler():
    return SimpleNamespace(tracked_thread=threading.current_thread(), current_state=lambda: None)


def test_chains_of_the_same_form_are_told_apart():
    tracker, seen = StepTracker(sampler()), []
    chains = [chain(name, lambda _: seen.append(tracker.current_state())) for name in "ab"]
    assert chains[0].code == chains[1].code
    for each in chains:
        tracker.add(each)
    for each in chains:
        each.run(None, None)
    assert seen == ["a", "b"]


def test_steps_are_known_to_other_threads_too():
    tracker, seen = StepTracker(sampler()), []

    def ask(_):
        thread = threading.Thread(
            target=lambda: seen.extend([tracker.look(), tracker.current_state()])
        )
        thread.start()
        thread.join()

    one = chain("a", ask)
    tracker.add(one)
    one.run(None, None)
    assert seen == [("a", "a"), "a"]


def test_nobody_looks_any_more_when_it_was_stopped():
    looked = threading.Event()
    times = StepTimes(looked.set)
    times.stop()
    times = StepTimes(looked.set)
    times.start()
    assert looked.wait(20)
    times.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "step-times"]
