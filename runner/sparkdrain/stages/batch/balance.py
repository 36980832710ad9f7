"""Rebalancing of stragglers: a slot that still has restrictions gives some to an idle core.

The driver asks, the slot answers with a block of restrictions or with nothing; the block becomes
a task of its own beside the running ones. ``choose`` decides; the rest carries messages.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sparkdrain.errors import TruncatedInput
from sparkdrain.lines.server import Server
from sparkdrain.stages.cluster.driver_address import driver_address
from sparkdrain.v1 import lines_pb2
from sparkdrain.wire import ControlMessage, sent_as

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sparkdrain.lines.line import Endpoint, Line
    from sparkdrain.lines.server import Bind
    from sparkdrain.stages.spark.exchange import Exchange
    from sparkdrain.stages.telling.report import SlotReport

# A split costs a task, about a tenth of a second: what ends sooner is not worth it.
_PATIENCE_SECONDS = 1.0
_POLL_SECONDS = 0.1
_LONGEST_PATIENCE_SECONDS = 30.0
_END_SECONDS = 1.0
_GIFT_SECONDS = 30.0


@sent_as(lines_pb2.FromLender)
@dataclass(frozen=True, slots=True)
class FromLender(ControlMessage):
    """What a slot says: first who it is, then its answers, in the end that it has ended.

    The end is said, not shown by closing: a socket stays open while another thread reads from it.

    Attributes:
        edge: the edge of the restrictions that it gives away; None: it has nothing to give.
        payload: the restrictions.
        ended: whether it will give nothing more.
    """

    slot: int
    attempt: int
    edge: int | None = None
    payload: bytes = b""
    ended: bool = False


@sent_as(lines_pb2.ToLender)
@dataclass(frozen=True, slots=True)
class ToLender(ControlMessage):
    """The part of what is left that a slot is to give away."""

    fraction: float


@dataclass(slots=True)
class LendingSlot:
    """A slot at work on restrictions, as the driver sees it."""

    slot: int
    attempt: int
    since: float
    """When it began, or last answered."""
    patience: float = _PATIENCE_SECONDS
    asked: bool = False


def choose(lenders: Iterable[LendingSlot], idle_cores: int, now: float) -> list[LendingSlot]:
    """Whom to ask now: as many as there are idle cores, those longest at work first.

    A slot is asked when it has been at work for its patience since it began or last answered;
    one that had nothing to give is asked less and less often.
    """
    ready = [
        lender for lender in lenders if not lender.asked and now - lender.since >= lender.patience
    ]
    return sorted(ready, key=lambda lender: lender.since)[: max(0, idle_cores)]


@dataclass(frozen=True, slots=True)
class Gift:
    """Restrictions that a slot gave away, for another task to process."""

    slot: int
    attempt: int
    edge: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Helper:
    """A slot beyond the layout's, and what it is to process."""

    slot: int
    gift: Gift


class Balancer:
    """The driver's side, for one level.

    Args:
        cores: how many tasks can run at a time.
        accept: takes a gift; called in a thread of the balancer's.
    """

    def __init__(
        self,
        bind: Bind,
        cores: int,
        accept: Callable[[Gift], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cores = cores
        self._accept = accept
        self._clock = clock
        self._lock = threading.Lock()
        self._lenders: dict[Line, LendingSlot] = {}
        self._unfinished = 0
        # Held while a gift is accepted: none is any more, once this is closed.
        self._accepting = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="balancer-ask", daemon=True)
        self._server = Server(bind, "balancer", self._serve)
        self.endpoint = self._server.endpoint
        """What slots dial."""
        self._thread.start()

    def expect(self, tasks: int) -> None:
        """That many more tasks will run."""
        with self._lock:
            self._unfinished += tasks

    def _serve(self, line: Line) -> None:
        lender = line.recv(FromLender)
        with self._lock:
            self._lenders[line] = LendingSlot(lender.slot, lender.attempt, self._clock())
        try:
            while not (answer := line.recv(FromLender)).ended:
                self._answered(line, answer)
        finally:
            with self._lock:
                del self._lenders[line]
                self._unfinished -= 1

    def _answered(self, line: Line, answer: FromLender) -> None:
        with self._lock:
            lender = self._lenders[line]
            lender.asked = False
            lender.since = self._clock()
            lender.patience = (
                min(2 * lender.patience, _LONGEST_PATIENCE_SECONDS)
                if answer.edge is None
                else _PATIENCE_SECONDS
            )
        if answer.edge is None:
            return
        with self._accepting:
            if not self._closed.is_set():
                self._accept(Gift(answer.slot, answer.attempt, answer.edge, answer.payload))

    def _ask(self) -> None:
        while not self._closed.wait(_POLL_SECONDS):
            with self._lock:
                idle = self._cores - self._unfinished
                chosen = choose(self._lenders.values(), idle, self._clock())
                lines = [line for line, lender in self._lenders.items() if lender in chosen]
                for lender in chosen:
                    lender.asked = True
            for line in lines:
                # Not while it may be closed: the descriptor could be another file's.
                with self._lock, contextlib.suppress(OSError):
                    if line in self._lenders:
                        # Of what is left, half: the idle core and this one then end together.
                        line.send(ToLender(0.5))

    def close(self) -> None:
        """Stop asking; no gift is accepted when this returns."""
        with self._accepting:
            self._closed.set()
        self._server.close()
        self._thread.join(_END_SECONDS)


class Lending:
    """A slot's side: answers the driver while the slot works.

    Best effort, but for this: what was given away reaches the driver or ``close`` raises.
    """

    def __init__(
        self,
        balancer: Endpoint,
        slot: int,
        attempt: int,
        give: Callable[[float], tuple[int, bytes] | None],
    ) -> None:
        self._me = FromLender(slot, attempt)
        self._give = give
        self._lock = threading.Lock()
        self._closed = False
        self._line: Line | None = None
        self._lost: Exception | None = None
        self.gifts = 0
        try:
            self._line = line = balancer.dial()
            line.send(self._me)
        except Exception:  # noqa: BLE001 - then the driver does not ask
            return
        thread = threading.Thread(target=self._answer, args=(line,), name="lending", daemon=True)
        thread.start()

    def _answer(self, line: Line) -> None:
        while True:
            try:
                fraction = line.recv(ToLender).fraction
            except (OSError, EOFError):
                return
            with self._lock:
                if self._closed:
                    return
                self._send(line, self._give(fraction))

    def _send(self, line: Line, gift: tuple[int, bytes] | None) -> None:
        answer = self._me
        if gift is not None:
            self.gifts += 1
            answer = replace(answer, edge=gift[0], payload=gift[1])
        try:
            line.send(answer)
        except OSError as error:
            if gift is not None:
                self._lost = error

    def close(self) -> None:
        """The slot has nothing left.

        Raises:
            TruncatedInput: restrictions were given away and did not arrive.
        """
        with self._lock:
            self._closed = True
            if self._line is not None:
                with contextlib.suppress(OSError):
                    self._line.send(replace(self._me, ended=True))
        if self._lost is not None:
            msg = f"restrictions that were given away were lost: {self._lost}"
            raise TruncatedInput(msg)


class BalancedRun:
    """Starts a task for every gift that a slot makes, and waits for all of them.

    Args:
        context: for what the cluster has.
        slots: how many slots the level has; helpers are numbered from there.
        exchange: makes the exchange of a helper.
        reports: runs the exchange of a helper.
        enter: prepares a thread for running Spark jobs of the level.
    """

    def __init__(
        self,
        context: Any,
        slots: int,
        exchange: Callable[[Helper], Exchange],
        reports: Callable[[Exchange, Helper], list[SlotReport]],
        enter: Callable[[], None],
    ) -> None:
        self._exchange = exchange
        self._reports = reports
        self._enter = enter
        self._numbers = itertools.count(slots)
        self._lock = threading.Lock()
        self._helpers: list[Future[list[SlotReport]]] = []
        self._arrived = threading.Condition(self._lock)
        self.exchanges: list[Exchange] = []
        cores = context.defaultParallelism
        self._balancer = Balancer(driver_address(context), cores, self._accept)
        self.endpoint = self._balancer.endpoint
        """Where slots find the balancer."""
        self._balancer.expect(slots)
        self._threads = ThreadPoolExecutor(cores, "helper")

    def _accept(self, gift: Gift) -> None:
        self._balancer.expect(1)
        with self._arrived:
            helper = Helper(next(self._numbers), gift)
            self._helpers.append(self._threads.submit(self._help, helper))
            self._arrived.notify_all()

    def _help(self, helper: Helper) -> list[SlotReport]:
        self._enter()
        exchange = self._exchange(helper)
        with self._lock:
            self.exchanges.append(exchange)
        return self._reports(exchange, helper)

    def wait(self, reports: list[SlotReport]) -> list[SlotReport]:
        """The reports of the slots and of all that helped them, once all have ended.

        Raises:
            TruncatedInput: a gift that a slot reports has not arrived.
        """
        reports = list(reports)
        done = 0
        while True:
            self._await(sum(report.gifts for report in reports))
            with self._lock:
                helpers = self._helpers[done:]
            if not helpers:
                return reports
            wait(helpers)
            for helper in helpers:
                reports += helper.result()
            done += len(helpers)

    def _await(self, gifts: int) -> None:
        with self._arrived:
            arrived = self._arrived.wait_for(lambda: len(self._helpers) >= gifts, _GIFT_SECONDS)
            if not arrived:
                msg = f"{gifts - len(self._helpers)} of {gifts} gifts of restrictions were lost"
                raise TruncatedInput(msg)

    def __enter__(self) -> BalancedRun:
        return self

    def __exit__(self, *error: object) -> None:
        self._balancer.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
