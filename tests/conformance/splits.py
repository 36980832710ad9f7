"""Has the split managers of Beam's suites say when this runner splits a restriction in a round.

Beam's own runner asks a manager, for every bundle, when to split it and at which fraction of what
is left. Here a manager says when; the runner splits as it does when a restriction takes too long,
by ``Interruption.interrupt``. That keeps what was claimed, whatever the fraction, and tells the
manager nothing: a test that wants halves, or an answer, fails.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from apache_beam.runners.portability.fn_api_runner import fn_runner

from sparkdrain.harness.interruption import Interruption

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def obey_split_managers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the test is over, split when the managers that Beam's suites have registered say so."""
    process = Interruption.process

    def process_asking(interruption: Any, work: Callable[[], None], allowance: Any) -> list[Any]:
        manager = _manager_of(interruption)
        if manager is None:
            return process(interruption, work, allowance)
        asked = _Asked(manager, interruption.interrupt)
        try:
            return process(interruption, asked.along(work), allowance)
        finally:
            asked.join()

    monkeypatch.setattr(Interruption, "process", process_asking)


def _manager_of(interruption: Any) -> Any:
    step = interruption._operation.name_context.step_name
    managers = fn_runner._split_managers_from_context
    return next((m for name, m in reversed(managers) if step in (name, f"{name}/Process")), None)


class _Asked:
    """A split manager at work, in a thread of its own, on one restriction."""

    def __init__(self, manager: Any, interrupt: Callable[[], bool]) -> None:
        self._interrupt = interrupt
        self._splits = manager(1)
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        try:
            # It may want to set breakpoints before anything is processed.
            first = next(self._splits)
        except StopIteration:
            return
        self._thread = threading.Thread(target=self._split_as_told, args=(first,))

    def along(self, work: Callable[[], None]) -> Callable[[], None]:
        def both() -> None:
            if self._thread is not None:
                self._thread.start()
            work()

        return both

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error

    def _split_as_told(self, fraction: float | None) -> None:
        try:
            while True:
                if fraction is not None:
                    self._interrupt()
                fraction = self._splits.send(None)
        except StopIteration:
            pass
        except BaseException as error:  # noqa: BLE001 - raised where the test can see it
            self._error = error
