"""What Beam's file system of Azure does otherwise than others."""

from __future__ import annotations

import pytest
from apache_beam.io.filesystem import BeamIOError

from sparkdrain.checkpoints.beam_storage import BeamStorage
from sparkdrain.checkpoints.storage import FileMissing
from sparkdrain.errors import CheckpointFailed


class Refused(Exception):
    """As ``BlobStorageError``, whose package may not be here."""

    def __init__(self, code: int) -> None:
        super().__init__("refused", code)
        self.code = code


class Blobs:
    """Raises where others answer that a file is not there."""

    def __init__(self, code: int) -> None:
        self._code = code

    def open(self, path, **more):
        raise OSError(path)

    def exists(self, path):
        message = "Exists operation failed"
        raise BeamIOError(message, {path: Refused(self._code)})


def storage_of(monkeypatch, code: int) -> BeamStorage:
    monkeypatch.setattr(BeamStorage, "_files", lambda self, path: Blobs(code))
    return BeamStorage()


def test_a_blob_that_is_not_there_is_missing_and_need_not_be_removed(monkeypatch):
    storage = storage_of(monkeypatch, 404)
    with pytest.raises(FileMissing):
        list(storage.chunks("azfs://account/container/blob"))
    storage.delete(["azfs://account/container/blob"])


def test_an_account_that_refuses_is_told_of(monkeypatch):
    storage = storage_of(monkeypatch, 403)
    with pytest.raises(CheckpointFailed, match="cannot be looked for"):
        list(storage.chunks("azfs://account/container/blob"))
    with pytest.raises(CheckpointFailed, match="cannot be deleted"):
        storage.delete(["azfs://account/container/blob"])
