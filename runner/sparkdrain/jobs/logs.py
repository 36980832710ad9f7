"""Copies what a job logs in this process into its message stream."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from sparkdrain.invocation import importance_of

if TYPE_CHECKING:
    from sparkdrain.jobs.messages import Messages


class JobLogs(logging.Handler):
    """While entered, forwards the log records of one job's threads.

    Jobs run in the same process, so a record belongs to a job if its thread does: the thread's name
    is the job's thread name, or starts with it and a slash (name helper threads like that).
    """

    def __init__(self, messages: Messages, thread_name: str) -> None:
        super().__init__()
        self._messages = messages
        self._thread_name = thread_name
        self.setFormatter(logging.Formatter("%(message)s"))

    def __enter__(self) -> JobLogs:
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *error: object) -> None:
        logging.getLogger().removeHandler(self)
        self.close()

    def emit(self, record: logging.LogRecord) -> None:
        """Forward the record if one of the job's threads made it."""
        thread = record.threadName or ""
        if thread == self._thread_name or thread.startswith(f"{self._thread_name}/"):
            try:
                self._messages.logged(importance_of(record.levelno), self.format(record))
            except Exception:  # noqa: BLE001 - user code that logs must not fail for it
                self.handleError(record)
