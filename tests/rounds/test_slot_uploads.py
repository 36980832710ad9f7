"""A slot's part in a checkpoint: one version for each, and a full disk is no end of a round."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sparkdrain.rounds.messages import Orders
from sparkdrain.rounds.slots.uploads import SlotUploads
from sparkdrain.rounds.slots.version import StateVersion
from timers_state import Overlay, RoundStore


class Recording:
    """An uploader that remembers what it was told."""

    def __init__(self):
        self.begun, self.failed, self.waited, self.is_closed = [], [], [], False

    def begin(self, number, snapshot):
        self.begun.append((number, sorted(path.name for path in snapshot.iterdir())))

    def fail(self, number, error):
        self.failed.append((number, error))

    def await_end(self, seconds):
        self.waited.append(seconds)

    def published(self, number):
        pass

    def poll(self):
        return self.begun[-1] if self.begun else None

    def close(self):
        self.is_closed = True


@pytest.fixture
def uploader():
    return Recording()


@pytest.fixture
def uploads(uploader, tmp_path):
    return SlotUploads(uploader, tmp_path / "versions")


def write(directory):
    directory.mkdir()
    (directory / "state").touch()


def test_a_checkpoint_is_kept_once_however_often_it_is_ordered(uploads, uploader):
    """The round that orders a checkpoint may be run again."""
    for _ in range(2):
        uploads.begin(1, write)
    uploads.begin(2, write)
    assert uploader.begun == [(1, ["state"]), (2, ["state"])]
    assert uploader.failed == []
    assert uploads.ended() == (2, ["state"])


def test_a_disk_that_is_full_fails_the_checkpoint_and_not_the_round(uploads, uploader, tmp_path):
    def refuse(directory):
        write(directory)
        message = "no space left"
        raise OSError(message)

    uploads.begin(1, refuse)
    assert uploader.begun == []
    assert uploader.failed == [(1, "no space left")]
    assert list((tmp_path / "versions").iterdir()) == []


def test_a_report_waits_for_an_upload_that_the_job_waits_for_and_for_no_other(
    uploads, uploader, tmp_path
):
    overlay = Overlay(RoundStore(tmp_path / "store"), 1 << 20)
    version = StateVersion(
        SimpleNamespace(overlay=overlay, level=0, slot=0, slots=1), uploads, None
    )
    slot = SimpleNamespace(shards=[], in_turn=list)
    ways = ({"awaited": True}, {}, {"awaited": True, "still": True})
    for number, way in enumerate(ways, 1):
        version.follow(Orders(checkpoint=number, **way), slot)
        assert version.ended()[0] == number
    moment, nothing, while_all_stand_still = uploader.waited
    assert while_all_stand_still > moment > nothing == 0
    overlay.close()


def test_closing_stops_the_uploader(uploads, uploader):
    uploads.close()
    assert uploader.is_closed
