"""A slot's part in a checkpoint: one version for each, and a full disk is no end of a round."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sparkdrain.rounds.messages import Orders
from sparkdrain.rounds.slots.version import StateVersion
from timers_state import Overlay, RoundStore

SLOT = SimpleNamespace(shards=[], in_turn=list)


class Recording:
    """An uploader that remembers what it was told."""

    def __init__(self):
        self.begun, self.failed, self.waited, self.is_closed = [], [], [], False

    def begin(self, number, snapshot):
        self.begun.append((number, any(snapshot.iterdir())))

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
def version(uploader, tmp_path):
    overlay = Overlay(RoundStore(tmp_path / "store"), 1 << 20)
    context = SimpleNamespace(overlay=overlay, level=0, slot=0, slots=1, directory=tmp_path)
    yield StateVersion(context, uploader, None)
    overlay.close()


def test_a_checkpoint_is_kept_once_however_often_it_is_ordered(version, uploader):
    """The round that orders a checkpoint may be run again."""
    for number in (1, 1, 2):
        version.follow(Orders(checkpoint=number), SLOT)
    assert uploader.begun == [(1, True), (2, True)]
    assert uploader.failed == []
    assert version.ended() == (2, True)


def test_a_disk_that_is_full_fails_the_checkpoint_and_not_the_round(
    version, uploader, tmp_path, monkeypatch
):
    def refuse(_, directory):
        directory.mkdir()
        (directory / "state").touch()
        message = "no space left"
        raise OSError(message)

    monkeypatch.setattr(Overlay, "snapshot", refuse)
    version.follow(Orders(checkpoint=1), SLOT)
    assert uploader.begun == []
    assert uploader.failed == [(1, "no space left")]
    assert list((tmp_path / "versions-0").iterdir()) == []


def test_a_report_waits_for_an_upload_that_the_job_waits_for_and_for_no_other(version, uploader):
    ways = ({"awaited": True}, {}, {"awaited": True, "still": True})
    for number, way in enumerate(ways, 1):
        version.follow(Orders(checkpoint=number, **way), SLOT)
        assert version.ended()[0] == number
    moment, nothing, while_all_stand_still = uploader.waited
    assert while_all_stand_still > moment > nothing == 0


def test_closing_stops_the_uploader(version, uploader):
    version.close()
    assert uploader.is_closed
