"""Watches a metadata store for the request to drain one run, and how long the drain takes."""

from __future__ import annotations

import enum
import logging
import threading
import time
from typing import TYPE_CHECKING, Final, Protocol

from sparkdrain.coordination.metadata import MetadataError
from sparkdrain.drain.limits import LimitKind
from sparkdrain.drain.records import Unreadable, first_for, read
from sparkdrain.errors import BadOption

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.coordination.metadata import MetadataStore
    from sparkdrain.drain.limits import Limits
    from sparkdrain.drain.notification import DrainNotification

_LOGGER = logging.getLogger(__name__)

LONGEST_PAUSE: Final = 60.0
"""Seconds between two looks at a store that does not answer, unless the interval is longer."""

_STOP_SECONDS: Final = 30.0


class Pause(Protocol):
    """Waits between two looks; ``threading.Event`` is one."""

    def wait(self, timeout: float) -> bool:
        """Wait for so many seconds, or until ``set`` was called; answers whether it was."""

    def set(self) -> None:
        """End this wait and all later ones."""


class State(enum.Enum):
    """Where a monitor is in its life; it goes down this list, and never back."""

    NEW = enum.auto()
    WATCHING = enum.auto()
    STOPPED = enum.auto()


def in_thread(watch: Callable[[], None]) -> Callable[[], None]:
    """Run ``watch`` in a thread; the answer waits for its end, unless that thread calls it."""
    thread = threading.Thread(target=watch, name="sparkdrain-drain-monitor", daemon=True)
    thread.start()

    def join() -> None:
        if threading.current_thread() is not thread:
            thread.join(_STOP_SECONDS)

    return join


class DrainMonitor:
    """Calls one callback, at most once, with the notification that drains one run. Thread-safe.

    It looks once in ``start``, in the caller's thread, so that a run that was told to drain before
    it began, or before its driver was lost, does not read anything first. Then it looks at an
    interval. A record that is no notification is logged once, counted, and hides no other; a store
    that does not answer is asked again, more and more seldom.
    """

    def __init__(
        self,
        store: MetadataStore | None,
        run_id: str,
        interval: float,
        pause: Pause | None = None,
        start_thread: Callable[[Callable[[], None]], Callable[[], None]] = in_thread,
    ) -> None:
        """Prepare to watch.

        Args:
            run_id: whose notifications count; all others are left alone.
            interval: seconds between two looks.
            pause: waits in between.
            start_thread: has something done beside, and answers how to wait for its end.

        Raises:
            BadOption: the interval or the run id is of no use.
            ValueError: the store is None.
        """
        if store is None:
            message = "A drain monitor needs a metadata store."
            raise ValueError(message)
        if not run_id.strip():
            message = "The run id that a drain monitor watches for is blank."
            raise BadOption(message)
        if not interval > 0:
            message = f"A drain monitor cannot look every {interval:g} s; see --drain_poll_ms."
            raise BadOption(message)
        self._store = store
        self._run_id = run_id
        self._interval = interval
        self._pause = threading.Event() if pause is None else pause
        self._start_thread = start_thread
        self._lock = threading.Lock()
        self._state = State.NEW
        self._callback: Callable[[DrainNotification], object] | None = None
        self._join: Callable[[], object] = lambda: None
        self._seen: set[str] = set()
        # Ids of notifications for other runs: each is read once.
        self._others: set[str] = set()
        self._outages = 0

    @property
    def state(self) -> State:
        """Where it is in its life."""
        return self._state

    @property
    def unreadable(self) -> int:
        """How many records were found that are no notifications; each counts once."""
        return len(self._seen)

    def on_drain(self, callback: Callable[[DrainNotification], object]) -> bool:
        """Register the callback.

        Returns:
            Whether it will be called; not if there is one already, or after ``start``.
        """
        with self._lock:
            if self._callback is not None or self._state is not State.NEW:
                return False
            self._callback = callback
            return True

    def start(self) -> None:
        """Look once; then, unless that was enough, go on looking in a thread.

        Raises:
            RuntimeError: no callback is registered, or the monitor was started or stopped before.
        """
        with self._lock:
            if self._callback is None or self._state is not State.NEW:
                lack = "nothing to call" if self._callback is None else "been started or stopped"
                message = f"The drain monitor cannot start: it has {lack}."
                raise RuntimeError(message)
            self._state = State.WATCHING
        if not self.look():
            self._join = self._start_thread(self._watch)

    def look(self) -> bool:
        """Look at the store once, and call the callback if a notification is there.

        Returns:
            Whether there is nothing to look for any more.
        """
        if self._state is not State.WATCHING:
            return True
        try:
            read_now = read(self._store, self._note, self._others)
            self._others.update(str(each.id) for each in read_now if each.run_id != self._run_id)
            found = first_for(self._run_id, read_now)
        except (MetadataError, ValueError) as error:
            self._outages += 1
            told = "The metadata store cannot be searched for drain notifications: %s"
            _LOGGER.log(logging.WARNING if self._outages == 1 else logging.DEBUG, told, error)
            return False
        if self._outages:
            _LOGGER.info("The metadata store answers again after %d looks.", self._outages)
            self._outages = 0
        if found is None:
            return False
        self._call(found)
        return True

    def stop(self) -> None:
        """Stop looking. When this returns, the callback is not called any more."""
        with self._lock:
            self._state = State.STOPPED
        self._pause.set()
        self._join()

    def _call(self, found: DrainNotification) -> None:
        with self._lock:
            if self._state is not State.WATCHING or self._callback is None:
                return
            self._state = State.STOPPED
        try:
            self._callback(found)
        except Exception:
            _LOGGER.exception("The drain %s could not be begun.", found.id)

    def _watch(self) -> None:
        while not self._pause.wait(pause_after(self._outages, self._interval)):
            if self.look():
                return

    def _note(self, error: Unreadable) -> None:
        text = str(error)
        if text not in self._seen:
            self._seen.add(text)
            _LOGGER.warning("A record among the drain notifications is ignored. %s", text)


def pause_after(outages: int, interval: float) -> float:
    """Seconds until the next look, after so many in a row that the store did not answer."""
    if not outages:
        return interval
    return float(min(interval * 2 ** min(outages, 30), max(interval, LONGEST_PAUSE)))


class Deadline:
    """Tells when a drain takes longer than it may: once, or with the policy "wait" ever again.

    Args:
        exceeded: called in a thread of its own with the seconds that it took.
        pause: waits.
        start_thread: has something done beside, and answers how to wait for its end.
    """

    def __init__(
        self,
        limits: Limits,
        exceeded: Callable[[float], object],
        pause: Pause | None = None,
        clock: Callable[[], float] = time.monotonic,
        start_thread: Callable[[Callable[[], None]], Callable[[], None]] = in_thread,
    ) -> None:
        self._limits = limits
        self._exceeded = exceeded
        self._pause = threading.Event() if pause is None else pause
        self._clock = clock
        self._start_thread = start_thread
        self._join: Callable[[], object] = lambda: None
        self._began = 0.0

    def start(self, taken: float = 0.0) -> None:
        """The drain goes on from now.

        Args:
            taken: seconds that it took in lives of the job before this one.
        """
        if self._limits.drain is not None:
            self._began = self._clock() - taken
            self._join = self._start_thread(self._watch)

    def stop(self) -> None:
        """The drain is over, or was never begun; a second call does nothing."""
        self._pause.set()
        self._join()

    def _watch(self) -> None:
        told = 0
        while (due := self._limits.due(LimitKind.DRAIN, told)) is not None:
            taken = self._clock() - self._began
            if taken < due:
                if self._pause.wait(due - taken):
                    return
                continue
            self._exceeded(taken)
            if self._limits.policy != "wait":
                return
            told += 1
