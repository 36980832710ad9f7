"""Brokers that outlive the processes that write to them, and lose nothing: in a file."""

from __future__ import annotations

import os
import pickle
import threading
from collections import Counter
from typing import TYPE_CHECKING

from tests.io.kafka.fake_kafka import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class KeptKafka(FakeKafka):
    """What is in the file, and in it again before each step of a transaction and after the last.

    ``mark`` hears of each of these steps when the file has what was before it.
    """

    def __init__(self, path: Path, mark: Callable[[str], None] = lambda step: None) -> None:
        super().__init__()
        self._path = path
        self._mark = mark
        self._lock = threading.Lock()  # groups of a sink are fenced at the same time
        if path.exists():
            self.logs, self.recorded, epochs = pickle.loads(path.read_bytes())
            self.epochs = Counter(epochs)
        self.topic("out")
        self.before = self._keep

    def _keep(self, step: str) -> None:
        with self._lock:
            part = self._path.with_suffix(".part")
            part.write_bytes(pickle.dumps((self.logs, dict(self.recorded), dict(self.epochs))))
            os.replace(part, self._path)
            self._mark(step)
