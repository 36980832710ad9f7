"""A storage in memory that somebody watches: before each call it asks what is to go wrong."""

from __future__ import annotations

from contextlib import suppress
from enum import Enum, auto

from sparkdrain.checkpoints.storage import AlreadyThere, FileMissing
from sparkdrain.errors import CheckpointFailed, SparkDrainError


class Fault(Enum):
    """What goes wrong with one call."""

    NONE = auto()
    REFUSED = auto()  # nothing happens, and the caller is told so
    UNCLEAR = auto()  # it happens, and the caller is told that it failed
    PARTIAL = auto()  # half of what is written is there; the caller is told that it failed
    LATE = auto()  # it happens when `land` is called, and the caller is told that it failed
    DIES_BEFORE = auto()  # the caller's process ends, nothing has happened
    DIES_HALFWAY = auto()  # the caller's process ends, half of what is written is there
    DIES_AFTER = auto()  # the caller's process ends, all has happened


class Died(BaseException):
    """The process of the caller is no more."""


_DEATHS = (Fault.DIES_BEFORE, Fault.DIES_HALFWAY, Fault.DIES_AFTER)
_HALVES = (Fault.PARTIAL, Fault.DIES_HALFWAY)


def listed(files, folder):
    """What a look into a folder shows, if these are all files."""
    return {
        path.removeprefix(f"{folder}/"): len(data)
        for path, data in files.items()
        if path.startswith(f"{folder}/")
    }


class FaultyStorage:
    """See ``Storage``. ``files`` is what several of them share; ``ask`` says what goes wrong."""

    def __init__(self, files, ask):
        self.files = files
        self._ask = ask
        self._late = []

    def land(self):
        """What is late happens now."""
        while self._late:
            with suppress(SparkDrainError):
                self._late.pop(0)()

    def list(self, folder):
        return self._call(f"list {folder}", lambda: listed(self.files, folder))

    def chunks(self, path):
        def content():
            if path not in self.files:
                message = f"{path} is missing"
                raise FileMissing(message)
            return self.files[path]

        data = self._call(f"read {path}", content)
        yield data[: len(data) // 2]
        yield data[len(data) // 2 :]

    def link(self, path, to):
        return False

    def write(self, path, chunks):
        data = b"".join(chunks)
        self._write(f"write {path}", path, data)

    def settle(self, path):
        def effect():
            if path not in self.files:
                raise FileMissing(path)

        self._call(f"settle {path}", effect)

    def publish(self, path, data):
        folder = path.rpartition("/")[0]

        def effect():
            # As a disk does: in one step, as a whole or not at all.
            there = {name for name in self.files if name.startswith(f"{folder}/")}
            if there - {path} or self.files.get(path, data) != data:
                message = f"{folder} is there"
                raise AlreadyThere(message)
            self.files[path] = data

        self._call(f"publish {path}", effect)

    def delete(self, paths):
        for path in paths:
            self._call(f"delete {path}", lambda path=path: self.files.pop(path, None))

    def _write(self, what, path, data):
        def halfway():
            self.files[path] = data[: len(data) // 2]

        self._call(what, lambda: self.files.__setitem__(path, data), halfway)

    def _call(self, what, effect, halfway=lambda: None):
        fault = self._ask(what)
        if fault in _HALVES:
            halfway()
        elif fault is Fault.LATE:
            self._late.append(effect)
        elif fault not in (Fault.REFUSED, Fault.DIES_BEFORE):
            answer = effect()
        if fault in _DEATHS:
            raise Died(what)
        if fault is not Fault.NONE:
            message = f"no luck: {what}"
            raise CheckpointFailed(message)
        return answer
