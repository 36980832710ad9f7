"""Fixtures for tests of the shell around the engine: jobs, client and command line."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from apache_beam.runners.worker import statesampler
from fake_engine import BeamsEngine, FakeEngine

import sparkdrain
from sparkdrain.garbage import calm_collector
from sparkdrain.jobs.server import JobServer
from tests.support import quick_beam
from tests.support.registries import registries_restored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ROOM = 8 << 30
SOURCES = Path(sparkdrain.__file__).parent.parent
TESTS = Path(__file__).parent


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells start what runs in the background like this, and programs would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _remove(directory: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child inherits what is registered
        shutil.rmtree(directory, ignore_errors=True)


def _memory() -> str | None:
    """A file system in memory, if there is one with room for all tests; else None.

    Engines of the tests sync their files thousands of times, which a disk makes them wait for.
    """
    folder = Path("/dev/shm")
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        return None
    free = Path("/proc/meminfo").read_text(encoding="ascii").partition("MemAvailable:")[2]
    room = min(shutil.disk_usage(folder).free, int(free.split()[0]) * 1024)
    return str(folder) if room >= _ROOM else None


def _leave_nothing_behind() -> None:
    """Give the session a directory of its own for temporary files, and take it away at the end.

    Beam makes a directory for every pipeline, and removes it when the pipeline has been run, which
    those that are only translated never are. What pytest keeps of its sessions stays where it
    always is, on the disk.
    """
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    # Short: sockets are made in it. Registered first, so that it goes last.
    tempfile.tempdir = os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="t-", dir=_memory())
    atexit.register(_remove, tempfile.tempdir, os.getpid())


_leave_nothing_behind()
quick_beam.use()
gc.disable()  # until tests are collected, see below

# How long an example takes says more about the machine than about the example. A change is tried
# with the same examples each time: what fails is the change. ``make search`` draws other examples.
hypothesis.settings.register_profile("same", deadline=None, derandomize=True)
hypothesis.settings.register_profile("search", deadline=None, max_examples=1000)
hypothesis.settings.load_profile("same")

_INTEGRATION = Path(__file__).parent.parent / "integration"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden anew")


# The part of a run in which the last test that waits has begun.
_LAST_WAIT = 0.8


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mix files whose tests wait for other processes with files whose tests compute.

    Spark and services leave a part of each core idle, which the other tests then use. What waits
    begins early enough that no process waits for another at the end. Tests with services of their
    own need jars, which are fetched while others run.
    """
    of_file: defaultdict[Path, list[pytest.Item]] = defaultdict(list)
    for item in items:
        of_file[item.path].append(item)
    files: defaultdict[str, list[Path]] = defaultdict(list)
    for file, its in of_file.items():
        on_spark = any(item.get_closest_marker("spark") for item in its)
        services = file.is_relative_to(_INTEGRATION)
        files["services" if services else "spark" if on_spark else "alone"].append(file)
    place = {
        file: (number + 0.5) / len(kind) * (1 if name == "alone" else _LAST_WAIT)
        for name, kind in files.items()
        for number, file in enumerate(kind)
    }
    items.sort(key=lambda item: place[item.path])


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder in memory, if there is one; for slow tests, which may fill it, pytest's on the disk.

    Code under test syncs each file and folder that it writes. On a disk these tests would wait for
    that most of their time. ``lossy_disk`` shows what is lost without.
    """
    if request.node.get_closest_marker("slow"):
        factory: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
        yield factory.mktemp("slow")
        return
    with tempfile.TemporaryDirectory(prefix="test-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """What a test has logged travels to another process, which takes no half characters."""
    report = yield
    report.sections = [
        (name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections
    ]
    return report


# Threads that belong to a slot, a level or a job, by what their names begin with.
_MORTAL = (
    "balancer-",
    "failure-",
    "lending",
    "progress-listener",
    "restrictions",
    "sparkdrain-slot",
    "step-times",
)
_END_SECONDS = 20.0


def _is_mortal(thread: threading.Thread) -> bool:
    # Beam names the threads of its samplers after nothing.
    target = getattr(thread, "_target", None)
    return thread.name.startswith(_MORTAL) or isinstance(
        getattr(target, "__self__", None), statesampler.StateSampler
    )


@pytest.fixture(autouse=True)
def _no_thread_outlives_its_test() -> Iterator[None]:
    """What is left over from one test would be at work, or fail, in another."""
    before = set(threading.enumerate())
    yield
    left = [thread for thread in set(threading.enumerate()) - before if _is_mortal(thread)]
    end = time.monotonic() + _END_SECONDS
    for thread in left:
        thread.join(max(0.0, end - time.monotonic()))
    assert not [thread.name for thread in left if thread.is_alive()]


@pytest.fixture(scope="session")
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `python ARGUMENTS` in a process of its own that can import the package."""

    def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(SOURCES), str(TESTS)])
        return subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
            env={**os.environ, "PYTHONPATH": path, **environ},
        )

    return run


@pytest.fixture
def serve() -> Iterator[Callable[..., JobServer]]:
    """Starts job servers around an engine, and stops them after the test."""
    servers = []

    def start(engine: FakeEngine, address: str = "") -> JobServer:
        server = JobServer(engine, address)
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def in_process(serve, monkeypatch) -> Callable[[FakeEngine], FakeEngine]:
    """Makes an engine the one that `--runner=SparkDrainRunner` uses in this process."""

    def use(engine: FakeEngine) -> FakeEngine:
        server = serve(engine)
        monkeypatch.setattr("sparkdrain.submission.local_server", lambda: server)
        return engine

    return use


@pytest.fixture(autouse=True, scope="module")
def _registries_restored() -> Iterator[None]:
    with registries_restored():
        yield


@pytest.fixture
def beams_engine(in_process) -> FakeEngine:
    """SparkDrainRunner in front of the runner that comes with Beam: pipelines really run."""
    return in_process(BeamsEngine())


def pytest_collection_finish() -> None:
    """What collecting has made stays to the end: no collection of garbage looks at it again."""
    gc.enable()
    calm_collector()
