"""Messages between processes and releases: what is written today is read tomorrow.

`python -m tests.test_wire` writes a golden file for each message that has none. A golden file that
is there is never written again.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.checkpoints.manifest import FileEntry, ShardState
from sparkdrain.checkpoints.upload import Uploaded
from sparkdrain.drain.limits import Limits
from sparkdrain.drain.progress import Hold, Left
from sparkdrain.drain.states import DrainMessage
from sparkdrain.graph.plan import Edge, EdgeKind, Plan, PlayedSource, SideInput, Stage
from sparkdrain.hosts.executor import Executor
from sparkdrain.hosts.line import Ask, FromLeash, HostId, HostRecord, Sight, ToLeash
from sparkdrain.rounds.messages import (
    AtWork,
    DrainOrder,
    Inheritance,
    Missing,
    Opened,
    Orders,
    RoundHeader,
    RoundReport,
)
from sparkdrain.row_types import RowTypes
from sparkdrain.stages.batch.balance import FromLender, ToLender
from sparkdrain.stages.shards.turn import Feed
from sparkdrain.stages.telling.report import SlotReport, Warned
from sparkdrain.watermarks.frontier import BEGIN, END
from sparkdrain.wire import MESSAGES, ControlMessage

ROOT = Path(__file__).parents[1]
GOLDEN = Path(__file__).parent / "golden" / "wire"

FILE = FileEntry("000012.sst", 4096, "ab" * 32, "000001-000000002-001-0000-ab")
SHARD = ShardState(1, 0, (FILE,), b'{"level": 1}')
REPORT = RoundReport(
    level=1,
    slot=2,
    number=7,
    attempt=2**63 - 1,
    inputs={(0, 0): 2**62, (0, 1): 5},
    outputs=(BEGIN, 0, END),
    sent=frozenset({1, 2}),
    wake=0,
    metrics=[b"\x00\xff", b""],
    sent_bytes=1,
    dropped=2,
    holds=(Hold("Count", "windows", -5),),
    prepared_bytes=3,
    busy=0.25,
    waits=True,
    uploaded=Uploaded(4, (FILE,), 4096, 1.5, ""),
    drained=(True, False),
    left=(Left("Count", 2, 1, 3, 4, 5, 6),),
    refused=(("Count", "tick", 2),),
    missing=(Missing("Count", 3, 1),),
    strangers=1,
    made=8,
    spent=True,
    unsettled=1,
    complaints=("nobody there",),
    passed={3: BEGIN, 4: 12},
    untruncated=True,
)
HOST = HostRecord(HostId("job", 1), "here", 77, ("10.0.0.1", 4711), "killed", Executor("h", "2"))
HEADER = RoundHeader(
    number=8,
    level=1,
    slot=2,
    now=1_700_000_000_000_000,
    committed=0,
    expected=frozenset({(0, 0), (0, 1)}),
    inputs={1: BEGIN, 2: END},
    outputs=(0, END),
    begin=True,
    seconds=0.5,
    elements=1000,
    feeds={"t": Feed(((b"a", -1), (b"", 2)), 3, 1), "u": Feed((), END)},
    orders=Orders(
        5, 4, frozenset({0, 1}), True, DrainOrder("job/1", 10, Limits(1.5, None, 2.0, "wait"))
    ),
    restore=Inheritance(REPORT, (SHARD,), 2, {1: 0}),
)
SAMPLES = {
    # On a line, only one of the parts is there.
    "to_leash": ToLeash(HOST, Sight(3, 0.0, b"", "dump", "notes"), "ended", Ask(HOST.id, 5, True)),
    "to_leash_of_one_executor": ToLeash(HostRecord(HostId("job", 0), "here", 77, None)),
    "to_leash_of_a_host_between_calls": ToLeash(sight=Sight(0, None)),
    "from_leash": FromLeash(True, HOST, 0.0, 0),
    "from_leash_nothing": FromLeash(),
    "from_lender": FromLender(1, 2**62, 0, b"work", True),
    "to_lender": ToLender(0.5),
    "row_types": RowTypes((("a.Row", b"schema", b"pickled"), ("b.Row", b"", b""))),
    "round_header": HEADER,
    "round_header_of_a_beginning": RoundHeader(
        1, 0, 0, 0, None, frozenset(), {}, (), begin=False, seconds=0.0, elements=0
    ),
    "round_header_of_a_slot_with_copies": dataclasses.replace(HEADER, copies=(0, 3)),
    "round_report": REPORT,
    "round_report_of_an_opened_slot": dataclasses.replace(
        REPORT, opened=Opened(0.5, 4096, 7, "no room")
    ),
    "round_report_of_a_beginning": RoundReport(0, 0, 1, 0, {}, (), frozenset(), None),
    "at_work": AtWork("Count", "0badcafe", (("a.py", 7, "process"),)),
    "slot_report": SlotReport(
        1,
        2,
        2**62,
        {(0, 1): 3},
        {2: 2**40},
        [b"\x00"],
        1,
        2,
        3,
        4,
        5,
        (Warned("old", ("builtins", "UserWarning"), "a.py", 3),),
    ),
    "drain_message": DrainMessage("job/1", 3, (1, 2)),
    "plan": Plan(
        b"components",
        (
            (
                Stage(
                    "Read",
                    0,
                    (("t", b"proto"), ("u", b"")),
                    (("t", None), ("u", 0)),
                    (("t", 0),),
                    (SideInput("t", "side0", 3, None), SideInput("u", "side1", 4, 0)),
                    "python",
                ),
            ),
            (),
        ),
        tuple(
            Edge(number, kind, "p", 0, 1, True, False, True, "step")
            for number, kind in enumerate(EdgeKind)
        ),
        (PlayedSource("t", "s", "tag", "coder", b"payload"),),
    ),
    "plan_of_a_reader": Plan(
        b"components",
        ((Stage("Read", 1, (), (("t", 0),), (), (), "python", ("p",)),),),
        (Edge(0, EdgeKind.KEYED, "p", 0, 1),),
    ),
}
_each_sample = pytest.mark.parametrize("name", SAMPLES)


@_each_sample
def test_what_is_written_is_read_back(name):
    value = SAMPLES[name]
    read = type(value).decode(value.encode())
    assert read == value
    for field in dataclasses.fields(value):
        assert type(getattr(read, field.name)) is type(getattr(value, field.name)), field.name


@_each_sample
def test_what_was_written_when_the_message_was_made_is_read(name):
    assert type(SAMPLES[name]).decode((GOLDEN / f"{name}.bin").read_bytes()) == SAMPLES[name]


@_each_sample
def test_fields_of_a_newer_release_are_ignored(name):
    value = SAMPLES[name]
    later = b"\xfa\x3e\x03abc"  # field 1007, a text
    assert type(value).decode(value.encode() + later) == value


def test_each_message_has_a_golden_file_with_every_field():
    sent = {cls for cls in MESSAGES if issubclass(cls, ControlMessage)}
    assert {type(value) for value in SAMPLES.values()} == sent
    assert {path.stem for path in GOLDEN.iterdir()} == SAMPLES.keys()
    for cls in sent:
        full = max(
            (value for value in SAMPLES.values() if type(value) is cls),
            key=lambda value: len(value.encode()),
        )
        told = {field.name for field, _ in MESSAGES[cls].FromString(full.encode()).ListFields()}
        assert told == {field.name for field in dataclasses.fields(cls)}


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_a_class_and_its_message_have_the_same_fields(cls):
    names = {field.name for field in dataclasses.fields(cls)}
    assert names == set(MESSAGES[cls].DESCRIPTOR.fields_by_name)


def test_a_field_that_is_not_there_has_the_default_of_its_class():
    message = MESSAGES[RoundHeader](number=1, feeds={"t": MESSAGES[Feed](frontier=5)})
    message.orders.drain.run_id = "job/1"
    message.orders.drain.limits.SetInParent()
    read = RoundHeader.decode(message.SerializeToString())
    assert read.feeds["t"] == Feed((), 5, BEGIN)
    assert read.orders.drain.limits == Limits(policy="fail")
    assert (read.committed, read.restore, read.expected) == (None, None, frozenset())


@given(st.binary(max_size=200))
def test_other_bytes_are_refused_or_read_as_a_message(data):
    try:
        read = RoundReport.decode(data)
    except (DecodeError, UnicodeDecodeError):
        return
    assert isinstance(read, RoundReport)


# --- who may use what ---------------------------------------------------------------------------

DECISION = (ROOT / "docs/decisions/0036-messages-of-proto.md").read_text(encoding="utf-8")
PICKLES = {"pickle", "cloudpickle", "pickler", "cloudpickle_pickler", "CloudPickleSerializer"}


@functools.cache
def modules():
    """The syntax trees of the product's modules, without generated code."""
    product = ROOT / "runner/sparkdrain"
    return {
        str(path.relative_to(product)): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(product.rglob("*.py"))
        if not path.stem.endswith("_pb2")
    }


def imported(module):
    """What a module imports from where, and the name that it has there."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from ((alias.name, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


def uses_generated_classes(module):
    """Whether a module does more with them than to say what its own classes travel as."""
    if any(source.startswith("sparkdrain.v1.") for source, _ in imported(module)):
        return True
    told = {
        part
        for call in ast.walk(module)
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "sent_as"
        for part in ast.walk(call)
    }
    ours = {name for source, name in imported(module) if source == "sparkdrain.v1"}
    return any(
        isinstance(node, ast.Name) and node.id in ours and node not in told
        for node in ast.walk(module)
    )


def test_only_the_server_and_the_relay_use_generated_classes_as_they_are():
    assert {name for name, module in modules().items() if uses_generated_classes(module)} == {
        "fnapi/relay.py",
        "server/driven_jobs.py",
        "server/job_store.py",
    }


def test_the_decision_names_each_module_that_pickles():
    pickling = {
        name
        for name, module in modules().items()
        if any(PICKLES & {source, what} for source, what in imported(module))
    }
    told = re.findall(r"^\| \[`[\w/.]+`\]\(../../runner/sparkdrain/([\w/.]+)\) \|", DECISION, re.M)
    assert sorted(told) == sorted(pickling)


# --- generated code ---------------------------------------------------------------------------


def test_generated_code_is_current(tmp_path):
    pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed")
    sources = sorted(map(str, (ROOT / "proto/sparkdrain/v1").glob("*.proto")))
    places = [f"-I{ROOT / 'proto'}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    command = [sys.executable, "-m", "grpc_tools.protoc", *places, *sources]
    subprocess.run(command, check=True)
    made = {path.name: path.read_text() for path in (tmp_path / "sparkdrain/v1").iterdir()}
    kept = {path.name: path.read_text() for path in (ROOT / "runner/sparkdrain/v1").glob("*_pb2*")}
    assert made == kept, "run make proto"


if __name__ == "__main__":
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name, value in SAMPLES.items():
        if not (GOLDEN / f"{name}.bin").exists():
            (GOLDEN / f"{name}.bin").write_bytes(value.encode())
