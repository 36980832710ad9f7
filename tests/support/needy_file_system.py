"""A file system of Beam's, ``needy://...``, that nobody can use without the job's options."""

from __future__ import annotations

from pathlib import Path

from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.localfilesystem import LocalFileSystem
from apache_beam.options.pipeline_options import PipelineOptions

SCHEME = "needy"


class NeedyOptions(PipelineOptions):
    @classmethod
    def _add_argparse_args(cls, parser) -> None:
        parser.add_argument("--needy_root", help="The folder in which needy:// is.")


class NeedyFileSystem(LocalFileSystem):
    """Files below ``--needy_root``."""

    def __init__(self, pipeline_options) -> None:
        super().__init__(pipeline_options)
        root = pipeline_options.view_as(NeedyOptions).needy_root
        assert root, "nobody has told --needy_root"
        self._root = Path(root)

    @classmethod
    def scheme(cls):
        return SCHEME

    def join(self, basepath, *paths):
        return "/".join([basepath.rstrip("/"), *paths])

    def split(self, path):
        return tuple(path.rsplit("/", 1))

    def _place(self, path: str) -> Path:
        return self._root / path.removeprefix(f"{self.scheme()}://")

    def has_dirs(self):
        return False

    def _list(self, dir_or_prefix):
        for place in self._root.rglob("*"):
            path = f"{self.scheme()}://{place.relative_to(self._root)}"
            if place.is_file() and path.startswith(dir_or_prefix):
                yield FileMetadata(path, place.stat().st_size)

    def create(self, path, mime_type="", compression_type=None):
        self._place(path).parent.mkdir(parents=True, exist_ok=True)
        return self._place(path).open("wb")

    def open(self, path, mime_type="", compression_type=None):
        return self._place(path).open("rb")

    def exists(self, path):
        return self._place(path).exists()

    def delete(self, paths):
        for path in paths:
            self._place(path).unlink()
