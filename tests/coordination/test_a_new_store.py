"""A new kind of metadata store is one file and one line: nothing else knows of kinds or places."""

from __future__ import annotations

import sys
import uuid

import pytest

from sparkdrain.cli.main import main
from sparkdrain.coordination import backends
from sparkdrain.coordination.address import StoreAddress, parse
from sparkdrain.coordination.stores import STORES
from sparkdrain.drain import records, runs
from sparkdrain.drain.runs import Run
from sparkdrain.errors import BadOption, BadSetup
from sparkdrain.jobs.draining import JobDrain
from sparkdrain.options import JobSettings

ONE_FILE = """
from sparkdrain.coordination.backends import memory
from sparkdrain.coordination.backend import StoreReach

STORES = memory.Backend()  # a server of this kind, for all processes

class Backend:
    open = STORES.open

    def reach(self, place):
        return StoreReach.NETWORK

    def place(self, text):
        host, colon, port = text.partition(":")
        if not colon or not port.isdigit():
            raise ValueError(f"{text!r} is no host and port")
        return f"{host}:{port}"

    def exists(self, place):
        return place.startswith("there")

    def prepare(self, place, *, group):
        return [f"Everybody may write to {place}."]
"""


@pytest.fixture
def new_kind(tmp_path, monkeypatch):
    """The name of a kind of store that this release does not have."""
    kind = f"new{uuid.uuid4().hex}"
    (tmp_path / f"{kind}.py").write_text(ONE_FILE)
    monkeypatch.setattr(backends, "__path__", [*backends.__path__, str(tmp_path)])
    monkeypatch.setitem(backends.BACKENDS, kind, f"{kind}:HOST:PORT")
    return kind


class Job:
    def __init__(self) -> None:
        self.told: list[str] = []

    def message(self, importance, text) -> None:
        self.told.append(text)

    def drain_began(self) -> None:
        pass


def test_a_job_is_listed_and_drained_through_it(new_kind, capsys):
    text = f"{new_kind}:there:9092"
    address = parse(text)
    assert address == StoreAddress(new_kind, "there:9092")
    job = Job()
    run = Run("mine", "job-1", "wc", "", "RUNNING", drain=True, began=0)
    drain = JobDrain(run, JobSettings(slots=1, metadata_store=address), job, lambda: 5)
    drain.open()
    assert "Everybody may write to there:9092." in job.told
    drain.begin(0)
    assert main(["jobs", f"--metadata_store={text}"]) == 0
    assert "mine" in capsys.readouterr().out
    assert main(["drain", "mine", f"--metadata_store={text}", "--no-wait"]) == 0
    store = STORES.open(address)
    assert [asked.run_id for asked in records.read(store, pytest.fail)] == ["mine"]
    drain.close("DRAINED")
    assert [each.state for each in runs.known(store)] == ["DRAINED"]


def test_what_its_backend_refuses_is_told_with_the_option(new_kind, capsys):
    with pytest.raises(BadOption, match=f"cannot be '{new_kind}:x': 'x' is no host and port"):
        parse(f"{new_kind}:x")
    assert main(["jobs", f"--metadata_store={new_kind}:elsewhere:1"]) == 1
    assert "There is no metadata store in elsewhere:1" in capsys.readouterr().out


def test_it_is_among_those_that_are_told_when_an_address_is_wrong(new_kind):
    with pytest.raises(BadOption, match=f"rocksdb:/absolute/path, .* or {new_kind}:HOST:PORT"):
        parse("what")


def test_a_kind_whose_package_is_missing_says_which(monkeypatch, tmp_path):
    (tmp_path / "lacking.py").write_text("import no_such_package")
    monkeypatch.setattr(backends, "__path__", [*backends.__path__, str(tmp_path)])
    monkeypatch.setitem(backends.BACKENDS, "lacking", "lacking:")
    with pytest.raises(BadSetup, match=r"needs the package 'no_such_package'.*runner\[lacking\]"):
        parse("lacking:")


@pytest.mark.parametrize(
    ("kind", "package"), [("zookeeper", "kazoo"), ("kafka", "kafka"), ("azure", "azure.core")]
)
def test_a_store_without_its_package_says_how_to_install_it(kind, package, monkeypatch):
    """In an installation without extras."""
    monkeypatch.delitem(sys.modules, f"{backends.__name__}.{kind}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(BadSetup, match=rf"package '{package}'.*spark-drain-runner\[{kind}\]"):
        parse(f"{kind}:jobs")
