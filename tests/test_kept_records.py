"""Records that outlive a process: JSON with a message as its schema, and messages of the server.

What is written today is read tomorrow, and what a later release adds is ignored or kept.
`python -m tests.test_kept_records` writes a golden file for each record that has none. A golden
file that is there is never written again.
"""

from __future__ import annotations

import base64
import datetime as dt
import functools
import json
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from apache_beam.portability.api import beam_job_api_pb2 as api
from google.protobuf import json_format

from sparkdrain.checkpoints.manifest import Manifest
from sparkdrain.checkpoints.manifest import encode as encode_manifest
from sparkdrain.coordination.backends.file import encode
from sparkdrain.coordination.backends.memory import MemoryMetadataStore
from sparkdrain.coordination.large_values import LargeValues
from sparkdrain.coordination.lease import LeaseRecord
from sparkdrain.drain.notification import DrainMode, DrainNotification
from sparkdrain.drain.phases import DrainPhase
from sparkdrain.drain.runs import Run
from sparkdrain.io.kafka.note import Note, OwnerStage, Recorded
from sparkdrain.local_state.files import FileContent
from sparkdrain.local_state.notes import SlotNote
from sparkdrain.rounds.driver.inheritances import DriverState, kept_form
from sparkdrain.rounds.kept_finalizers import FINALIZERS_STATE_ID, KeptFinalizers
from sparkdrain.server.job_store import JobStore, Journal
from sparkdrain.stages.telling.failure import Failure
from sparkdrain.standby.drivers import StandingDriver, Term
from sparkdrain.v1 import (
    checkpoint_pb2,
    coordination_pb2,
    drain_pb2,
    failure_pb2,
    kafka_pb2,
    local_state_pb2,
    server_pb2,
    standby_pb2,
)
from tests.test_wire import REPORT, SHARD
from timers_state import MemoryStore, Overlay

GOLDEN = Path(__file__).parent / "golden" / "records"

NOTIFICATION = DrainNotification(
    uuid.UUID(int=7), "job/1", DrainMode.DEFAULT, dt.datetime(2026, 11, 21, tzinfo=dt.timezone.utc)
)
MANIFEST = Manifest("job", "run", 1, 2, 3, 4, {"state": "coder"}, 2, (SHARD,), b"{}")
RUN = Run(
    "r", "j", "wc", "unix:/x", "DRAINING", drain=True, began=5, phase="FLUSHING", moves=("slot 1",)
)
TERM = Term("driver-1", "FAILED", 5, 3, 2, 7, is_last=True, cause="no room")
SINK_NOTE = Note(b"owner", b"digest", OwnerStage.BEGUN, "wc", (b"before", b"so far"))
FILES = frozenset({FileContent("ab" * 32, 4096), FileContent("cd" * 32, 0)})


class Acknowledges:
    """A finalizer that can be made anew."""

    ident = "topic-0"
    data = '["topic", 0, 5]'

    def __call__(self) -> None:
        """Nothing is told."""

    def settle(self, seconds: float) -> bool:
        """Nothing was told."""
        return True


def kept_finalizer(callback: Any) -> bytes:
    """The row of a finalizer in the state of its slot."""
    with Overlay(MemoryStore(), 1 << 20) as overlay:
        kept = KeptFinalizers(overlay, range(1))
        row = kept.put(7, 0, "Read", callback)
        assert [entry[0] for entry in kept.restored(lambda *_: callback)] == [row]
        ((_, value),) = overlay.scope(FINALIZERS_STATE_ID, row.key).map(b"f").items()
    return value


def cut_value() -> bytes:
    """What a store has under the key of a value that is too large for it."""
    store = MemoryMetadataStore()
    LargeValues(store, 10).put("space", "key", b"a" * 25)
    return store.get("space", "key").value[1:]


def first_line() -> bytes:
    """The head of a file that has a record."""
    line = encode("key", b"value", "3").partition(b"\n")[0]
    return line[line.index(b"{") :]


class Kept(NamedTuple):
    """A record.

    Attributes:
        data: it, or the part of it that is JSON.
        message: its schema.
        value: what was written; None if no single class has it.
        read: the inverse.
    """

    data: bytes
    message: Any
    value: Any = None
    read: Any = None


def of(value: Any, message: Any, read: Any = None) -> Kept:
    """A record of a class with ``encode`` and ``decode``."""
    return Kept(value.encode(), message, value, read or type(value).decode)


RECORDS = {
    "notification": of(NOTIFICATION, drain_pb2.DrainNotification),
    "run": of(RUN, drain_pb2.Run),
    "manifest": Kept(encode_manifest(MANIFEST).splitlines()[2], checkpoint_pb2.Manifest),
    "report of a slot": Kept(kept_form(REPORT), checkpoint_pb2.SlotRecord),
    **{
        f"driver, {phase.name}": Kept(
            DriverState(3, phase, NOTIFICATION if phase.is_cut else None).encode(),
            checkpoint_pb2.DriverState,
        )
        for phase in DrainPhase
    },
    "acknowledgement": Kept(kept_finalizer(Acknowledges()), checkpoint_pb2.Finalizer),
    "finalizer": Kept(kept_finalizer(functools.partial(len, "abc")), checkpoint_pb2.Finalizer),
    "term": of(TERM, standby_pb2.Term),
    "standing driver": of(StandingDriver("driver-2", 5, 6), standby_pb2.StandingDriver),
    "lease": of(LeaseRecord("driver-1", 3, 10.5), coordination_pb2.Lease),
    "cut value": Kept(cut_value(), coordination_pb2.CutValue),
    "head of a file": Kept(first_line(), coordination_pb2.FileHead),
    "note of a slot": of(SlotNote("wc", "/c", 1, 2, {3: FILES}), local_state_pb2.SlotNote),
    "failure": of(
        Failure("ValueError", "ValueError: no", "at a.py:3", True, 1, 2, "here"),
        failure_pb2.Failure,
    ),
    "note of a sink": Kept(
        SINK_NOTE.text().encode(),
        kafka_pb2.SinkNote,
        SINK_NOTE,
        lambda data: Recorded(3, data.decode()).note(),
    ),
}


def file_of(name: str) -> Path:
    """Where a record is kept as it was written when the test was."""
    return GOLDEN / f"{name.replace(' ', '_')}.json"


READ = [name for name, record in RECORDS.items() if record.read is not None]


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_that_people_read_has_the_schema_of_its_message(name):
    data, message, *_ = RECORDS[name]
    found = json_format.Parse(data, message())  # raises for a field that the message lacks
    told = {field.name for field, _ in found.ListFields()}
    written = {name for name, value in json.loads(data).items() if value}
    assert told == written


def test_bytes_in_a_manifest_are_those_of_its_message():
    found = json_format.Parse(RECORDS["manifest"].data, checkpoint_pb2.Manifest())
    assert found.shards[0].report == SHARD.report
    assert base64.b64encode(found.driver) == base64.b64encode(MANIFEST.driver)


@pytest.mark.parametrize("name", READ)
def test_a_record_that_was_written_when_it_was_made_is_read(name):
    _, _, value, read = RECORDS[name]
    assert read(file_of(name).read_bytes()) == value


def test_each_record_that_is_read_alone_has_a_golden_file():
    assert {*GOLDEN.glob("*.json")} == {*map(file_of, READ)}


@pytest.mark.parametrize("name", READ)
def test_fields_of_a_later_release_in_a_record_are_ignored(name):
    data, _, value, read = RECORDS[name]
    assert read(json.dumps({**json.loads(data), "later": {"a": [1]}}).encode()) == value


# --- messages of the server ---------------------------------------------------------------------

HEADS = "sparkdrain-server-jobs-v1"
LATER = b"\xfa\x3e\x03abc"
"""Field 1007, a text."""
STATES = [
    api.JobStateEvent(state=state).SerializeToString(deterministic=True)
    for state in (api.JobState.STOPPED, api.JobState.STARTING)
]
OF_SERVERS = {
    "stored_job": server_pb2.StoredJob(
        job_id="job-1",
        name="wc",
        states=STATES,
        request_parts=1,
        info_parts=2,
        metrics_parts=3,
        messages=[server_pb2.StoredMessages(number=4, count=5, parts=6)],
        was_driven=True,
        has_checkpoints=True,
    ),
    "told_messages": server_pb2.ToldMessages(
        responses=[
            api.JobMessagesResponse(
                message_response=api.JobMessage(message_text="hello")
            ).SerializeToString(deterministic=True)
        ]
    ),
}


@pytest.mark.parametrize("name", OF_SERVERS)
def test_what_a_server_of_today_has_stored_is_read(name):
    stored = OF_SERVERS[name]
    assert type(stored).FromString((GOLDEN / f"{name}.bin").read_bytes()) == stored


def test_golden_files_of_servers_have_every_field_of_every_message():
    assert {path.stem for path in GOLDEN.glob("*.bin")} == set(OF_SERVERS)
    told = {}
    for message in (*OF_SERVERS.values(), *OF_SERVERS["stored_job"].messages):
        told[message.DESCRIPTOR] = [field.name for field, _ in message.ListFields()]
    assert told == {
        message: [field.name for field in message.fields]
        for message in server_pb2.DESCRIPTOR.message_types_by_name.values()
    }


def test_a_server_keeps_what_a_later_release_has_stored_in_the_head_of_a_job():
    """A server of an older release reads the head, changes it and writes it again."""
    store = MemoryMetadataStore()
    store.put(
        "sparkdrain-server-jobs-v1", "job-1", (GOLDEN / "stored_job.bin").read_bytes() + LATER
    )
    jobs = JobStore(store)
    (head,) = jobs.heads()
    running = api.JobStateEvent(state=api.JobState.RUNNING)
    Journal(jobs, head).take(api.JobMessagesResponse(state_response=running))
    written = store.get(HEADS, "job-1").value
    assert LATER in written
    assert server_pb2.StoredJob.FromString(written).states[-1] == running.SerializeToString()


if __name__ == "__main__":
    GOLDEN.mkdir(parents=True, exist_ok=True)
    golden = {file_of(name): RECORDS[name].data for name in READ}
    for name, message in OF_SERVERS.items():
        golden[GOLDEN / f"{name}.bin"] = message.SerializeToString(deterministic=True)
    for file, data in golden.items():
        if not file.exists():
            file.write_bytes(data)
