"""Has the split managers of Beam's suites split what splittable DoFns process in rounds.

Beam's own runner asks a manager, for every bundle, when to split it and where. Here a bundle of
restrictions is a line of them, each processed on its own, so a split within a bundle of several
gives back those that stand behind; and the manager of what remains is asked again.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.portability.fn_api_runner import fn_runner

from sparkdrain.rounds.sources.interruption import Interruption
from sparkdrain.rounds.sources.restrictions import Work

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

_Response = beam_fn_api_pb2.ProcessBundleSplitResponse


def obey_split_managers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the test is over, ask the managers that Beam's suites have registered."""
    process, run = Interruption.process, Work.run
    lines: list[Any] = []

    def run_noting(work: Work, line: Any, budget: Any) -> None:
        lines.append(line)
        try:
            run(work, line, budget)
        finally:
            lines.pop()

    def process_asking(interruption: Any, work: Callable[[], None], allowance: Any) -> list[Any]:
        manager = _manager_of(interruption)
        if manager is None:
            return process(interruption, work, allowance)
        asked = _Asked(manager, interruption, behind=len(lines[-1]))
        try:
            return process(interruption, asked.along(work), allowance)
        finally:
            asked.join()

    monkeypatch.setattr(Interruption, "process", process_asking)
    monkeypatch.setattr(Work, "run", run_noting)


def _manager_of(interruption: Any) -> Any:
    step = interruption._operation.name_context.step_name
    managers = fn_runner._split_managers_from_context
    return next((m for name, m in reversed(managers) if step in (name, f"{name}/Process")), None)


class _Asked:
    """A split manager at work, in a thread of its own, on one restriction."""

    def __init__(self, manager: Any, interruption: Any, behind: int) -> None:
        self._interruption = interruption
        self._behind = behind
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
                result = None if fraction is None else self._split(fraction)
                fraction = self._splits.send(result)
        except StopIteration:
            pass
        except BaseException as error:  # noqa: BLE001 - raised where the test can see it
            self._error = error

    def _split(self, fraction: float) -> _Response:
        if fraction and self._behind:
            self._behind = 0
            return _response(0, 1)
        interruption = self._interruption
        with interruption._lock:
            split = interruption._running and interruption._operation.try_split(fraction)
            if not split:
                return _Response()
            interruption._left += [residual for _, residual in split[1]]
            return _response(-1, 1, len(split[0]), len(split[1]))


def _response(last: int, first: int, primaries: int = 0, residuals: int = 0) -> _Response:
    channel = _Response.ChannelSplit(last_primary_element=last, first_residual_element=first)
    return _Response(
        channel_splits=[channel],
        primary_roots=[beam_fn_api_pb2.BundleApplication()] * primaries,
        residual_roots=[beam_fn_api_pb2.DelayedBundleApplication()] * residuals,
    )
