"""Questions to brokers that no round waits for: a broker that is away must not hold one up."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from sparkdrain.errors import BadOption, BadSetup, SparkDrainError
from sparkdrain.io.errors import ServiceRefused
from sparkdrain.io.kafka.quiet_log import OncePerMinute

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.io.kafka.client import Partition

_LOGGER = logging.getLogger(__name__)
_LOGGER.addFilter(OncePerMinute())
A = TypeVar("A")
_EVERY: Final = 1.0


class Asking(Generic[A]):
    """Asks one question at a time, in a thread of its own.

    Args:
        name: what the question is called in the log.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._answer: A | None = None
        self._refusal: SparkDrainError | None = None

    def ask(self, question: Callable[[], A], wait: float) -> A | None:
        """The answer, if it is there within so many seconds; else ask again later.

        Raises:
            ServiceRefused: that was the answer.
            BadOption: the settings cannot be used.
            BadSetup: no client library is installed. Other failures are logged; it is asked anew.
        """
        with self._lock:
            if self._thread is None:
                self._answer = None
                self._thread = threading.Thread(
                    target=self._run, args=(question,), name=f"kafka-{self._name}", daemon=True
                )
                self._thread.start()
            thread = self._thread
        thread.join(wait)
        if thread.is_alive():
            return None
        with self._lock:
            self._thread = None
            refusal, self._refusal = self._refusal, None
            answer, self._answer = self._answer, None
        if refusal is not None:
            raise refusal
        return answer

    def _run(self, question: Callable[[], A]) -> None:
        try:
            self._answer = question()
        except (ServiceRefused, BadOption, BadSetup) as error:
            self._refusal = error
        except Exception as error:  # noqa: BLE001 - whatever it was, it is asked again
            _LOGGER.warning("%s could not be asked for, and will be again: %s", self._name, error)


class Ends:
    """Where partitions end, according to their brokers, at most a second ago.

    Args:
        latest: asks the brokers for those that are read here.
        now: the monotonic clock, in seconds.
    """

    def __init__(
        self, latest: Callable[[], dict[Partition, int]], now: Callable[[], float]
    ) -> None:
        self._latest = latest
        self._now = now
        self._asking: Asking[tuple[float, dict[Partition, int]]] = Asking("ends of partitions")
        self._known: tuple[float, dict[Partition, int]] = (float("-inf"), {})

    def end(self, partition: Partition) -> tuple[float, int] | None:
        """When its broker was asked, and what it said; None if that is not known."""
        if self._now() - self._known[0] > _EVERY:
            answer = self._asking.ask(self._question, 0.0)
            if answer is not None:
                self._known = answer
        asked, ends = self._known
        end = ends.get(partition)
        return None if end is None else (asked, end)

    def _question(self) -> tuple[float, dict[Partition, int]]:
        asked = self._now()
        return asked, self._latest()


class Commits:
    """Commits offsets in a thread beside the reader; the newest of each partition.

    Args:
        commit: does it, and waits for the broker.
    """

    def __init__(self, commit: Callable[[dict[Partition, int]], Any]) -> None:
        self._commit = commit
        self._wanted: dict[Partition, int] = {}
        self._there: dict[Partition, int] = {}
        self._refusal: Exception | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def commit(self, partition: Partition, offset: int) -> None:
        """Commit ``offset``, which a job that starts anew reads next."""
        with self._lock:
            self._wanted[partition] = max(offset, self._wanted.get(partition, 0))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="kafka-commits", daemon=True)
                self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait, not longer than that, until all is committed."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def settle(self, partition: Partition, offset: int, seconds: float) -> bool:
        """Whether ``offset`` or a later one is committed, after waiting for so long if need be.

        Raises:
            Exception: why it is not.
        """
        if seconds > 0 and self._there.get(partition, -1) < offset:
            self.wait(seconds)
        if self._there.get(partition, -1) >= offset:
            return True
        with self._lock:
            refusal = None if self._thread is not None else self._refusal
        if refusal is not None:
            raise refusal
        return False

    def _run(self) -> None:
        while True:
            with self._lock:
                wanted, self._wanted = self._wanted, {}
                if not wanted:
                    self._thread = None
                    return
            try:
                self._commit(wanted)
            except Exception as error:  # noqa: BLE001 - the job does not need them
                self._refusal = error
                _LOGGER.warning("offsets were not committed, the next ones will be: %s", error)
            else:
                self._refusal = None
                self._there |= wanted
