"""Checkpoints wherever Beam's ``FileSystems`` reach: object stores and other remote ones."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from apache_beam.io.filesystem import BeamIOError, CompressionTypes, FileSystem
from apache_beam.io.filesystems import FileSystems
from typing_extensions import override

from sparkdrain.checkpoints import reasons
from sparkdrain.checkpoints.local_storage import LocalStorage
from sparkdrain.checkpoints.reasons import why
from sparkdrain.checkpoints.storage import CHUNK, AlreadyThere, FileMissing, Storage, read
from sparkdrain.errors import CheckpointFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from apache_beam.options.pipeline_options import PipelineOptions

_NOT_FOUND: Final = 404


class BeamStorage(Storage):
    """See ``Storage``.

    Beam has no call that makes a file only if it is new: ``publish`` looks before and after, and
    two drivers that publish at the same moment both do. ``lease`` sees to that.

    Args:
        options: the pipeline's options, which have what the file system needs to know. Without
            them, those of the last pipeline that this process made are taken.
    """

    def __init__(self, options: PipelineOptions | None = None) -> None:
        self._options = options

    @override
    def list(self, folder: str) -> dict[str, int]:
        reasons.forget()
        start = f"{folder.rstrip('/')}/"
        with _failing(f"{folder} cannot be listed"):
            (found,) = self._files(folder).match([f"{start}**"])
        return {
            file.path.removeprefix(start): file.size_in_bytes
            for file in found.metadata_list
            if file.path.startswith(start)
        }

    @override
    def chunks(self, path: str) -> Iterator[bytes]:
        reasons.forget()
        try:
            files = self._files(path)
            with files.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
                while chunk := file.read(CHUNK):
                    yield chunk
        except Exception as error:
            with _failing(f"{path} cannot be looked for"):
                is_there = _exists(self._files(path), path)
            if not is_there:
                message = f"{path} is missing"
                raise FileMissing(message) from error
            message = f"{path} cannot be read: {why(error)}"
            raise CheckpointFailed(message) from error

    @override
    def link(self, path: str, to: Path) -> bool:
        return False

    @override
    def write(self, path: str, chunks: Iterable[bytes]) -> None:
        reasons.forget()
        refused = f"{path} cannot be written"
        with _failing(refused):
            file = self._files(path).create(path, compression_type=CompressionTypes.UNCOMPRESSED)
        for chunk in chunks:
            with _failing(refused):
                file.write(chunk)
        with _failing(refused):
            file.close()

    @override
    def publish(self, path: str, data: bytes) -> None:
        folder, _, name = path.rpartition("/")
        there = self.list(folder)
        if there and set(there) != {name}:
            shown = ", ".join(sorted(there))
            message = f"{folder} is there already, with {shown}: another driver wrote it"
            raise AlreadyThere(message)
        if not there:
            self.write(path, [data])
        if read(self, path) != data:
            message = f"{path} is there already, with other content: another driver wrote it"
            raise AlreadyThere(message)

    @override
    def settle(self, path: str) -> None:
        """See ``Storage``. What such a storage shows, it keeps."""

    @override
    def delete(self, paths: Sequence[str]) -> None:
        reasons.forget()
        with _failing(f"{paths[0]} and others cannot be deleted"):
            files = self._files(paths[0])
            present = [path for path in paths if _exists(files, path)]
            if present:
                files.delete(present)

    def _files(self, path: str) -> FileSystem:
        scheme = FileSystems.get_scheme(path)
        kinds = [kind for kind in FileSystem.get_all_subclasses() if kind.scheme() == scheme]
        if self._options is None or len(kinds) != 1:
            return FileSystems.get_filesystem(path)
        return kinds[0](pipeline_options=self._options)


def _exists(files: FileSystem, path: str) -> bool:
    try:
        return files.exists(path)
    except BeamIOError as error:
        # Beam's file system of Azure raises this where it should answer.
        reason = (error.exception_details or {}).get(path)
        if getattr(reason, "code", None) == _NOT_FOUND:
            return False
        raise


@contextmanager
def _failing(what: str) -> Iterator[None]:
    """Has every error of Beam's raised as ``CheckpointFailed``."""
    try:
        yield
    except Exception as error:
        message = f"{what}: {why(error)}"
        raise CheckpointFailed(message) from error


def storage_at(root: str, options: PipelineOptions | None = None) -> Storage:
    """What keeps the files below ``root``, a path of any of Beam's file systems.

    Args:
        options: the pipeline's options; those that this process knows if not given.
    """
    if FileSystems.get_scheme(root) is None:
        return LocalStorage()
    reasons.listen()
    return BeamStorage(options)
