"""Slots share a JVM, in which each one has a harness. No JVM outlives the last of its slots."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.fnapi import class_paths, guard, launch, process, shared_process
from sparkdrain.fnapi.harnesses import HarnessJob
from sparkdrain.fnapi.java import JavaProcess, can_share, shared_java
from sparkdrain.fnapi.process import Command
from sparkdrain.fnapi.public_name import thread_group
from sparkdrain.fnapi.shared_process import SharedHarness, SharedPlace, SharedProcess, taken_by
from sparkdrain.fnapi.spare_jvm import start_spare_jvm
from sparkdrain.graph.environments import STAGED_JAVA
from sparkdrain.hosts.orphans import SHARED
from sparkdrain.own_folder import is_private
from sparkdrain.stages.workers.sent_files import code_archive
from tests.support.waiting import wait_until

LOGGING = """package org.apache.beam.fn.harness.logging;
import java.util.logging.*;
public class BeamFnLoggingClient {
  public final Handler handler = new LogRecordHandler();
  private final String id;
  private final Logger mine = Logger.getLogger("mine");
  public BeamFnLoggingClient(String id) {
    this.id = id;
    LogManager.getLogManager().reset();
    Logger root = LogManager.getLogManager().getLogger("");
    for (Handler each : root.getHandlers()) root.removeHandler(each);
    mine.setLevel(Level.FINE);
    root.addHandler(handler);
  }
  public void close() throws Exception {
    Logger root = LogManager.getLogManager().getLogger("");
    if (id.equals("restores first")) root.removeHandler(handler);
    if (id.contains("first") || id.equals("closes")) Thread.sleep(1000000);
    mine.setLevel(null);
    root.removeHandler(handler);
    LogManager.getLogManager().readConfiguration();
  }
  private class LogRecordHandler extends Handler {
    public void publish(LogRecord record) {
      System.out.println(id + " logs " + record.getMessage());
    }
    public void flush() {}
    public void close() { System.out.println("a handler was closed"); }
  }
}
"""
BUNDLES = """package org.apache.beam.fn.harness.control;
public class ProcessBundleHandler {
  public static void processBundle(long millis) throws Exception {
    System.out.println("a bundle");
    Thread.sleep(millis);
  }
  public static void shutdown() throws Exception {
    System.out.println("a teardown");
    Thread.sleep(1000000);
  }
}
"""
INITIALIZERS = """package org.apache.beam.sdk.fn;
import java.util.concurrent.atomic.AtomicBoolean;
public class JvmInitializers {
  private static AtomicBoolean initialized = new AtomicBoolean();
  public static volatile boolean fails;
  public static void runOnStartup() throws Exception { run("startup"); }
  public static void runBeforeProcessing() throws Exception { run("processing"); }
  private static void run(String when) throws Exception {
    ClassLoader loader = Thread.currentThread().getContextClassLoader();
    String file = "META-INF/services/org.apache.beam.sdk.harness.JvmInitializer";
    for (Object each : java.util.Collections.list(loader.getResources(file))) {
      if (fails && when.equals("processing")) throw new Exception("not initialized");
      System.out.println("initialized at " + when);
    }
  }
}
"""
MEMORY = """package org.apache.beam.fn.harness.status;
public class MemoryMonitor {
  public void run() {
    try { Thread.sleep(1000000); } catch (InterruptedException error) { }
  }
}
"""
METRICS = """package org.apache.beam.sdk.metrics;
import java.util.concurrent.atomic.AtomicReference;
public class MetricsEnvironment {
  private static final AtomicReference<MetricsContainer> OF_PROCESS = new AtomicReference<>();
  public static MetricsContainer setProcessWideContainer(MetricsContainer container) {
    return OF_PROCESS.getAndSet(container);
  }
  public static MetricsContainer getProcessWideContainer() { return OF_PROCESS.get(); }
}
"""
CONTAINER = """package org.apache.beam.sdk.metrics;
public interface MetricsContainer {
  public class Counts implements MetricsContainer {
    public int requests;
    public void update(Counts other) { requests += other.requests; }
  }
}
"""
# What the DoFn of a rehearsal is made of.
DO_FNS = (
    """package org.apache.beam.sdk.transforms;
public class Filter {
  public boolean keepsAll;
  public static Filter by(SerializableFunction predicate) {
    Filter made = new Filter();
    made.keepsAll = (Boolean) predicate.apply(null);
    return made;
  }
  public DoFn made() {
    return new DoFn() { public String toString() { return "keeps all: " + keepsAll; } };
  }
}
""",
    """package org.apache.beam.sdk.transforms;
public class DoFn {}
""",
    """package org.apache.beam.sdk.transforms;
public interface SerializableFunction { public Object apply(Object given); }
""",
    """package org.apache.beam.sdk.transforms;
public class SerializableFunctions {
  public static SerializableFunction constant(Object value) { return given -> value; }
}
""",
    """package org.apache.beam.sdk.transforms;
public class DoFnSchemaInformation {
  public static DoFnSchemaInformation create() { return new DoFnSchemaInformation(); }
}
""",
    """package org.apache.beam.sdk.values;
public class TupleTag {
  public final String id;
  public TupleTag(String id) { this.id = id; }
}
""",
    """package org.apache.beam.sdk.util;
import java.util.Map;
import org.apache.beam.sdk.transforms.*;
import org.apache.beam.sdk.values.TupleTag;
public class DoFnWithExecutionInformation implements java.io.Serializable {
  public String told;
  public static DoFnWithExecutionInformation of(
      DoFn doFn, TupleTag main, Map<String, ?> sides, DoFnSchemaInformation schemas) {
    DoFnWithExecutionInformation made = new DoFnWithExecutionInformation();
    made.told = doFn + ", to " + main.id + ", sides " + sides;
    return made;
  }
}
""",
    """package org.apache.beam.sdk.util;
public class SerializableUtils {
  public static byte[] serializeToByteArray(java.io.Serializable given) {
    return ((DoFnWithExecutionInformation) given).told.getBytes();
  }
}
""",
)
HARNESS = """package org.apache.beam.fn.harness;
import java.io.*;
import java.util.logging.Logger;
import org.apache.beam.fn.harness.control.ProcessBundleHandler;
import org.apache.beam.fn.harness.logging.BeamFnLoggingClient;
import org.apache.beam.fn.harness.status.MemoryMonitor;
import org.apache.beam.sdk.fn.JvmInitializers;
import org.apache.beam.sdk.metrics.*;
public class FnHarness {
  static { System.out.println("loaded"); }
  private static String rehearsed = "";
  public static void main(java.util.function.Function<String, String> variable) throws Exception {
    String id = variable.apply("HARNESS_ID");
    JvmInitializers.fails = id.equals("fails");
    JvmInitializers.runOnStartup();
    BeamFnLoggingClient logging = new BeamFnLoggingClient(id);
    MetricsEnvironment.setProcessWideContainer(new MetricsContainer.Counts());
    JvmInitializers.runBeforeProcessing();
    if (id.startsWith("rehearsal-")) {
      rehearsed = ", rehearsed";
      logging.close();
      throw new Exception("rehearsed");
    }
    Thread monitor = new Thread(() -> {
      new MemoryMonitor().run();
      System.out.println(id + " monitors no more");
    });
    monitor.setDaemon(true);
    monitor.start();
    // Before the harness says that it is there: the other end may close after that.
    BufferedReader orders = new BufferedReader(new FileReader(variable.apply("ORDERS")));
    System.out.println("is " + id + mine.Program.NAME + rehearsed);
    for (String order = orders.readLine(); order != null; order = orders.readLine()) {
      String text = order;
      if (text.equals("exit")) System.exit(7);
      if (text.startsWith("count")) {
        MetricsContainer all = MetricsEnvironment.getProcessWideContainer();
        ((MetricsContainer.Counts) all).requests += Integer.parseInt(text.substring(6));
        System.out.println(((MetricsContainer.Counts) all).requests + " requests");
        continue;
      }
      Thread works = new Thread(() -> {
        try {
          if (text.equals("bundle")) ProcessBundleHandler.processBundle(1000000);
          else if (text.equals("short bundle")) ProcessBundleHandler.processBundle(300);
          else if (text.equals("teardown")) ProcessBundleHandler.shutdown();
          else Logger.getLogger("mine").fine(text);
        } catch (Exception error) { }
      });
      works.setDaemon(true);
      works.start();
    }
    logging.close();
    System.out.println(id + " has ended");
  }
}
"""
MINE = """package mine;
public class Program {
  public static String NAME = " of mine";
  static { System.out.println("mine"); }
}
"""
MAIN = "org.apache.beam.fn.harness.FnHarness"
SLOW = "org.apache.beam.fn.harness.Slow"
NEXT = "org.apache.beam.fn.harness.Next"
LOADED_LONG = """package org.apache.beam.fn.harness;
public class Slow {
  static {
    System.out.println("loads");
    while (!new java.io.File(System.getenv("GO_ON")).exists()) Thread.onSpinWait();
  }
}
"""
LOADED_NEXT = """package org.apache.beam.fn.harness;
public class Next {
  static { System.out.println("loaded next"); }
}
"""
TEXTS = (HARNESS, MINE, LOGGING, BUNDLES, INITIALIZERS, MEMORY, METRICS, CONTAINER, *DO_FNS)


@pytest.fixture(scope="module")
def jars(tmp_path_factory):
    """A class path with a harness that does what a pipe orders."""
    if shutil.which("javac") is None:
        pytest.skip("there is no Java compiler here")
    place = tmp_path_factory.mktemp("classes")
    for text in (*TEXTS, LOADED_LONG, LOADED_NEXT):
        name = re.search(r"public (?:class|interface) (\w+)", text)[1]
        (place / f"{name}.java").write_text(text)
    files = map(str, place.glob("*.java"))
    subprocess.run(["javac", "-d", str(place / "made"), *files], check=True)
    with zipfile.ZipFile(place / "all.jar", "w") as jar:
        for made in (place / "made").rglob("*.class"):
            jar.write(made, made.relative_to(place / "made"))
        jar.writestr("META-INF/services/org.apache.beam.sdk.harness.JvmInitializer", "mine.Any")
    return {"all.jar": place / "all.jar"}


@pytest.fixture
def place(tmp_path):
    """Where a JVM waits."""
    return tmp_path / "place"


@pytest.fixture
def home(tmp_path, jars, monkeypatch):
    """Where the class path of a job before is known."""
    home = tmp_path / "home"
    monkeypatch.setenv(class_paths.CLASS_PATHS, str(home))
    (tmp_path / "loaded").write_text(
        f"{MAIN} source: file:/all.jar\nmine.Program source: file:/all.jar\n"
    )
    class_paths.remember(home, jars, {}, tmp_path / "loaded")
    return home


@pytest.fixture
def spare(home, place):
    started = start_spare_jvm(home, place, time.time())
    assert started is not None
    wait_until(lambda: not (place / "rehearsal").exists(), 120.0)
    return started


class Slot:
    """A slot with a harness, which runs as long as the slot has orders for it."""

    def __init__(self, name: str, jars, executor: Path, waiting: Path | None = None, job="job"):
        folder = executor.parent / f"{name}-{job}"
        folder.mkdir(parents=True)
        self.name = name
        orders = folder / "orders"
        os.mkfifo(orders)
        self.orders = os.open(orders, os.O_RDWR)
        self.life = JavaProcess(
            jars,
            {},
            lambda id_: {"HARNESS_ID": id_, "ORDERS": str(orders), **group(id_)},
            "here",
            SharedPlace(executor, job),
            waiting,
        )
        self.life.start(name)

    @property
    def output(self) -> str:
        return self.life.last_words()

    @property
    def folder(self) -> Path:
        return self.life._shared.folder

    def runs(self) -> None:
        wait_until(lambda: f"is {self.name} of mine" in self.output, 120.0)
        self.life.connected()

    def order(self, text: str) -> None:
        os.write(self.orders, f"{text}\n".encode())

    def let_end(self) -> None:
        """Have the harness end, as by the end of its requests."""
        reader = os.open(f"/proc/self/fd/{self.orders}", os.O_WRONLY)
        os.close(self.orders)
        os.close(reader)


def group(id_: str) -> dict[str, str]:
    return {"SPARKDRAIN_GROUP": thread_group(id_)}


def is_gone(folder: Path) -> bool:
    return not folder.exists()


def test_two_slots_share_a_jvm_each_with_its_log_and_its_end(jars, tmp_path):
    executor = tmp_path / "executor"
    first, second = Slot("one", jars, executor), Slot("two", jars, executor)
    assert first.folder == second.folder
    # The first harness runs the initializers, so the others wait for it.
    wait_until(lambda: "is one of mine" in first.output or "is two of mine" in first.output, 120.0)
    time.sleep(0.2)
    early = first if "is one" in first.output else second
    late = second if early is first else first
    assert f"is {late.name}" not in first.output
    early.runs()
    late.runs()
    assert first.output.count("initialized at startup") == 1
    assert first.output.count("initialized at processing") == 1
    first.order("a record")
    second.order("another")
    wait_until(lambda: "two logs another" in first.output)
    wait_until(lambda: "one logs a record" in first.output)
    first.let_end()
    wait_until(lambda: "one has ended" in second.output)
    wait_until(lambda: "one monitors no more" in second.output)
    wait_until(first.life.how_it_ended)
    first.life.stop()
    second.order("of the last")
    wait_until(lambda: "two logs of the last" in second.output)
    assert second.output.count(" logs ") == 3, "each record is told once"
    assert "a handler was closed" not in second.output
    assert "two monitors no more" not in second.output
    assert not second.life.how_it_ended()
    folder = second.folder
    second.life.stop(at_once=True)  # as if the slot had died
    wait_until(partial(is_gone, folder))


def test_what_a_jvm_counts_for_itself_is_one_count_whichever_harness_has_started_last(
    jars, tmp_path
):
    first, second = (Slot(name, jars, tmp_path / "executor") for name in ("one", "two"))
    wait_until(lambda: "is one of mine" in first.output or "is two of mine" in first.output, 120.0)
    early, late = (first, second) if "is one" in first.output else (second, first)
    early.order("count 7")
    wait_until(lambda: "7 requests" in early.output)
    early.runs()  # not before, as the other starts then
    wait_until(lambda: f"is {late.name} of mine" in late.output)
    # The SDK has made a new place for its counts.
    early.order("count 4")
    wait_until(lambda: "4 requests" in early.output)
    late.runs()

    def shows_all() -> bool:
        late.order("count 0")
        return "11 requests" in late.output

    wait_until(shows_all)
    for each in (first, second):
        each.life.stop(at_once=True)


def test_only_a_bundle_that_hangs_after_its_slot_ends_the_jvm_and_the_next_slot_has_another(
    jars, tmp_path, monkeypatch
):
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dsparkdrain.patience=1500")
    executor = tmp_path / "executor"
    other = Slot("other", jars, executor)
    other.runs()
    tears_down, brief, hangs = (Slot(name, jars, executor) for name in ("tears", "brief", "hangs"))
    for each, text, shown in (
        (tears_down, "teardown", "a teardown"),
        (brief, "short bundle", "a bundle"),
    ):
        each.runs()
        each.order(text)
        wait_until(lambda shown=shown: shown in other.output)
        each.let_end()
        each.life.stop(at_once=True)
    time.sleep(2)  # the JVM waits for one and a half
    hangs.runs()
    hangs.order("bundle")
    wait_until(lambda: other.output.count("a bundle") == 2)
    monkeypatch.setattr(shared_process, "STOP_SECONDS", 0.1)
    hangs.let_end()
    hangs.life.stop()
    # Now it is clear: no harness begins in a JVM that is about to end.
    assert other.life.has_ended(1.0)
    told = other.life.how_it_ended()
    assert "ended with status 1. The last that it wrote" in told
    assert "A bundle runs on" in told
    # The dead one still has a caller, and is not found again.
    third = Slot("third", jars, executor)
    assert third.folder != other.folder
    third.runs()
    third.order("exit")
    assert "ended with status 7" in wait_until(third.life.how_it_ended)
    folders = third.folder, other.folder
    third.life.stop()
    other.life.stop()
    for each in folders:
        wait_until(partial(is_gone, each))


def test_a_jvm_says_when_all_is_torn_down_and_is_not_waited_for_after_that(jars, tmp_path):
    executor = tmp_path / "executor"
    slot = Slot("closes", jars, executor)
    slot.runs()
    other = Slot("restores first", jars, executor)
    other.runs()
    for each in (slot, other):
        each.let_end()
    # This one has no log any more, and its end is no affair of others.
    other.life.stop(at_once=True)
    time.sleep(0.2)
    assert "torn down" not in slot.output
    stops = threading.Thread(target=slot.life.stop)
    folder = slot.folder
    stops.start()
    wait_until(lambda: "closes logs torn down" in process.written(folder / "output"))
    assert stops.is_alive()
    slot.life.torn_down.set()
    stops.join(process.STOP_SECONDS / 2)
    assert not stops.is_alive()
    wait_until(partial(is_gone, folder))


def test_initializers_that_have_failed_run_again(jars, tmp_path):
    executor = tmp_path / "executor"
    fails = Slot("fails", jars, executor)
    assert fails.life.has_ended(120.0)
    assert "not initialized" in fails.output
    slot = Slot("slot", jars, executor)
    assert slot.folder == fails.folder
    slot.runs()
    assert slot.output.count("initialized at startup") == 1
    assert slot.output.count("initialized at processing") == 1
    for each in (fails, slot):
        each.life.stop(at_once=True)


def test_one_job_has_the_jvm_that_waited_which_has_run_no_code_of_the_users(
    spare, jars, place, tmp_path
):
    executor = tmp_path / "executor"
    waited = spare._shared.last_words()
    assert waited.endswith("\nloaded"), "a rehearsal writes nothing"
    assert taken_by(class_paths.waiting_file(place, "another")) is None
    first = Slot("first", jars, executor, place)
    second = Slot("second", jars, executor, place)
    assert first.folder == second.folder == spare._shared.folder
    assert taken_by(class_paths.waiting_file(place, class_paths.digest_of(jars, {}))) is None
    spare.end_unless_taken()
    wait_until(lambda: "of mine" in first.output)
    for each in (first, second):
        each.life.connected()
    first.runs()
    second.runs()
    assert "is first of mine, rehearsed" in first.output
    assert first.output.count("initialized") == 2, "there were none in the rehearsal"
    folder = first.folder
    for each in (first, second):
        each.let_end()
        each.life.stop(at_once=True)
    wait_until(partial(is_gone, folder))


def test_a_jvm_that_waits_has_put_a_dofn_of_beams_there_for_its_rehearsal(spare, place):
    assert (place / "do-fn").read_text() == "keeps all: true, to out, sides {}"
    spare.end_unless_taken()


def test_a_job_takes_a_jvm_that_is_not_ready_which_leaves_what_is_left(
    jars, place, tmp_path, monkeypatch
):
    home, go_on = tmp_path / "home", tmp_path / "go on"
    monkeypatch.setenv(class_paths.CLASS_PATHS, str(home))
    monkeypatch.setenv("GO_ON", str(go_on))
    (tmp_path / "loaded").write_text(
        "".join(f"{name} source: file:/all.jar\n" for name in (SLOW, NEXT))
    )
    class_paths.remember(home, jars, {}, tmp_path / "loaded")
    spare = start_spare_jvm(home, place, time.time())
    assert spare is not None
    wait_until(lambda: "loads" in spare._shared.last_words(), 120.0)
    slot = Slot("soon", jars, tmp_path / "executor", place)
    assert slot.folder == spare._shared.folder
    assert "is soon" not in slot.output
    go_on.touch()
    slot.runs()
    assert "loaded next" not in slot.output
    assert "rehearsed" not in slot.output
    spare.end_unless_taken()
    folder = slot.folder
    slot.life.stop(at_once=True)
    wait_until(partial(is_gone, folder))


def test_no_jvm_waits_longer_than_for_its_job(spare, place, jars):
    spare.end_unless_taken()
    wait_until(partial(is_gone, spare._shared.folder))
    assert taken_by(class_paths.waiting_file(place, class_paths.digest_of(jars, {}))) is None


def test_a_new_jvm_leaves_its_class_path_for_the_next_job(jars, place, tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv(class_paths.CLASS_PATHS, str(home))
    assert start_spare_jvm(home, place, time.time()) is None
    slot = Slot("short", jars, tmp_path / "executor", place)
    slot.runs()
    slot.let_end()
    wait_until(slot.life.how_it_ended)
    slot.life.stop()
    known = class_paths.newest(home, time.time())
    assert known is not None
    assert set((known / class_paths.CLASSES).read_text().split()) >= {MAIN}


def entered(place: SharedPlace, start) -> SharedHarness:
    """A slot's part in the process of a place."""
    harness = SharedHarness("sleep", "", place)
    harness.enter(start, {})
    return harness


@pytest.fixture
def children():
    """Processes that call ``pause`` when they have a JVM; each is killed at the end."""
    started: list[int] = []

    def start(place: SharedPlace, command: list[str]) -> int:
        child = os.fork()
        if child == 0:
            try:
                entered(place, partial(SharedProcess.start, lambda _: Command(command)))
                signal.pause()
            finally:
                os._exit(1)
        started.append(child)
        return child

    def kill(child: int) -> None:
        started.remove(child)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

    yield SimpleNamespace(start=start, kill=kill)
    for child in started:
        kill(child)


def test_what_callers_share_ends_when_the_last_of_them_is_killed(tmp_path, children):
    place = SharedPlace(tmp_path / "executor", "job")
    pid = tmp_path / "pid"
    command = ["sh", "-c", f"echo $$ > {pid}; exec sleep 1000"]
    first, second = (children.start(place, command) for _ in range(2))
    told = tmp_path / "executor" / "job"
    folder = Path(wait_until(lambda: told.exists() and told.read_text()))
    assert is_private(str(folder))
    held = folder / "held"
    wait_until(lambda: callers(held) >= 3 and pid.exists() and pid.read_text())
    children.kill(first)
    other = wait_until(lambda: SharedProcess.held(folder))
    other.let_go()
    assert folder.exists()
    children.kill(second)
    wait_until(partial(is_gone, folder))
    assert not Path("/proc", pid.read_text().strip()).exists()


def test_what_ends_is_not_found_any_more(tmp_path):
    """Else a slot would have a JVM that is about to die."""
    told = tmp_path / "told"
    script = f"trap 'touch {told}; sleep 1; exit' TERM; touch {told}-1; sleep 1000 & wait"
    jvm = SharedProcess.start(lambda _: Command(["sh", "-c", script]))
    wait_until((tmp_path / "told-1").exists)
    jvm.let_go()
    wait_until(told.exists)
    assert SharedProcess.held(jvm.folder) is None
    wait_until(partial(is_gone, jvm.folder))


_LISTENS = """
import pathlib, socket, sys
listener = socket.socket(fileno=0)
connections = [listener.accept()[0] for _ in range(2)]
while connections[0].recv(1):
    pass
pathlib.Path(sys.argv[1]).touch()
connections[1].recv(1)
"""


def test_what_user_code_has_forked_keeps_neither_a_harness_nor_the_jvm(tmp_path):
    ended, executor = tmp_path / "ended", tmp_path / "executor"
    command = [sys.executable, "-c", _LISTENS, str(ended)]
    place = SharedPlace(executor, "job")
    first, second = (
        entered(place, partial(SharedProcess.start, lambda _: Command(command))) for _ in range(2)
    )
    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        first.stop(at_once=True)
        wait_until(ended.exists)
        second.stop(at_once=True)
        wait_until(partial(is_gone, second._shared.folder))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_guard_that_is_killed_takes_its_command_with_it(tmp_path):
    pid = tmp_path / "pid"
    command = ["sh", "-c", f"echo $$ $PPID > {pid}; exec sleep 1000"]
    place = SharedPlace(tmp_path / "executor", "job")
    slot = entered(place, partial(SharedProcess.start, lambda _: Command(command)))
    jvm, guard_ = wait_until(lambda: pid.exists() and pid.read_text()).split()
    os.kill(int(guard_), signal.SIGKILL)
    wait_until(slot.has_ended)
    wait_until(lambda: not Path("/proc", jvm).exists())
    other = entered(place, partial(SharedProcess.start, lambda _: Command(["sleep", "1000"])))
    assert other._shared.folder != slot._shared.folder
    # The next one that starts has swept.
    assert is_gone(slot._shared.folder)
    assert slot.how_it_ended().startswith("'sleep' has ended: ")
    for each in (slot, other):
        each.stop(at_once=True)
    wait_until(partial(is_gone, other._shared.folder))


def test_a_harness_that_another_thread_lets_go_has_ended(tmp_path):
    place = SharedPlace(tmp_path / "executor", "job")
    slot = entered(place, partial(SharedProcess.start, lambda _: Command(["sleep", "1000"])))
    connection = slot._connection
    slot.stop(at_once=True)
    slot._connection = connection  # as another thread has seen it a moment before
    assert slot.has_ended()
    wait_until(partial(is_gone, slot._shared.folder))


def test_the_folder_of_an_executor_that_is_gone_is_not_made_again(tmp_path):
    place = SharedPlace(tmp_path / "gone" / "executor", "job")
    with pytest.raises(FileNotFoundError):
        entered(place, partial(SharedProcess.start, lambda _: Command(["true"])))
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize(
    ("variable", "given", "is_added"),
    [
        ("JAVA_TOOL_OPTIONS", "", True),
        ("JAVA_TOOL_OPTIONS", "-Dany=1 -XX:MaxRAMPercentage=10", False),
        ("JDK_JAVA_OPTIONS", "-XX:MaxRAMPercentage=10", False),
    ],
)
def test_a_jvm_may_use_half_of_the_memory_unless_the_user_says_another_share(
    monkeypatch, tmp_path, variable, given, is_added
):
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, given)
    assert ("-XX:MaxRAMPercentage=50" in shared_java(tmp_path, "path")) == is_added


def test_executors_run_the_program_though_they_have_this_package_in_an_archive(tmp_path):
    asks = "import pathlib, sys; from sparkdrain.fnapi.java import shared_java\n"
    asks += "print(shared_java(pathlib.Path(sys.argv[1]), 'path')[-1])"
    told = subprocess.run(
        [sys.executable, "-c", asks, tmp_path],
        env={**os.environ, "PYTHONPATH": str(code_archive(tmp_path))},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert "class SharedHarness" in Path(told.stdout.strip()).read_text()


def test_a_jvm_that_is_gone_when_a_slot_takes_it_is_replaced(tmp_path):
    gone = SharedProcess.start(lambda _: Command(["true"]))
    wait_until(lambda: gone.status() is not None)
    sleeping = partial(SharedProcess.start, lambda _: Command(["sleep", "1000"]))
    made = iter([lambda: gone, sleeping])

    def start() -> SharedProcess:
        return next(made)()

    slot = entered(SharedPlace(tmp_path / "executor", "job"), start)
    assert not slot.has_ended()
    wait_until(partial(is_gone, gone.folder))
    folder = slot._shared.folder
    slot.stop(at_once=True)
    wait_until(partial(is_gone, folder))


def test_a_jvm_of_which_a_full_disk_hides_the_place_ends(tmp_path, monkeypatch):
    started = []

    def start() -> SharedProcess:
        started.append(SharedProcess.start(lambda _: Command(["sleep", "1000"])))
        return started[-1]

    def full(*_) -> int:
        raise OSError(errno.ENOSPC, "the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="the disk is full"):
            entered(SharedPlace(tmp_path / "executor", "job"), start)
    wait_until(partial(is_gone, started[0].folder))


def test_a_guard_that_cannot_write_how_its_command_ended_removes_its_folder(tmp_path):
    def command(folder: Path) -> Command:
        (folder / guard.ENDED).mkdir()  # as if the disk was full
        return Command(["touch", str(tmp_path / "ran")])

    jvm = SharedProcess.start(command)
    wait_until((tmp_path / "ran").exists)
    wait_until(lambda: jvm.connect() is None)
    jvm.let_go()
    wait_until(partial(is_gone, jvm.folder))


def test_what_user_code_has_started_ends_with_the_jvm_and_not_with_its_slots(tmp_path):
    pid = tmp_path / "pid"
    script = f"sleep 1000 & echo $! > {pid}; exit 3"
    jvm = SharedProcess.start(lambda _: Command(["sh", "-c", script]))
    wait_until(lambda: jvm.status() == 3)
    assert jvm.connect() is None
    stat = Path("/proc", pid.read_text().strip(), "stat")
    wait_until(lambda: not stat.exists() or ") Z " in stat.read_text())
    jvm.let_go()
    wait_until(partial(is_gone, jvm.folder))


def test_the_secrets_of_harnesses_are_not_quoted(tmp_path):
    output = tmp_path / "output"
    output.write_text("SDK Fn Harness started\nHarness ID 0123456789abcdef\nfailed\n")
    assert process.written(output) == "The last that it wrote:\nSDK Fn Harness started\nfailed"


def test_the_guard_of_what_slots_share_is_known_by_its_name():
    assert guard.NAME == SHARED


@pytest.mark.parametrize(
    ("workers", "life"),
    [
        (1, JavaProcess),
        (0, process.HarnessProcess),
        # Programs in other languages send it so.
        (0.0, process.HarnessProcess),
        ("0", process.HarnessProcess),
    ],
)
def test_a_job_can_ask_for_a_jvm_for_each_slot(tmp_path, monkeypatch, workers, life):
    monkeypatch.setattr(launch, "can_share", lambda _: True)
    job = HarnessJob("job", {"sdk_worker_parallelism": workers}, executor=tmp_path)
    environment = beam_runner_api_pb2.Environment(urn=STAGED_JAVA)
    services = SimpleNamespace(here=lambda: "127.0.0.1:1")
    assert isinstance(launch.life_of(environment, services, tmp_path, job, {}), life)


def callers(held: Path) -> int:
    """How many processes have a file open."""
    seen = 0
    for process_ in Path("/proc").glob("[0-9]*"):
        try:
            files = [os.readlink(each) for each in (process_ / "fd").iterdir()]
        except OSError:
            continue
        seen += str(held) in files
    return seen


@pytest.mark.parametrize(
    ("release", "can"),
    [
        ('JAVA_VERSION="17.0.1"\nMODULES="java.base jdk.compiler jdk.net"\n', True),
        ('JAVA_VERSION="11.0.1"\nMODULES="java.base jdk.compiler jdk.net"\n', False),
        ('JAVA_VERSION="17.0.1"\nMODULES="java.base jdk.net"\n', False),
        (None, False),
    ],
)
def test_slots_share_where_java_is_new_enough_and_has_a_compiler(tmp_path, release, can):
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.touch(0o755)
    if release is not None:
        (tmp_path / "release").write_text(release)
    assert can_share(str(program)) == can
