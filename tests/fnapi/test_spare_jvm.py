"""A JVM waits to be Java's SDK harness: one slot takes it, and it does not outlive that slot."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
import zipfile
from functools import partial
from typing import TYPE_CHECKING

import pytest

from sparkdrain.fnapi import class_paths, process
from sparkdrain.fnapi.java_process import JavaProcess
from sparkdrain.fnapi.spare_jvm import SpareJvm, TakenJvm
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

CLOSES = """package org.apache.beam.fn.harness.logging;
public class BeamFnLoggingClient {
  public void close() throws Exception { Thread.sleep(1000000); }
}
"""
HARNESS = """package org.apache.beam.fn.harness;
public class FnHarness {
  private static String found = "";
  static { System.out.println("loaded"); }
  public static void main(String[] arguments) throws Exception { main(System::getenv); }
  public static void main(java.util.function.Function<String, String> variable) throws Exception {
    String id = variable.apply("HARNESS_ID");
    if (id == null) throw new Exception("nobody");
    ClassLoader loader = Thread.currentThread().getContextClassLoader();
    String file = "META-INF/services/org.apache.beam.sdk.harness.JvmInitializer";
    found += java.util.Collections.list(loader.getResources(file)).size();
    System.out.println("runs");
    if (id.startsWith("rehearsal-")) throw new Exception("rehearsed");
    System.out.println("is " + variable.apply("HARNESS_ID") + mine.Program.NAME);
    System.out.println("initializers " + found);
    if (variable.apply("HARNESS_ID").equals("short")) System.exit(0);
    if (variable.apply("HARNESS_ID").equals("closes")) {
      new org.apache.beam.fn.harness.logging.BeamFnLoggingClient().close();
    }
    Thread.sleep(1000000);
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


@pytest.fixture(scope="module")
def jars(tmp_path_factory):
    """A class path with a harness that does nothing."""
    if shutil.which("javac") is None:
        pytest.skip("there is no Java compiler here")
    place = tmp_path_factory.mktemp("classes")
    classes = {"FnHarness": HARNESS, "Program": MINE, "BeamFnLoggingClient": CLOSES}
    for name, text in classes.items():
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
    started = SpareJvm.start(home, place, time.time())
    assert started is not None
    wait_until(lambda: list(place.glob("waiting-*")), 120.0)
    yield started
    started._process.stop(at_once=True)


def java(worker_id: str, jars) -> tuple[list[str], dict[str, str]]:
    variables = {"HARNESS_ID": worker_id}
    return ["java", "-cp", str(jars["all.jar"]), MAIN], variables


def harness(jars, folder: Path, place: Path) -> JavaProcess:
    folder.mkdir()
    command = partial(java, jars=jars)
    return JavaProcess(command, jars, {}, "here", folder, place, threading.Event())


def test_one_slot_takes_the_jvm_which_has_loaded_beams_classes_and_runs_no_other_code_before(
    spare, jars, place, tmp_path
):
    (waits,) = place.glob("waiting-*")
    assert (waits / "output").read_text() == "loaded\n"
    first, second = (harness(jars, tmp_path / name, place) for name in ("first", "second"))
    first.start("1")
    second.start("2")
    wait_until(lambda: "is 1 of mine" in first.last_words())
    wait_until(lambda: "is 2 of mine" in second.last_words())
    wait_until(lambda: "initializers 01" in first.last_words(), 10.0)  # none in the rehearsal
    assert first.last_words().count("runs") == 1, "a rehearsal writes nothing"
    wait_until(lambda: "initializers 1" in second.last_words(), 10.0)  # it has rehearsed nothing
    assert (place / "taken-1").exists()
    assert not (place / "taken-2").exists()
    spare.end_unless_taken()
    assert not first.how_it_ended()
    second.stop(at_once=True)
    first.stop(at_once=True)  # as if the slot had died: its end of the pipe closes
    assert first.how_it_ended()
    wait_until(spare._process.how_it_ended)


def test_a_jvm_that_has_ended_by_itself_is_seen(spare, jars, place, tmp_path):
    taken = harness(jars, tmp_path / "own", place)
    taken.start("short")
    wait_until(taken.how_it_ended)
    assert "'Java's SDK harness' has ended" in taken.how_it_ended().replace('"', "'")
    assert "is short of mine" in taken.how_it_ended()
    taken.stop()


def test_a_jvm_says_when_all_is_torn_down_and_is_not_waited_for_after_that(
    spare, jars, place, tmp_path
):
    taken = harness(jars, tmp_path / "own", place)
    taken.start("closes")
    wait_until(lambda: "is closes of mine" in taken.last_words())
    assert "torn down" not in taken.last_words()
    stops = threading.Thread(target=taken.stop)
    stops.start()
    wait_until(lambda: "SEVERE: torn down" in taken.last_words())
    assert stops.is_alive()
    taken._torn_down.set()
    stops.join(process.STOP_SECONDS / 2)
    assert not stops.is_alive()
    wait_until(spare._process.how_it_ended)


def test_no_jvm_waits_longer_than_for_its_job_or_with_another_class_path(spare, place, jars):
    assert TakenJvm.take(place, "another", "3", {}) is None
    spare.end_unless_taken()
    assert spare._process.how_it_ended()
    assert TakenJvm.take(place, class_paths.digest_of(jars, {}), "4", {}) is None


def test_a_new_jvm_leaves_its_class_path_for_the_next_job(jars, place, tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv(class_paths.CLASS_PATHS, str(home))
    assert SpareJvm.start(home, place, time.time()) is None
    new = harness(jars, tmp_path / "own", place)
    new.start("short")
    wait_until(new.how_it_ended)
    new.stop()
    known = class_paths.newest(home, time.time())
    assert known is not None
    assert (known / class_paths.CLASSES).read_text() == MAIN
