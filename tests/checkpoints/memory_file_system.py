"""A file system of Beam's in memory, without folders, as object stores are: ``kept://...``."""

from __future__ import annotations

import io

from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem

FILES: dict[str, bytes] = {}
FAULTS: list[Exception] = []
# Python closes a file that nobody has any more; an object store knows nothing of that.
_UPLOADS: list[io.BytesIO] = []


class _Upload(io.BytesIO):
    """An object appears when it is closed."""

    def __init__(self, path):
        super().__init__()
        self._path = path

    def close(self):
        if not self.closed:
            FILES[self._path] = self.getvalue()
        super().close()


class MemoryFileSystem(FileSystem):
    @classmethod
    def scheme(cls):
        return "kept"

    def join(self, basepath, *paths):
        return "/".join([basepath, *paths])

    def split(self, path):
        return tuple(path.rsplit("/", 1))

    def mkdirs(self, path):
        del path

    def has_dirs(self):
        return False

    def _list(self, dir_or_prefix):
        _fail()
        for path, data in list(FILES.items()):
            if path.startswith(dir_or_prefix):
                yield FileMetadata(path, len(data))

    def create(self, path, mime_type="", compression_type=None):
        _fail()
        _UPLOADS.append(_Upload(path))
        return _UPLOADS[-1]

    def open(self, path, mime_type="", compression_type=None):
        _fail()
        if path not in FILES:
            raise BeamIOError(path)
        return io.BytesIO(FILES[path])

    def exists(self, path):
        _fail()
        return path in FILES

    def delete(self, paths):
        _fail()
        for path in paths:
            del FILES[path]

    copy = rename = size = last_updated = checksum = metadata = mkdirs


def _fail():
    if FAULTS:
        raise FAULTS[0]
