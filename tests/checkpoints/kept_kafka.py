"""Brokers that outlive the processes that write to them, and lose nothing: in a file."""

from __future__ import annotations

import os
import pickle
import threading
from typing import TYPE_CHECKING

from tests.io.kafka.fake_kafka import FakeKafka

if TYPE_CHECKING:
    from pathlib import Path


class KeptKafka(FakeKafka):
    """What is in the file, and in it again before each step of a transaction and after the last."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._lock = threading.Lock()  # groups of a sink are fenced at the same time
        if path.exists():
            self.logs, self.recorded, self.epochs = pickle.loads(path.read_bytes())
        self.topic("out")
        self.before = self._keep

    def _keep(self, step: str) -> None:
        with self._lock:
            part = self._path.with_suffix(".part")
            part.write_bytes(pickle.dumps((self.logs, dict(self.recorded), dict(self.epochs))))
            os.replace(part, self._path)
